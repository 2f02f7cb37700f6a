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

/// One value for each second of a run: four bytes a second.
#[derive(Debug, Clone, Default)]
pub(crate) struct PerSecond {
    values: Vec<u32>,
}

impl PerSecond {
    pub(crate) fn push(&mut self, value: u64) {
        self.values.push(u32::try_from(value).unwrap_or(u32::MAX));
    }

    /// Statistics of the values with an index in `seconds`; `None` when there are none.
    pub(crate) fn stats(&self, seconds: std::ops::Range<usize>) -> Option<RateStats> {
        let end = seconds.end.min(self.values.len());
        let values = self.values.get(seconds.start..end)?;
        if values.is_empty() {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / count;
        let variance = values
            .iter()
            .map(|&v| (f64::from(v) - mean).powi(2))
            .sum::<f64>()
            / count;
        Some(RateStats {
            mean,
            median: median(values.to_vec()),
            stddev: variance.sqrt(),
            max: f64::from(values.iter().copied().max().unwrap_or(0)),
            seconds: values.len() as u64,
        })
    }
}

fn median(mut values: Vec<u32>) -> f64 {
    values.sort_unstable();
    let upper = f64::from(values[values.len() / 2]);
    let lower = f64::from(values[(values.len() - 1) / 2]);
    f64::midpoint(lower, upper)
}
