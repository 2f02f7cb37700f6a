//! How many writes may wait for the node's answers.

use std::collections::VecDeque;
use std::time::Duration;

use pacing::Nanos;

use crate::settings::PaceSettings;
use crate::window::{LEAST, SECOND, STEP, remember};

/// The bound on what is under way, from the rate of answers.
///
/// Writes queue at the node, in its socket or before its check, where they stand in the order in which
/// they came and not in turns. By Little's law a node that answers b a second, R₀ after a write came when
/// nothing else is under way, is kept busy by b R₀ of them; it gets b (R₀ + 20 ms), so that it has
/// 20 ms of work ahead on each connection, and the rest of the queue stands here. b is the highest rate of the last seconds,
/// over spans of 20 ms or R₀, and R₀ the least time (both as in BBR: Cardwell, Cheng, Gunn, Yeganeh,
/// Jacobson 2016); while answers take no 10 ms longer than R₀ the bound doubles. The time of answers alone, as in FAST TCP, does not serve: on a busy machine it is long
/// because the node waits for a core, or commits a block, and not because of what is under way.
///
/// A node that checks concurrently, but answers each connection in order, is fed over more
/// connections: their number doubles while the bound holds writes back most of the time and the last
/// doubling has raised the rate of answers, to 16 at most. So the work ahead doubles, too, where it helps:
/// a node that waits long for a core is not kept busy by 20 ms.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    /// Writes that may be under way.
    limit: f64,
    /// Time to an answer when nothing else is under way: of the last write sent alone, or less.
    unloaded: Option<Nanos>,
    /// A write that was sent alone.
    alone: Option<Nanos>,
    /// Seconds to an answer, the mean of the last span.
    mean: f64,
    span: Span,
    /// The highest rate of answers in each of the last seconds, and when the newest of them began.
    best: VecDeque<f64>,
    second: Nanos,
    connections: usize,
    most_connections: usize,
    /// Writes under way at most.
    most: f64,
    /// Spans since the last block in which the limit held writes back, and all.
    held_spans: u32,
    spans: u32,
    answered: u32,
    since: Nanos,
    /// Answers a second before the number of connections was doubled.
    before: Option<f64>,
    /// Not all connections were in use since the last block.
    is_changing: bool,
}

/// Answers of 20 ms, or of the time that one takes, up to the instant of the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    began: Nanos,
    last: Nanos,
    /// The sum of their times.
    took: Nanos,
    answers: u32,
    /// The limit held writes back.
    held: bool,
}

/// The longest burst, and the work that a node has ahead: a few turns of a busy machine's scheduler.
pub(crate) const AHEAD: Nanos = Nanos::from_millis(20);

impl Answers {
    pub(crate) fn new(now: Nanos, pace: &PaceSettings) -> Self {
        Self {
            limit: LEAST,
            unloaded: None,
            alone: None,
            mean: 0.0,
            span: Span::from(now),
            best: VecDeque::new(),
            second: now,
            connections: pace.connections,
            most_connections: pace.most_connections(),
            most: (pace.in_flight as f64).max(LEAST),
            held_spans: 0,
            spans: 0,
            answered: 0,
            since: now,
            before: None,
            is_changing: true,
        }
    }

    /// Writes leave; `under_way` were before.
    pub(crate) fn sent(&mut self, now: Nanos, count: usize, under_way: usize) {
        if under_way == 0 && count == 1 {
            self.alone = Some(now);
        }
    }

    /// So many connections are in use.
    pub(crate) const fn note_connections(&mut self, count: usize) {
        self.is_changing |= count != self.connections;
    }

    /// The limit holds writes back.
    pub(crate) const fn note_held(&mut self) {
        self.span.held = true;
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
        self.answered += 1;
        let length = self.span.last.saturating_sub(self.span.began);
        if now > self.span.last && length >= AHEAD.max(unloaded) {
            self.end_span();
        }
        self.span.last = self.span.last.max(now);
        self.span.took = self.span.took.saturating_add(took);
        self.span.answers += 1;
    }

    fn end_span(&mut self) {
        let next = Span::from(self.span.last);
        let span = std::mem::replace(&mut self.span, next);
        self.mean = span.took.as_secs_f64() / f64::from(span.answers);
        self.spans += 1;
        self.held_spans += u32::from(span.held);
        let rate = f64::from(span.answers) / span.last.saturating_sub(span.began).as_secs_f64();
        // What is not held back says what was asked for, not what the node can do.
        let is_second = span.held && span.last.saturating_sub(self.second) >= SECOND;
        match self.best.back_mut() {
            Some(best) if !is_second => *best = best.max(rate),
            _ => {
                self.second = span.last;
                remember(&mut self.best, rate);
            }
        }
        let best = self.best();
        let unloaded = self.unloaded.map_or(self.mean, Nanos::as_secs_f64);
        let ahead = AHEAD.as_secs_f64();
        let mut wanted = best * (unloaded + self.connections as f64 * ahead);
        if span.held && self.mean < unloaded + ahead / 2.0 {
            wanted = wanted.max(2.0 * self.limit);
        }
        let least = LEAST.max(self.connections as f64);
        self.limit = wanted.min(self.most).max(least);
    }

    /// A block: whether more connections are worth a try is looked at once a block. Others who fill the
    /// mempool over theirs take turns with ours, so more are needed for a share.
    pub(crate) fn block(&mut self, now: Nanos, is_raced: bool) {
        if is_raced {
            self.connections = self.most_connections;
        }
        let secs = now.saturating_sub(self.since).as_secs_f64();
        let rate = f64::from(self.answered) / secs.max(f64::MIN_POSITIVE);
        let is_held = 2 * self.held_spans > self.spans;
        (self.spans, self.held_spans, self.answered) = (0, 0, 0);
        self.since = now;
        if std::mem::take(&mut self.is_changing) {
            return;
        }
        let has_helped = self.before.is_none_or(|before| rate >= STEP * before);
        if is_held && has_helped && self.connections < self.most_connections {
            self.before = Some(rate);
            self.connections = (2 * self.connections).min(self.most_connections);
        }
    }

    /// Other connections, perhaps to another node.
    pub(crate) fn reset(&mut self, now: Nanos) {
        self.limit = LEAST;
        self.unloaded = None;
        self.span = Span::from(now);
        self.best.clear();
    }

    /// Writes that may be under way.
    pub(crate) const fn limit(&self) -> usize {
        self.limit as usize
    }

    /// The highest rate of answers of the last seconds.
    pub(crate) fn best(&self) -> f64 {
        self.best.iter().copied().fold(0.0, f64::max)
    }

    /// Connections over which writes should go.
    pub(crate) const fn connections(&self) -> usize {
        self.connections
    }

    /// What answers took in the last span.
    pub(crate) fn take(&self) -> Duration {
        Duration::from_secs_f64(self.mean)
    }

    /// What they take when nothing else is under way.
    pub(crate) fn unloaded(&self) -> Duration {
        self.unloaded.unwrap_or_default().into()
    }
}

impl From<Nanos> for Span {
    fn from(began: Nanos) -> Self {
        Self {
            began,
            last: began,
            ..Self::default()
        }
    }
}
