//! How many writes may wait for the node's answers, and over how many connections.

use std::collections::VecDeque;
use std::time::Duration;

use pacing::Nanos;

use crate::bound::Bound;
use crate::load::{Demand, SILENCE, remember};
use crate::settings::PaceMode;
use crate::window::{GROUP, LEAST, RECENT, SECOND, STEP};

/// The in-flight cap and the number of connections, from the answers.
///
/// **Cap**: a node that answers b writes a second, R₀ after each when nothing else is under way, is kept
/// busy by b R₀ of them (Little's law); it gets b (R₀ + 20 ms) for each connection, and the rest of the
/// queue stands here, where it is fair. b is the highest rate of the last seconds and R₀ the least time
/// (both as in BBR: Cardwell, Cheng, Gunn, Yeganeh, Jacobson 2016). Without a proxy each line would have one write under
/// way: the cap is not below the number of lines until a round shows that so many wait for each other at the node, 20 ms
/// beyond R₀ in the mean. Where they wait for less than a
/// tenth of that, no queue stands there that could stand here.
///
/// **Connections**: a node answers one connection in order, so two lines on one of them wait for each other, which
/// they would not do without a proxy. So there are as many connections as lines. Connections cost the node processor
/// time, so half as many are tried once in a while; they stay if in each of four rounds answers come as fast and take as long as in the best of four with all, to within an
/// eighth, and half of them is tried next.
/// What was learnt holds for some blocks, more after each trial, or until there are a quarter more lines; then
/// there are as many as lines again.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight {
    limit: f64,
    /// Time to an answer when nothing else is under way: of the last write sent alone, or less.
    unloaded: Option<Nanos>,
    /// When a write was sent alone.
    alone: Option<Nanos>,
    /// Seconds to an answer, the mean of the last span.
    mean: f64,
    span: Span,
    /// The highest rate of answers in each of the last seconds, and when the newest of them began.
    best: VecDeque<f64>,
    second: Nanos,
    mode: PaceMode,
    connections: usize,
    stage: Stage,
    /// Trials so far.
    trials: u32,
    /// Writes that may be under way over the connections.
    most: usize,
    /// The best of the last rounds with as many as lines.
    with_all: Option<Answers>,
    seen: Seen,
    /// When writes left last while there were more or fewer connections than are wanted.
    unsettled: Nanos,
    /// The place that is kept was taken after the last answer.
    is_lent: bool,
    /// The most lines in each of the last rounds.
    lines: VecDeque<usize>,
    /// So many lines wait for each other at the node.
    too_many_lines: usize,
}

/// What is known of the number of connections.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// There are as many as lines; fewer are tried after so many rounds.
    AsLines { rounds: usize },
    /// Fewer than `before` are tried, over which so many writes were to be under way.
    Trial {
        before: usize,
        most: usize,
        /// Rounds in which they did as well.
        passed: usize,
    },
    /// These are enough for so many lines, for so many rounds.
    Enough { lines: usize, rounds: usize },
}

impl Default for Stage {
    fn default() -> Self {
        Self::AsLines {
            rounds: RECENT << FIRST_TRIALS,
        }
    }
}

/// Answers of a round.
#[derive(Clone, Copy, Debug)]
struct Answers {
    per_second: f64,
    /// What one took, in the mean.
    secs: f64,
}

/// What was seen in a round: the time of some blocks, a second if they come fast.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    began: Nanos,
    blocks: usize,
    answers: u32,
    /// The sum of their times.
    took: Nanos,
    lines: usize,
}

/// Answers of 20 ms, or of the time that one takes, up to the instant of the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    began: Nanos,
    last: Nanos,
    /// The sum of their times.
    took: Nanos,
    answers: u32,
    /// The cap held writes back.
    was_held: bool,
}

/// The longest burst, and the work that a node has ahead: a few turns of a busy machine's scheduler.
pub(crate) const AHEAD: Nanos = Nanos::from_millis(20);

impl InFlight {
    pub(crate) fn new(now: Nanos, mode: PaceMode) -> Self {
        let mut new = Self {
            limit: LEAST,
            second: now,
            mode,
            connections: 1,
            ..Self::default()
        };
        (new.span.began, new.span.last) = (now, now);
        new.seen.began = now;
        new
    }

    /// So many writes leave; the cap holds others back, or does not.
    pub(crate) fn sent(&mut self, now: Nanos, demand: &Demand, count: usize, is_held: bool) {
        if demand.connections != self.connections {
            self.unsettled = now;
        }
        self.span.was_held |= is_held;
        match self.stage {
            // Over these connections may go less than is to be under way.
            Stage::Trial { before, most, .. } if is_held && (1..most).contains(&demand.most) => {
                // Trial => AsLines | Enough
                self.connections = before;
                self.stage = self.after_trial(demand.lines, self.within(demand.lines));
            }
            Stage::Trial { .. } => {}
            _ => self.most = demand.most,
        }
        if demand.under_way == 0 && count == 1 {
            self.alone = Some(now);
        }
    }

    /// More lines have more connections at once.
    pub(crate) fn follow_lines(&mut self, now: Nanos, lines: usize) {
        self.seen.lines = self.seen.lines.max(lines);
        if lines == 0 && now.saturating_sub(self.seen.began) >= SILENCE {
            self.end_round(now);
        }
        if let Stage::Enough { lines, .. } = self.stage
            && self.seen.lines as f64 > STEP * lines as f64
        {
            // Enough => AsLines
            self.stage = Stage::AsLines { rounds: RECENT };
        }
        let wanted = self.within(self.seen.lines);
        if matches!(self.stage, Stage::AsLines { .. }) {
            self.connections = self.connections.max(wanted);
        }
    }

    /// As many connections as lines, if the mode allows it.
    fn within(&self, lines: usize) -> usize {
        lines.clamp(1, self.mode.most_connections())
    }

    /// The place that is kept is taken.
    pub(crate) const fn lend(&mut self) {
        self.is_lent = true;
    }

    /// An answer to a write that was sent at `sent`.
    pub(crate) fn answered(&mut self, now: Nanos, sent: Nanos) {
        self.is_lent = false;
        let took = now.saturating_sub(sent);
        let is_alone = self.alone == Some(sent);
        let unloaded = match self.unloaded {
            Some(least) if !is_alone => least.min(took),
            _ => took,
        };
        self.unloaded = Some(unloaded);
        let length = self.span.last.saturating_sub(self.span.began);
        if now > self.span.last && length >= AHEAD.max(unloaded) {
            self.end_span();
        }
        self.span.last = self.span.last.max(now);
        self.span.took = self.span.took.saturating_add(took);
        self.span.answers += 1;
        if sent > self.unsettled {
            self.seen.took = self.seen.took.saturating_add(took);
            self.seen.answers += 1;
        }
    }

    fn end_span(&mut self) {
        let span = std::mem::take(&mut self.span);
        (self.span.began, self.span.last) = (span.last, span.last);
        self.mean = span.took.as_secs_f64() / f64::from(span.answers);
        let unloaded = self.unloaded.map_or(self.mean, Nanos::as_secs_f64);
        let ahead = AHEAD.as_secs_f64();
        let secs = span.last.saturating_sub(span.began).as_secs_f64();
        let rate = f64::from(span.answers) / secs;
        // Answers to writes that nothing held back show the demand, not what the node can do.
        let is_second = span.was_held && span.last.saturating_sub(self.second) >= SECOND;
        match self.best.back_mut() {
            Some(best) if !is_second => *best = best.max(rate),
            _ => {
                self.second = span.last;
                remember(&mut self.best, RECENT, rate);
            }
        }
        self.limit = (self.best() * (unloaded + ahead)).max(LEAST);
    }

    /// A block, which may end a round.
    pub(crate) fn block(&mut self, now: Nanos) {
        self.seen.blocks += 1;
        if self.seen.blocks >= RECENT || now.saturating_sub(self.seen.began) >= SECOND {
            self.end_round(now);
        }
    }

    /// Where nothing is to be done there need be no blocks, so time ends a round as well.
    fn end_round(&mut self, now: Nanos) {
        let length = now.saturating_sub(self.seen.began);
        let round = std::mem::take(&mut self.seen);
        self.seen.began = now;
        remember(&mut self.lines, RECENT, round.lines);
        let lines = self.lines.iter().copied().max().unwrap_or(0);
        let most = self.within(lines);
        let is_settled = self.unsettled < round.began && round.answers > 0;
        let answers = is_settled.then(|| Answers {
            per_second: f64::from(round.answers) / length.as_secs_f64(),
            secs: round.took.as_secs_f64() / f64::from(round.answers),
        });
        self.too_many_lines = self.too_many_lines.min(lines);
        let shortest = self.unloaded.map_or(0.0, Nanos::as_secs_f64);
        let queued = answers.map(|it| it.secs - shortest);
        // Over fewer connections they wait for each other, whatever the node does.
        match queued.filter(|_| matches!(self.stage, Stage::AsLines { .. })) {
            Some(queued) if queued > AHEAD.as_secs_f64() => self.too_many_lines = lines,
            Some(queued) if queued < GROUP => self.too_many_lines = 0,
            _ => {}
        }
        self.stage = self.next_stage(lines, most, answers);
    }

    /// The stage after a round, of which `answers` were seen if they show anything.
    fn next_stage(&mut self, lines: usize, most: usize, answers: Option<Answers>) -> Stage {
        let mut stage = self.stage;
        match &mut stage {
            Stage::AsLines { rounds } => {
                let is_same = self.connections == most;
                self.connections = most;
                let known = self.with_all.filter(|_| is_same && *rounds < RECENT);
                self.with_all = answers.map(|new| known.map_or(new, |best| best.better(new)));
                if *rounds == 0 && is_same && self.with_all.is_some() {
                    return self.try_half(lines);
                }
                *rounds = rounds.saturating_sub(1);
            }
            Stage::Trial { before, passed, .. } => {
                let pair = answers.zip(self.with_all);
                if !pair.is_some_and(|(new, best)| new.are_like(&best)) {
                    // Trial => AsLines | Enough
                    self.connections = most.min(*before);
                    return self.after_trial(lines, most);
                }
                *passed += 1;
                if *passed == RECENT {
                    return self.try_half(lines);
                }
            }
            // Enough => AsLines
            Stage::Enough { rounds: 0, .. } => {
                self.connections = most;
                stage = Stage::AsLines { rounds: RECENT };
            }
            Stage::Enough { rounds, .. } => {
                self.connections = self.connections.min(most);
                *rounds -= 1;
            }
        }
        stage
    }

    /// AsLines | Trial => Trial | Enough
    fn try_half(&mut self, lines: usize) -> Stage {
        let before = self.connections;
        self.connections = self.within(before / 2);
        if self.connections < before {
            Stage::Trial {
                before,
                most: self.most,
                passed: 0,
            }
        } else {
            self.after_trial(lines, self.within(lines))
        }
    }

    fn after_trial(&mut self, lines: usize, most: usize) -> Stage {
        let rounds = RECENT << (FIRST_TRIALS + self.trials).min(MOST_TRIALS);
        self.trials += 1;
        if self.connections >= most {
            Stage::AsLines { rounds }
        } else {
            Stage::Enough { lines, rounds }
        }
    }

    /// How many more writes may be under way, of these those for which no place is kept, and the bound that limits them.
    /// One is kept for clients that ask for little, beyond the cap where the settings leave room, so that one client
    /// that fills the cap leaves them a place. The next one leaves there after an answer: at a node that stands still
    /// they would only wait.
    pub(crate) fn room(&self, demand: &Demand) -> ([usize; 2], Bound) {
        let (under_way, most) = (demand.under_way, demand.most);
        let (all, limit) = match self.mode {
            PaceMode::Adaptive => {
                let lines = self.seen.lines.max(demand.lines);
                let is_too_many = lines as f64 <= STEP * self.too_many_lines as f64;
                let least = if is_too_many { 0 } else { lines };
                let limit = most.min(least.max(self.limit as usize));
                let all = most.min(limit + 1);
                (all, limit.min(all.max(2) - 1))
            }
            PaceMode::Fixed | PaceMode::Off => (most, most),
        };
        let bound = Bound::InFlightCap {
            under_way,
            limit,
            answers_take: Duration::from_secs_f64(self.mean),
            unloaded: self.unloaded.unwrap_or_default().into(),
        };
        let room = limit.saturating_sub(under_way);
        // What answers make room for leaves in groups, too.
        let group = limit.min((self.best() * GROUP) as usize);
        let is_enough = all == most || room >= group.min(demand.waiting);
        let shared = if is_enough { room } else { 0 };
        let kept = usize::from(!self.is_lent && under_way < all);
        ([shared.max(kept), shared], bound)
    }

    /// The highest rate of answers of the last seconds.
    fn best(&self) -> f64 {
        self.best.iter().copied().fold(0.0, f64::max)
    }

    /// Connections over which writes should go.
    pub(crate) const fn connections(&self) -> usize {
        self.connections
    }
}

impl Answers {
    /// The higher rate, and the shorter time.
    const fn better(self, other: Self) -> Self {
        Self {
            per_second: self.per_second.max(other.per_second),
            secs: self.secs.min(other.secs),
        }
    }

    /// Whether these came as fast as others and took as long.
    fn are_like(&self, others: &Self) -> bool {
        self.per_second * LIKE >= others.per_second && self.secs <= others.secs * LIKE
    }
}

/// What is known of connections holds for 4 rounds, doubled for each trial so far: for 16 at first, for 256 at last.
const FIRST_TRIALS: u32 = 2;
const MOST_TRIALS: u32 = 6;
/// Rates, and times, that differ by no more than this factor are alike: an eighth.
const LIKE: f64 = f64::midpoint(1.0, STEP);
