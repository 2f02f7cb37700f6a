//! What one run contributes to a comparison: one figure for each metric.

use super::metric::{Metric, Quantile, Scale};
use crate::format::latency::Quantiles;
use crate::format::summary::Summary;
use crate::limits::OWN_LATENESS_LIMIT;

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

    /// Whether much of the figure for a metric is the lateness of the generator, which says nothing of the target.
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
