//! Latencies counted in a few fixed classes, for those who collect them from outside.

use crate::format::counts::adds_up;
use crate::format::latency::{Latency, LatencyKind, LatencySet};

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

    use super::*;
    use crate::format::counts::AddUp as _;

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
