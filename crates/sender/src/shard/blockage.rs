//! Why a transaction left late: what kept the shard from sending, and until when.

use measure::{Cause, LATE_LIMIT};
use pacing::Nanos;

use super::pace::DueTx;

/// What keeps, or kept, due transactions from being sent.
#[derive(Debug, Default)]
pub(super) struct Blockage {
    cause: Option<Cause>,
    until: Nanos,
    /// Until when the node held connections up.
    held_until: Nanos,
    /// Until when something waited that was due by `held_until`. What was due by then leaves behind
    /// that backlog, so the node is why it is late, whatever slows the catch-up.
    node_until: Nanos,
    /// Since when something has waited all the time; `None` while nothing does.
    since: Option<Nanos>,
    /// For how much of that the node held connections up.
    held_for: Nanos,
    /// Whether it was noted in this turn of the loop.
    ongoing: bool,
    /// What keeps connections busy, and when they were last examined for that.
    judged: Option<Cause>,
    judged_at: Nanos,
}

impl Blockage {
    /// A new turn of the loop: whatever blocks has to be noted again.
    pub(super) fn begin_turn(&mut self) {
        self.ongoing = false;
    }

    /// What is due at `now` cannot be sent, for this cause.
    pub(super) fn note(&mut self, cause: Cause, now: Nanos) {
        if self.since.is_none() {
            (self.since, self.held_for, self.until) = (Some(now), Nanos::ZERO, now);
        }
        if cause == Cause::Node {
            let held = now.saturating_sub(self.until);
            self.held_for = self.held_for.saturating_add(held);
            if self.is_of_the_node(now) {
                (self.held_until, self.node_until) = (now, now);
            }
        }
        // A short wait for the node changes nothing about a backlog that is there for something else.
        let kept = self
            .cause
            .filter(|_| cause == Cause::Node && !self.is_of_the_node(now));
        self.cause = Some(kept.unwrap_or(cause));
        self.until = now;
        self.ongoing = true;
    }

    /// Whether what waits does so for the node's sake: it held connections up for a third of the time or more, so that the
    /// rest was spent on catching up.
    fn is_of_the_node(&self, now: Nanos) -> bool {
        let waited = now.saturating_sub(self.since.unwrap_or(now));
        self.held_for.saturating_mul(3) >= waited
    }

    /// What waited has left by `now`: what fell due until then waited behind it.
    pub(super) fn ended(&mut self, now: Nanos) {
        if self.cause == Some(Cause::Node) {
            self.node_until = now;
        }
        (self.until, self.since) = (now, None);
    }

    /// Whether something waited before what is due at `at`.
    pub(super) fn is_before(&self, at: Nanos) -> bool {
        at < self.until
    }

    /// Whether the node keeps the connections busy, or they are too few. `judge` examines them all; under a lasting
    /// backlog the question comes with every answer, so its answer stands for [`LATE_LIMIT`].
    pub(super) fn judged(&mut self, now: Nanos, judge: impl FnOnce() -> Cause) -> Cause {
        let recent = now.saturating_sub(self.judged_at) < LATE_LIMIT;
        match self.judged.filter(|_| recent) {
            Some(cause) => cause,
            None => {
                self.judged_at = now;
                *self.judged.insert(judge())
            }
        }
    }

    /// Notes that there is no room for what is due since `oldest`.
    pub(super) fn note_no_room(
        &mut self,
        now: Nanos,
        oldest: Nanos,
        judge: impl FnOnce() -> Cause,
    ) {
        let cause = self.judged(now, judge);
        self.note(cause, now);
        let is_behind = oldest <= self.held_until && self.held_until > Nanos::ZERO;
        if is_behind && self.is_of_the_node(now) {
            self.node_until = now;
        }
    }

    pub(super) fn is_ongoing(&self) -> bool {
        self.ongoing
    }

    /// Whether the node holds up what is due.
    pub(super) fn is_node(&self) -> bool {
        self.ongoing && self.cause == Some(Cause::Node)
    }

    /// Whether the ring is dry and must be looked at again soon.
    pub(super) fn is_source(&self) -> bool {
        self.ongoing && self.cause == Some(Cause::Source)
    }

    /// Why a transaction that is queued at `now` was not queued when it was due, apart from the part
    /// of the shard itself.
    pub(super) fn cause_of(&self, due: DueTx, now: Nanos) -> Cause {
        let own = due.seen.saturating_sub(due.at);
        let rest = now.saturating_sub(due.seen);
        if now.saturating_sub(due.at) <= LATE_LIMIT {
            return Cause::OnTime;
        }
        match self.cause {
            _ if rest <= own.min(LATE_LIMIT) => Cause::Schedule,
            _ if self.node_until >= due.seen
                && self.node_until > Nanos::ZERO
                && self.is_of_the_node(now) =>
            {
                Cause::Node
            }
            // More connections would only have shortened the catch-up after a stall.
            Some(Cause::Connection) if own > LATE_LIMIT => Cause::Schedule,
            Some(cause) if self.until >= due.seen => cause,
            _ => Cause::Schedule,
        }
    }
}
