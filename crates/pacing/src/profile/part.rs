//! Some steps of a profile, to offer one of them again.

use std::{ops::Range, sync::Arc};

use super::{
    phase::Phase,
    shape::{LocalStep, Piece, Shape},
};
use crate::rate::Rate;

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
