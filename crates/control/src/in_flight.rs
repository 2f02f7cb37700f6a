//! How many writes may wait for the node's answers, and over how many connections.

use std::collections::VecDeque;
use std::time::Duration;

use pacing::Nanos;

use crate::bound::Bound;
use crate::load::Demand;
use crate::settings::{PaceMode, PaceSettings};
use crate::window::{GROUP, LEAST, PROBE, RECENT, SECOND, STEP, remember};

/// The in-flight cap and the number of connections, from the answers.
///
/// **Cap**: a node that answers b writes a second, R₀ after each when nothing else is under way, is kept
/// busy by b R₀ of them (Little's law); it gets b (R₀ + 20 ms) for each connection, and the rest of the
/// queue stands here, where it is fair. b is the highest rate of the last seconds and R₀ the least time
/// (both as in BBR: Cardwell, Cheng, Gunn, Yeganeh, Jacobson 2016); while answers take no 10 ms longer than
/// R₀ the cap doubles. The cap is never below the number of lines: without a proxy each would have one
/// write under way.
///
/// **Connections**: a node answers one connection in order, so that several are needed where its answers
/// take long and its clients have several lines. When writes queue for answers, four times as many are
/// tried; they stay if the rate of answers rises by a quarter, otherwise the next trial comes after
/// ever more blocks. Connections that no line needs any more go, one a block.
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
    settings: PaceSettings,
    connections: usize,
    trial: Option<Trial>,
    /// Blocks until the next trial may begin, and trials in a row that did not help.
    rest: usize,
    failures: u32,
    seen: Seen,
    /// The most lines between the last blocks.
    lines: VecDeque<usize>,
}

/// More connections than `before`, as a trial.
#[derive(Clone, Copy, Debug)]
struct Trial {
    before: usize,
    /// Answers a second with these.
    rate: f64,
    /// All are up since before the last block.
    is_open: bool,
}

/// What was seen since the last block.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    answers: u32,
    queued_answers: u32,
    queued_secs: f64,
    lines: usize,
    is_short_of_connections: bool,
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
    pub(crate) fn new(now: Nanos, pace: &PaceSettings) -> Self {
        Self {
            limit: LEAST,
            span: Span {
                began: now,
                last: now,
                ..Span::default()
            },
            second: now,
            settings: *pace,
            connections: pace.connections,
            ..Self::default()
        }
    }

    /// So many writes leave; the cap holds others back, or does not.
    pub(crate) fn sent(&mut self, now: Nanos, demand: &Demand, count: usize, is_held: bool) {
        self.seen.lines = self.seen.lines.max(demand.lines);
        self.seen.is_short_of_connections |= demand.connections < self.connections;
        self.span.was_held |= is_held;
        if demand.under_way == 0 && count == 1 {
            self.alone = Some(now);
        }
    }

    /// An answer to a write that was sent at `sent`.
    pub(crate) fn answered(&mut self, now: Nanos, sent: Nanos) {
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
    }

    fn end_span(&mut self) {
        let span = std::mem::take(&mut self.span);
        (self.span.began, self.span.last) = (span.last, span.last);
        self.mean = span.took.as_secs_f64() / f64::from(span.answers);
        let unloaded = self.unloaded.map_or(self.mean, Nanos::as_secs_f64);
        let ahead = AHEAD.as_secs_f64();
        self.seen.answers += span.answers;
        let is_queue = self.mean > unloaded + ahead / 4.0;
        let secs = span.last.saturating_sub(span.began).as_secs_f64();
        if span.was_held || is_queue {
            self.seen.queued_answers += span.answers;
            self.seen.queued_secs += secs;
        }
        let rate = f64::from(span.answers) / secs;
        // What is not held back says what was asked for, not what the node can do.
        let is_second = span.was_held && span.last.saturating_sub(self.second) >= SECOND;
        match self.best.back_mut() {
            Some(best) if !is_second => *best = best.max(rate),
            _ => {
                self.second = span.last;
                remember(&mut self.best, RECENT, rate);
            }
        }
        let mut wanted = self.best() * (unloaded + self.connections as f64 * ahead);
        if span.was_held && self.mean < unloaded + ahead / 2.0 {
            wanted = wanted.max(2.0 * self.limit);
        }
        let least = LEAST.max(self.connections as f64);
        self.limit = wanted.min(self.settings.in_flight as f64).max(least);
    }

    /// A block: whether another number of connections is worth a try is looked at once a block.
    pub(crate) fn block(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        let rate = f64::from(seen.queued_answers) / seen.queued_secs.max(f64::MIN_POSITIVE);
        let is_queue = 2 * seen.queued_answers > seen.answers;
        remember(&mut self.lines, RECENT, seen.lines);
        let lines = self.lines.iter().copied().max().unwrap_or(0);
        self.rest = self.rest.saturating_sub(1);
        let most = lines.min(self.settings.most_connections());
        match &mut self.trial {
            None if is_queue && self.rest == 0 && self.connections < most => {
                let before = self.connections;
                self.connections = (PROBE as usize * before).min(most);
                self.trial = Some(Trial {
                    before,
                    rate,
                    is_open: false,
                });
            }
            None if self.connections > self.settings.connections.max(lines) => {
                self.connections -= 1;
            }
            None => {}
            Some(_) if seen.is_short_of_connections => {}
            Some(trial) if !trial.is_open => trial.is_open = true,
            Some(trial) => {
                let more = self.connections as f64 / trial.before as f64 - 1.0;
                let gain = (more / 4.0).min(STEP - 1.0);
                if !is_queue || rate >= trial.rate * (1.0 + gain) {
                    self.failures = 0;
                } else {
                    self.connections = trial.before;
                    self.rest = RECENT << self.failures.min(6);
                    self.failures += 1;
                }
                self.trial = None;
            }
        }
    }

    /// How many more writes may be under way, and the bound that says so.
    pub(crate) fn room(&self, demand: &Demand) -> (usize, Bound) {
        let (under_way, most) = (demand.under_way, demand.most);
        let limit = match self.settings.mode {
            PaceMode::Adaptive => {
                let lines = self.seen.lines.max(demand.lines);
                most.min(lines.max(self.limit as usize))
            }
            PaceMode::Fixed | PaceMode::Off => most,
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
        let is_enough = limit == most || room >= group.min(demand.waiting);
        (if is_enough { room } else { 0 }, bound)
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
