//! What a report has of a latency: its quantiles, and which of them what had not ended could raise.

use std::collections::BTreeMap;

use pacing::Nanos;
use serde::{Deserialize, Serialize, Serializer};

use super::Latency;
use crate::limits::OWN_LATENESS_LIMIT;

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
    /// The figures of which more than a tenth may be the generator's own lateness: with the lowest that each can be
    /// without it, in milliseconds.
    #[serde(default)]
    pub without_own: BTreeMap<String, f64>,
}

/// One of the [`Quantiles`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyFigure {
    /// What it can be at least without the generator's own lateness, where much of it may be that.
    pub without_own: Option<f64>,
    /// The figure; when it is a lower bound, the lowest that it can be.
    pub millis: f64,
    /// The highest that it can be; `None` without limit.
    pub at_most: Option<f64>,
}

impl LatencyFigure {
    /// Whether it is a lower bound: observations that had not ended can raise it.
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
        Some(LatencyFigure {
            without_own: self.without_own.get(name).copied(),
            millis,
            at_most,
        })
    }

    /// Notes which figures may be the generator's own lateness in part, which is `own_ms` at most; `from_sent` are
    /// the figures of the same latency without any lateness.
    pub(crate) fn resolve(&mut self, from_sent: &Self, own_ms: f64) {
        let named = Self::NAMES.into_iter().filter_map(|name| {
            let figure = self.figure(name)?.millis;
            let from_sent = from_sent.figure(name).map(|sent| sent.millis);
            Some((name.to_owned(), without_own(figure, from_sent, own_ms)?))
        });
        self.without_own = named.collect();
    }
}

/// The lowest that a latency can be without the generator's own lateness, where that is not nearly the same: each of its
/// observations is longer by `own_ms` at most, and none is shorter than from the instant of sending.
pub(crate) fn without_own(figure: f64, from_sent: Option<f64>, own_ms: f64) -> Option<f64> {
    let lowest = f64::max(figure - own_ms, from_sent.unwrap_or(0.0)).min(figure);
    (lowest < (1.0 - OWN_LATENESS_LIMIT) * figure).then_some(lowest.max(0.0))
}

impl Latency {
    /// The figures of a report. `censored` holds the ages of the observations that had not ended:
    /// each of them came to at least its age. A figure that they can raise is that of all values
    /// with the ages among them, and in [`Quantiles::at_least`].
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
            without_own: BTreeMap::new(),
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::tests::recorded;
    use super::*;

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

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever the unfinished come to, every figure lies in its stated range.
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
    }
}
