//! The quantiles of `series.csv` and `steps.csv`.

use pacing::Nanos;
use serde::{Deserialize, Serialize};

use crate::latency::{LatencyKind, LatencySet};

/// Quantiles of the events of a row, in milliseconds; empty where nothing happened. `series.csv` has
/// those that change within seconds, `steps.csv` all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyColumns {
    /// Median of sent − due.
    pub lateness_p50_ms: Option<f64>,
    /// 99 % of sent − due.
    pub lateness_p99_ms: Option<f64>,
    /// Maximum of sent − due.
    pub lateness_max_ms: Option<f64>,
    /// Median of accepted − due.
    pub accept_p50_ms: Option<f64>,
    /// 95 % of accepted − due.
    pub accept_p95_ms: Option<f64>,
    /// 99 % of accepted − due.
    pub accept_p99_ms: Option<f64>,
    /// Median of accepted − sent.
    pub service_p50_ms: Option<f64>,
    /// 99 % of accepted − sent.
    pub service_p99_ms: Option<f64>,
    /// Median of committed − due.
    pub commit_p50_ms: Option<f64>,
    /// 95 % of committed − due.
    pub commit_p95_ms: Option<f64>,
    /// 99 % of committed − due.
    pub commit_p99_ms: Option<f64>,
}

impl LatencyColumns {
    pub(crate) fn of(latencies: &LatencySet) -> Self {
        let at = |kind, quantile| {
            latencies
                .of(kind)
                .quantile(quantile)
                .map(Nanos::as_millis_f64)
        };
        Self {
            lateness_p50_ms: at(LatencyKind::Lateness, 0.50),
            lateness_p99_ms: at(LatencyKind::Lateness, 0.99),
            lateness_max_ms: latencies
                .of(LatencyKind::Lateness)
                .max()
                .map(Nanos::as_millis_f64),
            accept_p50_ms: at(LatencyKind::AcceptResponse, 0.50),
            accept_p95_ms: at(LatencyKind::AcceptResponse, 0.95),
            accept_p99_ms: at(LatencyKind::AcceptResponse, 0.99),
            service_p50_ms: at(LatencyKind::AcceptService, 0.50),
            service_p99_ms: at(LatencyKind::AcceptService, 0.99),
            commit_p50_ms: at(LatencyKind::CommitFromDue, 0.50),
            commit_p95_ms: at(LatencyKind::CommitFromDue, 0.95),
            commit_p99_ms: at(LatencyKind::CommitFromDue, 0.99),
        }
    }
}
