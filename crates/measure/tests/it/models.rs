//! Models of what is concluded about, for the calibration: tests assert on them, and
//! `benches/calibration.rs` prints its tables from them.

use base::Random;
use measure::judge::{capacity_tps, growth_finding};
use measure::limits::BEHIND_LIMIT;
use measure::{
    BlockMark, CompareTerms, Difference, Ending, Figure, Finding, KneeSearch, KneeSettings, Metric,
    Next, RunFigures, Trial, backlog_growth, compare,
};
use pacing::Nanos;

/// Nearly normal, with mean 0 and standard deviation 1.
pub(crate) fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

/// A chain with a known capacity, and a generator that is now and then starved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain {
    /// Transactions per second that its blocks hold.
    pub(crate) capacity: f64,
    /// Seconds between blocks; they vary by 2 %.
    pub(crate) interval_s: f64,
    /// Standard deviation of what a block holds, as a share.
    pub(crate) block_noise: f64,
    /// Standard deviation of the capacity from one trial to the next, as a share.
    pub(crate) trial_noise: f64,
    /// Share of the trials in which the generator gets out only 50 to 105 % of the rate.
    pub(crate) starved: f64,
    /// By how much the capacity falls, as a share, for each share that is offered beyond it.
    pub(crate) falls: f64,
}

impl Chain {
    /// A block a second, each a tenth more or less; 3 % from trial to trial.
    pub(crate) const NOISY: Self = Self {
        capacity: 1_000.0,
        interval_s: 1.0,
        block_noise: 0.1,
        trial_noise: 0.03,
        starved: 0.0,
        falls: 0.0,
    };

    /// Looks for the capacity, which the seed chooses between 250/s and 2,000/s.
    pub(crate) fn searched(mut self, seed: u64) -> (f64, KneeSearch, Ending) {
        let mut random = Random::new(seed);
        self.capacity = 250.0 * 8_f64.powf(random.unit());
        let mut search = KneeSearch::new(KneeSettings {
            min: 100.0,
            max: 8_000.0,
            ..KneeSettings::default()
        });
        loop {
            match search.next() {
                Next::Done(ending) => return (self.capacity, search, ending),
                Next::Try { rate, length, .. } => {
                    search.add(self.offered(rate, length * TRIAL_S, &mut random));
                }
            }
        }
    }

    /// Offers a rate for so many seconds and judges it.
    pub(crate) fn offered(&self, rate: f64, seconds: f64, random: &mut Random) -> Trial {
        let starved = random.unit() < self.starved;
        let share = if starved {
            0.5 + 0.55 * random.unit()
        } else {
            1.0
        };
        let share = share.min(1.0);
        let blocks = self.blocks(rate * share, seconds, random);
        if share < 1.0 - BEHIND_LIMIT {
            return Trial {
                rate,
                finding: Finding::Unusable,
                capacity_tps: None,
            };
        }
        let due = |at: Nanos| (rate * at.as_secs_f64()).ceil() as u64;
        let (from, until) = (seconds / 4.0, seconds);
        let [from, until] = [from, until].map(|at| Nanos::from_nanos((at * 1e9) as u64));
        let growth = backlog_growth(&blocks, due, from, until);
        let shown = |growth| (growth_finding(&growth, rate), capacity_tps(&growth, rate));
        let (finding, capacity_tps) = growth.map_or((Finding::Undecided, None), shown);
        Trial {
            rate,
            finding,
            capacity_tps,
        }
    }

    fn blocks(&self, sent_tps: f64, seconds: f64, random: &mut Random) -> Vec<BlockMark> {
        let capacity = self.capacity * (self.trial_noise * normal(random)).exp();
        let excess = (sent_tps / capacity - 1.0).max(0.0);
        let capacity = capacity * (1.0 - self.falls * excess).max(0.3);
        let mut at = self.interval_s * random.unit();
        let (mut blocks, mut committed) = (Vec::new(), 0.0);
        while at < seconds {
            let room = capacity * self.interval_s * (1.0 + self.block_noise * normal(random));
            let txs = ((sent_tps * at).ceil() - committed).min(room.max(0.0).floor());
            committed += txs;
            blocks.push(BlockMark {
                observed: Nanos::from_nanos((at * 1e9) as u64),
                committed: txs as u64,
            });
            at += self.interval_s * (1.0 + 0.02 * normal(random)).max(0.2);
        }
        blocks
    }
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
    /// One run whose rates are lower and whose latencies are higher by `worse_by` than the model's.
    pub(crate) fn run(&self, worse_by: f64, random: &mut Random) -> RunFigures {
        let outlier = random.unit() < self.outliers;
        let spread = self.spread * if outlier { 5.0 } else { 1.0 };
        let common = normal(random);
        let none = RunFigures::default();
        Metric::OF_LOADS.into_iter().fold(none, |figures, metric| {
            let noise = spread * f64::midpoint(common, normal(random)) * std::f64::consts::SQRT_2;
            let value = match metric {
                Metric::Lost => 0.0,
                _ if metric.is_gain() => 1_000.0 * noise.exp() / (1.0 + worse_by),
                _ => 500.0 * noise.exp() * (1.0 + worse_by),
            };
            figures.with(metric, Some(Figure::exact(value)))
        })
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
        compare(&Metric::OF_LOADS, &base, &other, terms)
    }
}

/// A trial's usual length in seconds.
const TRIAL_S: f64 = 20.0;
