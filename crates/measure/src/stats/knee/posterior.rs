//! The probability distribution of the knee and of the noise of the trials.

use super::{Finding, Trial};
use crate::limits::GROWTH_LIMIT;

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

    /// Takes a trial that held or broke. What a target commits varies from trial to trial around its knee. A trial that
    /// held shows that this was no less than its rate, but for the growth that counts as none; one that broke shows by
    /// how much it was less (a censored regression: Tobin, "Estimation of relationships for limited dependent variables",
    /// Econometrica 26, 1958).
    pub(super) fn add(&mut self, trial: &Trial) {
        let rate = trial.rate.ln();
        let (low, high) = self.tried.unwrap_or((rate, rate));
        self.tried = Some((low.min(rate), high.max(rate)));
        let shown = Shown::of(trial);
        for (row, width) in self.rows.iter_mut().zip(WIDTHS) {
            for (place, belief) in (0_u32..).zip(row) {
                let knee = self.start + f64::from(place) * STEP;
                *belief += shown.likelihood(knee, width).ln();
            }
        }
    }

    /// The knees below which these shares of the belief lie; the shares must ascend. What lies far
    /// from everything tried is left out: one trial that broke by chance would let the knee be
    /// anywhere above it.
    pub(super) fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [f64; N] {
        let beliefs = self.rows.iter().flatten();
        let top = beliefs.copied().fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        let sums: Vec<f64> = (0..self.rows[0].len())
            .map(|knee| {
                if self.is_near(knee) {
                    let beliefs = self.rows.iter().map(|row| (row[knee] - top).exp());
                    sum += beliefs.sum::<f64>();
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

/// What a trial shows of what its target took in it: natural logarithms.
#[derive(Debug, Clone, Copy)]
enum Shown {
    /// No less than this.
    AtLeast(f64),
    /// Less than this.
    Below(f64),
    /// Between the two: under a large overload a target may commit less than it could.
    Between(f64, f64),
    /// This, give or take the error that a logistic distribution of this width has.
    Exactly(f64, f64),
}

impl Shown {
    fn of(trial: &Trial) -> Self {
        let rate = (trial.rate * (1.0 - GROWTH_LIMIT)).ln();
        if trial.finding == Finding::Held {
            return Self::AtLeast(rate);
        }
        match trial.capacity_tps.filter(|tps| *tps > 0.0).map(f64::ln) {
            Some(capacity) if capacity >= rate => Self::Below(rate),
            Some(capacity) if rate - capacity <= FAR.ln() => {
                Self::Exactly(capacity, trial.error_tps / capacity.exp() / DEVIATION)
            }
            Some(capacity) => Self::Between(capacity, rate),
            None => Self::Below(rate),
        }
    }

    /// How likely this is for a knee, where what the target takes has a logistic distribution of this width.
    fn likelihood(self, knee: f64, width: f64) -> f64 {
        let within = |at: f64, width: f64| 1.0 / (1.0 + ((knee - at) / width).exp());
        let below = |at: f64| within(at, width);
        let chance = |share: f64| CHANCE + (1.0 - 2.0 * CHANCE) * share;
        match self {
            Self::AtLeast(rate) => chance(1.0 - below(rate)),
            Self::Below(rate) => chance(below(rate)),
            // What varies by the width lies on either side of what was seen.
            Self::Between(low, high) => chance(below(high) - below(low - 2.0 * width)),
            Self::Exactly(capacity, error) => {
                let width = width.hypot(error);
                let share = within(capacity, width);
                let density = share * (1.0 - share) / width;
                2.0 * CHANCE + (1.0 - 2.0 * CHANCE) * density
            }
        }
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
/// A target that is offered more than this factor of what it takes may take less than it could.
const FAR: f64 = 1.05;
