//! What is compared, on which scale, and the figure of each metric that one run contributes.

use crate::format::latency::Quantiles;
use crate::format::summary::Summary;
use crate::limits::OWN_LATENESS_LIMIT;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Committed per second.
    Committed,
    /// Accepted per second.
    Accepted,
    /// Not accepted, or accepted and in no block by the end, as a share of planned.
    Lost,
    /// A quantile of accepted − due, in milliseconds.
    Accept(Quantile),
    /// A quantile of committed − due, in milliseconds.
    Commit(Quantile),
    /// A figure above zero of another kind of run.
    Other(OtherMetric),
}

/// A figure of runs that are not a load on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherMetric {
    /// Its name.
    pub name: &'static str,
    /// Its unit: `/s`, `ms`, or nothing.
    pub unit: &'static str,
    /// Whether more of it is better.
    pub is_gain: bool,
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

impl Metric {
    /// Those of a load on a node, in the order of a table.
    pub const OF_LOADS: [Self; 9] = [
        Self::Committed,
        Self::Accepted,
        Self::Lost,
        Self::Accept(Quantile::P50),
        Self::Accept(Quantile::P95),
        Self::Accept(Quantile::P99),
        Self::Commit(Quantile::P50),
        Self::Commit(Quantile::P95),
        Self::Commit(Quantile::P99),
    ];

    /// As a condition would name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Committed => "rate.committed_tps",
            Self::Accepted => "rate.accepted_tps",
            Self::Lost => "lost.share",
            Self::Accept(Quantile::P50) => "accept.p50",
            Self::Accept(Quantile::P95) => "accept.p95",
            Self::Accept(Quantile::P99) => "accept.p99",
            Self::Commit(Quantile::P50) => "commit.p50",
            Self::Commit(Quantile::P95) => "commit.p95",
            Self::Commit(Quantile::P99) => "commit.p99",
            Self::Other(other) => other.name,
        }
    }

    /// Its unit: `/s`, `ms`, or nothing for a share.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Committed | Self::Accepted => "/s",
            Self::Lost => "",
            Self::Accept(_) | Self::Commit(_) => "ms",
            Self::Other(other) => other.unit,
        }
    }

    /// The metric of a load with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::OF_LOADS
            .into_iter()
            .find(|metric| metric.name() == name)
    }

    /// Whether more of it is better.
    #[must_use]
    pub const fn is_gain(self) -> bool {
        match self {
            Self::Other(other) => other.is_gain,
            _ => matches!(self, Self::Committed | Self::Accepted),
        }
    }

    /// What it is compared on.
    pub(super) const fn scale(self) -> Scale {
        Scale {
            is_gain: self.is_gain(),
            is_share: matches!(self, Self::Lost),
        }
    }

    /// What a figure near `value` is known to, on the scale of the comparison, where what it was made of is
    /// known to `known_to_ms`.
    pub(super) fn resolution(self, value: f64, known_to_ms: f64) -> f64 {
        match self {
            Self::Lost => SHARE_RESOLUTION,
            Self::Committed | Self::Accepted | Self::Other(_) => DIGITS,
            Self::Accept(_) | Self::Commit(_) => {
                let stamp_ms = known_to_ms.max(STAMP_MS);
                DIGITS.max((stamp_ms / value.max(stamp_ms)).ln_1p())
            }
        }
    }

    /// The margin or limit when that of a rate is `margin`, for figures near `value`. What loses one in a hundred is no
    /// good, however much slower it might be; a latency that the stamps cannot distinguish from another is not worse.
    pub(super) fn margin(self, margin: f64, value: Option<f64>) -> f64 {
        match (self, value) {
            (Self::Lost, _) => margin.min(crate::limits::LOST_LIMIT),
            (Self::Accept(_) | Self::Commit(_), Some(value)) => {
                margin.max(STAMP_MS / value.max(STAMP_MS))
            }
            _ => margin,
        }
    }
}

/// The scale on which figures of one kind are compared, and which way is for the better.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) is_gain: bool,
    pub(super) is_share: bool,
}

impl Scale {
    /// A value on the scale: rates and latencies are multiplied by what changes them, so their
    /// logarithms are compared, which are also nearer to normal; shares as they are.
    pub(super) fn scaled(self, value: f64) -> f64 {
        if self.is_share {
            value
        } else {
            value.max(SMALLEST).ln()
        }
    }

    /// The value at a place on the scale.
    pub(super) fn unscaled(self, place: f64) -> f64 {
        if self.is_share { place } else { place.exp() }
    }

    /// A difference on the scale as a change: a share of the first side, or the difference of two
    /// shares.
    pub(super) fn change(self, difference: f64) -> f64 {
        if self.is_share {
            difference
        } else {
            difference.exp_m1()
        }
    }

    /// The difference, on the scale, of a change to the worse by this much.
    pub(super) fn difference(self, worse_by: f64) -> f64 {
        match (self.is_share, self.is_gain) {
            (true, _) => worse_by,
            (false, true) => -(-worse_by).ln_1p(),
            (false, false) => worse_by.ln_1p(),
        }
    }

    /// The sign of a difference for the worse.
    pub(super) fn worse(self) -> f64 {
        if self.is_gain { -1.0 } else { 1.0 }
    }
}

/// Stands for zero where a logarithm is taken: far below every rate and latency that is measured.
const SMALLEST: f64 = 1e-6;
/// Three significant digits, as the histograms have ([`SIGNIFICANT_DIGITS`](crate::SIGNIFICANT_DIGITS)).
const DIGITS: f64 = 1e-3;
/// A sender wakes within 0.1 ms of what it waits for (`benches/peers/generate`): its stamps are no
/// finer.
const STAMP_MS: f64 = 0.1;
/// A tenth of the loss that a search allows.
const SHARE_RESOLUTION: f64 = 1e-3;

/// The figures of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunFigures {
    figures: Vec<(Metric, Figure)>,
    /// What its blocks were seen to: 0 where events announced them, else what the polling leaves open.
    pub block_resolution_ms: f64,
    /// By how much the generator itself may have raised p50, p95 and p99 of its latencies.
    pub own_lateness_ms: [f64; 3],
    /// Transactions that were planned: what the share lost is a share of.
    pub planned: u64,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The value, in the metric's unit.
    pub value: f64,
    /// Whether transactions that had not ended could raise it.
    pub is_lower_bound: bool,
}

impl Figure {
    /// A value that nothing can raise.
    #[must_use]
    pub const fn exact(value: f64) -> Self {
        Self {
            value,
            is_lower_bound: false,
        }
    }
}

impl RunFigures {
    /// Of a run with this summary.
    pub fn of(summary: &Summary) -> Self {
        let latencies = &summary.latency_ms;
        let followed = summary.rate.committed_tps.is_some();
        let none = Self {
            block_resolution_ms: summary.blocks.resolution_ms_max.unwrap_or(0.0),
            own_lateness_ms: own_lateness_ms(summary),
            planned: summary.offered.planned,
            ..Self::default()
        };
        Metric::OF_LOADS.into_iter().fold(none, |figures, metric| {
            let figure = match metric {
                Metric::Committed => summary
                    .rate
                    .committed_tps
                    .map(|rate| Figure::exact(rate.mean)),
                Metric::Accepted => summary
                    .rate
                    .accepted_tps
                    .map(|rate| Figure::exact(rate.mean)),
                Metric::Lost => Some(Figure::exact(summary.lost_share(followed))),
                Metric::Accept(quantile) => of_quantile(&latencies.accept_response, quantile),
                Metric::Commit(quantile) => of_quantile(&latencies.commit_from_due, quantile),
                Metric::Other(_) => None,
            };
            figures.with(metric, figure)
        })
    }

    /// With the figure for one more metric.
    #[must_use]
    pub fn with(mut self, metric: Metric, figure: Option<Figure>) -> Self {
        self.figures.extend(figure.map(|figure| (metric, figure)));
        self
    }

    /// The figure for one metric; `None` when the run has none.
    pub fn figure(&self, metric: Metric) -> Option<Figure> {
        let mut figures = self.figures.iter();
        let (_, figure) = figures.find(|(of, _)| *of == metric)?;
        Some(*figure)
    }

    /// What the figure for a metric is known to, apart from its stamps.
    fn resolution_ms(&self, metric: Metric) -> f64 {
        let lateness = |quantile: Quantile| self.own_lateness_ms[quantile as usize];
        match metric {
            Metric::Committed | Metric::Accepted | Metric::Lost | Metric::Other(_) => 0.0,
            Metric::Accept(quantile) => lateness(quantile),
            Metric::Commit(quantile) => lateness(quantile).max(self.block_resolution_ms),
        }
    }

    /// Whether much of the figure for a metric is the lateness of the generator, which shows nothing of the target.
    pub fn is_busy(&self, metric: Metric) -> bool {
        let (Metric::Accept(quantile) | Metric::Commit(quantile)) = metric else {
            return false;
        };
        let value = self.figure(metric).map_or(0.0, |figure| figure.value);
        self.own_lateness_ms[quantile as usize] > OWN_LATENESS_LIMIT * value
    }
}

/// The runs of a side that are compared in a metric, with their figures.
pub(super) struct Usable<'a> {
    pub(super) runs: Vec<(&'a RunFigures, Figure)>,
    /// Whether the generator was too busy in all of them.
    pub(super) is_busy: bool,
}

/// Those whose generator was not too busy, if there is one; `None` where a run has no figure.
pub(super) fn usable(metric: Metric, runs: &[RunFigures]) -> Option<Usable<'_>> {
    let all: Option<Vec<_>> = runs
        .iter()
        .map(|run| Some((run, run.figure(metric)?)))
        .collect();
    let all = all?;
    let is_busy = all.iter().all(|(run, _)| run.is_busy(metric));
    let mut runs = all;
    runs.retain(|(run, _)| is_busy || !run.is_busy(metric));
    Some(Usable { runs, is_busy })
}

/// What the figures of these runs are known to, on the scale of the comparison.
pub(super) fn resolution<'a>(
    metric: Metric,
    scale: Scale,
    runs: impl Iterator<Item = &'a RunFigures> + Clone,
) -> f64 {
    let values = runs.clone().filter_map(|run| run.figure(metric));
    let values = values.map(|figure| scale.scaled(figure.value));
    let middle = values.sum::<f64>() / runs.clone().count().max(1) as f64;
    let known_to_ms = runs.map(|run| run.resolution_ms(metric));
    metric.resolution(scale.unscaled(middle), known_to_ms.fold(0.0, f64::max))
}

/// The lateness at each quantile of a latency that holds some: as many transactions as lie beyond it left late by the
/// fault of the generator or of its connections.
fn own_lateness_ms(summary: &Summary) -> [f64; 3] {
    let causes = &summary.late.causes;
    let late = (causes.by_generator() + causes.connection) as f64;
    let share = late / summary.offered.sent.max(1) as f64;
    let lateness = &summary.latency_ms.lateness;
    [
        (0.5, lateness.p50),
        (0.05, lateness.p95),
        (0.01, lateness.p99),
    ]
    .map(|(beyond, lateness)| lateness.filter(|_| share > beyond).unwrap_or(0.0))
}

/// A quantile; a lower bound where transactions that had not ended can raise it.
pub(super) fn of_quantile(latency: &Quantiles, quantile: Quantile) -> Option<Figure> {
    let name = match quantile {
        Quantile::P50 => "p50",
        Quantile::P95 => "p95",
        Quantile::P99 => "p99",
    };
    latency.figure(name).map(|figure| Figure {
        value: figure.millis,
        is_lower_bound: figure.is_lower_bound(),
    })
}
