//! How long and how finely cut a profile may be.

use crate::{Nanos, Profile, ProfileError};

/// [`Profile::MAX_DURATION`] in nanoseconds: below 2^55.
pub(super) const MAX_DURATION_NANOS: u64 = 366 * 86_400 * 1_000_000_000;

pub(super) fn check_duration(what: &'static str, duration: Nanos) -> Result<(), ProfileError> {
    if duration.is_zero() {
        return Err(ProfileError::ZeroDuration { what });
    }
    if duration > Profile::MAX_DURATION {
        return Err(ProfileError::TooLong { what });
    }
    Ok(())
}

pub(super) fn check_steps(steps: u128) -> Result<u32, ProfileError> {
    match u32::try_from(steps) {
        Ok(steps) if steps <= Profile::MAX_STEPS => Ok(steps),
        _ => Err(ProfileError::TooManySteps { steps }),
    }
}
