//! `steps.csv`: one row a step of the profile.

use serde::{Deserialize, Serialize};

use super::csv::Row;
use crate::read::{Fields, ReadError, TableRow};

/// One step of the profile. Counts are of events stamped within the step, so `accepted` and
/// `committed` are what the node did during the step, not what became of the step's transactions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRow {
    /// Position in the profile, from 0.
    pub step: u32,
    /// Begin, seconds since the origin.
    pub start_s: f64,
    /// End, seconds since the origin.
    pub end_s: f64,
    /// Mean rate the profile wants.
    pub rate_tps: f64,
    /// Whether the step is a pause.
    pub pause: bool,
    /// Due.
    pub offered: u64,
    /// Handed to a socket.
    pub sent: u64,
    /// Given up.
    pub unsent: u64,
    /// Answered with code 0.
    pub accepted: u64,
    /// Answered with another code or a JSON-RPC error.
    pub rejected: u64,
    /// Without a usable answer.
    pub errors: u64,
    /// Own transactions seen in blocks, code 0.
    pub committed: u64,
    /// Own transactions seen in blocks, other code.
    pub commit_failed: u64,
    /// Blocks observed.
    pub blocks: u64,
    /// `offered` over the step's span.
    pub offered_tps: Option<f64>,
    /// `sent` over the step's span.
    pub sent_tps: Option<f64>,
    /// `accepted` over the step's span.
    pub accepted_tps: Option<f64>,
    /// What the blocks after the step's first one up to its last one committed (code 0), over the
    /// time between these two; empty when fewer than two blocks fell into the step.
    pub committed_tps: Option<f64>,
    /// Later than 1 ms: the generator's thread.
    pub late_schedule: u64,
    /// Later than 1 ms: the transaction was not ready.
    pub late_source: u64,
    /// Later than 1 ms: no connection.
    pub late_connection: u64,
    /// Later than 1 ms: connections waited for the node.
    pub late_node: u64,
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
    /// Lateness.
    pub lateness_p50_ms: Option<f64>,
    /// Lateness.
    pub lateness_p99_ms: Option<f64>,
    /// Lateness.
    pub lateness_max_ms: Option<f64>,
    /// accepted − due.
    pub accept_p50_ms: Option<f64>,
    /// accepted − due.
    pub accept_p95_ms: Option<f64>,
    /// accepted − due.
    pub accept_p99_ms: Option<f64>,
    /// accepted − sent.
    pub service_p50_ms: Option<f64>,
    /// accepted − sent.
    pub service_p99_ms: Option<f64>,
    /// committed − due.
    pub commit_p50_ms: Option<f64>,
    /// committed − due.
    pub commit_p95_ms: Option<f64>,
    /// committed − due.
    pub commit_p99_ms: Option<f64>,
}

pub(crate) const STEPS_HEADER: &str = "step,start_s,end_s,rate_tps,pause,offered,sent,unsent,accepted,rejected,errors,committed,commit_failed,blocks,offered_tps,sent_tps,accepted_tps,committed_tps,late_schedule,late_source,late_connection,late_node,in_flight,in_flight_growth,backlog,backlog_growth,mempool_txs,lateness_p50_ms,lateness_p99_ms,lateness_max_ms,accept_p50_ms,accept_p95_ms,accept_p99_ms,service_p50_ms,service_p99_ms,commit_p50_ms,commit_p95_ms,commit_p99_ms\n";

impl StepRow {
    pub(crate) fn write_csv(&self, out: &mut Vec<u8>) {
        let mut row = Row::new(out);
        self.write_counts(&mut row);
        self.write_rates(&mut row);
        self.write_latencies(&mut row);
        row.end();
    }

    fn write_counts(&self, row: &mut Row<'_>) {
        row.integer(self.step)
            .decimal(Some(self.start_s))
            .decimal(Some(self.end_s))
            .decimal(Some(self.rate_tps))
            .integer(u8::from(self.pause))
            .integer(self.offered)
            .integer(self.sent)
            .integer(self.unsent)
            .integer(self.accepted)
            .integer(self.rejected)
            .integer(self.errors)
            .integer(self.committed)
            .integer(self.commit_failed)
            .integer(self.blocks);
    }

    fn write_rates(&self, row: &mut Row<'_>) {
        row.decimal(self.offered_tps)
            .decimal(self.sent_tps)
            .decimal(self.accepted_tps)
            .decimal(self.committed_tps)
            .integer(self.late_schedule)
            .integer(self.late_source)
            .integer(self.late_connection)
            .integer(self.late_node)
            .integer(self.in_flight)
            .integer(self.in_flight_growth)
            .integer(self.backlog)
            .integer(self.backlog_growth)
            .integer_or_empty(self.mempool_txs);
    }

    fn write_latencies(&self, row: &mut Row<'_>) {
        row.decimal(self.lateness_p50_ms)
            .decimal(self.lateness_p99_ms)
            .decimal(self.lateness_max_ms)
            .decimal(self.accept_p50_ms)
            .decimal(self.accept_p95_ms)
            .decimal(self.accept_p99_ms)
            .decimal(self.service_p50_ms)
            .decimal(self.service_p99_ms)
            .decimal(self.commit_p50_ms)
            .decimal(self.commit_p95_ms)
            .decimal(self.commit_p99_ms);
    }
}

impl TableRow for StepRow {
    const FILE: &'static str = "steps.csv";
    const HEADER: &'static str = STEPS_HEADER;
    const REQUIRED: usize = 38;

    fn read(fields: &mut Fields<'_>) -> Result<Self, ReadError> {
        Ok(Self {
            step: fields.integer()?,
            start_s: fields.decimal()?,
            end_s: fields.decimal()?,
            rate_tps: fields.decimal()?,
            pause: fields.flag()?,
            offered: fields.integer()?,
            sent: fields.integer()?,
            unsent: fields.integer()?,
            accepted: fields.integer()?,
            rejected: fields.integer()?,
            errors: fields.integer()?,
            committed: fields.integer()?,
            commit_failed: fields.integer()?,
            blocks: fields.integer()?,
            offered_tps: fields.decimal_or_empty()?,
            sent_tps: fields.decimal_or_empty()?,
            accepted_tps: fields.decimal_or_empty()?,
            committed_tps: fields.decimal_or_empty()?,
            late_schedule: fields.integer()?,
            late_source: fields.integer()?,
            late_connection: fields.integer()?,
            late_node: fields.integer()?,
            in_flight: fields.integer()?,
            in_flight_growth: fields.integer()?,
            backlog: fields.integer()?,
            backlog_growth: fields.integer()?,
            mempool_txs: fields.integer_or_empty()?,
            lateness_p50_ms: fields.decimal_or_empty()?,
            lateness_p99_ms: fields.decimal_or_empty()?,
            lateness_max_ms: fields.decimal_or_empty()?,
            accept_p50_ms: fields.decimal_or_empty()?,
            accept_p95_ms: fields.decimal_or_empty()?,
            accept_p99_ms: fields.decimal_or_empty()?,
            service_p50_ms: fields.decimal_or_empty()?,
            service_p99_ms: fields.decimal_or_empty()?,
            commit_p50_ms: fields.decimal_or_empty()?,
            commit_p95_ms: fields.decimal_or_empty()?,
            commit_p99_ms: fields.decimal_or_empty()?,
        })
    }
}
