//! `summary.json`: what a run was, in one object. Documented in `docs/run-folder.md`, checked by
//! `docs/summary.schema.json`.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use crate::conservation::Conservation;
use crate::latency::Quantiles;
use crate::rates::RateStats;
use crate::read::{self, ReadError};
use crate::rows::StepRow;
use crate::verdict::Verdict;
use crate::windows::WorstWindows;

/// The version of every format in the run folder. A reader refuses another major number.
pub const FORMAT: &str = "tidegate.run/1";

/// The whole of `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`FORMAT`].
    pub format: String,
    /// Open or closed loop.
    pub model: LoadModel,
    /// Whether the run was cut short by its user.
    pub interrupted: bool,
    /// The run's spans.
    pub time: TimeSpans,
    /// Whether the generator kept its schedule.
    pub verdict: Verdict,
    /// What was wanted and what of it left.
    pub offered: Offered,
    /// Where every sent transaction ended.
    pub fate: Fate,
    /// The conservation laws, with both sides of each.
    pub conservation: Conservation,
    /// Rates, in transactions per second.
    pub rate: Rates,
    /// The six latencies, in milliseconds.
    pub latency_ms: Latencies,
    /// Transactions later than 1 ms, by cause.
    pub late: LateCauses,
    /// The windows that deviate most from the plan.
    pub windows: WorstWindows,
    /// The chain's blocks during the run.
    pub blocks: Blocks,
    /// One entry a step.
    pub steps: Vec<StepRow>,
    /// The highest rate the target sustained, where the run can tell.
    pub knee: Option<Knee>,
    /// Why `knee` is what it is, or why there is none.
    pub knee_reason: String,
    /// What held the run back.
    pub limited_by: LimitedBy,
    /// What broken connections cost.
    pub reconnects: Reconnects,
    /// What the recorder's own bounds did.
    pub recorder: RecorderHealth,
}

impl Summary {
    /// Reads one.
    ///
    /// # Errors
    /// When it cannot be read, is of another format, or is no summary.
    pub fn read_from(reader: &mut impl io::Read) -> Result<Self, ReadError> {
        read::document("summary.json", reader)
    }

    /// Writes it as indented JSON with a final newline.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write_to(&self, writer: &mut impl io::Write) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        writer.write_all(&text)?;
        writer.flush()
    }
}

/// Whether a schedule or the answers set the pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadModel {
    /// Due times come from the schedule alone.
    Open,
    /// The next transaction waits for an answer: latencies do not count what was not sent.
    Closed,
}

/// Spans since the run's origin, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeSpans {
    /// The origin, nanoseconds since the Unix epoch.
    pub origin_unix_ns: u64,
    /// End of the warm-up; what happened before is not in `latency_ms` and the per-second rates.
    pub warmup_s: f64,
    /// When offering ended.
    pub offered_s: f64,
    /// When the drain ended.
    pub ended_s: f64,
}

/// What was wanted and what of it left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// Due until offering ended.
    pub planned: u64,
    /// Handed to a socket.
    pub sent: u64,
    /// Never handed to a socket.
    pub unsent: u64,
    /// `unsent` by reason; every reason is present.
    pub unsent_by_reason: BTreeMap<String, u64>,
}

/// Where every sent transaction ended.
///
/// `committed`, `commit_failed` and `pending` divide the accepted ones. What was committed without
/// having been accepted is in `committed_anyway`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fate {
    /// Handed to a socket.
    pub sent: u64,
    /// CheckTx code 0.
    pub accepted: u64,
    /// Another code or a JSON-RPC error.
    pub rejected: u64,
    /// No usable answer.
    pub errors: u64,
    /// No answer by the end of the run.
    pub unanswered: u64,
    /// Accepted, and in a block with code 0.
    pub committed: u64,
    /// Accepted, and in a block with another code.
    pub commit_failed: u64,
    /// Accepted, and in no block by the end.
    pub pending: u64,
    /// In a block although not accepted, by what the answer was.
    pub committed_anyway: CommittedAnyway,
    /// `rejected` by code: CheckTx codes are positive, JSON-RPC errors negative.
    pub rejected_by_code: BTreeMap<String, u64>,
    /// `errors` by kind; every kind is present.
    pub errors_by_kind: BTreeMap<String, u64>,
}

/// Transactions found in a block although their answer did not say accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommittedAnyway {
    /// The answer was another code or a JSON-RPC error.
    pub rejected: u64,
    /// The answer was missing or unusable.
    pub errors: u64,
    /// No answer by the end of the run.
    pub unanswered: u64,
}

impl CommittedAnyway {
    /// All three.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.rejected + self.errors + self.unanswered
    }
}

/// Rates in transactions per second. The statistics are over whole seconds that begin after the
/// warm-up and end before offering ends; `null` when there is none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Planned over the span of offering; `null` when that span is empty.
    pub planned_tps: Option<f64>,
    /// Sent over the span of offering.
    pub sent_tps: Option<f64>,
    /// Accepted in each second.
    pub accepted_tps: Option<RateStats>,
    /// Committed with code 0 in each second, when observed.
    pub committed_tps: Option<RateStats>,
}

/// The six latencies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// sent − due.
    pub lateness: Quantiles,
    /// accepted − due.
    pub accept_response: Quantiles,
    /// accepted − sent.
    pub accept_service: Quantiles,
    /// committed − due.
    pub commit_from_due: Quantiles,
    /// committed − sent.
    pub commit_from_sent: Quantiles,
    /// committed − accepted.
    pub commit_from_accepted: Quantiles,
}

/// Transactions later than [`LATE_LIMIT`](crate::LATE_LIMIT), by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LateCauses {
    /// The generator's thread was late.
    pub schedule: u64,
    /// The transaction was not ready.
    pub source: u64,
    /// No connection was up.
    pub connection: u64,
    /// Every connection waited for the node.
    pub node: u64,
    /// The longest lateness of cause `schedule` or `source`, in milliseconds.
    pub generator_max_ms: f64,
}

/// The chain's blocks during the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Blocks {
    /// Blocks observed.
    pub count: u64,
    /// Lowest height.
    pub first_height: Option<u64>,
    /// Highest height.
    pub last_height: Option<u64>,
    /// Heights in between that no follower delivered.
    pub missing: u64,
    /// Transactions in them.
    pub txs: u64,
    /// Of those, transactions of this run: committed + commit_failed + committed_anyway.
    pub own_txs: u64,
    /// Transactions of others, or of this run after their fate had been settled.
    pub foreign_txs: u64,
    /// Bytes of the blocks.
    pub bytes: u64,
    /// Blocks in each second, over the same seconds as `rate`.
    pub per_s: Option<RateStats>,
}

/// The highest rate the target sustained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The rate.
    pub rate_tps: f64,
    /// The step that sustained it.
    pub step: Option<u32>,
}

/// What held the run back most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// Nothing: the plan was carried out and the node kept up.
    Nothing,
    /// The generator's own clockwork.
    Schedule,
    /// The workload could not prepare transactions fast enough.
    Source,
    /// Connections were down.
    Connection,
    /// The node pushed back, refused, or did not commit what it accepted.
    Node,
}

impl LimitedBy {
    /// What it is, a colon, and what that means.
    #[must_use]
    pub const fn explain(self) -> &'static str {
        match self {
            Self::Nothing => "nothing: the plan was carried out and the node kept up",
            Self::Schedule => "schedule: the generator did not get the processor in time",
            Self::Source => "source: transactions were not ready in time",
            Self::Connection => {
                "connection: all were busy or down; more --connections may carry more"
            }
            Self::Node => "node: it pushed back, refused, or did not commit what it accepted",
        }
    }
}

/// What broken connections cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Reconnects {
    /// Connections that came back after the plan had them broken.
    pub planned: u64,
    /// Connections that came back after they broke.
    pub broken: u64,
    /// Attempts that failed.
    pub failed_attempts: u64,
    /// Time from break to use, summed over connections, in milliseconds.
    pub down_ms_total: f64,
    /// The longest of them, in milliseconds.
    pub down_ms_max: f64,
}

/// What the recorder's own bounds did. All zero and empty in a healthy run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecorderHealth {
    /// Fates settled before their time because the table of pending transactions was full.
    pub settled_early: u64,
    /// Answers that belong to no pending transaction: second answers, unknown ids.
    pub stray_answers: u64,
    /// Events stamped before a row that had been written; they count in the next row.
    pub late_events: u64,
    /// Most transactions pending at once.
    pub pending_peak: u64,
    /// Bytes of the pending table at its largest.
    pub pending_bytes_peak: u64,
    /// Steps beyond the first 10,000: only in `steps.csv`.
    pub steps_omitted: u64,
    /// Followers that could not go on.
    pub failed_followers: u64,
    /// Files that a write error left incomplete.
    pub incomplete_files: Vec<String>,
}
