//! How many writes may wait for the node's answers.

use std::time::Duration;

use pacing::Nanos;

use crate::settings::PaceSettings;
use crate::window::{LEAST, STEP};

/// The bound on what is under way, from the time that answers take.
///
/// By Little's law n writes under way are answered at the rate n / R, where R is the mean time to an
/// answer. R is the unloaded time R₀ and the time that writes queue at the node, in its socket or
/// before its check, where they stand in the order in which they came and not in turns. So n is set
/// to n (R₀ + 20 ms) / R once a round, as in FAST TCP (Wei, Jin, Low, Hegde 2006: w ← w R₀/R + α,
/// with α as time): the node has 20 ms of work ahead, and the rest of the queue stands here. R is the
/// mean over the writes sent since n was changed, until one is answered that was sent after the first
/// answer to those. n doubles at most, and only if it held writes back.
///
/// A node that checks concurrently, but answers each connection in order, is fed over more
/// connections: their number doubles while n holds writes back most of the time and the last doubling
/// has raised the rate of answers, to 16 at most.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    /// Writes that may be under way.
    limit: f64,
    /// Seconds to an answer when nothing else is under way: of the last write sent alone, or less.
    unloaded: Option<f64>,
    /// A write that was sent alone.
    alone: Option<Nanos>,
    /// The mean of the last round.
    mean: f64,
    round: Round,
    connections: usize,
    most_connections: usize,
    /// Writes under way at most.
    most: f64,
    /// Rounds since the last block in which the limit held writes back, and all.
    held_rounds: u32,
    rounds: u32,
    answered: u32,
    since: Nanos,
    /// Answers a second before the number of connections was doubled.
    before: Option<f64>,
    /// Not all connections were in use since the last block.
    is_changing: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    began: Nanos,
    /// When the first write that was sent in it was answered.
    answered: Option<Nanos>,
    secs: f64,
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
            round: Round {
                began: now,
                ..Round::default()
            },
            connections: pace.connections,
            most_connections: pace.most_connections(),
            most: (pace.in_flight as f64).max(LEAST),
            held_rounds: 0,
            rounds: 0,
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
        self.round.held = true;
    }

    /// An answer to a write that was sent at `sent`.
    pub(crate) fn answered(&mut self, now: Nanos, sent: Nanos) {
        let secs = now.saturating_sub(sent).as_secs_f64();
        let is_alone = self.alone == Some(sent);
        self.unloaded = self
            .unloaded
            .filter(|least| !is_alone && *least < secs)
            .or(Some(secs));
        self.answered += 1;
        if sent < self.round.began {
            return;
        }
        self.round.secs += secs;
        self.round.answers += 1;
        if sent >= *self.round.answered.get_or_insert(now) {
            self.end_round(now);
        }
    }

    fn end_round(&mut self, now: Nanos) {
        let round = std::mem::replace(
            &mut self.round,
            Round {
                began: now,
                ..Round::default()
            },
        );
        self.mean = round.secs / f64::from(round.answers);
        let unloaded = self.unloaded.unwrap_or(self.mean);
        let queued = self.mean - unloaded;
        let wanted = if queued < AHEAD.as_secs_f64() / 2.0 {
            2.0 * self.limit
        } else {
            self.limit * (unloaded + AHEAD.as_secs_f64()) / self.mean
        };
        self.rounds += 1;
        self.held_rounds += u32::from(round.held);
        if wanted < self.limit {
            let least = LEAST.max(self.connections as f64);
            self.limit = wanted.max(self.limit / 2.0).max(least);
        } else if round.held {
            self.limit = wanted.min(2.0 * self.limit).min(self.most);
        }
    }

    /// A block: whether more connections are worth a try is looked at once a block. Others who fill the
    /// mempool over theirs take turns with ours, so more are needed for a share.
    pub(crate) fn block(&mut self, now: Nanos, is_raced: bool) {
        if is_raced {
            self.connections = self.most_connections;
        }
        let secs = now.saturating_sub(self.since).as_secs_f64();
        let rate = f64::from(self.answered) / secs.max(f64::MIN_POSITIVE);
        let is_held = 2 * self.held_rounds > self.rounds;
        (self.rounds, self.held_rounds, self.answered) = (0, 0, 0);
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
        self.round = Round {
            began: now,
            ..Round::default()
        };
    }

    /// Writes that may be under way.
    pub(crate) const fn limit(&self) -> usize {
        self.limit as usize
    }

    /// Connections over which writes should go.
    pub(crate) const fn connections(&self) -> usize {
        self.connections
    }

    /// What answers took in the last round.
    pub(crate) fn take(&self) -> Duration {
        Duration::from_secs_f64(self.mean)
    }

    /// What they take when nothing else is under way.
    pub(crate) fn unloaded(&self) -> Duration {
        Duration::from_secs_f64(self.unloaded.unwrap_or_default())
    }
}
