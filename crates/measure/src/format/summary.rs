//! `summary.json`: what a run was, in one object. Documented in `docs/run-folder.md`, checked by
//! `docs/summary.schema.json`.

use std::io;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::format::code::Subjects;
use crate::format::counts::{Displaced, Late, adds_up, raise};
use crate::format::document::{self, ReadError};
use crate::format::evidence::{Evidence, LimitedBy, StepTerms};
use crate::format::fate::{Conservation, Fate, Offered};
use crate::format::latency::Latencies;
use crate::format::rows::{BlockRow, StepRow};
use crate::format::windows::{RateStats, WorstWindows};
use crate::limits::{FULL_MACHINE, HANDFUL, SUSTAINED_SHARE, UNSENT_SHARE_INVALID};

/// The whole of `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`FORMAT`](crate::FORMAT).
    pub format: String,
    /// Open or closed loop.
    pub model: LoadModel,
    /// Whether the run was cut short by its user.
    pub interrupted: bool,
    /// Whether blocks were watched; without them nothing is known of commits.
    #[serde(default = "yes")]
    pub followed: bool,
    /// The run's spans.
    pub time: TimeSpans,
    /// Whether the generator kept its schedule.
    pub verdict: Verdict,
    /// The planned transactions, and how many of them were sent.
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
    /// The highest rate the target sustained, where the run shows it.
    pub knee: Option<Knee>,
    /// Why `knee` is what it is, or why there is none.
    pub knee_reason: String,
    /// What held the run back: what the strongest evidence points to.
    pub limited_by: LimitedBy,
    /// What was seen that speaks for it, the most telling first.
    #[serde(default, deserialize_with = "evidence_of_any_version")]
    pub evidence: Vec<Evidence>,
    /// How busy the generator's machine was while transactions were offered; `None` where it does not report that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
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
        document::read_counts("summary.json", reader)
    }

    /// Writes it as indented JSON with a final newline.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_to(&self, writer: &mut impl io::Write) -> io::Result<()> {
        document::write_document(self, writer)
    }

    /// How its steps are judged.
    pub const fn step_terms(&self) -> StepTerms {
        StepTerms {
            followed: self.followed,
            strict: self.verdict.strict,
        }
    }

    /// Not accepted, or accepted and not committed by the end, as a share of planned. What was not sent
    /// because the run was ended early is not lost.
    pub(crate) fn lost_share(&self, followed: bool) -> f64 {
        let (offered, fate) = (&self.offered, &self.fate);
        let waiting = fate.pending + fate.commit_failed + fate.unverified;
        let kept = if followed {
            fate.accepted.saturating_sub(waiting)
        } else {
            fate.accepted
        };
        let planned = offered.planned.saturating_sub(offered.unsent_by_the_end());
        (1.0 - kept as f64 / planned.max(1) as f64).max(0.0)
    }

    /// Followers that failed or are behind, heights that none delivered, and events that came too late for the blocks that
    /// were recorded before them.
    pub(crate) fn unseen(&self) -> u64 {
        let is_behind = u64::from(self.recorder.unread_ms > 0);
        let failed = self.recorder.failed_followers + self.recorder.late_events;
        failed + self.blocks.missing + is_behind
    }

    /// Refused by the application, and not for the node's sake.
    pub(crate) fn refused_by_application(&self) -> u64 {
        let refused = Subjects::of(&self.fate.rejected_by_code);
        refused.transaction + refused.unclear
    }

    /// Refused by the application, whatever the node had room for: how many, when nearly all were.
    pub(crate) fn refused_by_workload(&self) -> Option<u64> {
        let refused = self.refused_by_application();
        let others = self.fate.accepted + self.fate.rejected.saturating_sub(refused);
        let is_all = (others as f64) < (1.0 - SUSTAINED_SHARE) * refused as f64;
        (refused >= HANDFUL && is_all).then_some(refused)
    }

    /// Whether so many of the sent may be in blocks that were not seen that nothing can be concluded about the rest.
    pub(crate) fn is_blind(&self) -> bool {
        let much = self.offered.sent as f64 * UNSENT_SHARE_INVALID;
        self.unseen() > 0 && self.fate.pending as f64 > much
    }
}

/// Evidence of `tidegate.run/1` has a sentence, `text`, in place of numbers.
fn evidence_of_any_version<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Evidence>, D::Error> {
    let mut entries = Vec::<Value>::deserialize(deserializer)?;
    for entry in &mut entries {
        let is_earlier = entry.get("text").is_some() && entry.get("was").is_none();
        if let Some(entry) = entry.as_object_mut().filter(|_| is_earlier) {
            let was = entry.insert("kind".into(), "worded".into());
            entry.insert("was".into(), was.unwrap_or_default());
        }
    }
    serde_json::from_value(Value::Array(entries)).map_err(D::Error::custom)
}

/// Files of earlier versions do not have it.
const fn yes() -> bool {
    true
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

/// Rates in transactions per second, of what happened between the end of the warm-up and the end of
/// offering. Median, standard deviation and maximum are of whole seconds; `null` when there is none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Planned over the span of offering; `null` when that span is empty.
    pub planned_tps: Option<f64>,
    /// Sent within the span of offering, over that span.
    pub sent_tps: Option<f64>,
    /// Accepted in each second; the mean is over the time between two blocks that the mean committed is over.
    pub accepted_tps: Option<RateStats>,
    /// Committed with code 0, when observed; the mean is what the blocks after the first one up to the last
    /// one committed, over the time between these two. `null` with fewer than two blocks: it is unknown.
    pub committed_tps: Option<RateStats>,
}

/// Transactions later than [`LATE_LIMIT`](crate::LATE_LIMIT), by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LateCauses {
    /// How many of each.
    #[serde(flatten)]
    pub causes: Late,
    /// Of them, those that were so late that the load was another one.
    #[serde(default)]
    pub displaced: Displaced,
    /// The generator's longest stall, in milliseconds: from the instant when a sender had something to
    /// do until it did it, or a wait for the source.
    pub generator_max_ms: f64,
}

adds_up!(LateCauses { sum: causes, displaced; max: generator_max_ms });

/// The chain's blocks during the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
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
    /// Of those, transactions of this run: committed + commit_failed + unverified +
    /// committed_anyway.
    pub own_txs: u64,
    /// Transactions of others, or of this run after their fate had been settled.
    pub foreign_txs: u64,
    /// Bytes of the blocks.
    pub bytes: u64,
    /// Blocks in each second, over the same seconds as `rate`.
    pub per_s: Option<RateStats>,
    /// Blocks that no node announced: they were found by polling.
    #[serde(default)]
    pub polled: u64,
    /// How much earlier the node may have had a polled block, on average: the resolution of its commit
    /// latencies.
    #[serde(default)]
    pub resolution_ms_mean: Option<f64>,
    /// The same at most.
    #[serde(default)]
    pub resolution_ms_max: Option<f64>,
}

impl Blocks {
    /// Counts a block; each height is counted once.
    pub(crate) fn add(&mut self, row: &BlockRow) {
        let first = self
            .first_height
            .map_or(row.height, |first| first.min(row.height));
        let last = self
            .last_height
            .map_or(row.height, |last| last.max(row.height));
        self.count += 1;
        (self.first_height, self.last_height) = (Some(first), Some(last));
        self.missing = (last - first).saturating_add(1).saturating_sub(self.count);
        self.txs += row.txs;
        self.own_txs += row.own_txs;
        self.foreign_txs += row.txs.saturating_sub(row.own_txs);
        self.bytes += row.bytes;
        if let Some(resolution) = row.resolution_ms {
            self.polled += 1;
            let mean = self.resolution_ms_mean.unwrap_or(0.0);
            self.resolution_ms_mean = Some(mean + (resolution - mean) / self.polled as f64);
            raise(&mut self.resolution_ms_max, &Some(resolution));
        }
    }

    /// How exactly commits were seen, where the nodes did not announce their blocks.
    pub fn resolution(&self) -> Option<String> {
        let (mean, max) = (self.resolution_ms_mean?, self.resolution_ms_max?);
        Some(format!(
            "Commits seen by polling ({} of {} blocks), resolution {mean:.0} ms (mean), {max:.0} ms (max)",
            self.polled, self.count
        ))
    }
}

/// How busy the generator's machine was while transactions were offered: in cores, on average.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// How many it has.
    pub cores: u32,
    /// Busy with anything.
    pub busy: f64,
    /// Busy with this program, its built-in node included.
    pub own: f64,
    /// Taken by the machine's host (steal).
    pub stolen: f64,
    /// Seconds in which something waited for a core (`/proc/pressure/cpu`, some).
    pub waited_s: Option<f64>,
    /// Whether a node of the load is on it.
    pub has_node: bool,
}

impl Machine {
    /// Whether a node on it had no more of the machine to use, or had to wait for it.
    pub fn limits_its_node(&self) -> bool {
        self.has_node && self.busy + self.stolen > FULL_MACHINE * f64::from(self.cores)
    }
}

/// Between which rates the capacity of a target lies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// It sustained this: the highest step, or what was committed of a higher one where that is less.
    pub rate_tps: f64,
    /// It did not sustain this: the step that followed.
    #[serde(default)]
    pub below_tps: Option<f64>,
    /// The step that sustained it.
    pub step: Option<u32>,
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
    /// Connections that had broken and were not back by the end, although that was tried.
    #[serde(default)]
    pub not_back: u64,
    /// Time from break to use or to the end, summed over connections, in milliseconds.
    pub down_ms_total: f64,
    /// The longest of them, in milliseconds.
    pub down_ms_max: f64,
}

adds_up!(Reconnects { sum: planned, broken, failed_attempts, not_back, down_ms_total; max: down_ms_max });

/// What the recorder's own bounds did. All zero and empty in a healthy run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecorderHealth {
    /// Fates settled before their time because the table of pending transactions was full.
    pub settled_early: u64,
    /// Answers that belong to no pending transaction: second answers, unknown ids.
    pub stray_answers: u64,
    /// Answers that came after `--answer-timeout`, when their transactions had been given up.
    #[serde(default)]
    pub late_answers: u64,
    /// Events stamped before a row that had been written; they count in the next row.
    pub late_events: u64,
    /// How long senders waited for room on their way to the recorder, in milliseconds: rows were not written in time.
    #[serde(default)]
    pub unrecorded_ms: u64,
    /// Most transactions pending at once.
    pub pending_peak: u64,
    /// Bytes of the pending table at its largest.
    pub pending_bytes_peak: u64,
    /// Steps beyond the first 10,000: only in `steps.csv`.
    pub steps_omitted: u64,
    /// Followers that could not go on.
    pub failed_followers: u64,
    /// How long before the last sign of the nodes the first block was announced that no follower had read by the end, in
    /// milliseconds.
    #[serde(default)]
    pub unread_ms: u64,
    /// Blocks that left the best chain after their transactions had counted as committed, by all followers.
    #[serde(default)]
    pub reorganised_blocks: u64,
    /// Transactions, of this run and of others, that such a reorganisation took back.
    #[serde(default)]
    pub taken_back: u64,
    /// Files that a write error left incomplete.
    pub incomplete_files: Vec<String>,
}

adds_up!(RecorderHealth {
    sum: settled_early,
    stray_answers,
    late_answers,
    late_events,
    unrecorded_ms,
    pending_peak,
    pending_bytes_peak,
    failed_followers,
    reorganised_blocks,
    taken_back;
    max: unread_ms
});

/// Whether the schedule was kept, and if not, why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The verdict.
    pub schedule: ScheduleVerdict,
    /// Whether it follows the rule of `--strict`.
    #[serde(default)]
    pub strict: bool,
    /// What the run shows nothing about: empty unless it is `invalid`.
    #[serde(default)]
    pub bars: Vec<Bar>,
    /// What led to it: empty for `valid` except for remarks.
    pub reasons: Vec<String>,
    /// The limits that were applied.
    pub limits: Vec<String>,
}

impl Verdict {
    /// Nothing can be concluded about this, for a reason that the figures do not show.
    pub fn bar(&mut self, bar: Bar, reason: &str) {
        self.schedule = ScheduleVerdict::Invalid;
        self.bars.push(bar);
        self.reasons.push(format!("invalid: {reason}"));
    }
}

/// What a flaw of a run leaves unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bar {
    /// Everything: its account does not add up, or covers no part of it.
    Account,
    /// What the node does with the load: it was another one.
    Load,
    /// What the node can take with a processor to itself: it lacked one wherever it did not keep up.
    Processor,
    /// What was committed: blocks were not read.
    Commits,
    /// What the node can take: it takes the workload at no rate.
    Workload,
}

base::named! {
    /// How well the schedule was kept.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ScheduleVerdict {
        /// Within every limit.
        #[default]
        Valid => "valid",
        /// Usable with the reasons in mind.
        Degraded => "degraded",
        /// Not a measurement of the planned load.
        Invalid => "invalid",
    }
}
