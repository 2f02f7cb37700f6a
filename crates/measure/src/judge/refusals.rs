//! Whom it points to that transactions were refused or failed: the workload, for what they are, or the node.

use super::Facts;
use crate::format::code::Subjects;
use crate::format::event::Failure;
use crate::format::evidence::LimitedBy;
use crate::limits::FROM_THE_START;

/// Transactions that the node did not take, or not to good effect, for what they are, whenever that began.
pub(super) struct ByWorkload {
    pub(super) refused: u64,
    pub(super) failed: u64,
    /// Without an answer of their own, since one before them was refused.
    pub(super) followed: u64,
}

impl ByWorkload {
    pub(super) fn of(facts: Facts<'_>) -> Self {
        let fate = &facts.summary.fate;
        let mut refused = Subjects::of(&fate.rejected_by_code);
        if facts.summary.refused_by_workload().is_some() || refuses_from_the_start(facts) {
            refused.transaction += refused.unclear;
        }
        let followed = [Failure::SequenceBroken, Failure::Dead];
        let followed = followed.map(|kind| fate.errors_by_kind.get(kind.name()).unwrap_or(&0));
        // Those behind a refusal that the node is the cause of are the node's as well.
        let is_refused = 2 * refused.transaction > fate.rejected;
        Self {
            refused: refused.transaction,
            failed: Subjects::of(&fate.commit_failed_by_code).transaction,
            followed: followed.into_iter().sum::<u64>() * u64::from(is_refused),
        }
    }
}

/// Whether refusals began with the load: a limit of the node shows when it is reached.
fn refuses_from_the_start(facts: Facts<'_>) -> bool {
    let Facts {
        summary, signals, ..
    } = facts;
    let refused = summary.refused_by_application();
    let soon_s = FROM_THE_START * summary.time.offered_s / refused.max(1) as f64;
    let refusals = signals.refusals;
    refusals.is_some_and(|refusals| refusals.from_s <= soon_s)
}

/// Whom transactions point to of which so many are the workload's.
pub(super) const fn mostly(by_workload: u64, of: u64) -> LimitedBy {
    if 2 * by_workload > of {
        LimitedBy::Workload
    } else {
        LimitedBy::Node
    }
}
