//! What held a run back most.

use super::limits::{LIMITING_SHARE, SUSTAINED_SHARE};
use crate::event::UnsentReason;
use crate::plan::LoadModel;
use crate::summary::{LimitedBy, Summary};

pub(super) fn limited_by(summary: &Summary) -> LimitedBy {
    let (offered, fate) = (&summary.offered, &summary.fate);
    let late = &summary.late.causes;
    let unsent = |reason| offered.unsent_for(reason);
    let closed = summary.model == LoadModel::Closed;
    // In a closed loop nothing is due, so nothing can be late by the schedule's own fault.
    let by_schedule = if closed { 0 } else { late.schedule };
    let by_node = late.node
        + unsent(UnsentReason::MaxInFlight)
        + unsent(UnsentReason::Deadline)
        + fate.rejected;
    let causes = [
        (by_schedule, LimitedBy::Schedule),
        (
            late.source + unsent(UnsentReason::Source),
            LimitedBy::Source,
        ),
        (
            late.connection + unsent(UnsentReason::Broken),
            LimitedBy::Connection,
        ),
        (by_node, LimitedBy::Node),
    ];
    let (count, cause) = causes
        .into_iter()
        .max_by_key(|(count, _)| *count)
        .unwrap_or((0, LimitedBy::Nothing));
    if count as f64 > offered.planned as f64 * LIMITING_SHARE {
        return cause;
    }
    let accepted_short = (fate.accepted as f64) < offered.sent as f64 * SUSTAINED_SHARE;
    let committed_short = match (summary.rate.accepted_tps, summary.rate.committed_tps) {
        (Some(accepted), Some(committed)) if summary.blocks.count > 0 => {
            committed.mean < accepted.mean * SUSTAINED_SHARE && fate.pending > 0
        }
        _ => false,
    };
    if closed || accepted_short || committed_short {
        LimitedBy::Node
    } else {
        LimitedBy::Nothing
    }
}
