//! The probability distribution of the knee and of the noise of the trials.

use super::{Finding, Took, Trial};
use crate::limits::GROWTH_LIMIT;

/// A distribution over the logarithm of the knee, the width of the region in which trials go either way, and how
/// much a target loses when it is overloaded, on a grid.
#[derive(Debug, Clone)]
pub(super) struct Posterior {
    /// Natural logarithm of the first knee of the grid.
    start: f64,
    /// Log-likelihood for each target and each knee.
    rows: Vec<(Target, Vec<f64>)>,
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
            rows: Target::all()
                .map(|(target, likely)| (target, vec![likely.ln(); knees]))
                .collect(),
            tried: None,
        }
    }

    /// Takes a trial that says something. What a target takes varies from trial to trial around its knee.
    pub(super) fn add(&mut self, trial: &Trial) {
        let rate = trial.rate.ln();
        let (low, high) = self.tried.unwrap_or((rate, rate));
        self.tried = Some((low.min(rate), high.max(rate)));
        let shown = Shown::of(trial);
        for (target, row) in &mut self.rows {
            for (place, belief) in (0_u32..).zip(row) {
                let knee = self.start + f64::from(place) * STEP;
                *belief += shown.likelihood(knee, *target).ln();
            }
        }
    }

    /// The knees below which these shares of the belief lie; the shares must ascend. What lies far
    /// from everything tried is left out: one trial that broke by chance would let the knee be
    /// anywhere above it.
    pub(super) fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [f64; N] {
        let beliefs = self.rows.iter().flat_map(|(_, row)| row);
        let top = beliefs.copied().fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        let knees = self.rows.first().map_or(0, |(_, row)| row.len());
        let sums: Vec<f64> = (0..knees)
            .map(|knee| {
                if self.is_near(knee) {
                    let beliefs = self.rows.iter().map(|(_, row)| (row[knee] - top).exp());
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

/// How a target behaves around its knee.
#[derive(Debug, Clone, Copy)]
struct Target {
    /// By how much what it can take varies from trial to trial.
    width: f64,
    /// What it loses of that when it is overloaded, as a part of the overload.
    loss: f64,
}

impl Target {
    /// All, and how likely each is before the first trial.
    fn all() -> impl Iterator<Item = (Self, f64)> {
        let all = |width| LOSSES.map(|(loss, likely)| (Self { width, loss }, likely));
        WIDTHS.into_iter().flat_map(all)
    }
}

/// What a trial shows of what its target can take in it: natural logarithms.
#[derive(Debug, Clone, Copy)]
enum Shown {
    /// No less than this.
    AtLeast(f64),
    /// Less than this.
    Below(f64),
    /// So much was committed at this rate, with this standard error.
    Took { tps: f64, error: f64, rate: f64 },
}

impl Shown {
    fn of(trial: &Trial) -> Self {
        if let Some(Took { tps, error_tps }) = trial.took.filter(|took| took.tps > 0.0) {
            return Self::Took {
                tps: tps.ln(),
                error: (error_tps / tps).hypot(STEP),
                rate: trial.rate.ln(),
            };
        }
        let rate = (trial.rate * (1.0 - GROWTH_LIMIT)).ln();
        match trial.finding {
            Finding::Held => Self::AtLeast(rate),
            _ => Self::Below(rate),
        }
    }

    /// How likely this is for a knee.
    fn likelihood(self, knee: f64, target: Target) -> f64 {
        let chance = |share: f64| CHANCE + (1.0 - 2.0 * CHANCE) * share;
        let below = |at: f64| 1.0 / (1.0 + ((knee - at) / target.width).exp());
        match self {
            Self::AtLeast(rate) => chance(1.0 - below(rate)),
            Self::Below(rate) => chance(below(rate)),
            Self::Took { tps, error, rate } => {
                2.0 * CHANCE + (1.0 - 2.0 * CHANCE) * took(tps, error, rate, knee, target)
            }
        }
    }
}

/// The density of what is committed at a rate (a censored regression with an error of measurement: Tobin, "Estimation
/// of relationships for limited dependent variables", Econometrica 26, 1958): the rate, where the target could take
/// more in this trial; what it could take, where that is less, without what it loses by the overload.
fn took(tps: f64, error: f64, rate: f64, knee: f64, target: Target) -> f64 {
    let Target { width, loss } = target;
    let could_take_more = below((knee - rate) / width) * density(tps - rate, error);
    let overload = (rate - knee).max(0.0);
    let takes = knee - loss * overload.min(FAR);
    let more_lost = if loss > 0.0 {
        (overload - FAR).max(0.0)
    } else {
        0.0
    };
    let spread = width.hypot(error);
    // What it took in this trial, as far as the knee and what was seen tell.
    let likely = (tps * width * width + takes * error * error) / (spread * spread);
    let could_take_less = below((rate - likely) * spread / (width * error));
    could_take_more + could_take_less * lossy(tps, takes, spread, more_lost)
}

/// The density of a value that is below `takes` by an error, and by a loss of up to `most`, all as likely.
fn lossy(value: f64, takes: f64, spread: f64, most: f64) -> f64 {
    if most < spread / 4.0 {
        return density(value - takes, spread);
    }
    (below((takes - value) / spread) - below((takes - most - value) / spread)) / most
}

/// The normal distribution's share below so many standard deviations, to 1 %: a logistic one.
fn below(deviations: f64) -> f64 {
    1.0 / (1.0 + (-1.702 * deviations).exp())
}

/// The normal distribution's density.
fn density(value: f64, deviation: f64) -> f64 {
    let squares = (value / deviation).powi(2);
    (-0.5 * squares).exp() / (deviation * std::f64::consts::TAU.sqrt())
}

/// Widths of the region in which trials go either way, as factors' logarithms: half a percent to sixteen.
const WIDTHS: [f64; 6] = [0.005, 0.01, 0.02, 0.04, 0.08, 0.16];
/// How often a trial ends one way or the other by mere chance.
const CHANCE: f64 = 0.01;
/// Distance of the grid's knees: 0.4 %.
const STEP: f64 = 0.004;
/// A knee further than this factor from every trial is not believed in.
const BEYOND: f64 = 2.0;
/// The grid reaches this factor beyond the allowed rates.
const MARGIN: f64 = 2.0;
/// How much of an overload a target may lose of its throughput, and how likely that is before the first trial.
const LOSSES: [(f64, f64); 3] = [(0.0, 0.5), (0.5, 0.25), (1.0, 0.25)];
/// An overload, as a factor's logarithm, beyond which a target that loses may lose any part of what is more.
const FAR: f64 = 0.1;
