//! Exit codes: a contract with scripts.

use measure::{ScheduleVerdict, Summary};
pub use ops::command::exit::{DONE, FAILED, USAGE};

use crate::threshold::ThresholdVerdict;

/// The run is invalid: the schedule was not kept.
pub const INVALID: u8 = 98;
/// A threshold was broken.
pub const THRESHOLD: u8 = 99;
/// Interrupted; everything recorded was still written.
pub const INTERRUPTED: u8 = 130;

/// What a run, or the whole of several, ends with: an interruption beats an invalid schedule, which beats a threshold.
pub(crate) fn of_run(summary: &Summary, thresholds: &[ThresholdVerdict]) -> u8 {
    if summary.interrupted {
        INTERRUPTED
    } else if summary.verdict.schedule == ScheduleVerdict::Invalid {
        INVALID
    } else if thresholds.iter().any(|threshold| !threshold.held) {
        THRESHOLD
    } else {
        DONE
    }
}
