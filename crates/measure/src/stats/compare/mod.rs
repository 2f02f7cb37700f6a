//! Runs side by side: by how much a metric differs, and whether chance explains it.
//!
//! The unit is the run: what happens within one (seconds, blocks) depends on what happened before,
//! and says nothing of how the next run of the same load will differ. Each run gives one figure for
//! each metric ([`RunFigures`]); the sides' means are compared by Welch's t on logarithms, the metrics
//! together by Holm's levels. `docs/calibration.md` shows how often that raises a false alarm, how
//! often it finds a difference, and why a single run a side gets no verdict.

mod figures;
mod metric;
mod welch;

pub use figures::{Figure, RunFigures};
pub use metric::{Metric, OtherMetric, Quantile};
pub use welch::MANY_RUNS;

use metric::Scale;
use welch::{MIN_RUNS, Sample, Welch, holm, runs_needed};

/// What matters to whoever compares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompareTerms {
    /// Changes up to this share have no relevance: an interval within it means "the same", and the
    /// runs that are needed are reckoned for it.
    pub margin: f64,
    /// Worse by more than this share is a regression.
    pub limit: Option<f64>,
}

/// How one metric differs between two sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Which.
    pub metric: Metric,
    /// The mean on the first side, geometric but for shares; `None` when a run has no figure.
    pub base: Option<Figure>,
    /// On the second side.
    pub other: Option<Figure>,
    /// The change; `None` where a side has no figure.
    pub change: Option<Change>,
    /// What it means.
    pub meaning: ComparisonVerdict,
}

/// A change as a share of the first side; of shares ([`Metric::Lost`]) their difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// As measured.
    pub by: f64,
    /// The interval, lower and upper end; open where a figure is a lower bound. The intervals
    /// of all metrics are right together in 95 % of all comparisons. `None` with too few runs.
    pub interval: Option<(f64, f64)>,
}

/// What a change means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonVerdict {
    /// For the better: the interval lies beyond zero.
    Better,
    /// For the worse.
    Worse,
    /// The interval lies within the margin.
    Same,
    /// Neither is shown.
    CannotTell(Uncertainty),
}

/// Why a comparison cannot tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uncertainty {
    /// A run has no figure.
    NoFigure,
    /// Transactions that had not ended could raise the figures of both sides.
    LowerBounds,
    /// More runs are needed.
    Runs {
        /// As many on each side would show a change of the margin in four of five comparisons;
        /// where the spread of the runs is not known, the fewest with which anything is judged. At most
        /// [`MANY_RUNS`], which stands for any larger number too.
        needed: u32,
    },
}

impl Difference {
    /// Whether it is shown to be worse by more than `limit`: the interval's near end is beyond it.
    pub fn is_regression(&self, limit: f64) -> bool {
        let interval = self.change.and_then(|change| change.interval);
        interval.is_some_and(|(low, high)| match self.metric.is_gain() {
            true => high < -limit,
            false => low > limit,
        })
    }
}

/// Compares two sides, each of runs of the same load, in these metrics.
pub fn compare(
    metrics: &[Metric],
    base: &[RunFigures],
    other: &[RunFigures],
    terms: &CompareTerms,
) -> Vec<Difference> {
    let pair = |metric: &Metric| Pair {
        scale: metric.scale(),
        margin: metric.margin(terms.margin),
        base: Side::of(*metric, base),
        other: Side::of(*metric, other),
    };
    let pairs: Vec<Pair> = metrics.iter().map(pair).collect();
    let found = judged(&pairs, terms.limit);
    let metrics = metrics.iter().copied();
    metrics
        .zip(pairs)
        .zip(found)
        .map(|((metric, pair), (change, meaning))| Difference {
            metric,
            base: pair.base.map(|side| side.figure(pair.scale)),
            other: pair.other.map(|side| side.figure(pair.scale)),
            change,
            meaning,
        })
        .collect()
}

/// What each pair says, all of them together.
fn judged(pairs: &[Pair], limit: Option<f64>) -> Vec<(Option<Change>, ComparisonVerdict)> {
    let comparable = pairs.iter().filter(|pair| pair.sides().is_some()).count();
    let strictest = LEVEL / comparable.max(1) as f64;
    let judged = pairs.iter().zip(levels(pairs, limit)).map(|(pair, level)| {
        let change = pair.change(level.unwrap_or(strictest));
        (change, pair.meaning(change, strictest))
    });
    judged.collect()
}

/// For each pair that is tested the level of its interval: by Holm's method against no change and, where
/// there is a limit, against a change at the limit, so that neither claim is made too often.
fn levels(pairs: &[Pair], limit: Option<f64>) -> Vec<Option<f64>> {
    let holm = |p: &dyn Fn(&Pair, &Welch) -> f64| {
        let p: Vec<f64> = pairs
            .iter()
            .filter_map(|pair| Some(p(pair, &pair.welch()?)))
            .collect();
        holm(&p, LEVEL)
    };
    let of_none = holm(&|_, welch| welch.p_of_none());
    let of_limit = limit.map(|limit| {
        holm(&|pair, welch| welch.p_of_limit(pair.scale.worse(), pair.scale.difference(limit)))
    });
    let of_limit = of_limit.unwrap_or_else(|| of_none.clone());
    let mut levels = of_none.into_iter().zip(of_limit);
    let level_of = |pair: &Pair| {
        pair.welch()?;
        levels.next().map(|(none, limit)| none.min(limit))
    };
    pairs.iter().map(level_of).collect()
}

/// One figure on both sides.
struct Pair {
    scale: Scale,
    /// The largest change without relevance.
    margin: f64,
    base: Option<Side>,
    other: Option<Side>,
}

/// One figure on one side.
#[derive(Clone, Copy)]
struct Side {
    sample: Sample,
    resolution: f64,
    is_lower_bound: bool,
}

impl Side {
    fn of(metric: Metric, runs: &[RunFigures]) -> Option<Self> {
        let figures: Option<Vec<Figure>> = runs.iter().map(|run| run.figure(metric)).collect();
        let figures = figures?;
        let scale = metric.scale();
        let values = figures.iter().map(|figure| scale.scaled(figure.value));
        let values: Vec<f64> = values.collect();
        let middle = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let block_ms = runs.iter().map(|run| run.block_resolution_ms);
        let block_ms = block_ms.fold(0.0, f64::max);
        let resolution = metric.resolution(scale.unscaled(middle), block_ms);
        Some(Self {
            sample: Sample::of(&values, resolution)?,
            resolution,
            is_lower_bound: figures.iter().any(|figure| figure.is_lower_bound),
        })
    }

    fn figure(&self, scale: Scale) -> Figure {
        Figure {
            value: scale.unscaled(self.sample.mean),
            is_lower_bound: self.is_lower_bound,
        }
    }
}

impl Pair {
    fn sides(&self) -> Option<(Side, Side)> {
        self.base.zip(self.other)
    }

    /// The test; `None` where nothing can be told.
    fn welch(&self) -> Option<Welch> {
        let (base, other) = self.sides()?;
        let fewest = base.sample.runs.min(other.sample.runs);
        let bounds = base.is_lower_bound && other.is_lower_bound;
        let tested = fewest >= f64::from(MIN_RUNS) && !bounds;
        tested.then(|| Welch::between(&base.sample, &other.sample))
    }

    fn change(&self, level: f64) -> Option<Change> {
        let (base, other) = self.sides()?;
        let interval = self.welch().map(|welch| {
            let (low, high) = welch.interval(level);
            let low = if base.is_lower_bound {
                f64::NEG_INFINITY
            } else {
                low
            };
            let high = if other.is_lower_bound {
                f64::INFINITY
            } else {
                high
            };
            (self.scale.change(low), self.scale.change(high))
        });
        Some(Change {
            by: self.scale.change(other.sample.mean - base.sample.mean),
            interval,
        })
    }

    fn meaning(&self, change: Option<Change>, strictest: f64) -> ComparisonVerdict {
        let (Some((base, other)), Some(change)) = (self.sides(), change) else {
            return ComparisonVerdict::CannotTell(Uncertainty::NoFigure);
        };
        if base.is_lower_bound && other.is_lower_bound {
            return ComparisonVerdict::CannotTell(Uncertainty::LowerBounds);
        }
        let needed = self.runs_needed(&base.sample, &other.sample, strictest);
        let Some((low, high)) = change.interval else {
            return ComparisonVerdict::CannotTell(Uncertainty::Runs { needed });
        };
        let by = (other.sample.mean - base.sample.mean).abs();
        let is_resolved = by > base.resolution.max(other.resolution);
        match (low > 0.0, high < 0.0, self.scale.is_gain) {
            (true, _, true) | (_, true, false) if is_resolved => ComparisonVerdict::Better,
            (_, true, true) | (true, _, false) if is_resolved => ComparisonVerdict::Worse,
            _ if low >= -self.margin && high <= self.margin => ComparisonVerdict::Same,
            _ => ComparisonVerdict::CannotTell(Uncertainty::Runs { needed }),
        }
    }

    /// Runs a side that would show a change of the margin; more than there are.
    fn runs_needed(&self, base: &Sample, other: &Sample, level: f64) -> u32 {
        let fewest = base.runs.min(other.runs);
        if fewest < 2.0 {
            return MIN_RUNS;
        }
        let effect = self.scale.difference(self.margin);
        let variance = f64::midpoint(base.variance, other.variance);
        runs_needed(variance, effect, level).max(fewest as u32 + 1)
    }
}

/// Comparisons in which a verdict or an interval is wrong, at most.
const LEVEL: f64 = 0.05;

#[cfg(test)]
mod tests;
