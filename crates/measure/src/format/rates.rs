//! Statistics of per-second values.

use serde::{Deserialize, Serialize};

/// Mean, median, standard deviation and maximum of one value a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RateStats {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median; the mean of the middle two when there is an even number.
    pub median: f64,
    /// Standard deviation of these values (divided by their number).
    pub stddev: f64,
    /// Highest.
    pub max: f64,
    /// How many seconds.
    pub seconds: u64,
}

impl RateStats {
    /// Of one value for each second; `None` without any.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let max = *values.last()?;
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let (lower, upper) = ((values.len() - 1) / 2, values.len() / 2);
        Some(Self {
            mean,
            median: f64::midpoint(values[lower], values[upper]),
            stddev: (squares / count).sqrt(),
            max,
            seconds: values.len() as u64,
        })
    }
}

/// One value for each second of a run: four bytes a second.
#[derive(Debug, Clone, Default)]
pub(crate) struct PerSecond {
    values: Vec<u32>,
}

impl PerSecond {
    pub(crate) fn push(&mut self, value: u64) {
        self.values.push(u32::try_from(value).unwrap_or(u32::MAX));
    }

    /// The mean between two instants, of which the seconds at the edges count in part; `None` when they are one.
    pub(crate) fn rate(&self, from_s: f64, until_s: f64) -> Option<f64> {
        let seconds = (0_u32..).zip(&self.values);
        let within = seconds.map(|(second, value)| {
            let second = f64::from(second);
            let covered = (second + 1.0).min(until_s) - second.max(from_s);
            f64::from(*value) * covered.max(0.0)
        });
        (until_s > from_s).then(|| within.sum::<f64>() / (until_s - from_s))
    }

    /// Statistics of the values with an index in `seconds`; `None` when there are none.
    pub(crate) fn stats(&self, seconds: std::ops::Range<usize>) -> Option<RateStats> {
        let end = seconds.end.min(self.values.len());
        let values = self.values.get(seconds.start..end)?;
        RateStats::of(values.iter().map(|&value| f64::from(value)))
    }
}
