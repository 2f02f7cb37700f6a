//! Refuses what is beyond the limits.

use super::error::ProfileError;
use super::limits::{MAX_DURATION_NANOS, MAX_STEPS};
use crate::nanos::Nanos;

pub(super) fn check_duration(what: &'static str, duration: Nanos) -> Result<(), ProfileError> {
    match duration.as_nanos() {
        0 => Err(ProfileError::ZeroDuration { what }),
        1..=MAX_DURATION_NANOS => Ok(()),
        _ => Err(ProfileError::TooLong { what }),
    }
}

pub(super) fn check_steps(steps: u128) -> Result<u32, ProfileError> {
    match u32::try_from(steps) {
        Ok(steps) if steps <= MAX_STEPS => Ok(steps),
        _ => Err(ProfileError::TooManySteps { steps }),
    }
}
