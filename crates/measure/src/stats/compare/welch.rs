//! Welch's test of two means, Holm's levels for several tests, and how many runs a test needs.

use crate::stats::student;

/// The figures of one side on the scale of the comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub(super) mean: f64,
    /// Of single runs.
    pub(super) variance: f64,
    pub(super) runs: f64,
}

impl Sample {
    /// `None` without values. They vary by `least` at least, also where these few do not.
    pub(super) fn of(values: &[f64], least: f64) -> Option<Self> {
        let runs = values.len() as f64;
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / runs;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self {
            mean,
            variance: (squares / (runs - 1.0).max(1.0)).max(least),
            runs,
        })
    }
}

/// The variance of figures that are known to `resolution`: of rounding it is the square over twelve (Sheppard's
/// correction).
pub(super) fn rounding_variance(resolution: f64) -> f64 {
    resolution.powi(2) / 12.0
}

/// A difference of two means with its standard error and degrees of freedom (Welch, "The
/// generalization of 'Student's' problem when several different population variances are involved",
/// Biometrika 34, 1947; used always, as Ruxton, Behavioral Ecology 17, 2006, advises). Nothing is assumed about the sides'
/// variances.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Welch {
    pub(super) by: f64,
    error: f64,
    freedom: f64,
}

impl Welch {
    pub(super) fn between(base: &Sample, other: &Sample) -> Self {
        let part = |side: &Sample| side.variance / side.runs;
        let (one, two) = (part(base), part(other));
        let weight = |part: f64, side: &Sample| part * part / (side.runs - 1.0);
        Self {
            by: other.mean - base.mean,
            error: (one + two).sqrt(),
            freedom: (one + two).powi(2) / (weight(one, base) + weight(two, other)),
        }
    }

    /// How likely a difference this far from zero is, to either side, where there is none.
    pub(super) fn p_of_none(&self) -> f64 {
        2.0 * student::below(-self.by.abs() / self.error, self.freedom)
    }

    /// Twice how likely a difference this far beyond `limit` is where the true one is at it;
    /// `sign` is that of the direction.
    pub(super) fn p_of_limit(&self, sign: f64, limit: f64) -> f64 {
        let beyond = (sign * self.by - limit) / self.error;
        2.0 * student::below(-beyond, self.freedom)
    }

    /// The interval that misses the true difference with the probability `level`.
    pub(super) fn interval(&self, level: f64) -> (f64, f64) {
        let reach = student::quantile(1.0 - level / 2.0, self.freedom) * self.error;
        (self.by - reach, self.by + reach)
    }
}

/// For each p the level that it is held against, so that all tests together raise a false alarm with
/// the probability `level` at most, whatever they have in common: the smallest p against `level` over
/// their number, the next against `level` over one less, until the first that is not below its own (Holm, "A simple
/// sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979).
pub(super) fn holm(p: &[f64], level: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|one, two| p[*one].total_cmp(&p[*two]));
    let mut levels = vec![level; p.len()];
    let mut left = p.len();
    for place in order {
        levels[place] = level / left as f64;
        if p[place] <= levels[place] {
            left -= 1;
        }
    }
    levels
}

/// How many runs a side would show a difference: an order, as the spread of a few runs is known to a factor of two or
/// three, and the number goes with its square.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsNeeded {
    /// The fewest with which anything is judged; the spread is unknown.
    Fewest,
    /// About so many.
    About(u32),
    /// More than anyone runs.
    TooMany,
}

impl RunsNeeded {
    /// In numbers; `None` for more than anyone runs.
    pub const fn number(self) -> Option<u32> {
        match self {
            Self::Fewest => Some(MIN_RUNS),
            Self::About(runs) => Some(runs),
            Self::TooMany => None,
        }
    }
}

/// Runs a side with which a difference of `effect` is found at `level` in [`POWER`] of the comparisons,
/// where single runs vary by `variance`, more than there are: the least n with n ≥ 2 s² (t(1 − α/2) + t(power))² /
/// δ², for 2n − 2 degrees of freedom (Zar, "Biostatistical analysis", 5th edition, section 8.3).
pub(super) fn runs_needed(variance: f64, effect: f64, level: f64, present: u32) -> RunsNeeded {
    let suffices = |runs: u32| {
        let (runs, freedom) = (f64::from(runs), 2.0 * f64::from(runs) - 2.0);
        let reach =
            student::quantile(1.0 - level / 2.0, freedom) + student::quantile(POWER, freedom);
        runs * effect * effect >= 2.0 * variance * reach * reach
    };
    order_of(present, suffices)
}

/// The order of the runs a side that suffice, where `present` do not: the nearest of the three by its ratio.
pub(super) fn order_of(present: u32, suffices: impl Fn(u32) -> bool) -> RunsNeeded {
    let order = ORDERS
        .into_iter()
        .find(|(about, until)| present < *about && suffices(*until));
    order.map_or(RunsNeeded::TooMany, |(about, _)| RunsNeeded::About(about))
}

/// With fewer runs a side the spread between them is hardly known: two have one degree of freedom each.
pub(super) const MIN_RUNS: u32 = 3;
/// Of the differences looked for, as many are to be found (Cohen, "Statistical power analysis for the
/// behavioral sciences", 2nd edition, section 2.4).
const POWER: f64 = 0.8;
/// What is said, and up to how many it stands for: the geometric mean of it and the next.
const ORDERS: [(u32, u32); 3] = [(10, 17), (30, 54), (100, 316)];
