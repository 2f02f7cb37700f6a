//! A shape at its place in a profile.

use std::sync::Arc;

use super::error::ProfileError;
use super::{
    check::{check_duration, check_steps},
    shape::Shape,
    step::Step,
};
use crate::nanos::Nanos;

/// A shape at its place in the profile.
#[derive(Debug, Clone)]
pub(super) struct Phase {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) area_start: u128,
    pub(super) area_end: u128,
    pub(super) first_step: u32,
    pub(super) shape: Arc<dyn Shape>,
}

impl Phase {
    pub(super) fn first(shape: Arc<dyn Shape>) -> Self {
        let end = shape.length();
        let area_end = shape.area(end);
        Self {
            start: 0,
            end,
            area_start: 0,
            area_end,
            first_step: 0,
            shape,
        }
    }

    /// `shape` placed behind this phase, which is the `number`-th.
    pub(super) fn followed_by(
        &self,
        shape: &Arc<dyn Shape>,
        number: usize,
    ) -> Result<Self, ProfileError> {
        if self.shape.endless() {
            return Err(ProfileError::EndlessPhase {
                number,
                name: self.shape.name(),
            });
        }
        // Also keeps what an endless last phase adds within 64 bits.
        check_duration("the sequence of phases", Nanos::new(self.end))?;
        let first_step = self.first_step + self.shape.steps();
        check_steps(u128::from(first_step) + u128::from(shape.steps()))?;
        let alone = Self::first(Arc::clone(shape));
        Ok(Self {
            start: self.end,
            end: self.end + alone.end,
            area_start: self.area_end,
            area_end: self.area_end + alone.area_end,
            first_step,
            shape: alone.shape,
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
        }
    }
}
