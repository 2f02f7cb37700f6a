//! Exit codes: a contract with scripts.

pub use harness::exit::{DONE, FAILED, INTERRUPTED, INVALID, USAGE};
use measure::{ScheduleVerdict, Summary};

use crate::threshold::ThresholdVerdict;

/// A threshold was broken.
pub const THRESHOLD: u8 = 99;

/// What a run, or the whole of several, ends with: an interruption beats an invalid schedule, which beats a threshold.
/// Where the generator's own lateness leaves a threshold open, the machine was too busy to decide: as an invalid run.
pub(crate) fn of_run(summary: &Summary, thresholds: &[ThresholdVerdict]) -> u8 {
    if summary.interrupted {
        INTERRUPTED
    } else if summary.verdict.schedule == ScheduleVerdict::Invalid {
        INVALID
    } else if thresholds.iter().any(|it| !it.held && !it.unresolved) {
        THRESHOLD
    } else if thresholds.iter().any(|it| it.unresolved) {
        INVALID
    } else {
        DONE
    }
}
