//! The six latencies of a transaction, each in a histogram of fixed range.

mod quantiles;

use std::fmt;

use hdrhistogram::Histogram;
use pacing::Nanos;
use serde::{Deserialize, Serialize};

pub(crate) use self::quantiles::without_own;
pub use self::quantiles::{LatencyFigure, Quantiles};
use super::counts::{Late, adds_up};

/// The highest value a histogram holds: one hour. A higher one is counted as one hour and as
/// clamped; mean and maximum stay exact.
pub const HIGHEST: Nanos = Nanos::from_nanos(3_600_000_000_000);

/// Significant decimal digits of every histogram: a quantile is within 0.1 % of the truth.
pub const SIGNIFICANT_DIGITS: u8 = 3;

/// Defines the latencies from one list: the enumeration of them, and the figures of each under its
/// name.
macro_rules! latencies {
    ($($(#[$doc:meta])* $kind:ident $name:ident,)*) => {
        base::named! {
            /// Which latency.
            pub enum LatencyKind {
                $($(#[$doc])* $kind => stringify!($name),)*
            }
        }

        /// The figures of every latency.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        pub struct Latencies {
            $($(#[$doc])* pub $name: Quantiles,)*
        }

        impl Latencies {
            /// The figures of one of them.
            pub const fn of(&self, kind: LatencyKind) -> &Quantiles {
                match kind {
                    $(LatencyKind::$kind => &self.$name,)*
                }
            }

            /// The figures of one of them, to be filled in.
            pub(crate) const fn of_mut(&mut self, kind: LatencyKind) -> &mut Quantiles {
                match kind {
                    $(LatencyKind::$kind => &mut self.$name,)*
                }
            }
        }
    };
}

impl Latencies {
    /// Notes what of the latencies from due may be the generator's own lateness: all of the lateness, where it kept
    /// anything back.
    pub(crate) fn resolve(&mut self, late: &Late) {
        let own_ms = self.lateness.max.map_or(0.0, |most| late.own_ms(most));
        self.accept_response.resolve(&self.accept_service, own_ms);
        self.commit_from_due.resolve(&self.commit_from_sent, own_ms);
    }
}

latencies! {
    /// sent − due.
    Lateness lateness,
    /// accepted − due.
    AcceptResponse accept_response,
    /// accepted − sent.
    AcceptService accept_service,
    /// committed − due.
    CommitFromDue commit_from_due,
    /// committed − sent.
    CommitFromSent commit_from_sent,
    /// committed − accepted (BEP-23's "finalize").
    CommitFromAccepted commit_from_accepted,
}

/// One latency: a histogram in nanoseconds, beside its exact sum and maximum.
///
/// Takes 264 KiB: 33 × 1,024 counters of eight bytes for 1 ns to one hour with three digits.
#[derive(Clone, PartialEq)]
pub struct Latency {
    histogram: Histogram<u64>,
    sum_ns: u128,
    max_ns: u64,
    clamped: u64,
}

impl Latency {
    /// An empty one.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, HIGHEST.as_nanos(), SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that the crate accepts");
        Self {
            histogram,
            sum_ns: 0,
            max_ns: 0,
            clamped: 0,
        }
    }

    /// Counts one value.
    pub fn record(&mut self, value: Nanos) {
        self.record_n(value, 1);
    }

    /// Counts a value `times` times.
    pub fn record_n(&mut self, value: Nanos, times: u64) {
        if times == 0 {
            return;
        }
        let value = value.as_nanos();
        self.sum_ns += u128::from(value) * u128::from(times);
        self.max_ns = self.max_ns.max(value);
        if value > HIGHEST.as_nanos() {
            self.clamped += times;
        }
        self.histogram
            .saturating_record_n(value.min(HIGHEST.as_nanos()), times);
    }

    /// Adds every value of `other`; the same as if they had been recorded here.
    pub fn merge(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.histogram
            .add(&other.histogram)
            .expect("both have the same bounds");
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.clamped += other.clamped;
    }

    /// Adds the values of a histogram whose exact maximum is known; `None` when they are out of
    /// range. The sum is the histogram's.
    pub(crate) fn absorb(&mut self, histogram: &Histogram<u64>, max_ns: u64) -> Option<()> {
        let in_range = histogram.max() <= self.histogram.high().saturating_mul(2)
            && self.histogram.add(histogram).is_ok();
        in_range.then_some(())?;
        self.sum_ns += (histogram.mean() * histogram.len() as f64) as u128;
        self.max_ns = self.max_ns.max(max_ns);
        self.clamped += u64::from(max_ns > HIGHEST.as_nanos());
        Some(())
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        if self.is_empty() {
            return;
        }
        self.histogram.reset();
        self.sum_ns = 0;
        self.max_ns = 0;
        self.clamped = 0;
    }

    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// The exact sum in seconds.
    pub fn sum_s(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// How many values were above [`HIGHEST`].
    pub const fn clamped(&self) -> u64 {
        self.clamped
    }

    /// The value at `quantile` (0 to 1), within 0.1 %, never above the maximum; `None` while empty.
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        (!self.is_empty())
            .then(|| self.histogram.value_at_quantile(quantile).min(self.max_ns))
            .map(Nanos::from_nanos)
    }

    /// The exact maximum; `None` while empty.
    pub fn max(&self) -> Option<Nanos> {
        (!self.is_empty()).then_some(Nanos::from_nanos(self.max_ns))
    }

    /// The histogram itself, in nanoseconds.
    pub const fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latency")
            .field("count", &self.count())
            .field("max_ns", &self.max_ns)
            .field("clamped", &self.clamped)
            .finish_non_exhaustive()
    }
}

/// The six latencies together: 1.6 MB.
#[derive(Debug, Clone, Default)]
pub struct LatencySet {
    latencies: [Latency; LatencyKind::ALL.len()],
}

impl LatencySet {
    /// Six empty ones.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one value.
    pub fn record(&mut self, kind: LatencyKind, value: Nanos) {
        self.latencies[kind as usize].record(value);
    }

    /// Counts a value `times` times.
    pub(crate) fn record_n(&mut self, kind: LatencyKind, value: Nanos, times: u64) {
        self.latencies[kind as usize].record_n(value, times);
    }

    /// One of the six.
    pub const fn of(&self, kind: LatencyKind) -> &Latency {
        &self.latencies[kind as usize]
    }

    /// One of the six, to be added to.
    pub const fn of_mut(&mut self, kind: LatencyKind) -> &mut Latency {
        &mut self.latencies[kind as usize]
    }

    /// The figures of a report; `censored` holds the ages of what had not ended.
    pub fn summary(&self, censored: &Self) -> Latencies {
        let mut figures = Latencies::default();
        for kind in LatencyKind::ALL {
            *figures.of_mut(kind) = self.of(kind).quantiles(censored.of(kind));
        }
        figures
    }

    /// Adds every value of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.latencies.iter_mut().zip(&other.latencies) {
            mine.merge(theirs);
        }
    }

    /// Adds every value of `other`, which is not used any more before it is [cleared](Self::clear): where nothing is to be
    /// added to, the memory changes hands.
    pub(crate) fn take(&mut self, other: &mut Self) {
        for (mine, theirs) in self.latencies.iter_mut().zip(&mut other.latencies) {
            if mine.is_empty() {
                std::mem::swap(mine, theirs);
            } else {
                mine.merge(theirs);
            }
        }
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.latencies.iter_mut().for_each(Latency::clear);
    }

    /// Bytes held by the counters.
    pub fn bytes(&self) -> usize {
        self.latencies
            .iter()
            .map(|latency| latency.histogram.distinct_values() * size_of::<u64>())
            .sum()
    }
}

/// Upper bounds of the classes in seconds; the last class has none. From a tenth of a millisecond (an
/// answer on loopback) to a minute (the default time to drain, twice).
pub const BUCKET_BOUNDS_S: [f64; 18] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0, 60.0,
];

/// One latency in classes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Buckets {
    /// Values of each class, those of the classes before it left out.
    pub counts: [u64; BUCKET_BOUNDS_S.len() + 1],
    /// Exact sum of all values, in seconds.
    pub sum_s: f64,
}

impl Buckets {
    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds every value of `latency`, each within the 0.1 % of its histogram.
    fn add(&mut self, latency: &Latency) {
        let mut class = 0;
        for recorded in latency.histogram().iter_recorded() {
            let seconds = recorded.value_iterated_to() as f64 / 1e9;
            while class < BUCKET_BOUNDS_S.len() && seconds > BUCKET_BOUNDS_S[class] * PRECISION {
                class += 1;
            }
            self.counts[class] += recorded.count_since_last_iteration();
        }
        self.sum_s += latency.sum_s();
    }
}

adds_up!(Buckets { sum: counts, sum_s });

/// The six latencies in classes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LatencyBuckets {
    latencies: [Buckets; LatencyKind::ALL.len()],
}

adds_up!(LatencyBuckets { sum: latencies });

impl LatencyBuckets {
    /// One of the six.
    pub const fn of(&self, kind: LatencyKind) -> &Buckets {
        &self.latencies[kind as usize]
    }

    /// Adds every value of `latencies`.
    pub(crate) fn add(&mut self, latencies: &LatencySet) {
        for kind in LatencyKind::ALL {
            self.latencies[kind as usize].add(latencies.of(kind));
        }
    }
}

/// A value that equals a bound is up to 0.1 % above it in the histogram.
const PRECISION: f64 = 1.001;

#[cfg(test)]
mod tests {
    use pacing::Nanos;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::format::counts::AddUp as _;

    pub(super) fn recorded(values: &[u64]) -> Latency {
        let mut latency = Latency::new();
        for &value in values {
            latency.record(Nanos::from_nanos(value));
        }
        latency
    }

    #[test]
    fn values_above_the_range_are_clamped_and_counted_and_stay_in_mean_and_maximum() {
        let two_hours = 2 * HIGHEST.as_nanos();
        let latency = recorded(&[1_000, two_hours]);
        assert_eq!((latency.count(), latency.clamped()), (2, 1));
        assert_eq!(latency.max(), Some(Nanos::from_nanos(two_hours)));
        let quantiles = latency.quantiles(&Latency::new());
        assert_eq!(quantiles.max, Some(7_200_000.0));
        assert!((quantiles.mean.unwrap() - 3_600_000.000_5).abs() < 1e-3);
        assert!(latency.quantile(1.0).unwrap().as_secs_f64() < 3_604.0);
    }

    #[test]
    fn one_of_them_takes_264_kibibytes() {
        assert_eq!(LatencySet::new().bytes(), 6 * 264 * 1024);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn merged_equals_recorded_together(
            parts in vec(vec(0..5_000_000_000_000_u64, 0..50), 1..6),
        ) {
            let mut merged = Latency::new();
            for part in &parts {
                merged.merge(&recorded(part));
            }
            let together = recorded(&parts.concat());
            prop_assert_eq!(merged.histogram(), together.histogram());
            let none = Latency::new();
            prop_assert_eq!(merged.quantiles(&none), together.quantiles(&none));
            merged.clear();
            prop_assert_eq!(merged.quantiles(&none), Quantiles::default());
        }

        #[test]
        fn quantiles_are_within_a_thousandth(mut values in vec(1..3_000_000_000_000_u64, 1..200)) {
            let latency = recorded(&values);
            values.sort_unstable();
            for (quantile, at) in [(0.5, values.len().div_ceil(2) - 1), (1.0, values.len() - 1)] {
                let exact = values[at] as f64;
                let found = latency.quantile(quantile).unwrap().as_nanos() as f64;
                prop_assert!((found - exact).abs() <= exact * 1e-3, "{} {}", found, exact);
            }
        }
    }

    #[test]
    fn every_value_is_in_the_class_of_its_bound() {
        let mut set = LatencySet::new();
        for micros in [50, 100, 101, 1_000, 2_000, 59_000_000, 61_000_000] {
            set.record(LatencyKind::Lateness, Nanos::from_micros(micros));
        }
        let mut buckets = LatencyBuckets::default();
        buckets.add(&set);
        buckets.add(&set);
        let lateness = buckets.of(LatencyKind::Lateness);
        let of = |bound: f64| {
            let class = BUCKET_BOUNDS_S.iter().position(|b| *b == bound).unwrap();
            lateness.counts[class]
        };
        assert_eq!(of(0.000_1), 4);
        assert_eq!(of(0.000_25), 2);
        assert_eq!(of(0.001), 2);
        assert_eq!(of(0.002_5), 2);
        assert_eq!(of(60.0), 2);
        assert_eq!(lateness.counts[BUCKET_BOUNDS_S.len()], 2);
        assert_eq!(lateness.count(), 14);
        assert!((lateness.sum_s - 2.0 * 120.003_251).abs() < 1e-9);
        assert_eq!(buckets.of(LatencyKind::CommitFromDue), &Buckets::default());
        let once = buckets;
        buckets.add_up(&once);
        assert_eq!(buckets.of(LatencyKind::Lateness).count(), 28);
    }
}
