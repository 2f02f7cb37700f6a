//! The noise of a target, from what it committed in the trials in which its backlog grew.

use super::{Finding, Trial};

/// How far the capacities that broken trials showed lie from a line over their rates: logarithms.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spread {
    /// Degrees of freedom; 0 with too few trials.
    freedom: f64,
    /// Sum of the squared distances.
    squares: f64,
}

impl Spread {
    /// Of the trials that broke at up to [`FAR`] times the lowest such rate. A target that commits less the
    /// more it is overloaded follows a falling line; that is no noise.
    pub(super) fn of(trials: &[Trial]) -> Self {
        let broken = || trials.iter().filter(|it| it.finding == Finding::Broken);
        let Some(lowest) = broken().map(|it| it.rate).reduce(f64::min) else {
            return Self::default();
        };
        let points: Vec<(f64, f64)> = broken()
            .filter(|it| it.rate <= lowest * FAR)
            .filter_map(|it| Some((it.rate.ln(), it.capacity_tps.filter(|tps| *tps > 0.0)?.ln())))
            .collect();
        if points.len() < MIN_TRIALS {
            return Self::default();
        }
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (mean_x, mean_y) = (mean(|(x, _)| *x), mean(|(_, y)| *y));
        let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        let products = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y));
        let slope = (products.sum::<f64>() / spread).min(0.0);
        let slope = if slope.is_finite() { slope } else { 0.0 };
        let distances = points
            .iter()
            .map(|(x, y)| y - mean_y - slope * (x - mean_x));
        Self {
            freedom: count - if slope < 0.0 { 2.0 } else { 1.0 },
            squares: TRUNCATED * distances.map(|it| it * it).sum::<f64>(),
        }
    }

    /// The logarithm of how likely this spread is for a standard deviation, but for a constant: that of the
    /// chi-squared distribution of a sum of squares.
    pub(super) fn log_likelihood(&self, deviation: f64) -> f64 {
        -self.freedom * deviation.ln() - self.squares / (2.0 * deviation * deviation)
    }
}

/// Trials at higher rates may have shown something else than the capacity.
const FAR: f64 = 1.5;
/// Two lie on a line whatever they are.
const MIN_TRIALS: usize = 3;
/// A trial breaks when its capacity is below its rate, so only that part of the distribution is seen. At the
/// knee it is a half, with 0.36 (1 − 2/π) of the variance; well above it is all. This makes up for
/// something in between, chosen so that noisy targets lie in nine of ten intervals.
const TRUNCATED: f64 = 2.0;
