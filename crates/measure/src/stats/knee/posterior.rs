//! The probability distribution of the knee and of the noise of the trials.

use super::spread::Spread;

/// A distribution over the logarithm of the knee and the width of the region in which trials go
/// either way, on a grid.
#[derive(Debug, Clone)]
pub(super) struct Posterior {
    /// Natural logarithm of the first knee of the grid.
    start: f64,
    /// Log-likelihood for each width and each knee, which are all as likely before the first trial.
    rows: [Vec<f64>; WIDTHS.len()],
    /// Logarithms of the lowest and the highest rate that was tried.
    tried: Option<(f64, f64)>,
}

impl Posterior {
    /// Every knee from somewhat below `min` to somewhat above `max` is as likely, per factor.
    pub(super) fn new(min: f64, max: f64) -> Self {
        let start = (min / MARGIN).ln();
        let steps = ((max * MARGIN).ln() - start) / STEP;
        let knees = steps.ceil() as usize + 1;
        Self {
            start,
            rows: WIDTHS.map(|_| vec![0.0; knees]),
            tried: None,
        }
    }

    /// A trial at `rate` held or broke.
    pub(super) fn add(&mut self, rate: f64, held: bool) {
        let rate = rate.ln();
        let (low, high) = self.tried.unwrap_or((rate, rate));
        self.tried = Some((low.min(rate), high.max(rate)));
        for (row, width) in self.rows.iter_mut().zip(WIDTHS) {
            for (knee, belief) in (0_u32..).zip(row) {
                let distance = (rate - (self.start + f64::from(knee) * STEP)) / width;
                let holds = CHANCE + (1.0 - 2.0 * CHANCE) / (1.0 + distance.exp());
                *belief += if held { holds } else { 1.0 - holds }.ln();
            }
        }
    }

    /// The knees below which these shares of the belief lie; the shares must ascend. What lies far
    /// from everything tried is left out: one trial that broke by chance would let the knee be
    /// anywhere above it. `spread` says more about the widths.
    pub(super) fn quantiles<const N: usize>(&self, shares: [f64; N], spread: &Spread) -> [f64; N] {
        let of_width = WIDTHS.map(|width| spread.log_likelihood(width * DEVIATION));
        let rows = || self.rows.iter().zip(of_width);
        let top = rows()
            .flat_map(|(row, of_width)| row.iter().map(move |belief| belief + of_width))
            .fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        let sums: Vec<f64> = (0..self.rows[0].len())
            .map(|knee| {
                if self.is_near(knee) {
                    sum += rows()
                        .map(|(row, of_width)| (row[knee] + of_width - top).exp())
                        .sum::<f64>();
                }
                sum
            })
            .collect();
        shares.map(|share| {
            let knee = sums.partition_point(|below| *below < share * sum);
            (self.start + knee as f64 * STEP).exp()
        })
    }
}

impl Posterior {
    /// Whether the knee with this number is within a factor of what was tried.
    fn is_near(&self, knee: usize) -> bool {
        let knee = self.start + knee as f64 * STEP;
        self.tried
            .is_none_or(|(low, high)| (low - BEYOND.ln()..=high + BEYOND.ln()).contains(&knee))
    }
}

/// Widths of the region in which trials go either way, as factors' logarithms: half a percent to
/// sixteen, each by the root of 2 wider than the one before.
const WIDTHS: [f64; 11] = [
    0.005, 0.007, 0.01, 0.014, 0.02, 0.028, 0.04, 0.056, 0.08, 0.113, 0.16,
];
/// The standard deviation of a logistic distribution of width 1: π/√3.
const DEVIATION: f64 = 1.8138;
/// How often a trial ends one way or the other by mere chance.
const CHANCE: f64 = 0.01;
/// Distance of the grid's knees: 0.4 %.
const STEP: f64 = 0.004;
/// A knee further than this factor from every trial is not believed in.
const BEYOND: f64 = 2.0;
/// The grid reaches this factor beyond the allowed rates.
const MARGIN: f64 = 2.0;
