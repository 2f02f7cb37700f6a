//! What every shape of a profile can say about itself, in its own time (from 0).

use std::{fmt::Debug, sync::Arc};

use super::{curve::Curve, slope::Slope};
use crate::rate::Rate;

/// One shape. Times are nanoseconds since the shape's own start, areas are in units of
/// [`crate::count::ONE`] since its start, rates in millionths per second.
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
    /// The piece on which the area passes `area`, for `area < self.area(length)`.
    fn piece(&self, area: u128) -> Piece;
}

/// A step in the time of its shape.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocalStep {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) rate: Rate,
    pub(super) pause: bool,
}

/// A stretch of a profile along which one formula holds.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    /// When it begins.
    pub(crate) start: u64,
    /// The area before it.
    pub(crate) area_start: u128,
    /// The area up to its end; greater than `area_start`.
    pub(crate) area_end: u128,
    /// The formula, in time and area since the piece's start.
    pub(crate) form: Form,
}

impl Piece {
    /// A shape that is one piece.
    pub(super) const fn whole(area: u128, form: Form) -> Self {
        Self {
            start: 0,
            area_start: 0,
            area_end: area,
            form,
        }
    }
}

/// How long an endless shape can be computed: 2^63 ns, 292 years. Together with
/// [`crate::Profile::MAX_DURATION`] for what comes before it, every instant fits in 64 bits.
pub(super) const ENDLESS: u64 = 1 << 63;

/// The formula of a piece.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    /// One rate, in millionths per second.
    Flat(u64),
    /// A rate that changes evenly.
    Linear(Slope),
    /// A table of cubic arcs.
    Curve(Arc<Curve>),
}

impl Form {
    /// The last instant by which the piece's area is no more than `area`, for an area below the
    /// piece's whole.
    pub(crate) fn invert(&self, area: u128) -> u64 {
        match self {
            // Below the piece's area, so below rate * length: fits.
            Self::Flat(rate) => (area / u128::from(*rate)) as u64,
            Self::Linear(slope) => slope.invert(area),
            Self::Curve(curve) => curve.invert(area),
        }
    }
}
