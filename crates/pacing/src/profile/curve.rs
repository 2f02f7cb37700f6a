//! Areas of smooth rates (exponential, sine) in integers: a table of cubic arcs.
//!
//! **Method.** The length T is cut into M = 2^m equal segments. At each knot the true area and the
//! true rate are computed in fixed point (`fixed.rs`, off by far less than one unit, 10⁻¹⁵
//! transactions). Between two knots the area is the cubic that has the true areas and the true
//! rates at both of them, in Bézier form: with h = T/M, control values
//! `0, rate·h/3, S - next_rate·h/3, S` above the knot's area, where S is the segment's area. It is
//! evaluated by de Casteljau's scheme: three rounds of `a + (b - a)·w`, each rounded down.
//!
//! **It never falls.** The position `w` in the segment never falls with t (a product, shifted
//! right). `a + (b - a)·w` rounded down never falls in `a`, `b` or `w` as long as `a <= b`. The
//! control values are in order, and each round keeps them so: the value between `a` and `b` is at
//! most `b`, and the one between `b` and `c` at least `b`. Hence each round's values, and at last
//! the area, never fall with t. The order of the control values needs `rate + next_rate <= 3·S/h`,
//! which holds on segments of at most half an e-fold and, for a sine with a knot at its trough, on
//! every segment; what rounding breaks of it (a few units) is clamped.
//!
//! **It is close.** A cubic with the true areas and rates at both ends is off by at most
//! `h⁴·max|rate'''|/384` (the Hermite interpolation error). Shapes choose M so that this is at most
//! 1/64 transaction ([`segments_for`]). A segment's area is at most 2^85 units, so that an error of
//! one unit in `w`, which has 42 bits, adds at most 2^43 units, 0.009 transactions. Rounding adds
//! six units. Together: less than 0.05 transactions at every instant, and so a count within ±1.

use super::{fixed, shape::last_where};
use crate::float::float;

/// The area under a smooth rate over a fixed length of time.
#[derive(Debug)]
pub(crate) struct Curve {
    length: u64,
    /// Segments and their fractions per nanosecond: 2^(m + 42 + 64) / length.
    scale: u128,
    arcs: Box<[Arc]>,
    total: u128,
    segments_per_nano: f64,
}

/// One segment: the area before it and its control values above that.
#[derive(Debug, Clone, Copy)]
struct Arc {
    base: u128,
    controls: [u128; 3],
}

/// What a shape knows at a knot.
pub(super) struct Knot {
    /// The area up to here.
    pub(super) area: u128,
    /// The rate here in millionths per second, with [`RATE_BITS`] fractional bits.
    pub(super) rate: u128,
}

/// The area at an instant, and what it takes to look ahead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// The area up to the instant.
    pub(crate) area: u128,
    /// About how much area the next nanosecond adds.
    pub(crate) slope: f64,
}

/// Fractional bits of a knot's rate.
pub(super) const RATE_BITS: u32 = 80;
/// Bits of a position within its segment.
const FRACTION_BITS: u32 = 42;
/// The least and the greatest m.
const SEGMENT_BITS: std::ops::RangeInclusive<u32> = 6..=16;
/// The most area a segment may have.
const SEGMENT_AREA: f64 = (1_u128 << 85) as f64;
/// How far a cubic may be off, in transactions.
const CUBIC_ERROR: f64 = 1.0 / 64.0;

/// How many segments (as a power of two) keep the cubic's error at most 1/64 transaction and a
/// segment's area within bounds.
///
/// `whole_error` is the error in transactions that a single segment would have,
/// `T⁴·max|rate'''|/384`; M segments have M⁴ times less. `greatest_area` bounds peak rate times T.
pub(super) fn segments_for(whole_error: f64, greatest_area: f64) -> u32 {
    let enough = |bits: u32| {
        let segments = f64::from(1_u32 << bits);
        whole_error <= CUBIC_ERROR * segments.powi(4) && greatest_area <= SEGMENT_AREA * segments
    };
    // The longest and fastest profile there is needs 16 bits (tested).
    SEGMENT_BITS
        .clone()
        .find(|&bits| enough(bits))
        .unwrap_or(*SEGMENT_BITS.end())
}

impl Curve {
    /// Builds the table from `knot(k)` for k from 0 to 2^bits; the area at knot 0 is 0.
    pub(super) fn new(length: u64, bits: u32, knot: impl Fn(u64) -> Knot) -> Self {
        let segments = 1_u64 << bits;
        // rate · h / 3 with h = length / segments.
        let divisor = (3 * u128::from(segments)) << RATE_BITS;
        let third = |rate| fixed::mul_div(rate, u128::from(length), divisor);
        let mut arcs = Vec::with_capacity(1 << bits);
        let mut from = knot(0);
        for k in 1..=segments {
            let mut to = knot(k);
            to.area = to.area.max(from.area);
            let all = to.area - from.area;
            let second = all.saturating_sub(third(to.rate));
            let first = third(from.rate).min(second);
            arcs.push(Arc {
                base: from.area,
                controls: [first, second, all],
            });
            from = to;
        }
        Self {
            length,
            scale: (1_u128 << (bits + FRACTION_BITS + 64)) / u128::from(length),
            arcs: arcs.into(),
            total: from.area,
            segments_per_nano: segments as f64 / length as f64,
        }
    }

    pub(super) fn total(&self) -> u128 {
        self.total
    }

    #[inline]
    pub(crate) fn area(&self, t: u64) -> u128 {
        self.sample(t).area
    }

    /// Past the end, the whole area.
    #[inline]
    pub(crate) fn sample(&self, t: u64) -> Sample {
        if t >= self.length {
            return Sample {
                area: self.total,
                slope: 0.0,
            };
        }
        // Below 2^(m + 106), as t < length.
        let position = ((u128::from(t) * self.scale) >> 64) as u64;
        let arc = &self.arcs[(position >> FRACTION_BITS) as usize];
        let w = position & ((1 << FRACTION_BITS) - 1);
        let [b1, b2, b3] = arc.controls;
        let (c1, c2, c3) = (between(0, b1, w), between(b1, b2, w), between(b2, b3, w));
        let (d1, d2) = (between(c1, c2, w), between(c2, c3, w));
        Sample {
            area: arc.base + between(d1, d2, w),
            slope: 3.0 * float(d2 - d1) * self.segments_per_nano,
        }
    }

    /// The last instant by which the area is no more than `area`, for an area below the total.
    pub(crate) fn invert(&self, area: u128) -> u64 {
        let index = self.arcs.partition_point(|arc| arc.base <= area) - 1;
        let arc = &self.arcs[index];
        let part = float(area - arc.base) / float(arc.controls[2].max(1));
        let guess = ((index as f64 + part) / self.segments_per_nano) as u64;
        last_where(self.length - 1, guess, |t| self.area(t) <= area)
    }
}

/// The value `w / 2^42` of the way from `a` to `b`, for `a <= b < 2^86`, rounded down.
#[inline]
fn between(a: u128, b: u128, w: u64) -> u128 {
    a + (((b - a) * u128::from(w)) >> FRACTION_BITS)
}
