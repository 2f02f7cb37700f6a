//! Runs side by side: by how much a metric differs, and whether chance explains it.
//!
//! A run is cut into stretches of time ([`RunCourse`]); the bootstrap draws stretches with
//! replacement and computes every metric anew, a thousand times (Efron, Tibshirani: "An introduction
//! to the bootstrap", 1993, chapter 13; stretches instead of single transactions because neighbours
//! depend on each other, as in the block bootstrap of Künsch, Annals of Statistics 17, 1989). Where
//! both sides have several runs, whole runs are drawn instead: what differs from run to run is then
//! in the interval too.

mod course;

pub use course::RunCourse;

use pacing::Random;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Committed per second.
    Committed,
    /// Accepted per second.
    Accepted,
    /// Rejected, failed and unanswered as a share of sent.
    Lost,
    /// A quantile of accepted − due, in milliseconds.
    Accept(Quantile),
    /// A quantile of committed − due, in milliseconds.
    Commit(Quantile),
}

/// Which part of the transactions took no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantile {
    /// Half.
    P50,
    /// 95 %.
    P95,
    /// 99 %.
    P99,
}

/// What is fixed about a metric: itself, as a condition would name it, its unit.
type Row = (Metric, &'static str, &'static str);

const METRICS: [Row; 9] = [
    (Metric::Committed, "rate.committed_tps", "/s"),
    (Metric::Accepted, "rate.accepted_tps", "/s"),
    (Metric::Lost, "failed.share", ""),
    (Metric::Accept(Quantile::P50), "accept.p50", "ms"),
    (Metric::Accept(Quantile::P95), "accept.p95", "ms"),
    (Metric::Accept(Quantile::P99), "accept.p99", "ms"),
    (Metric::Commit(Quantile::P50), "commit.p50", "ms"),
    (Metric::Commit(Quantile::P95), "commit.p95", "ms"),
    (Metric::Commit(Quantile::P99), "commit.p99", "ms"),
];

impl Quantile {
    /// The part.
    #[must_use]
    pub const fn share(self) -> f64 {
        match self {
            Self::P50 => 0.50,
            Self::P95 => 0.95,
            Self::P99 => 0.99,
        }
    }
}

impl Metric {
    /// All of them, in the order of a table.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        METRICS.into_iter().map(|(metric, ..)| metric)
    }

    /// As a condition would name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Its unit: `/s`, `ms`, or nothing for a share.
    #[must_use]
    pub fn unit(self) -> &'static str {
        self.row().2
    }

    /// Whether more of it is better.
    #[must_use]
    pub const fn is_gain(self) -> bool {
        matches!(self, Self::Committed | Self::Accepted)
    }

    fn row(self) -> Row {
        let row = METRICS.into_iter().find(|(metric, ..)| *metric == self);
        row.expect("every metric has a row")
    }
}

/// How one metric differs between two sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Which.
    pub metric: Metric,
    /// On the first side; `None` when there is none.
    pub base: Option<f64>,
    /// On the second side.
    pub other: Option<f64>,
    /// The change and the interval in which it lies; `None` where a side has no value.
    pub change: Option<Change>,
}

/// A change as a share of the first side; of shares ([`Metric::Lost`]) their difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// As measured.
    pub by: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What a change means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// For the better, beyond chance.
    Better,
    /// For the worse, beyond chance.
    Worse,
    /// Chance explains it.
    Chance,
    /// A side has no value, or too few to tell.
    Unknown,
}

impl Difference {
    /// What it means: a change whose interval contains zero may be chance.
    #[must_use]
    pub fn meaning(&self) -> Meaning {
        let Some(change) = self.change else {
            return Meaning::Unknown;
        };
        if change.low.is_nan() || change.high.is_nan() {
            return Meaning::Unknown;
        }
        match (change.low > 0.0, change.high < 0.0, self.metric.is_gain()) {
            (true, _, true) | (_, true, false) => Meaning::Better,
            (_, true, true) | (true, _, false) => Meaning::Worse,
            _ => Meaning::Chance,
        }
    }

    /// Whether it is worse by more than `limit`, and not by chance.
    #[must_use]
    pub fn is_regression(&self, limit: f64) -> bool {
        let Some(change) = self.change else {
            return false;
        };
        let worse_by = if self.metric.is_gain() {
            -change.by
        } else {
            change.by
        };
        self.meaning() == Meaning::Worse && worse_by > limit
    }
}

/// What was drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drawn {
    /// Stretches of time.
    Stretches,
    /// Whole runs.
    Runs,
}

/// Compares two sides, each one run or several of the same load.
#[must_use]
pub fn compare(base: &[RunCourse], other: &[RunCourse]) -> (Vec<Difference>, Drawn) {
    let drawn = match base.len().min(other.len()) {
        0 | 1 => Drawn::Stretches,
        _ => Drawn::Runs,
    };
    let base_values = values_of(base, drawn, &mut Random::new(1));
    let other_values = values_of(other, drawn, &mut Random::new(2));
    let differences = Metric::all()
        .zip(base_values.iter().zip(&other_values))
        .map(|(metric, (base, other))| difference(metric, base, other))
        .collect();
    (differences, drawn)
}

/// A metric as measured, and as it might have been.
struct Values {
    measured: Option<f64>,
    resampled: Vec<f64>,
}

/// A number below `bound`, which is not zero.
fn below(random: &mut Random, bound: usize) -> usize {
    (random.unit() * bound as f64) as usize
}

/// For each metric its values on one side.
fn values_of(side: &[RunCourse], drawn: Drawn, random: &mut Random) -> Vec<Values> {
    let per_run: Vec<Vec<Option<f64>>> = match drawn {
        Drawn::Runs => side
            .iter()
            .map(|run| course::metrics(&[run], None))
            .collect(),
        Drawn::Stretches => Vec::new(),
    };
    let whole: Vec<&RunCourse> = side.iter().collect();
    let measured = match drawn {
        Drawn::Runs => means(&per_run, |place| place, per_run.len()),
        Drawn::Stretches => course::metrics(&whole, None),
    };
    let mut values: Vec<Values> = measured
        .into_iter()
        .map(|measured| Values {
            measured,
            resampled: Vec::with_capacity(RESAMPLES),
        })
        .collect();
    for _ in 0..RESAMPLES {
        let drawn = match drawn {
            Drawn::Runs => {
                let places: Vec<usize> = per_run
                    .iter()
                    .map(|_| below(random, per_run.len()))
                    .collect();
                means(&per_run, |place| places[place], places.len())
            }
            Drawn::Stretches => {
                let weights: Vec<Vec<u32>> = side.iter().map(|run| run.draw(random)).collect();
                course::metrics(&whole, Some(&weights))
            }
        };
        for (values, drawn) in values.iter_mut().zip(drawn) {
            values.resampled.extend(drawn);
        }
    }
    values
}

/// The mean of each metric over the runs at these places.
fn means(
    per_run: &[Vec<Option<f64>>],
    place: impl Fn(usize) -> usize,
    count: usize,
) -> Vec<Option<f64>> {
    (0..METRICS.len())
        .map(|metric| {
            let sum: Option<f64> = (0..count).map(|run| per_run[place(run)][metric]).sum();
            sum.map(|sum| sum / count as f64)
        })
        .collect()
}

fn difference(metric: Metric, base: &Values, other: &Values) -> Difference {
    let change_of = |base: f64, other: f64| match metric {
        Metric::Lost => other - base,
        _ => other / base - 1.0,
    };
    let change = base.measured.zip(other.measured).map(|(one, two)| {
        let mut changes: Vec<f64> = base
            .resampled
            .iter()
            .zip(&other.resampled)
            .map(|(base, other)| change_of(*base, *other))
            .filter(|change| change.is_finite())
            .collect();
        changes.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (share * (changes.len().max(1) - 1) as f64).round() as usize;
            changes.get(place).copied().unwrap_or(f64::NAN)
        };
        Change {
            by: change_of(one, two),
            low: at(TAIL),
            high: at(1.0 - TAIL),
        }
    });
    Difference {
        metric,
        base: base.measured,
        other: other.measured,
        change: change.filter(|change| change.by.is_finite()),
    }
}

/// Enough for the ends of a 95 % interval (Efron, Tibshirani, chapter 19).
const RESAMPLES: usize = 1000;
const TAIL: f64 = 0.025;

#[cfg(test)]
mod tests;
