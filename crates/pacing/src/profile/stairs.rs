//! Shapes made of flat steps: constant, ramp, square and trace.

use std::fmt::Debug;

use super::shape::{LocalStep, Piece, Shape};
use crate::rate::Rate;

/// A shape made of flat steps, of which it can tell each one without walking the others.
pub(super) trait Stairs: Debug + Send + Sync {
    fn endless(&self) -> bool {
        false
    }
    /// How many steps; at least one.
    fn count(&self) -> u32;
    /// When step `k` begins; for `k == count`, when the last one ends.
    fn start(&self, k: u32) -> u64;
    /// The rate of step `k < count`, in millionths per second.
    fn rate(&self, k: u32) -> u64;
    /// The area before step `k`; for `k == count`, all of it.
    fn area_before(&self, k: u32) -> u128;
    /// Whether step `k` is a rest.
    fn pause(&self, k: u32) -> bool {
        self.rate(k) == 0
    }
}

/// Makes a [`Shape`] of [`Stairs`].
#[derive(Debug)]
pub(super) struct Staircase<S>(pub(super) S);

impl<S: Stairs> Staircase<S> {
    /// The last step whose `key` is at most the wanted one; `key` never falls and is 0 at step 0.
    fn last_step(&self, at_most: impl Fn(u32) -> bool) -> u32 {
        let (mut low, mut high) = (0, self.0.count());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if at_most(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }
}

impl<S: Stairs> Shape for Staircase<S> {
    fn length(&self) -> u64 {
        self.0.start(self.0.count())
    }

    fn endless(&self) -> bool {
        self.0.endless()
    }

    fn area(&self, t: u64) -> u128 {
        let k = self.step_at(t);
        self.0.area_before(k) + u128::from(self.0.rate(k)) * u128::from(t - self.0.start(k))
    }

    fn rate_at(&self, t: u64) -> Rate {
        Rate::clamped(self.0.rate(self.step_at(t)))
    }

    fn steps(&self) -> u32 {
        self.0.count()
    }

    fn step_at(&self, t: u64) -> u32 {
        self.last_step(|k| self.0.start(k) <= t)
    }

    fn step(&self, k: u32) -> LocalStep {
        LocalStep {
            start: self.0.start(k),
            end: self.0.start(k + 1),
            rate: Rate::clamped(self.0.rate(k)),
            pause: self.0.pause(k),
        }
    }

    fn piece(&self, area: u128, _near: Option<u64>) -> Piece {
        // Of a step and the pauses before it, all with the same area before them, the last is the
        // one that offers something.
        let k = self.last_step(|k| self.0.area_before(k) <= area);
        Piece {
            start: self.0.start(k),
            end: self.0.start(k + 1),
            area_start: self.0.area_before(k),
            area_end: self.0.area_before(k + 1),
            rate: self.0.rate(k),
        }
    }
}
