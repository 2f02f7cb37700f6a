//! A shape at its place in a profile, and its steps: what a report has one row for.

use std::{ops::Range, sync::Arc};

use super::shape::{LocalStep, Piece, ProfileError, Shape, check_duration, check_steps};
use crate::{nanos::Nanos, rate::Rate};

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
