//! What can be wrong with a profile, and the checks of how long and how finely divided it may be.

use crate::nanos::Nanos;

/// A profile that cannot be offered.
///
/// Displays as one lower-case line that names the value, what is wrong with it and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProfileError(String);

impl ProfileError {
    /// The whole message.
    pub(super) const fn new(message: String) -> Self {
        Self(message)
    }

    /// `what` names the rate that is zero.
    pub(super) fn nothing_offered(what: &str) -> Self {
        Self(format!(
            "{what} is 0/s: a profile must offer something, use a rate above zero"
        ))
    }
}

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
