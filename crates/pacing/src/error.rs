//! What can be wrong with a single value. Messages are shown to people as they stand.

/// A single value (a rate, a duration, an arrivals or catch-up policy) that is not acceptable.
///
/// Displays as one lower-case line that names the value, what is wrong with it and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The text is not a rate at all.
    #[error(
        "`{text}` is not a rate: {reason}; write a number and a unit, such as 1000/s, 0.5/s, 30k/m or 2/h"
    )]
    NotARate {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The rate is below zero.
    #[error("rate `{text}` is negative: a rate is 0/s to 10000000/s")]
    NegativeRate {
        /// What was given.
        text: String,
    },
    /// The rate is above [`crate::Rate::MAX`].
    #[error("rate `{text}` is too high: at most 10000000/s")]
    RateTooHigh {
        /// What was given.
        text: String,
    },
    /// The rate is positive, but would round to zero.
    #[error("rate `{text}` is too low: the smallest rate above zero is 0.000001/s")]
    RateTooLow {
        /// What was given.
        text: String,
    },
    /// The text is not a duration.
    #[error(
        "`{text}` is not a duration: {reason}; write a number and a unit, such as 30s, 1.5s, 100ms, 2m or 1h"
    )]
    NotADuration {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The duration does not fit in 64 bits of nanoseconds.
    #[error("duration `{text}` is too long: at most 213503 days can be counted in nanoseconds")]
    DurationTooLong {
        /// What was given.
        text: String,
    },
    /// The text names no kind of arrivals.
    #[error("`{text}` is not a kind of arrivals: {reason}; use even, poisson or burst:N")]
    NotArrivals {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The text names no catch-up policy.
    #[error("`{text}` is not a catch-up policy: {reason}; use full, bounded:DURATION or none")]
    NotACatchUp {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
}
