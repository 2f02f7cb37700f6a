//! What can be wrong with a profile, as a person reads it.

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
