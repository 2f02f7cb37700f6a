//! A comparison that goes on until it is decided: runs of two sides in blocks of four, ABBA and BAAB in turns.
//!
//! To look after each block and to stop when there is a difference finds one in a fifth of all comparisons of
//! equal sides. Here each look may be the last: the interval of a metric holds at all looks together.
//!
//! Within a block the sides' means differ by the change and the runs' own variation alone: a drift that is linear in
//! time cancels, one that is not falls mostly on the blocks' means, and BAAB after ABBA takes the opposite of what
//! is left. The residual variance comes from the blocks too, without their means and a common slope.

use super::metric::Scale;
use super::welch::{RunsNeeded, order_of, rounding_variance};
use super::{
    Change, CompareTerms, ComparisonVerdict, Difference, Doubts, Figure, Gate, LEVEL, Metric,
    RunFigures, Uncertainty, counting_variance, is_measured, metric,
};

/// Four runs in the order of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Their figures.
    pub runs: [RunFigures; 4],
    /// Whether the order was BAAB and not ABBA.
    pub is_reversed: bool,
}

impl Block {
    /// Whether each of a block's runs is one of the second side.
    pub const fn order(is_reversed: bool) -> [bool; 4] {
        [is_reversed, !is_reversed, !is_reversed, is_reversed]
    }

    fn runs(&self) -> impl Iterator<Item = (&RunFigures, bool)> {
        self.runs.iter().zip(Self::order(self.is_reversed))
    }
}

/// Compares the sides of all blocks so far. `terms.margin` is the limit as well: a change for the worse is a
/// regression when it is shown, unless it is shown to be within the margin.
pub fn compare_turns(blocks: &[Block], terms: &CompareTerms, doubts: &Doubts) -> Vec<Difference> {
    let metrics = terms.metrics();
    let measured: Vec<(Metric, Measured)> = metrics
        .into_iter()
        .map(|metric| (metric, Measured::of(metric, blocks, doubts)))
        .collect();
    let tested = measured.iter().filter(|(_, it)| it.contrast.is_some());
    let level = LEVEL / tested.count().max(1) as f64;
    let difference = |(metric, measured): (Metric, Measured)| {
        let value = measured.sides[0].map(|figure| figure.value);
        measured.difference(metric, metric.margin(terms.margin, value), level)
    };
    measured.into_iter().map(difference).collect()
}

/// A metric in all blocks.
struct Measured {
    /// The means of both sides.
    sides: [Option<Figure>; 2],
    contrast: Option<Contrast>,
    obstacle: Option<Uncertainty>,
    resolution: f64,
    /// Whether a run has a figure.
    is_measured: bool,
}

impl Measured {
    fn of(metric: Metric, blocks: &[Block], doubts: &Doubts) -> Self {
        let scale = metric.scale();
        // A block in which the generator was too busy is left out of this metric, if there is another.
        let is_quiet = |block: &&Block| !block.runs.iter().any(|run| run.is_busy(metric));
        let quiet: Vec<Block> = blocks.iter().filter(is_quiet).cloned().collect();
        let is_busy = quiet.is_empty() && !blocks.is_empty();
        let blocks = if is_busy { blocks } else { &quiet };
        let runs: Vec<(RunFigures, bool)> = blocks
            .iter()
            .flat_map(|block| block.runs().map(|(run, is_other)| (run.clone(), is_other)))
            .collect();
        let side = |is_other: bool| -> Vec<RunFigures> {
            let of_side = runs.iter().filter(|(_, other)| *other == is_other);
            of_side.map(|(run, _)| run.clone()).collect()
        };
        let sides = [side(false), side(true)];
        let means = [0, 1].map(|place: usize| mean(metric, scale, &sides[place]));
        let is_bound = |place: usize| means[place].is_some_and(|it| it.is_lower_bound);
        let obstacle = match doubts.about(metric) {
            Some(doubt) => Some(doubt),
            None if means.iter().any(Option::is_none) => Some(Uncertainty::NoFigure),
            None if is_busy => Some(Uncertainty::BusyGenerator),
            None if is_bound(0) && is_bound(1) => Some(Uncertainty::LowerBounds),
            None => None,
        };
        let all: Vec<RunFigures> = runs.into_iter().map(|(run, _)| run).collect();
        let (resolution, least) = known_to(metric, scale, &all);
        let contrast = match obstacle {
            None => Contrast::of(metric, scale, blocks, least),
            Some(_) => None,
        };
        Self {
            sides: means,
            contrast,
            obstacle,
            resolution,
            is_measured: is_measured(metric, &all),
        }
    }

    fn difference(self, metric: Metric, margin: f64, level: f64) -> Difference {
        let scale = metric.scale();
        let [base, other] = self.sides;
        let by = base.zip(other).map(|(base, other)| {
            scale.change(scale.scaled(other.value) - scale.scaled(base.value))
        });
        let mut difference = Difference {
            metric,
            base,
            other,
            change: by.map(|by| Change { by, interval: None }),
            meaning: ComparisonVerdict::CannotTell(self.obstacle.unwrap_or(Uncertainty::NoFigure)),
            gate: self.is_measured.then_some(Gate::Open),
        };
        let Some(contrast) = self.contrast else {
            return difference;
        };
        let open = |(low, high): (f64, f64)| {
            let is_bound = |side: Option<Figure>| side.is_some_and(|side| side.is_lower_bound);
            let low = if is_bound(base) {
                f64::NEG_INFINITY
            } else {
                low
            };
            let high = if is_bound(other) { f64::INFINITY } else { high };
            (scale.change(low), scale.change(high))
        };
        let interval = contrast.interval(level);
        let (low, high) = open(interval);
        let is_within = low >= -margin && high <= margin;
        let is_resolved = contrast.by.abs() > self.resolution;
        let is_worse = if scale.is_gain { high < 0.0 } else { low > 0.0 };
        let is_better = if scale.is_gain { low > 0.0 } else { high < 0.0 };
        difference.change = Some(Change {
            by: scale.change(contrast.by),
            // One block leaves everything open.
            interval: interval.0.is_finite().then_some((low, high)),
        });
        difference.meaning = if is_within {
            ComparisonVerdict::Same
        } else if is_worse && is_resolved {
            ComparisonVerdict::Worse
        } else if is_better && is_resolved {
            ComparisonVerdict::Better
        } else {
            let needed = contrast.runs_needed(level, scale.difference(margin));
            ComparisonVerdict::CannotTell(Uncertainty::Runs { needed })
        };
        // All metrics have to be within, so each is held to the level of one (see `Pair::gate`).
        let (from, to) = open(contrast.interval(2.0 * LEVEL));
        let most = if scale.is_gain { -from } else { to };
        difference.gate = Some(match difference.meaning {
            ComparisonVerdict::Worse => Gate::Regression,
            _ if most < margin => Gate::Within,
            _ => Gate::Open,
        });
        difference
    }
}

/// The mean of a side; `None` when a run has no figure.
fn mean(metric: Metric, scale: Scale, runs: &[RunFigures]) -> Option<Figure> {
    let figures: Option<Vec<Figure>> = runs.iter().map(|run| run.figure(metric)).collect();
    let figures = figures.filter(|figures| !figures.is_empty())?;
    let sum: f64 = figures
        .iter()
        .map(|figure| scale.scaled(figure.value))
        .sum();
    Some(Figure {
        value: scale.unscaled(sum / figures.len() as f64),
        is_lower_bound: figures.iter().any(|figure| figure.is_lower_bound),
    })
}

/// What the figures are known to, and the least variance of single runs that follows.
fn known_to(metric: Metric, scale: Scale, runs: &[RunFigures]) -> (f64, f64) {
    let resolution = metric::resolution(metric, scale, runs.iter());
    let counting = match (metric, mean(metric, scale, runs)) {
        (Metric::Lost, Some(lost)) => {
            counting_variance(lost.value, runs.iter().map(|run| run.planned))
        }
        _ => 0.0,
    };
    (resolution, counting.max(rounding_variance(resolution)))
}

/// The difference of the sides within the blocks.
#[derive(Debug, Clone, Copy)]
struct Contrast {
    /// Of the second side to the first.
    by: f64,
    /// The variance of single runs around their block's mean and a common slope.
    variance: f64,
    blocks: f64,
}

impl Contrast {
    /// `least` is what single runs vary by at least. `None` without blocks.
    fn of(metric: Metric, scale: Scale, blocks: &[Block], least: f64) -> Option<Self> {
        let (mut within, mut sides, mut slopes) = (0.0, 0.0, 0.0);
        for block in blocks {
            let mut values = [0.0; 4];
            for (value, run) in values.iter_mut().zip(&block.runs) {
                *value = scale.scaled(run.figure(metric)?.value);
            }
            let mean = values.iter().sum::<f64>() / 4.0;
            let signs = Block::order(block.is_reversed).map(|other| if other { 1.0 } else { -1.0 });
            for (place, value) in values.iter().enumerate() {
                within += (value - mean).powi(2);
                sides += signs[place] * value;
                slopes += (place as f64 - 1.5) * value;
            }
        }
        let count = blocks.len() as f64;
        // Of each block the squares of the signs add up to 4, of the places to 5.
        let rest = within - sides.powi(2) / (4.0 * count) - slopes.powi(2) / (5.0 * count);
        (count > 0.0).then(|| Self {
            by: sides / (2.0 * count),
            variance: (rest / freedom(count)).max(least),
            blocks: count,
        })
    }

    /// An interval that misses the true difference at any of all looks with the probability `level` at most: the
    /// differences against which the data give less than 1/`level` in favour of a normal prior over the effect, with
    /// right Haar priors for slope, means and variance. That ratio is a test martingale (Lai, "On confidence
    /// sequences", Annals of Statistics 4, 1976; Pérez-Ortiz, Lardy, de Heide, Grünwald, "E-statistics, group
    /// invariance and anytime-valid testing", Annals of Statistics 52, 2024), so Ville's inequality holds for it.
    fn interval(&self, level: f64) -> (f64, f64) {
        let reach = self.reach(level, self.blocks) * (self.variance / self.blocks).sqrt();
        (self.by - reach, self.by + reach)
    }

    /// Half of the interval in standard errors, with this many blocks.
    fn reach(&self, level: f64, blocks: f64) -> f64 {
        let freedom = freedom(blocks);
        let prior = 1.0 + blocks * EFFECT.powi(2);
        let ratio = (prior.sqrt() / level).powf(2.0 / (freedom + 1.0));
        if ratio < prior {
            (freedom * (ratio - 1.0) / (1.0 - ratio / prior)).sqrt()
        } else {
            f64::INFINITY
        }
    }

    /// Runs a side with which the interval reaches no further than `effect`.
    fn runs_needed(&self, level: f64, effect: f64) -> RunsNeeded {
        order_of(2 * self.blocks as u32, |runs| {
            let blocks = f64::from(runs) / 2.0;
            self.reach(level, blocks) * (self.variance / blocks).sqrt() <= effect
        })
    }
}

/// Degrees of freedom of the residual variance: four runs a block less their mean, less the difference and the slope.
fn freedom(blocks: f64) -> f64 {
    3.0 * blocks - 2.0
}

/// The effect that is looked for, in standard deviations of single runs: 5 % where they differ by 2 %. Others are found
/// later, not less surely; from 1 to 3 the table of `docs/calibration.md` changes by a tenth.
const EFFECT: f64 = 2.5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quantile;

    const METRIC: Metric = Metric::Commit(Quantile::P50);

    /// Blocks whose runs have these values, in the order of time.
    fn blocks(values: &[[f64; 4]]) -> Vec<Block> {
        let run = |value: f64| RunFigures::default().with(METRIC, Some(Figure::exact(value)));
        let block = |(number, values): (usize, &[f64; 4])| Block {
            runs: values.map(run),
            is_reversed: number % 2 == 1,
        };
        values.iter().enumerate().map(block).collect()
    }

    fn compared(values: &[[f64; 4]]) -> Difference {
        let terms = CompareTerms {
            margin: 0.05,
            limit: None,
            metrics: vec![METRIC],
        };
        compare_turns(&blocks(values), &terms, &Doubts::default())[0]
    }

    #[test]
    fn one_block_shows_nothing_and_some_show_a_difference() {
        let few = compared(&[[500.0, 600.0, 601.0, 501.0]]);
        assert_eq!(few.gate, Some(Gate::Open));
        assert_eq!(few.change.unwrap().interval, None);
        assert!((few.change.unwrap().by - 0.2).abs() < 0.01);
        let many = compared(&[
            [500.0, 600.0, 601.0, 501.0],
            [602.0, 499.0, 500.0, 600.0],
            [502.0, 603.0, 601.0, 500.0],
        ]);
        assert_eq!(many.meaning, ComparisonVerdict::Worse);
        assert_eq!(many.gate, Some(Gate::Regression));
        let (low, high) = many.change.unwrap().interval.unwrap();
        assert!(low > 0.15 && low < 0.2 && high > 0.2, "{low} {high}");
    }

    #[test]
    fn what_drifts_is_no_difference() {
        // A tenth more from block to block, and a hundredth from run to run.
        let drift = |run: u32| {
            500.0 * 1.01_f64.powi(run.cast_signed()) * 1.1_f64.powi((run / 4).cast_signed())
        };
        let noise = [1.001, 0.999, 1.0, 1.0005, 0.9995];
        let value = |run: u32| drift(run) * noise[run as usize % 5];
        let values: Vec<[f64; 4]> = (0..5)
            .map(|block| [0, 1, 2, 3].map(|it| value(4 * block + it)))
            .collect();
        let difference = compared(&values);
        assert_eq!(difference.meaning, ComparisonVerdict::Same);
        assert_eq!(difference.gate, Some(Gate::Within));
    }

    #[test]
    fn the_interval_is_that_of_the_ratio_of_likelihoods() {
        let contrast = Contrast {
            by: 0.0,
            variance: 1.0,
            blocks: 4.0,
        };
        let t = contrast.reach(0.0125, 4.0);
        let prior = 1.0 + 4.0 * EFFECT * EFFECT;
        let share = |scale: f64| 1.0 + t * t / 10.0 / scale;
        let ratio = (share(1.0) / share(prior)).powf(5.5) / prior.sqrt();
        assert!((ratio - 80.0).abs() < 1e-9, "{ratio}");
    }

    #[test]
    fn what_a_run_lacks_is_no_verdict_and_what_all_lack_is_not_asked_for() {
        let mut lacking = blocks(&[[500.0; 4], [500.0; 4]]);
        lacking[1].runs[2] = RunFigures::default();
        let terms = CompareTerms {
            margin: 0.05,
            limit: None,
            metrics: vec![METRIC, Metric::Committed],
        };
        let found = compare_turns(&lacking, &terms, &Doubts::default());
        let why = ComparisonVerdict::CannotTell(Uncertainty::NoFigure);
        assert_eq!((found[0].meaning, found[0].gate), (why, Some(Gate::Open)));
        assert_eq!((found[1].meaning, found[1].gate), (why, None));
        let found = compare_turns(&[], &terms, &Doubts::default());
        assert!(found.iter().all(|it| it.gate.is_none()));
    }
}
