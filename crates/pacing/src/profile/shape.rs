//! The interface of a profile's shapes: areas, rates and steps in the shape's own time, from 0; and what can be wrong
//! with a profile.

use std::fmt::Debug;

use crate::nanos::Nanos;
use crate::rate::Rate;

/// One shape. Times are nanoseconds since the shape's own start, areas are in units of
/// [`crate::size::ONE`] since its start, rates in millionths per second.
pub(super) trait Shape: Debug + Send + Sync {
    /// Where the shape ends.
    fn length(&self) -> u64;
    /// Whether it runs until it is stopped, `length` being only the limit of what can be computed.
    fn endless(&self) -> bool {
        false
    }
    /// The area up to `t`, for `t <= length`. Never falls.
    fn area(&self, t: u64) -> u128;
    /// The rate at `t`, for `t < length`.
    fn rate_at(&self, t: u64) -> Rate;
    /// How many steps it has: at least one.
    fn steps(&self) -> u32 {
        1
    }
    /// The step that contains `t`, for `t < length`.
    fn step_at(&self, _t: u64) -> u32 {
        0
    }
    /// The step of that index; the whole shape at its mean rate unless it has several.
    fn step(&self, _index: u32) -> LocalStep {
        let end = self.length();
        LocalStep {
            start: 0,
            end,
            rate: Rate::clamped((self.area(end) / u128::from(end)) as u64),
            pause: false,
        }
    }
    /// The piece on which the area passes `area`, for `area < self.area(length)`; `near` is where to look first.
    fn piece(&self, area: u128, near: Option<u64>) -> Piece;
}

/// A step in the time of its shape.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocalStep {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) rate: Rate,
    pub(super) pause: bool,
}

/// A stretch of a profile with one rate.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    /// When it begins.
    pub(crate) start: u64,
    /// When it ends; after its start.
    pub(crate) end: u64,
    /// The area before it.
    pub(crate) area_start: u128,
    /// The area up to its end: at least what the rate amounts to; the rest falls on its last nanosecond.
    pub(crate) area_end: u128,
    /// The rate, in millionths per second.
    pub(crate) rate: u64,
}

impl Piece {
    /// The last instant in it by which the area is no more than `area`, for an area that is passed in it.
    pub(crate) fn last_at(&self, area: u128) -> u64 {
        let last = self.end - self.start - 1;
        let at = (area - self.area_start).checked_div(u128::from(self.rate));
        self.start + at.map_or(last, |at| at.min(u128::from(last)) as u64)
    }

    /// The area up to which the rate leads.
    pub(crate) fn area_of_rate(&self) -> u128 {
        self.area_start + u128::from(self.rate) * u128::from(self.end - self.start)
    }
}

/// How long an endless shape can be computed: 2^63 ns, 292 years. Together with
/// [`crate::Profile::MAX_DURATION`] for what comes before it, every instant fits in 64 bits.
pub(super) const ENDLESS: u64 = 1 << 63;

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
