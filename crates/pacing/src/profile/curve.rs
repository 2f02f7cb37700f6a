//! Areas of smooth rates (exponential, sine) in integers: a table of cubic arcs.
//!
//! **Method.** The length T is cut into M = 2^m equal segments. At each knot the area and the rate are
//! computed from their closed forms in `f64`, with the functions of the crate `libm`, whose results
//! are the same on every machine. Between two knots the area is the cubic that has the true areas and the true rates at both of them, in
//! Bézier form: with h = T/M, control values `0, rate·h/3, S - next_rate·h/3, S` above the knot's
//! area, where S is the segment's area. It is evaluated by de Casteljau's scheme: three rounds of
//! `a + (b - a)·w`, each rounded down.
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
//! `h⁴·max|rate'''|/384` (the error of Hermite interpolation). Shapes choose M so that this is at
//! most 1/1024 transaction ([`segments_for`]). The position `w` has 46 bits and is up to two units
//! low; a segment's area S is at most 2^81 units and the cubic's slope at most 3·S, so that this
//! makes at most 6·2^35 units, 0.0003 transactions. Rounding makes a few units. The closed forms are off
//! by less than 10⁻¹⁴ of the area. Together: less than 0.002 transactions and 10⁻¹⁴ of the area at every
//! instant, which is less than one transaction for the longest and fastest profile there is: a
//! count is the integral's ±1 (`tests/it/smooth.rs` holds it against 120 fractional bits).

use super::bisect::last_where;
use crate::float::float;

/// The area under a smooth rate over a fixed length of time.
#[derive(Debug)]
pub(crate) struct Curve {
    length: u64,
    /// Segments and their fractions per nanosecond: 2^(m + 46 + 64) / length.
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
    /// The rate here in millionths per second.
    pub(super) rate: f64,
}

/// The area at an instant, and what it takes to look ahead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// The area up to the instant.
    pub(crate) area: u128,
    /// About how much area the next nanosecond adds.
    pub(crate) slope: f64,
}

/// Bits of a position within its segment.
const FRACTION_BITS: u32 = 46;
/// The least and the greatest m.
const SEGMENT_BITS: std::ops::RangeInclusive<u32> = 6..=17;
/// The most area a segment may have.
const SEGMENT_AREA: f64 = (1_u128 << 81) as f64;
/// How far a cubic may be off, in transactions.
const CUBIC_ERROR: f64 = 1.0 / 1024.0;

/// How many segments (as a power of two) keep the cubic's error at most 1/1024 transaction and a
/// segment's area within bounds.
///
/// `whole_error` is the error in transactions that a single segment would have,
/// `T⁴·max|rate'''|/384`; M segments have M⁴ times less. `greatest_area` bounds peak rate times T.
pub(super) fn segments_for(whole_error: f64, greatest_area: f64) -> u32 {
    let enough = |bits: u32| {
        let segments = f64::from(1_u32 << bits);
        whole_error <= CUBIC_ERROR * segments.powi(4) && greatest_area <= SEGMENT_AREA * segments
    };
    // The longest and fastest profile there is needs 17 bits (tested).
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
        let third_segment = length as f64 / (3 * segments) as f64;
        let third = |rate: f64| (rate * third_segment) as u128;
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
        // Below 2^(m + 110) <= 2^127, as t < length.
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

/// The value `w / 2^46` of the way from `a` to `b`, for `a <= b < 2^82`, rounded down.
#[inline]
fn between(a: u128, b: u128, w: u64) -> u128 {
    a + (((b - a) * u128::from(w)) >> FRACTION_BITS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_fastest_and_longest_fit() {
        let transactions = 1e7 * 366.0 * 86_400.0;
        let area = transactions * 1e15;
        // From the lowest rate to the highest there are ln(10^13) e-folds.
        let exponential = transactions * 1e13_f64.ln().powi(3) / 384.0;
        let sine = transactions / 2.0 * std::f64::consts::TAU.powi(3) / 384.0;
        for whole_error in [exponential, sine] {
            let segments = f64::from(1_u32 << segments_for(whole_error, area));
            assert!(whole_error / segments.powi(4) <= CUBIC_ERROR);
            assert!(area / segments <= SEGMENT_AREA);
        }
        assert_eq!(segments_for(0.0, 0.0), 6);
    }

    proptest! {
        /// Whatever a knot says, even nonsense: the area never falls and ends at the last knot's.
        #[test]
        fn never_falls(
            length in prop_oneof![1_u64..1_000, 1_u64..1 << 54],
            knots in prop::collection::vec((0..1_u128 << 80, prop::num::f64::ANY), 65),
            part in 0.0_f64..1.0,
        ) {
            let curve = Curve::new(length, 6, |k| {
                let area = knots[..=k as usize].iter().skip(1).map(|knot| knot.0).sum();
                Knot { area, rate: knots[k as usize].1 }
            });
            let first = (length as f64 * part) as u64;
            let mut before = curve.area(first);
            for t in first..first.saturating_add(100) {
                let area = curve.area(t);
                prop_assert!(area >= before);
                before = area;
            }
            prop_assert_eq!(curve.area(0), 0);
            prop_assert_eq!(curve.area(length), curve.total());
        }

        #[test]
        fn inverts(seed in 0..1_u128 << 80, length in 1_u64..1 << 54) {
            let slope = seed / 64;
            let rate = slope as f64 * 64.0 / length as f64;
            let curve = Curve::new(length, 6, |k| Knot { area: slope * u128::from(k), rate });
            prop_assume!(curve.total() > 0);
            let area = seed % curve.total();
            let at = curve.invert(area);
            prop_assert!(curve.area(at) <= area && curve.area(at + 1) > area);
        }
    }
}
