//! Models of what is concluded about, for the calibration: tests assert on them, and
//! `benches/calibration.rs` prints its tables from them.

use base::Random;
use measure::{
    Block, CompareTerms, ComparisonVerdict, Difference, Doubts, Figure, Gate, Metric, RunFigures,
    compare, compare_turns, gated,
};

/// Nearly normal, with mean 0 and standard deviation 1.
pub(crate) fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

/// Repeats of one load: each metric varies from run to run, in part with all others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repeats {
    /// Standard deviation between runs, as a share.
    pub(crate) spread: f64,
    /// Share of the runs that vary five times as much (a contaminated normal distribution).
    pub(crate) outliers: f64,
}

impl Repeats {
    /// One run whose rates are lower and whose latencies are higher by `worse_by` than the model's. Of 3,000
    /// transactions 0.2 % are lost, and [`lost_by`](Self::lost_by) more, in numbers of their own (Poisson).
    pub(crate) fn run(&self, worse_by: f64, random: &mut Random) -> RunFigures {
        let outlier = random.unit() < self.outliers;
        let spread = self.spread * if outlier { 5.0 } else { 1.0 };
        let common = normal(random);
        let mut run = RunFigures::default();
        run.planned = PLANNED;
        Metric::OF_LOADS.into_iter().fold(run, |figures, metric| {
            let noise = spread * f64::midpoint(common, normal(random)) * std::f64::consts::SQRT_2;
            let value = match metric {
                Metric::Lost => {
                    let share = 0.002 + Self::lost_by(worse_by);
                    let mean = share * (noise - spread * spread / 2.0).exp() * PLANNED as f64;
                    poisson(mean, random) as f64 / PLANNED as f64
                }
                _ if metric.is_gain() => 1_000.0 * noise.exp() / (1.0 + worse_by),
                _ => 500.0 * noise.exp() * (1.0 + worse_by),
            };
            figures.with(metric, Some(Figure::exact(value)))
        })
    }

    /// The share that is lost more where all else is worse by `worse_by`.
    pub(crate) fn lost_by(worse_by: f64) -> f64 {
        worse_by.max(0.0) / 50.0
    }

    /// Whether the interval of a metric holds the change that the model has.
    pub(crate) fn holds(difference: &Difference, worse_by: f64) -> bool {
        let truth = match difference.metric {
            Metric::Lost => Self::lost_by(worse_by),
            metric if metric.is_gain() => 1.0 / (1.0 + worse_by) - 1.0,
            _ => worse_by,
        };
        let change = difference.change.and_then(|change| change.interval);
        change.is_some_and(|(low, high)| low <= truth && truth <= high)
    }

    /// So many runs a side, the second side worse by `worse_by`.
    pub(crate) fn compared(
        &self,
        runs: usize,
        worse_by: f64,
        terms: &CompareTerms,
        random: &mut Random,
    ) -> Vec<Difference> {
        let mut side = |worse_by| -> Vec<RunFigures> {
            (0..runs).map(|_| self.run(worse_by, random)).collect()
        };
        let (base, other) = (side(0.0), side(worse_by));
        compare(&base, &other, terms, &Doubts::default())
    }
}

/// What `txgen ab` decides by.
pub(crate) fn ab_terms() -> CompareTerms {
    let names = [
        "rate.committed_tps",
        "lost.share",
        "commit.p50",
        "commit.p95",
    ];
    CompareTerms {
        margin: 0.05,
        limit: None,
        metrics: names.into_iter().filter_map(Metric::named).collect(),
    }
}

/// A comparison in turns whose runs drift and depend on the ones before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turns {
    /// Of a run by itself.
    pub(crate) repeats: Repeats,
    /// What all figures change by from the first to the last run, as a share; linear in time.
    pub(crate) drift: f64,
    /// How much of a run's deviation the next one keeps (autoregression of the first order).
    pub(crate) memory: f64,
    /// By how much the second side is worse.
    pub(crate) worse_by: f64,
}

/// How a comparison in turns ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TurnsEnd {
    pub(crate) gate: Gate,
    /// Whether any metric was called better or worse at any look.
    pub(crate) has_alarm: bool,
    pub(crate) runs: usize,
}

impl Turns {
    /// Looks after each block until it can be told, or 15 blocks are played.
    pub(crate) fn played(&self, terms: &CompareTerms, random: &mut Random) -> TurnsEnd {
        let mut blocks: Vec<Block> = Vec::new();
        let mut kept = 0.0;
        let mut end = TurnsEnd {
            gate: Gate::Open,
            has_alarm: false,
            runs: 0,
        };
        let all = 4 * MOST_BLOCKS;
        while end.gate == Gate::Open && end.runs < all {
            let is_reversed = blocks.len() % 2 == 1;
            let runs = Block::order(is_reversed).map(|is_other| {
                let fresh = (1.0 - self.memory * self.memory).sqrt() * normal(random);
                kept = self.memory * kept + fresh;
                let spread = self.repeats.spread;
                let common = if self.memory > 0.0 {
                    spread * kept
                } else {
                    0.0
                };
                let drift = self.drift * end.runs as f64 / all as f64;
                end.runs += 1;
                let worse =
                    (common + drift).exp() * if is_other { 1.0 + self.worse_by } else { 1.0 };
                self.repeats.run(worse - 1.0, random)
            });
            blocks.push(Block { runs, is_reversed });
            let found = compare_turns(&blocks, terms, &Doubts::default());
            end.has_alarm |= found.iter().any(|it| {
                matches!(
                    it.meaning,
                    ComparisonVerdict::Better | ComparisonVerdict::Worse
                )
            });
            end.gate = gated(&found).unwrap_or(Gate::Open);
        }
        end
    }
}

/// 60 runs: half an hour of half a minute each.
const MOST_BLOCKS: usize = 15;

/// A Poisson number by Knuth's product of uniform numbers.
fn poisson(mean: f64, random: &mut Random) -> u64 {
    let (least, mut product, mut count) = ((-mean).exp(), random.unit(), 0);
    while product > least {
        product *= random.unit();
        count += 1;
    }
    count
}

/// Transactions of a run.
const PLANNED: u64 = 3_000;
