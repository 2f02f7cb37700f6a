//! Along a rate that changes evenly: the quadratic's remainder, kept exactly.

use crate::{float::float, profile::Slope};

/// Keeps how far the area at `at` is below the target.
///
/// With `J(t) = 2·span·from·t + change·t²`, the area at t is `J(t) / (2·span)` rounded down, and it
/// is at most the target as long as `slack = 2·span·(target + 1) - 1 - J(t)` is not negative. Going
/// on by d costs `d · (speed + change·d)` of the slack, where `speed = 2·(span·from + change·t)`.
#[derive(Debug, Clone)]
pub(super) struct LinearTrack {
    change: i128,
    twice_span: i128,
    at: u64,
    speed: i128,
    slack: i128,
}

/// The greatest stride in area: keeps every product below 2^126, as `2·span < 2^56`.
const MAX_STRIDE: u64 = 1 << 62;
/// How often a guess is put right by one nanosecond before it is given up.
const MAX_CORRECTIONS: u32 = 8;

impl LinearTrack {
    /// Nothing when the remainder does not fit in 127 bits.
    pub(super) fn new(slope: Slope, at: u64, area: u128) -> Option<Self> {
        let change = i128::from(slope.change());
        let twice_span = 2 * i128::from(slope.span());
        let t = i128::from(at);
        let speed = 2 * (i128::from(slope.span()) * i128::from(slope.from()) + change * t);
        // slack = 2·span·(area + 1 - slope.area(at)) - 1 - J(at) mod 2·span, without forming J.
        let below = i128::try_from(area - slope.area(at)).ok()?;
        let change_rest = (change * t).rem_euclid(twice_span) * t;
        let rest = change_rest.rem_euclid(twice_span);
        let slack = twice_span.checked_mul(below + 1)? - 1 - rest;
        Some(Self {
            change,
            twice_span,
            at,
            speed,
            slack,
        })
    }

    /// Goes `by` units of area on, which must not lead past the piece's end. Nothing when it cannot
    /// tell; then it is lost.
    #[inline]
    pub(super) fn advance(&mut self, by: u64) -> Option<u64> {
        if by > MAX_STRIDE {
            return None;
        }
        self.slack += i128::from(by) * self.twice_span;
        let mut d = self.guess()?;
        let cost = |d: i128| d * (self.speed + self.change * d);
        let mut left = self.slack - cost(d);
        let mut corrections = 0;
        while left < 0 {
            d -= 1;
            left = self.slack - cost(d);
            corrections += 1;
            if corrections > MAX_CORRECTIONS {
                return None;
            }
        }
        loop {
            // What one more nanosecond costs.
            let more = self.speed + self.change * (2 * d + 1);
            if left < more {
                break;
            }
            left -= more;
            d += 1;
            corrections += 1;
            if corrections > MAX_CORRECTIONS {
                return None;
            }
        }
        self.slack = left;
        self.speed += 2 * self.change * d;
        self.at += d as u64;
        Some(self.at)
    }

    /// About how far the slack leads: the root of `change·d² + speed·d = slack`, in the form that
    /// does not cancel. Floats only guess; what they miss is put right in integers.
    #[inline]
    fn guess(&self) -> Option<i128> {
        // Neither is negative between two due times; 0 would only spoil the guess.
        let nonnegative = |x: i128| float(x.max(0).unsigned_abs());
        let (speed, slack) = (nonnegative(self.speed), nonnegative(self.slack));
        let change = self.change as i64 as f64;
        let discriminant = speed * speed + 4.0 * change * slack;
        let root = 2.0 * slack / (speed + discriminant.max(0.0).sqrt());
        (root.is_finite()).then_some(i128::from(root as i64))
    }
}
