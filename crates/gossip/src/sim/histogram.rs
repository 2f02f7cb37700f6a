//! Latencies, in buckets of 6 %.

use std::fmt;

use pacing::Nanos;

/// Counts of durations: 16 buckets for each power of two of nanoseconds.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
}

const PER_OCTAVE_BITS: u32 = 4;
const BUCKETS: usize = 64 << PER_OCTAVE_BITS;

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: vec![0; BUCKETS],
            count: 0,
        }
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (median, p99) = (self.quantile(0.5), self.quantile(0.99));
        write!(f, "{} durations, p50 {median:?}, p99 {p99:?}", self.count)
    }
}

impl Histogram {
    pub(super) fn record(&mut self, duration: Nanos) {
        self.buckets[bucket(duration.as_nanos())] += 1;
        self.count += 1;
    }

    /// How many durations there are.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The duration that a share of 0 to 1 of them does not exceed, by up to 6 % too long; none of none.
    pub fn quantile(&self, share: f64) -> Option<Nanos> {
        let wanted = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let found = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted && seen > 0
        })?;
        Some(Nanos::new(end_of(found)))
    }
}

fn bucket(nanos: u64) -> usize {
    let octave = nanos.max(1).ilog2();
    if octave < PER_OCTAVE_BITS {
        return nanos as usize;
    }
    let fraction = (nanos >> (octave - PER_OCTAVE_BITS)) as usize - (1 << PER_OCTAVE_BITS);
    ((octave - PER_OCTAVE_BITS + 1) << PER_OCTAVE_BITS) as usize + fraction
}

/// The longest duration of a bucket.
fn end_of(bucket: usize) -> u64 {
    let (octave, fraction) = (
        bucket >> PER_OCTAVE_BITS,
        bucket & ((1 << PER_OCTAVE_BITS) - 1),
    );
    match octave {
        0 => fraction as u64,
        _ => ((((1 << PER_OCTAVE_BITS) + fraction + 1) as u64) << (octave - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_at_most_a_sixteenth_too_long() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        for nanos in 1..=100_000 {
            histogram.record(Nanos::new(nanos));
        }
        for share in [0.01, 0.5, 0.99, 1.0] {
            let exact = share * 100_000.0;
            let found = histogram.quantile(share).unwrap().as_nanos() as f64;
            assert!(
                found >= exact && found <= exact * 17.0 / 16.0,
                "{share}: {found}"
            );
        }
    }
}
