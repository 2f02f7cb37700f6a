//! `steps.csv`: one row a step of the profile.

use serde::{Deserialize, Deserializer, Serialize};

use super::{LatencyColumns, TableRow};
use crate::format::counts::{Counts, Late, adds_up};
use crate::format::fate::Cohort;
use crate::format::latency::{LatencyFigure, without_own};

/// One step of the profile. Counts are of events stamped within the step, so `accepted` and
/// `committed` are what the node did during the step; what became of the transactions due in it is in
/// `cohort`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRow {
    /// Position in the profile, from 0.
    pub step: u32,
    /// Begin, seconds since the origin.
    pub start_s: f64,
    /// End, seconds since the origin.
    pub end_s: f64,
    /// Mean rate of the profile.
    pub rate_tps: f64,
    /// Whether the step is a pause.
    #[serde(deserialize_with = "flag")]
    pub pause: bool,
    /// What was counted.
    #[serde(flatten)]
    pub counts: Counts,
    /// `offered` over the step's span.
    pub offered_tps: Option<f64>,
    /// `sent` over the step's span.
    pub sent_tps: Option<f64>,
    /// `accepted` over the step's span.
    pub accepted_tps: Option<f64>,
    /// What the blocks after the step's first one up to its last one committed (code 0), over the
    /// time between these two; empty when fewer than two blocks fell into the step.
    pub committed_tps: Option<f64>,
    /// Sent more than 1 ms late, by cause.
    #[serde(flatten, with = "LateColumns")]
    pub late: Late,
    /// Sent and not answered at the step's end.
    pub in_flight: u64,
    /// By how much that grew in the step.
    pub in_flight_growth: i64,
    /// Accepted and not in a block at the step's end.
    pub backlog: u64,
    /// By how much that grew in the step.
    pub backlog_growth: i64,
    /// Transactions in the fullest mempool, last sample of the step.
    pub mempool_txs: Option<u64>,
    /// Of the events of this step.
    #[serde(flatten)]
    pub latency: LatencyColumns,
    /// What had become of the transactions due in the step, `awaited_s` after its end.
    #[serde(flatten)]
    pub cohort: Cohort,
    /// How long after the step's end its transactions were awaited: until all had their fate, or as long
    /// as a node that keeps up takes. Empty when the run ended before, or the step was cut short: it is not judged.
    #[serde(default)]
    pub awaited_s: Option<f64>,
    /// The longest time without an answer that lies in the step or reaches into it, while requests
    /// waited, to a tenth of a second.
    #[serde(default)]
    pub answer_gap_s: f64,
    /// The same without a block, while accepted transactions waited.
    #[serde(default)]
    pub block_gap_s: f64,
    /// The step that this one offers a second time, because the first time failed by a stall.
    #[serde(default)]
    pub again_of: Option<u32>,
    /// How long a thread of a node on this machine had work all the time and waited for a processor, in seconds.
    #[serde(default)]
    pub node_lack_s: f64,
}

adds_up!(StepRow {
    sum: counts, late, in_flight, in_flight_growth, backlog, backlog_growth, cohort;
    max: end_s, mempool_txs, answer_gap_s, block_gap_s, node_lack_s
});

impl StepRow {
    /// The share of it for which the node lacked the processor, 0 to 1.
    pub fn node_lack(&self) -> f64 {
        (self.node_lack_s / self.span_s()).clamp(0.0, 1.0)
    }

    /// What people call it: its number, or `3 again` for the second offering of step 3.
    pub fn name(&self) -> String {
        match self.again_of {
            Some(first) => format!("{first} again"),
            None => self.step.to_string(),
        }
    }

    /// A latency of the step by its column, with what it can be at least without the generator's own lateness.
    pub fn figure(&self, column: &str) -> Option<LatencyFigure> {
        let figure = self.latency.figure(column)?;
        let from_sent = match column {
            "accept_p50_ms" => self.latency.service_p50_ms,
            "accept_p99_ms" => self.latency.service_p99_ms,
            _ => None,
        };
        let most = self.latency.lateness_max_ms;
        let own_ms = most.map_or(0.0, |most| self.late.own_ms(most));
        Some(LatencyFigure {
            without_own: without_own(figure.millis, from_sent, own_ms),
            ..figure
        })
    }

    /// How long the step is, in seconds.
    pub const fn span_s(&self) -> f64 {
        self.end_s - self.start_s
    }

    /// Gives it the rates of its counts; `committed_tps` comes from the blocks.
    pub(crate) fn with_rates(mut self, committed_tps: Option<f64>) -> Self {
        let span_s = self.span_s();
        let rate = |count: u64| (span_s > 0.0).then(|| count as f64 / span_s);
        self.offered_tps = rate(self.counts.offered);
        self.sent_tps = rate(self.counts.sent);
        self.accepted_tps = rate(self.counts.accepted);
        self.committed_tps = committed_tps;
        self
    }
}

/// How the columns of [`Late`] are called here.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Late")]
struct LateColumns {
    #[serde(rename = "late_schedule")]
    schedule: u64,
    #[serde(rename = "late_source")]
    source: u64,
    #[serde(rename = "late_connection")]
    connection: u64,
    #[serde(rename = "late_node")]
    node: u64,
}

/// 0 or 1 in the table, `true` or `false` in JSON.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected 0 or 1")]
    enum Flag {
        Json(bool),
        Table(u8),
    }
    match Flag::deserialize(deserializer)? {
        Flag::Json(flag) => Ok(flag),
        Flag::Table(number @ 0..=1) => Ok(number == 1),
        Flag::Table(_) => Err(serde::de::Error::custom("expected 0 or 1")),
    }
}

impl TableRow for StepRow {
    const FILE: &'static str = "steps.csv";
    const HEADER: &'static str = "step,start_s,end_s,rate_tps,pause,offered,sent,unsent,accepted,rejected,errors,committed,commit_failed,blocks,offered_tps,sent_tps,accepted_tps,committed_tps,late_schedule,late_source,late_connection,late_node,in_flight,in_flight_growth,backlog,backlog_growth,mempool_txs,lateness_p50_ms,lateness_p99_ms,lateness_max_ms,accept_p50_ms,accept_p95_ms,accept_p99_ms,service_p50_ms,service_p99_ms,commit_p50_ms,commit_p95_ms,commit_p99_ms,unverified,at_least,due_sent,due_unsent,due_accepted,due_refused,due_committed,due_commit_failed,due_unverified,awaited_s,answer_gap_s,block_gap_s,again_of,due_behind,due_crowded,due_held_up,node_lack_s\n";
    const FIRST_LATER: Option<&'static str> = Some("unverified");
}
