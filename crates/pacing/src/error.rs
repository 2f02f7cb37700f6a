//! What can be wrong with a single value, as a person reads it.

use std::fmt::Display;

use crate::nanos::Nanos;

/// A single value (a rate, a duration, an arrivals or catch-up policy) that is not acceptable.
///
/// Displays as one lower-case line that names the value, what is wrong with it and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(String);

/// What a text should have been, and what to write instead.
pub(crate) struct Kind(pub(crate) &'static str, pub(crate) &'static str);

impl ValueError {
    /// The whole message.
    pub(crate) const fn new(message: String) -> Self {
        Self(message)
    }

    /// That `text` is not of a kind.
    pub(crate) fn not_a(kind: &Kind, text: &str, reason: impl Display) -> Self {
        let Kind(name, advice) = kind;
        Self(format!("`{text}` is not {name}: {reason}; {advice}"))
    }
}

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
