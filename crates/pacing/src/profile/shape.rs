//! The interface of a profile's shapes: areas, rates and steps in the shape's own time, from 0; a shape at its place in a
//! profile, with its steps, of which a report has a row each; and what can be wrong with a profile.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

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

/// A stretch of a profile that is reported on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Which one, counted from 0 over the whole profile.
    pub index: u32,
    /// When it begins.
    pub start: Nanos,
    /// When it ends (the first instant that is no longer in it); nothing when it runs until stopped.
    pub end: Option<Nanos>,
    /// Its mean rate.
    pub rate: Rate,
    /// Whether it is a rest: a rate of zero, or the low half of a square wave.
    pub pause: bool,
    /// The step that it offers a second time, if it does (see [`crate::Profile::with_again`]).
    pub again_of: Option<u32>,
}

/// A shape at its place in the profile.
#[derive(Debug, Clone)]
pub(super) struct Phase {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) area_start: u128,
    pub(super) area_end: u128,
    pub(super) first_step: u32,
    /// The step of the profile that this phase offers a second time.
    pub(super) again_of: Option<u32>,
    /// The shape and its parameters, as a person would write them; begins with the shape's name.
    pub(super) text: Arc<str>,
    pub(super) peak: Rate,
    pub(super) shape: Arc<dyn Shape>,
}

impl Phase {
    pub(super) fn first(text: &str, peak: Rate, shape: Arc<dyn Shape>) -> Self {
        let end = shape.length();
        let area_end = shape.area(end);
        Self {
            start: 0,
            end,
            area_start: 0,
            area_end,
            first_step: 0,
            again_of: None,
            text: text.into(),
            peak,
            shape,
        }
    }

    /// The word for this kind of shape.
    pub(super) fn name(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }

    /// `next` placed behind this phase, which is the `number`-th.
    pub(super) fn followed_by(&self, next: &Self, number: usize) -> Result<Self, ProfileError> {
        if self.shape.endless() {
            return Err(ProfileError::new(format!(
                "phase {number} ({}) has no end, but others follow it: give it a duration",
                self.name()
            )));
        }
        // Also keeps what an endless last phase adds within 64 bits.
        check_duration("the sequence of phases", Nanos::new(self.end))?;
        let first_step = self.first_step + self.shape.steps();
        check_steps(u128::from(first_step) + u128::from(next.shape.steps()))?;
        Ok(Self {
            start: self.end,
            end: self.end + (next.end - next.start),
            area_start: self.area_end,
            area_end: self.area_end + (next.area_end - next.area_start),
            first_step,
            ..next.clone()
        })
    }

    pub(super) fn step(&self, local: u32) -> Step {
        let step = self.shape.step(local);
        let endless = self.shape.endless() && self.shape.steps() == 1;
        Step {
            index: self.first_step + local,
            start: Nanos::new(self.start + step.start),
            end: (!endless).then_some(Nanos::new(self.start + step.end)),
            rate: step.rate,
            pause: step.pause,
            again_of: self.again_of,
        }
    }
}

/// Some steps of a shape that has several.
#[derive(Debug)]
struct Part {
    shape: Arc<dyn Shape>,
    steps: Range<u32>,
    start: u64,
    length: u64,
    area_start: u128,
}

impl Phase {
    /// These of its steps, counted over the whole profile; nothing where it has none of them.
    pub(super) fn part(&self, steps: &Range<u32>) -> Option<Self> {
        let count = self.shape.steps();
        let local = |step: u32| step.saturating_sub(self.first_step).min(count);
        let steps = local(steps.start)..local(steps.end);
        if steps.is_empty() {
            return None;
        }
        if steps == (0..count) {
            return Some(self.clone());
        }
        let start = self.shape.step(steps.start).start;
        let part = Part {
            start,
            length: self.shape.step(steps.end - 1).end - start,
            area_start: self.shape.area(start),
            shape: Arc::clone(&self.shape),
            steps,
        };
        let again_of = self.again_of;
        let placed = Self::first(&self.text, self.peak, Arc::new(part));
        Some(Self { again_of, ..placed })
    }
}

impl Shape for Part {
    fn length(&self) -> u64 {
        self.length
    }

    fn endless(&self) -> bool {
        self.shape.endless() && self.steps.end == self.shape.steps()
    }

    fn area(&self, t: u64) -> u128 {
        self.shape.area(self.start + t) - self.area_start
    }

    fn rate_at(&self, t: u64) -> Rate {
        self.shape.rate_at(self.start + t)
    }

    fn steps(&self) -> u32 {
        self.steps.end - self.steps.start
    }

    fn step_at(&self, t: u64) -> u32 {
        self.shape.step_at(self.start + t) - self.steps.start
    }

    fn step(&self, index: u32) -> LocalStep {
        let step = self.shape.step(self.steps.start + index);
        LocalStep {
            start: step.start - self.start,
            end: step.end - self.start,
            ..step
        }
    }

    fn piece(&self, area: u128, near: Option<u64>) -> Piece {
        // Shapes of several steps have one piece a step, so it lies within these steps.
        let near = near.map(|near| near.saturating_add(self.start));
        let piece = self.shape.piece(self.area_start + area, near);
        Piece {
            start: piece.start - self.start,
            end: piece.end - self.start,
            area_start: piece.area_start - self.area_start,
            area_end: piece.area_end - self.area_start,
            rate: piece.rate,
        }
    }
}
