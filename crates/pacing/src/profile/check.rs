//! How long and how finely divided a profile may be.

use super::error::ProfileError;
use crate::nanos::Nanos;

/// [`crate::Profile::MAX_DURATION`] in nanoseconds: below 2^55.
pub(super) const MAX_DURATION_NANOS: u64 = 366 * 86_400 * 1_000_000_000;
/// [`crate::Profile::MAX_STEPS`].
pub(super) const MAX_STEPS: u32 = 1 << 24;

/// `what` names the duration.
pub(super) fn check_duration(what: &str, duration: Nanos) -> Result<(), ProfileError> {
    match duration.as_nanos() {
        0 => Err(ProfileError::new(format!(
            "{what} is zero: use a duration above zero, such as 30s"
        ))),
        1..=MAX_DURATION_NANOS => Ok(()),
        _ => Err(ProfileError::new(format!(
            "{what} is too long: a profile lasts at most {} (366 days)",
            Nanos::new(MAX_DURATION_NANOS)
        ))),
    }
}

pub(super) fn check_steps(steps: u128) -> Result<u32, ProfileError> {
    let legal = u32::try_from(steps)
        .ok()
        .filter(|steps| *steps <= MAX_STEPS);
    legal.ok_or_else(|| {
        ProfileError::new(format!(
            "the profile has {steps} steps: at most {MAX_STEPS}, use fewer and longer ones"
        ))
    })
}
