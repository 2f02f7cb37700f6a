//! What can be wrong with a profile. Messages are shown to people as they stand.

use super::limits::{MAX_DURATION_NANOS, MAX_STEPS};
use crate::nanos::Nanos;
use crate::rate::{Rate, SignedRate};

/// A profile that cannot be offered.
///
/// Displays as one lower-case line that names the value, what is wrong with it and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The profile never offers anything.
    #[error("{what} is 0/s: a profile must offer something, use a rate above zero")]
    NothingOffered {
        /// Which rate, or rates.
        what: &'static str,
    },
    /// A duration of zero.
    #[error("{what} is zero: use a duration above zero, such as 30s")]
    ZeroDuration {
        /// Which duration.
        what: &'static str,
    },
    /// A profile longer than [`crate::Profile::MAX_DURATION`].
    #[error("{what} is too long: a profile lasts at most {max} (366 days)", max = Nanos::new(MAX_DURATION_NANOS))]
    TooLong {
        /// Which duration.
        what: &'static str,
    },
    /// More steps than [`crate::Profile::MAX_STEPS`].
    #[error("the profile has {steps} steps: at most {max}, use fewer and longer ones", max = MAX_STEPS)]
    TooManySteps {
        /// How many there would be.
        steps: u128,
    },
    /// A ramp whose rate stays the same.
    #[error(
        "the step is 0/s: a ramp needs a step above or below zero (for one rate use a constant profile)"
    )]
    ZeroStep,
    /// A falling ramp that would pass zero.
    #[error(
        "the step {step} makes the rate negative: from {start} it falls below 0/s at step {at}; \
         give the ramp an end between 0/s and {start}"
    )]
    NegativeStep {
        /// The rate of the first step.
        start: Rate,
        /// The change from step to step.
        step: SignedRate,
        /// The first step (counted from 0) below zero.
        at: u64,
    },
    /// A ramp that moves away from where it should end.
    #[error(
        "a step of {step} never leads from {start} to {to}: give the step the other sign, or swap the ends"
    )]
    StepAwayFromEnd {
        /// The rate of the first step.
        start: Rate,
        /// The change from step to step.
        step: SignedRate,
        /// The rate of the last step.
        to: Rate,
    },
    /// An exponential ramp that begins or ends at zero.
    #[error("an exponential ramp cannot {verb} 0/s: use a rate above zero, such as 1/s")]
    ExponentialZero {
        /// "start at" or "end at".
        verb: &'static str,
    },
    /// A square wave that is not one.
    #[error("the low rate {low} is not below the high rate {high}: a square wave needs low < high")]
    LowNotBelowHigh {
        /// The rate of the on halves.
        high: Rate,
        /// The rate of the off halves.
        low: Rate,
    },
    /// A sine whose trough would be negative.
    #[error(
        "the amplitude {amplitude} is above the mean {mean}: the rate would fall below 0/s, use at most the mean"
    )]
    AmplitudeAboveMean {
        /// The mean rate.
        mean: Rate,
        /// The amplitude.
        amplitude: Rate,
    },
    /// A sine whose crest is above [`Rate::MAX`].
    #[error(
        "mean {mean} and amplitude {amplitude} add up to more than 10000000/s: lower one of them"
    )]
    CrestTooHigh {
        /// The mean rate.
        mean: Rate,
        /// The amplitude.
        amplitude: Rate,
    },
    /// A trace without a row, or phases without a phase.
    #[error("the {what} is empty: give at least one {element}")]
    Empty {
        /// "trace" or "list of phases".
        what: &'static str,
        /// "row of second,rate" or "phase".
        element: &'static str,
    },
    /// A trace whose first point is not at the origin.
    #[error("{place}: the first row is at {at}: a trace begins at second 0")]
    TraceStart {
        /// "line N" or "point N".
        place: Place,
        /// Where the trace begins instead.
        at: Nanos,
    },
    /// A trace whose time stands still or goes back.
    #[error("{place}: time {at} is not after {before} of the row before: times must increase")]
    TraceOrder {
        /// Where.
        place: Place,
        /// The time of this row.
        at: Nanos,
        /// The time of the row before.
        before: Nanos,
    },
    /// A line of a trace that is not `second,rate`.
    #[error("line {line}: `{text}` is not a row of second,rate: {reason}")]
    TraceRow {
        /// The line, counted from 1.
        line: usize,
        /// The line's text, shortened.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A trace whose end is not after its last point.
    #[error("the end {end} of the trace is not after its last point at {last}")]
    TraceEnd {
        /// The end that was given.
        end: Nanos,
        /// The time of the last point.
        last: Nanos,
    },
    /// A phase without an end that is not the last one.
    #[error("phase {number} ({name}) has no end, but others follow it: give it a duration")]
    EndlessPhase {
        /// The phase, counted from 1.
        number: usize,
        /// The name of its profile.
        name: &'static str,
    },
}

/// Where in a trace something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A line of a file, counted from 1.
    Line(usize),
    /// A point of a list, counted from 1.
    Point(usize),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Point(point) => write!(f, "point {point}"),
        }
    }
}
