//! Exit codes: a contract with scripts.

pub use harness::exit::{DONE, FAILED, INTERRUPTED, INVALID, USAGE};
use measure::{ScheduleVerdict, Summary};

use crate::threshold::ThresholdVerdict;

/// A threshold was broken.
pub const THRESHOLD: u8 = 99;

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
