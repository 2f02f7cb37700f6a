//! The six latencies of a transaction, each in a histogram of fixed range.

use std::collections::BTreeMap;
use std::fmt;

use hdrhistogram::Histogram;
use pacing::Nanos;
use serde::{Deserialize, Serialize, Serializer};

/// The highest value a histogram holds: one hour. A higher one is counted as one hour and as
/// clamped; mean and maximum stay exact.
pub const HIGHEST: Nanos = Nanos::from_nanos(3_600_000_000_000);

/// Significant decimal digits of every histogram: a quantile is within 0.1 % of the truth.
pub const SIGNIFICANT_DIGITS: u8 = 3;

/// Defines the latencies from one list: the enumeration of them, and the figures of each under its
/// name.
macro_rules! latencies {
    ($($(#[$doc:meta])* $kind:ident $name:ident,)*) => {
        /// Which latency.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum LatencyKind {
            $($(#[$doc])* $kind,)*
        }

        impl LatencyKind {
            /// Every latency, in the order of reports.
            pub const ALL: [Self; [$(stringify!($name)),*].len()] = [$(Self::$kind),*];

            /// The name in the files of a run.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($name),)*
                }
            }
        }

        /// The figures of every latency.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        pub struct Latencies {
            $($(#[$doc])* pub $name: Quantiles,)*
        }

        impl Latencies {
            /// The figures of one of them.
            #[must_use]
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
#[derive(Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
    sum_ns: u128,
    max_ns: u64,
    clamped: u64,
}

impl Latency {
    /// An empty one.
    #[must_use]
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
    pub(crate) fn record_n(&mut self, value: Nanos, times: u64) {
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
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// The exact sum in seconds.
    #[must_use]
    pub fn sum_s(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// How many values were above [`HIGHEST`].
    #[must_use]
    pub const fn clamped(&self) -> u64 {
        self.clamped
    }

    /// The value at `quantile` (0 to 1), within 0.1 %, never above the maximum; `None` while empty.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        (!self.is_empty())
            .then(|| self.histogram.value_at_quantile(quantile).min(self.max_ns))
            .map(Nanos::from_nanos)
    }

    /// The exact maximum; `None` while empty.
    #[must_use]
    pub fn max(&self) -> Option<Nanos> {
        (!self.is_empty()).then_some(Nanos::from_nanos(self.max_ns))
    }

    /// The histogram itself, in nanoseconds.
    #[must_use]
    pub const fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// The figures of a report. `censored` holds the ages of the observations that had not ended:
    /// each of them came to at least its age. A figure that they can raise is that of all values
    /// with the ages among them, and in [`Quantiles::at_least`].
    #[must_use]
    pub fn quantiles(&self, censored: &Self) -> Quantiles {
        let mut all = self.clone();
        all.merge(censored);
        let mut at_least = BTreeMap::new();
        let mut at = |name: &str, quantile: f64| {
            let low = all.quantile(quantile)?.as_nanos();
            let high = self.highest(quantile, all.count());
            let is_exact = |high: Nanos| high.as_nanos() <= low + low / 1_000;
            let high_ms = high.map(Nanos::as_millis_f64);
            if high.is_some_and(is_exact) {
                return high_ms;
            }
            at_least.insert(name.to_owned(), high_ms);
            let lowest = all.histogram.lowest_equivalent(low);
            Some(Nanos::from_nanos(lowest).as_millis_f64())
        };
        let mut quantiles = Quantiles {
            p50: at("p50", 0.50),
            p68: at("p68", 0.68),
            p95: at("p95", 0.95),
            p99: at("p99", 0.99),
            p99_7: at("p99_7", 0.997),
            max: all.max().map(Nanos::as_millis_f64),
            mean: (!all.is_empty()).then(|| all.sum_ns as f64 / all.count() as f64 / 1e6),
            count: self.count(),
            clamped: self.clamped,
            censored: censored.count(),
            at_least,
        };
        if !censored.is_empty() {
            let unlimited = ["max", "mean"].map(|name| (name.to_owned(), None));
            quantiles.at_least.extend(unlimited);
        }
        quantiles
    }

    /// The highest that a quantile of `total` values can be of which these are known; `None` when one
    /// of the others may be it.
    fn highest(&self, quantile: f64, total: u64) -> Option<Nanos> {
        let rank = (quantile * total as f64).ceil().max(1.0);
        let known = self.count() as f64;
        // In the middle between two ranks no rounding changes the rank.
        let quantile = || self.quantile((rank - 0.5) / known);
        (rank <= known).then(quantile)?
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

/// The quantiles of one latency, in milliseconds; all empty when nothing was recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50: Option<f64>,
    /// 68 % (one standard deviation of a normal distribution, as BEP-23 reports).
    pub p68: Option<f64>,
    /// 95 %.
    pub p95: Option<f64>,
    /// 99 %.
    pub p99: Option<f64>,
    /// 99.7 % (three standard deviations, as BEP-23 reports).
    pub p99_7: Option<f64>,
    /// Exact maximum.
    pub max: Option<f64>,
    /// Exact mean.
    pub mean: Option<f64>,
    /// Number of values.
    pub count: u64,
    /// Values above one hour: they count as one hour in the quantiles.
    pub clamped: u64,
    /// Observations that had not ended when the run did: unanswered, pending, failed without an
    /// answer, unsent. Each came to at least its age, and is none of `count`.
    #[serde(default)]
    pub censored: u64,
    /// The figures that those can raise: each of them is a lower bound. With the highest that it can
    /// become, in milliseconds, or `None` where nothing limits it.
    #[serde(default)]
    pub at_least: BTreeMap<String, Option<f64>>,
}

/// One of the [`Quantiles`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyFigure {
    /// The figure; when it is a lower bound, the lowest that it can be.
    pub millis: f64,
    /// The highest that it can be; `None` without limit.
    pub at_most: Option<f64>,
}

impl LatencyFigure {
    /// Whether it is a lower bound: observations that had not ended can raise it.
    #[must_use]
    pub fn is_lower_bound(&self) -> bool {
        self.at_most != Some(self.millis)
    }
}

/// As its number alone.
impl Serialize for LatencyFigure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.millis)
    }
}

impl Quantiles {
    /// What the figures are called in `summary.json`.
    pub const NAMES: [&str; 7] = ["p50", "p68", "p95", "p99", "p99_7", "max", "mean"];

    /// One of [`NAMES`](Self::NAMES); `None` when nothing was observed.
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<LatencyFigure> {
        let figures = [
            self.p50, self.p68, self.p95, self.p99, self.p99_7, self.max, self.mean,
        ];
        let mut named = Self::NAMES.into_iter().zip(figures);
        let millis = named.find(|(known, _)| *known == name)?.1?;
        let at_most = match self.at_least.get(name) {
            Some(highest) => *highest,
            None => Some(millis),
        };
        Some(LatencyFigure { millis, at_most })
    }
}

/// The six latencies together: 1.6 MB.
#[derive(Debug, Clone, Default)]
pub struct LatencySet {
    latencies: [Latency; LatencyKind::ALL.len()],
}

impl LatencySet {
    /// Six empty ones.
    #[must_use]
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
    #[must_use]
    pub const fn of(&self, kind: LatencyKind) -> &Latency {
        &self.latencies[kind as usize]
    }

    /// One of the six, to be added to.
    pub const fn of_mut(&mut self, kind: LatencyKind) -> &mut Latency {
        &mut self.latencies[kind as usize]
    }

    /// The figures of a report; `censored` holds the ages of what had not ended.
    #[must_use]
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

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.latencies.iter_mut().for_each(Latency::clear);
    }

    /// Bytes held by the counters.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.latencies
            .iter()
            .map(|latency| latency.histogram.distinct_values() * size_of::<u64>())
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn recorded(values: &[u64]) -> Latency {
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
    fn an_empty_one_has_no_figures() {
        let none = Latency::new();
        assert_eq!(none.quantiles(&none), Quantiles::default());
    }

    #[test]
    fn a_few_unfinished_that_are_older_than_the_median_leave_it_exact() {
        let known = recorded(&(1..=1_000).map(|ms| ms * 1_000_000).collect::<Vec<u64>>());
        let all = known.quantiles(&recorded(&[2_000_000_000; 20]));
        let median = all.figure("p50").unwrap();
        assert!(!median.is_lower_bound());
        assert!((median.millis - 510.0).abs() < 0.6, "{median:?}");
        for name in ["p99", "p99_7", "max", "mean"] {
            let figure = all.figure(name).unwrap();
            assert_eq!(figure.at_most, None, "{name}");
        }
        assert_eq!((all.count, all.censored), (1_000, 20));
        assert_eq!(all.max, Some(2_000.0));
    }

    #[test]
    fn where_the_unfinished_are_young_the_figure_has_a_lowest_and_a_highest() {
        let known = recorded(&(1..=1_000).map(|ms| ms * 1_000_000).collect::<Vec<u64>>());
        let figure = known
            .quantiles(&recorded(&[1_000; 100]))
            .figure("p50")
            .unwrap();
        assert!(figure.is_lower_bound());
        assert!((figure.millis - 450.0).abs() < 0.6, "{figure:?}");
        assert!((figure.at_most.unwrap() - 550.0).abs() < 0.6, "{figure:?}");
    }

    #[test]
    fn where_nothing_ended_every_figure_is_a_lower_bound() {
        let all = Latency::new().quantiles(&recorded(&[3_000_000_000; 5]));
        assert_eq!((all.count, all.censored, all.at_least.len()), (0, 5, 7));
        assert!((all.p50.unwrap() - 3_000.0).abs() < 3.0);
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

        /// Whatever the unfinished come to, every figure lies where it was said to lie.
        #[test]
        fn no_completion_of_the_censored_contradicts_a_figure(
            known in vec(1..3_000_000_000_u64, 0..200),
            unfinished in vec((1..3_000_000_000_u64, prop_oneof![Just(0), 0..9_000_000_000_u64]), 0..60),
        ) {
            let ages: Vec<u64> = unfinished.iter().map(|(age, _)| *age).collect();
            let said = recorded(&known).quantiles(&recorded(&ages));
            prop_assert_eq!((said.count, said.censored), (known.len() as u64, ages.len() as u64));
            let mut all = known.clone();
            all.extend(unfinished.iter().map(|(age, more)| age + more));
            all.sort_unstable();
            let Some(last) = all.last() else { return Ok(()) };
            let rank = |share: f64| all[((share * all.len() as f64).ceil() as usize).max(1) - 1];
            let mean = all.iter().sum::<u64>() / all.len() as u64;
            let truths = [rank(0.5), rank(0.68), rank(0.95), rank(0.99), rank(0.997), *last, mean];
            for (name, truth) in Quantiles::NAMES.into_iter().zip(truths) {
                let figure = said.figure(name).unwrap();
                let truth_ms = truth as f64 / 1e6;
                // Two classes of the histogram for what is called exact, none for a lower bound; the
                // truth of the mean is cut to whole nanoseconds here.
                let slack = if figure.is_lower_bound() { 1e-6 } else { truth_ms * 2.1e-3 + 1e-6 };
                prop_assert!(figure.millis <= truth_ms + slack, "{} {:?} {}", name, figure, truth_ms);
                let most = figure.at_most.unwrap_or(f64::INFINITY);
                prop_assert!(most >= truth_ms * 0.999, "{} {:?} {}", name, figure, truth_ms);
            }
            if ages.is_empty() {
                prop_assert!(said.at_least.is_empty());
            }
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
}
