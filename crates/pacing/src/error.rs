//! What can be wrong with a single value, as a person reads it.

use std::fmt::Display;

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
