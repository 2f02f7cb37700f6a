//! Runs side by side: by how much a metric differs, and whether chance explains it.
//!
//! The unit is the run: what happens within one (seconds, blocks) depends on what happened before,
//! and does not show how the next run of the same load will differ. Each run gives one figure for
//! each metric ([`RunFigures`]); the sides' means are compared by Welch's t on logarithms, the metrics
//! together by Holm's levels. `docs/calibration.md` shows how often that raises a false alarm, how
//! often it finds a difference, and why a single run a side gets no verdict.

mod doubts;
mod metric;
mod turns;
mod welch;

pub use doubts::{Doubts, LoadDifference};
pub use metric::{Figure, Metric, OtherMetric, Quantile, RunFigures};
pub use turns::{Block, compare_turns};
pub use welch::RunsNeeded;

use crate::format::manifest::LoadField;
use metric::{Scale, Usable};
use welch::{MIN_RUNS, Sample, Welch, holm, rounding_variance, runs_needed};

/// What matters to the user of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct CompareTerms {
    /// Changes up to this share have no relevance: an interval within it means "the same", and the
    /// runs that are needed are reckoned for it.
    pub margin: f64,
    /// Worse by more than this share is a regression.
    pub limit: Option<f64>,
    /// What is compared; all metrics of a load when there is none.
    pub metrics: Vec<Metric>,
}

impl CompareTerms {
    /// What is compared.
    pub fn metrics(&self) -> Vec<Metric> {
        if self.metrics.is_empty() {
            Metric::OF_LOADS.to_vec()
        } else {
            self.metrics.clone()
        }
    }
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
    /// What it means for the limit; `None` without one, and where no run measured the metric.
    pub gate: Option<Gate>,
}

/// A change as a share of the first side; of shares ([`Metric::Lost`]) their difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// As measured.
    pub by: f64,
    /// The interval, lower and upper end; open where a figure is a lower bound. The intervals
    /// of all metrics are right together in 95 % of all comparisons (Bonferroni). `None` where nothing
    /// can be concluded.
    pub interval: Option<(f64, f64)>,
}

/// What a change means. Verdicts of several metrics are held to Holm's levels, which find more than the
/// intervals show, with the same share of false alarms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonVerdict {
    /// For the better: no change is excluded.
    Better,
    /// For the worse.
    Worse,
    /// Changes beyond the margin are excluded.
    Same,
    /// Neither is shown.
    CannotTell(Uncertainty),
}

/// What a change means for a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Shown to be worse by more.
    Regression,
    /// Shown to be worse by less, or better.
    Within,
    /// Neither is shown.
    Open,
}

/// Why a comparison is undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uncertainty {
    /// A run has no figure.
    NoFigure,
    /// The loads differ in what this metric depends on.
    OtherLoad(LoadField),
    /// Much of the figures is the lateness of a busy generator.
    BusyGenerator,
    /// Transactions that had not ended could raise the figures of both sides.
    LowerBounds,
    /// More runs are needed.
    Runs {
        /// As many on each side would show a change of the margin in four of five comparisons.
        needed: RunsNeeded,
    },
    /// One side ran before the other: whatever changes with time would be a difference between them.
    Order,
}

/// Whether the other side passes the gate, all metrics together: a regression of one is a regression, and all
/// have to be within the limit. `None` without a limit.
pub fn gated(differences: &[Difference]) -> Option<Gate> {
    let gates: Vec<Gate> = differences.iter().filter_map(|it| it.gate).collect();
    let first = [Gate::Regression, Gate::Open, Gate::Within];
    first.into_iter().find(|gate| gates.contains(gate))
}

/// Compares two sides, each of runs of the same load.
pub fn compare(
    base: &[RunFigures],
    other: &[RunFigures],
    terms: &CompareTerms,
    doubts: &Doubts,
) -> Vec<Difference> {
    let metrics = terms.metrics();
    let pair = |metric: &Metric| {
        let (scale, side) = (metric.scale(), Side::of(*metric, base));
        let value = side.map(|side| side.figure(scale).value);
        Pair {
            scale,
            margin: metric.margin(terms.margin, value),
            limit: terms.limit.map(|limit| metric.margin(limit, value)),
            doubt: doubts.about(*metric),
            is_measured: is_measured(*metric, base) || is_measured(*metric, other),
            base: side,
            other: Side::of(*metric, other),
        }
    };
    let pairs: Vec<Pair> = metrics.iter().map(pair).collect();
    let found = judged(&pairs);
    metrics
        .into_iter()
        .zip(pairs)
        .zip(found)
        .map(|((metric, pair), judged)| Difference {
            metric,
            base: pair.base.map(|side| side.figure(pair.scale)),
            other: pair.other.map(|side| side.figure(pair.scale)),
            change: judged.change,
            meaning: judged.meaning,
            gate: judged.gate,
        })
        .collect()
}

/// The result of a pair.
struct Judged {
    change: Option<Change>,
    meaning: ComparisonVerdict,
    gate: Option<Gate>,
}

/// The results of all pairs together. The interval of each has Bonferroni's level, so that all hold at
/// once (Dunn, "Multiple comparisons among means", JASA 56, 1961); each of the two claims, that there is a change and that it is beyond the limit, has Holm's levels.
fn judged(pairs: &[Pair]) -> Vec<Judged> {
    let tests: Vec<Option<Welch>> = pairs.iter().map(Pair::test).collect();
    let strictest = LEVEL / tests.iter().flatten().count().max(1) as f64;
    let of_change = levels(pairs, &tests, |_, test| test.p_of_none());
    let of_limit = levels(pairs, &tests, |pair, test| {
        let limit = pair.limit.unwrap_or_default();
        test.p_of_limit(pair.scale.worse(), pair.scale.difference(limit))
    });
    let all = pairs
        .iter()
        .zip(&tests)
        .zip(of_change.into_iter().zip(of_limit));
    let judged = all.map(|((pair, test), (of_change, of_limit))| Judged {
        change: pair.change(test.as_ref(), strictest),
        meaning: pair.meaning(test.as_ref(), of_change, strictest),
        gate: pair.gate(test.as_ref(), of_limit),
    });
    judged.collect()
}

/// Holm's level for each pair; that of a pair without a test is not used.
fn levels(pairs: &[Pair], tests: &[Option<Welch>], p: impl Fn(&Pair, &Welch) -> f64) -> Vec<f64> {
    let tested = pairs.iter().zip(tests);
    let p = tested.filter_map(|(pair, test)| Some(p(pair, test.as_ref()?)));
    let mut levels = holm(&p.collect::<Vec<_>>(), LEVEL).into_iter();
    let level = |test: &Option<Welch>| match test {
        Some(_) => levels.next().unwrap_or(0.0),
        None => 0.0,
    };
    tests.iter().map(level).collect()
}

/// One figure on both sides.
struct Pair {
    scale: Scale,
    /// The largest change without relevance.
    margin: f64,
    limit: Option<f64>,
    /// Why nothing can be concluded, whatever the figures are.
    doubt: Option<Uncertainty>,
    /// Whether a run has a figure.
    is_measured: bool,
    base: Option<Side>,
    other: Option<Side>,
}

/// One figure on one side.
#[derive(Clone, Copy)]
struct Side {
    sample: Sample,
    resolution: f64,
    is_lower_bound: bool,
    is_busy: bool,
}

impl Side {
    fn of(metric: Metric, runs: &[RunFigures]) -> Option<Self> {
        let Usable { runs, is_busy } = metric::usable(metric, runs)?;
        let scale = metric.scale();
        let values = runs.iter().map(|(_, figure)| scale.scaled(figure.value));
        let values: Vec<f64> = values.collect();
        let middle = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let resolution = metric::resolution(metric, scale, runs.iter().map(|(run, _)| *run));
        let counting = match metric {
            Metric::Lost => counting_variance(middle, runs.iter().map(|(run, _)| run.planned)),
            _ => 0.0,
        };
        Some(Self {
            sample: Sample::of(&values, counting.max(rounding_variance(resolution)))?,
            resolution,
            is_lower_bound: runs.iter().any(|(_, figure)| figure.is_lower_bound),
            is_busy,
        })
    }

    fn figure(&self, scale: Scale) -> Figure {
        Figure {
            value: scale.unscaled(self.sample.mean),
            is_lower_bound: self.is_lower_bound,
        }
    }
}

fn is_measured(metric: Metric, runs: &[RunFigures]) -> bool {
    runs.iter().any(|run| run.figure(metric).is_some())
}

/// The variance of a share of this size in a run of so many transactions, where each is lost by itself: the least
/// that single runs vary by, also where none was lost yet. One loss and one success are added (Agresti and Caffo,
/// "Simple and effective confidence intervals for proportions and differences of proportions result from adding two
/// successes and two failures", American Statistician 54, 2000).
fn counting_variance(share: f64, planned: impl Iterator<Item = u64> + Clone) -> f64 {
    let runs = planned.clone().count().max(1) as f64;
    let total = planned.map(|planned| planned as f64).sum::<f64>();
    let share = (share * total + 1.0) / (total + 2.0);
    share * (1.0 - share) / (total / runs).max(1.0)
}

impl Pair {
    /// The test; `None` where nothing can be concluded.
    fn test(&self) -> Option<Welch> {
        let (base, other) = self.base.zip(self.other)?;
        let nothing = self.obstacle(&base, &other).is_some();
        (!nothing).then(|| Welch::between(&base.sample, &other.sample))
    }

    /// Why the figures cannot be compared.
    fn obstacle(&self, base: &Side, other: &Side) -> Option<Uncertainty> {
        let fewest = base.sample.runs.min(other.sample.runs);
        match self.doubt {
            Some(Uncertainty::OtherLoad(field)) => Some(Uncertainty::OtherLoad(field)),
            _ if base.is_busy || other.is_busy => Some(Uncertainty::BusyGenerator),
            _ if base.is_lower_bound && other.is_lower_bound => Some(Uncertainty::LowerBounds),
            _ if fewest < f64::from(MIN_RUNS) => {
                let needed = self.runs_needed(&base.sample, &other.sample, LEVEL);
                Some(Uncertainty::Runs { needed })
            }
            doubt => doubt,
        }
    }

    /// The interval of the test at a level on the scale, open where a figure is a lower bound.
    fn interval(&self, test: &Welch, level: f64) -> (f64, f64) {
        let (low, high) = test.interval(level);
        let is_bound = |side: Option<Side>| side.is_some_and(|side| side.is_lower_bound);
        let low = if is_bound(self.base) {
            f64::NEG_INFINITY
        } else {
            low
        };
        let high = if is_bound(self.other) {
            f64::INFINITY
        } else {
            high
        };
        (low, high)
    }

    fn change(&self, test: Option<&Welch>, level: f64) -> Option<Change> {
        let (base, other) = self.base.zip(self.other)?;
        let interval = test.map(|test| {
            let (low, high) = self.interval(test, level);
            (self.scale.change(low), self.scale.change(high))
        });
        Some(Change {
            by: self.scale.change(other.sample.mean - base.sample.mean),
            interval,
        })
    }

    /// Whether the sides differ by more than the figures are known to.
    fn is_resolved(&self, test: &Welch) -> bool {
        let sides = [self.base, self.other].into_iter().flatten();
        let resolution = sides.map(|side| side.resolution).fold(0.0, f64::max);
        test.by.abs() > resolution
    }

    /// "Same" is an interval within the margin (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987: two
    /// one-sided tests, here at 95 %, not 90 %). `strictest` is the level that more runs would have to meet.
    fn meaning(&self, test: Option<&Welch>, level: f64, strictest: f64) -> ComparisonVerdict {
        let Some((base, other)) = self.base.zip(self.other) else {
            return ComparisonVerdict::CannotTell(Uncertainty::NoFigure);
        };
        let Some(test) = test else {
            let why = self.obstacle(&base, &other);
            return ComparisonVerdict::CannotTell(why.unwrap_or(Uncertainty::NoFigure));
        };
        let (low, high) = self.interval(test, level);
        let (from, to) = (self.scale.change(low), self.scale.change(high));
        let is_resolved = self.is_resolved(test);
        match (low > 0.0, high < 0.0, self.scale.is_gain) {
            (true, _, true) | (_, true, false) if is_resolved => ComparisonVerdict::Better,
            (_, true, true) | (true, _, false) if is_resolved => ComparisonVerdict::Worse,
            _ if from >= -self.margin && to <= self.margin => ComparisonVerdict::Same,
            _ => ComparisonVerdict::CannotTell(Uncertainty::Runs {
                needed: self.runs_needed(&base.sample, &other.sample, strictest),
            }),
        }
    }

    /// A regression at Holm's level. That no metric is worse by more than its limit is shown when each is shown
    /// to be within at [`LEVEL`] by itself: only if one is beyond can that be wrong (Berger, "Multiparameter
    /// hypothesis testing and acceptance sampling", Technometrics 24, 1982).
    fn gate(&self, test: Option<&Welch>, level: f64) -> Option<Gate> {
        let limit = self.scale.difference(self.limit?);
        if !self.is_measured {
            return None;
        }
        let Some(test) = test else {
            return Some(Gate::Open);
        };
        let worse = |level| {
            let (low, high) = self.interval(test, level);
            if self.scale.is_gain {
                (-high, -low)
            } else {
                (low, high)
            }
        };
        let (least, _) = worse(level);
        // One-sided: both ends of the interval would miss in twice as many comparisons.
        let (_, most) = worse(2.0 * LEVEL);
        Some(if least > limit && self.is_resolved(test) {
            Gate::Regression
        } else if most < limit {
            Gate::Within
        } else {
            Gate::Open
        })
    }

    /// Runs a side that would show a change of the margin; more than there are.
    fn runs_needed(&self, base: &Sample, other: &Sample, level: f64) -> RunsNeeded {
        let fewest = base.runs.min(other.runs);
        if fewest < 2.0 {
            return RunsNeeded::Fewest;
        }
        let effect = self.scale.difference(self.margin);
        let variance = f64::midpoint(base.variance, other.variance);
        runs_needed(variance, effect, level, fewest as u32)
    }
}

/// Comparisons in which a verdict or an interval is wrong, at most.
const LEVEL: f64 = 0.05;

#[cfg(test)]
mod tests;
