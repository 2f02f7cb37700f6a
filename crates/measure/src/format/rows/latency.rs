//! The quantiles of `series.csv` and `steps.csv`.

use pacing::Nanos;
use serde::{Deserialize, Serialize};

use crate::format::latency::{LatencyFigure, LatencyKind, LatencySet};

/// Defines the columns from one list: the field of each, its latency and its quantile.
macro_rules! columns {
    ($($(#[$doc:meta])* $column:ident: $kind:ident at $quantile:literal,)*) => {
        /// Quantiles of the events of a row, in milliseconds; empty where nothing happened. `series.csv`
        /// has those that change within seconds, `steps.csv` all of them.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        pub struct LatencyColumns {
            $($(#[$doc])* pub $column: Option<f64>,)*
            /// The columns among these that are lower bounds, apart by blanks: so many others had waited
            /// longer at the end of the row, and were not answered or in no block yet.
            #[serde(default)]
            pub at_least: String,
        }

        impl LatencyColumns {
            pub(crate) fn of(latencies: &LatencySet) -> Self {
                let at = |kind, quantile| {
                    let value = latencies.of(kind).quantile(quantile);
                    value.map(Nanos::as_millis_f64)
                };
                Self {
                    $($column: at(LatencyKind::$kind, $quantile),)*
                    at_least: String::new(),
                }
            }

            /// A column by its name; `None` when it is empty.
            pub fn figure(&self, name: &str) -> Option<LatencyFigure> {
                let millis = match name {
                    $(stringify!($column) => self.$column,)*
                    _ => None,
                }?;
                let raised = self.at_least.split(' ').any(|raised| raised == name);
                Some(LatencyFigure {
                    without_own: None,
                    millis,
                    at_most: (!raised).then_some(millis),
                })
            }
        }

        pub(crate) const COLUMNS: &[(&str, LatencyKind, f64)] =
            &[$((stringify!($column), LatencyKind::$kind, $quantile)),*];
    };
}

columns! {
    /// Median of sent − due.
    lateness_p50_ms: Lateness at 0.50,
    /// 99 % of sent − due.
    lateness_p99_ms: Lateness at 0.99,
    /// Maximum of sent − due.
    lateness_max_ms: Lateness at 1.0,
    /// Median of accepted − due.
    accept_p50_ms: AcceptResponse at 0.50,
    /// 95 % of accepted − due.
    accept_p95_ms: AcceptResponse at 0.95,
    /// 99 % of accepted − due.
    accept_p99_ms: AcceptResponse at 0.99,
    /// Median of accepted − sent.
    service_p50_ms: AcceptService at 0.50,
    /// 99 % of accepted − sent.
    service_p99_ms: AcceptService at 0.99,
    /// Median of committed − due.
    commit_p50_ms: CommitFromDue at 0.50,
    /// 95 % of committed − due.
    commit_p95_ms: CommitFromDue at 0.95,
    /// 99 % of committed − due.
    commit_p99_ms: CommitFromDue at 0.99,
}
