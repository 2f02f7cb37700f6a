//! What one run contributes to a comparison: one figure for each metric.

use super::metric::{Metric, Quantile};
use crate::format::latency::Quantiles;
use crate::format::summary::Summary;

/// The figures of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunFigures {
    figures: Vec<(Metric, Figure)>,
    /// What its blocks were seen to: 0 where events announced them, else what the polling leaves open.
    pub block_resolution_ms: f64,
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
