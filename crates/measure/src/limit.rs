//! What held a run back most.

use crate::event::UnsentReason;
use crate::summary::{Fate, LateCauses, LimitedBy, LoadModel, Offered, Rates};

/// What the answer depends on.
pub(crate) struct Pressure<'a> {
    pub(crate) model: LoadModel,
    pub(crate) offered: &'a Offered,
    pub(crate) fate: &'a Fate,
    pub(crate) late: LateCauses,
    pub(crate) rate: &'a Rates,
    pub(crate) blocks: u64,
}

pub(crate) fn limited_by(pressure: &Pressure<'_>) -> LimitedBy {
    let Pressure {
        offered,
        fate,
        late,
        ..
    } = pressure;
    let unsent = |reason: UnsentReason| {
        let count = offered.unsent_by_reason.get(reason.name());
        count.copied().unwrap_or(0)
    };
    let closed = pressure.model == LoadModel::Closed;
    // In a closed loop nothing is due, so nothing can be late by the schedule's own fault.
    let by_schedule = if closed { 0 } else { late.schedule };
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
        (
            late.node
                + unsent(UnsentReason::MaxInFlight)
                + unsent(UnsentReason::Deadline)
                + fate.rejected,
            LimitedBy::Node,
        ),
    ];
    let (count, cause) = causes
        .into_iter()
        .max_by_key(|(count, _)| *count)
        .unwrap_or((0, LimitedBy::Nothing));
    if count as f64 > offered.planned as f64 * LIMITING_SHARE {
        return cause;
    }
    let accepted_short = (fate.accepted as f64) < offered.sent as f64 * SUSTAINED_SHARE;
    let committed_short = match (pressure.rate.accepted_tps, pressure.rate.committed_tps) {
        (Some(accepted), Some(committed)) if pressure.blocks > 0 => {
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

/// A cause of lateness that touched a smaller share of the plan did not limit the run.
const LIMITING_SHARE: f64 = 0.01;
/// A node that accepts or commits a smaller share of what it was offered is saturated.
const SUSTAINED_SHARE: f64 = 0.95;
