//! Along a table of cubic arcs: looks ahead by the local slope, then checks.

use std::sync::Arc;

use crate::{float::float, profile::Curve};

/// Keeps the place, the area there and about how long a unit of area takes there.
#[derive(Debug, Clone)]
pub(super) struct CurveTrack {
    curve: Arc<Curve>,
    target: u128,
    at: u64,
    area: u128,
    nanos_per_unit: f64,
    /// Half of what `nanos_per_unit` changed by on the last way: with equal ways, the mean on the
    /// next one differs from the value at its start by as much.
    drift: f64,
}

/// How often a guess is improved before it is given up.
const MAX_GUESSES: u32 = 6;

impl CurveTrack {
    pub(super) fn new(curve: Arc<Curve>, at: u64, target: u128) -> Self {
        let sample = curve.sample(at);
        Self {
            curve,
            target,
            at,
            area: sample.area,
            nanos_per_unit: 1.0 / sample.slope,
            drift: 0.0,
        }
    }

    /// Goes `by` units of area on, which must not lead past the piece's end. Nothing when it cannot
    /// tell; then it is lost.
    #[inline]
    pub(super) fn advance(&mut self, by: u64) -> Option<u64> {
        self.target += u128::from(by);
        let before = self.nanos_per_unit;
        let mut pace = before + self.drift;
        for _ in 0..MAX_GUESSES {
            let ahead = float(self.target - self.area) * pace;
            if !ahead.is_finite() {
                return None;
            }
            self.jump(ahead as u64);
            if self.area > self.target {
                self.step_back()?;
            }
            if self.curve.area(self.at + 1) > self.target {
                self.drift = (self.nanos_per_unit - before) * 0.5;
                return Some(self.at);
            }
            pace = self.nanos_per_unit;
        }
        None
    }

    fn jump(&mut self, ahead: u64) {
        self.at = self.at.saturating_add(ahead);
        let sample = self.curve.sample(self.at);
        (self.area, self.nanos_per_unit) = (sample.area, 1.0 / sample.slope);
    }

    /// Goes back to where the area is at most the target.
    fn step_back(&mut self) -> Option<()> {
        for _ in 0..MAX_GUESSES {
            let over = float(self.area - self.target) * self.nanos_per_unit;
            if !over.is_finite() {
                return None;
            }
            self.at = self.at.saturating_sub(over as u64 + 1);
            self.jump(0);
            if self.area <= self.target {
                return Some(());
            }
        }
        None
    }
}
