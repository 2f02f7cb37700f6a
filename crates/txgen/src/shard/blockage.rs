//! Why a transaction left late: what kept the shard from sending, and until when.

use measure::{Cause, LATE_LIMIT};
use pacing::Nanos;

use super::pace::DueTx;

/// What keeps, or kept, due transactions from being sent.
#[derive(Debug, Default)]
pub(super) struct Blockage {
    cause: Option<Cause>,
    until: Nanos,
    /// Until when the node blocked connections. What was due by then leaves behind that backlog, so
    /// the node is why it is late, whatever slows the catch-up.
    node_until: Nanos,
    /// Whether it was noted in this turn of the loop.
    ongoing: bool,
    /// When the connections were last examined for the cause.
    judged_at: Nanos,
}

impl Blockage {
    /// A new turn of the loop: whatever blocks has to be noted again.
    pub(super) fn begin_turn(&mut self) {
        self.ongoing = false;
    }

    /// What is due at `now` cannot be sent, for this cause.
    pub(super) fn note(&mut self, cause: Cause, now: Nanos) {
        self.cause = Some(cause);
        self.until = now;
        if cause == Cause::Node {
            self.node_until = now;
        }
        self.ongoing = true;
    }

    /// Notes that no connection has room. `judge` examines them all; under a lasting backlog the
    /// question comes with every answer, so its answer stands for [`LATE_LIMIT`].
    pub(super) fn note_no_room(&mut self, now: Nanos, judge: impl FnOnce() -> Cause) {
        let recent = now.saturating_sub(self.judged_at) < LATE_LIMIT;
        let cause = match self.cause {
            Some(cause @ (Cause::Node | Cause::Connection)) if recent => cause,
            _ => {
                self.judged_at = now;
                judge()
            }
        };
        self.note(cause, now);
    }

    pub(super) fn is_ongoing(&self) -> bool {
        self.ongoing
    }

    /// Whether the ring is dry and must be looked at again soon.
    pub(super) fn is_source(&self) -> bool {
        self.ongoing && self.cause == Some(Cause::Source)
    }

    /// Why a transaction that is queued at `now` was not queued when it was due.
    pub(super) fn cause_of(&self, due: DueTx, now: Nanos) -> Cause {
        if due.seen_late {
            return Cause::Schedule;
        }
        if now.saturating_sub(due.at) <= LATE_LIMIT {
            return Cause::OnTime;
        }
        match self.cause {
            _ if self.node_until >= due.at && self.node_until > Nanos::ZERO => Cause::Node,
            Some(cause) if self.until >= due.at => cause,
            _ => Cause::Schedule,
        }
    }
}
