//! What is joined, and why it cannot be; the figures of one part, whether it wrote its summary, was killed or was lost.
//! Those of a run that was killed before it could write its summary come from the rows it left.

use std::collections::BTreeMap;

use pacing::Nanos;

use super::transactions::nanos;
use crate::format::counts::{AddUp as _, CommittedAnyway, Counts, Displaced, sum};
use crate::format::event::{Failure, UnsentReason};
use crate::format::fate::{self, Cohort, Fate, Offered};
use crate::format::latency::{Latencies, LatencyKind, LatencySet};
use crate::format::manifest::Manifest;
use crate::format::read::{HlogReader, ReadError, RowReader, TxFate, TxReader, TxRow};
use crate::format::rows::{BlockRow, SeriesRow, StepRow};
use crate::format::summary::{
    Bar, LateCauses, LoadModel, Reconnects, RecorderHealth, ScheduleVerdict, Summary, TimeSpans,
};
use crate::record::answers::AnswerRow;
use crate::record::files::RecordError;
use crate::record::recorder::growth;
use crate::stats::block_span::{BlockSpan, observed};

/// The files of one generator.
pub struct MergePart<R> {
    /// `manifest.json`.
    pub manifest: Manifest,
    /// `summary.json`; `None` of a run that was killed.
    pub summary: Option<Summary>,
    /// `series.csv`.
    pub series: RowReader<R, SeriesRow>,
    /// `steps.csv`.
    pub steps: RowReader<R, StepRow>,
    /// `blocks.csv`.
    pub blocks: RowReader<R, BlockRow>,
    /// `latency.hlog`.
    pub hlog: HlogReader<R>,
    /// `txs.csv`; `None` where no rows are kept.
    pub txs: Option<TxReader<R>>,
    /// `answers.csv`, which is needed where not all rows are kept.
    pub answers: Vec<AnswerRow>,
}

/// Why folders cannot be joined.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// They are not all the parts of one load: why not.
    #[error("{0}")]
    Parts(String),
    /// A file cannot be read.
    #[error("cannot read {name}")]
    Read {
        /// The folder.
        name: String,
        /// What is wrong.
        #[source]
        source: ReadError,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] RecordError),
}

/// An error of the part with this position.
pub(super) type PartError = (usize, ReadError);

/// The figures of a part that its rows of seconds, blocks and steps do not have.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    pub(super) model: LoadModel,
    pub(super) interrupted: bool,
    pub(super) time: TimeSpans,
    pub(super) offered: Offered,
    pub(super) fate: Fate,
    pub(super) late: LateCauses,
    /// Exact counts, maxima and means, where they are known.
    pub(super) latency_ms: Option<Latencies>,
    pub(super) reconnects: Reconnects,
    pub(super) recorder: RecorderHealth,
    pub(super) verdict: ScheduleVerdict,
    /// What an invalid part shows nothing about; a lost one, and one of an earlier version, do not name it.
    pub(super) bars: Vec<Bar>,
}

impl Figures {
    /// Whether it leaves unknown what it did, which the sums of all parts would hide. How much of the whole was another
    /// load, was not seen or was refused is judged of those sums, as of one generator.
    pub(super) fn bars_account(&self) -> bool {
        let is_invalid = self.verdict == ScheduleVerdict::Invalid;
        is_invalid && (self.bars.is_empty() || self.bars.contains(&Bar::Account))
    }

    /// Those of a part of the same load whose generator was lost, all of it unsent.
    pub(super) fn lost(&self, planned: u64) -> Self {
        let mut by_reason = [0; UnsentReason::ALL.len()];
        let reasons = UnsentReason::ALL
            .iter()
            .position(|reason| *reason == UnsentReason::GeneratorLost);
        if let Some(place) = reasons {
            by_reason[place] = planned;
        }
        Self {
            model: self.model,
            interrupted: false,
            time: self.time,
            offered: Offered::new(Some(planned), 0, by_reason, 0),
            fate: Fate::default(),
            late: LateCauses::default(),
            latency_ms: Some(Latencies::default()),
            reconnects: Reconnects::default(),
            recorder: RecorderHealth::default(),
            verdict: ScheduleVerdict::Invalid,
            bars: Vec::new(),
        }
    }
}

impl From<&Summary> for Figures {
    fn from(summary: &Summary) -> Self {
        Self {
            model: summary.model,
            interrupted: summary.interrupted,
            time: summary.time,
            offered: summary.offered.clone(),
            fate: summary.fate.clone(),
            late: summary.late,
            latency_ms: Some(summary.latency_ms.clone()),
            reconnects: summary.reconnects,
            recorder: summary.recorder.clone(),
            verdict: summary.verdict.schedule,
            bars: summary.verdict.bars.clone(),
        }
    }
}

/// What a killed run left, taken row by row. Everything is cut at the end of its last whole second, so that
/// all files cover the same time.
///
/// What only the program knew is missing: reasons of unsent transactions, kinds of errors, what was late in the
/// step under way, windows against the plan, reconnects, the knee. The verdict gives that as a reason and is
/// `degraded` at best.
#[derive(Debug)]
pub(super) struct Unfinished {
    origin_unix_ns: u64,
    model: LoadModel,
    followed: bool,
    warmup: Nanos,
    /// Of all seconds.
    counts: Counts,
    sent_while_offering: u64,
    ended_s: f64,
    offered_s: f64,
    rejected_by_code: BTreeMap<String, u64>,
    commit_failed_by_code: BTreeMap<String, u64>,
    anyway: CommittedAnyway,
    /// What no row of a transaction has given an end, for each second.
    open: Vec<Open>,
    /// The last step that ended.
    before: Option<StepRow>,
    underway: Option<StepRow>,
}

/// Transactions of a second without an end by the cut.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Sent in it, and in no block.
    sent: u64,
    /// Accepted in it, and in no block.
    accepted: u64,
    /// Sent in it, in a block, and without an answer.
    unanswered: u64,
}

impl Unfinished {
    /// Of a run whose steps that ended are these.
    pub(super) fn new(manifest: &Manifest, steps: &[StepRow]) -> Self {
        Self {
            origin_unix_ns: manifest.origin_unix_ns,
            model: manifest.plan.model(),
            followed: manifest.plan.follow,
            warmup: manifest.plan.warmup,
            counts: Counts::default(),
            sent_while_offering: 0,
            ended_s: 0.0,
            offered_s: 0.0,
            rejected_by_code: BTreeMap::new(),
            commit_failed_by_code: BTreeMap::new(),
            anyway: CommittedAnyway::default(),
            open: Vec::new(),
            before: steps.last().cloned(),
            underway: None,
        }
    }

    /// The end of its last whole second.
    pub(super) fn ended(&self) -> Nanos {
        nanos(self.ended_s)
    }

    /// Takes the next second.
    pub(super) fn second(&mut self, row: &SeriesRow) {
        self.counts.add_up(&row.counts);
        self.ended_s = row.second as f64 + row.span_s;
        self.open.push(Open {
            sent: row.counts.sent,
            accepted: row.counts.accepted,
            unanswered: 0,
        });
        let Some(step) = row.step else { return };
        self.sent_while_offering += row.counts.sent;
        self.offered_s = self.ended_s;
        let before = self.before.as_ref();
        if before.is_some_and(|before| step <= before.step) {
            return;
        }
        let underway = self.underway.get_or_insert_with(|| StepRow {
            step,
            start_s: before.map_or(row.second as f64, |before| before.end_s),
            ..StepRow::default()
        });
        underway.counts.add_up(&row.counts);
        underway.end_s = self.ended_s;
        (underway.in_flight, underway.backlog) = (row.in_flight, row.backlog);
        underway.mempool_txs = row.mempool_txs;
    }

    /// The step that had not ended, from the seconds that begin in it; no latencies, no causes.
    pub(super) fn step_underway(&self, blocks: &[BlockRow]) -> Option<StepRow> {
        let mut row = self.underway.clone()?;
        let before = self.before.as_ref();
        row.in_flight_growth = growth(row.in_flight, before.map_or(0, |step| step.in_flight));
        row.backlog_growth = growth(row.backlog, before.map_or(0, |step| step.backlog));
        let observed = observed(blocks, row.start_s, row.end_s);
        let mut row = row.with_rates(BlockSpan::of(observed).rate());
        row.rate_tps = row.offered_tps?;
        Some(row)
    }

    /// Counts what only the transactions' own rows contain.
    pub(super) fn tx(&mut self, row: &TxRow<'_>) {
        let ended = self.ended();
        let ended_unix_us = self.origin_unix_ns.saturating_add(ended.as_nanos()) / 1_000;
        let by_then = |at: Option<Nanos>| at.is_some_and(|at| at < ended);
        let failed = row.error_unix_us.is_some_and(|at| at < ended_unix_us);
        let (committed, accepted) = (by_then(row.committed), by_then(row.accepted));
        if committed || (row.fate() == TxFate::Rejected && failed) {
            let second = |at: Nanos| at.as_secs() as usize;
            if let Some(open) = self.open.get_mut(second(row.sent)) {
                open.sent = open.sent.saturating_sub(1);
                open.unanswered += u64::from(!accepted && !failed);
            }
            if let Some(open) = row.accepted.and_then(|at| self.open.get_mut(second(at))) {
                open.accepted = open.accepted.saturating_sub(1);
            }
        }
        let count = |counts: &mut BTreeMap<String, u64>| {
            if let Some(code) = row.code() {
                *counts.entry(code.to_string()).or_default() += 1;
            }
        };
        match row.accepted {
            Some(_) if committed && row.fate() == TxFate::CommitFailed => {
                count(&mut self.commit_failed_by_code);
            }
            Some(_) => {}
            None if failed && committed => self.anyway.errors += 1,
            None if failed => count(&mut self.rejected_by_code),
            None => self.anyway.unanswered += u64::from(committed),
        }
    }

    /// Ages of what had no end at the cut. Rows have in which second it was sent or accepted, so
    /// each is at least the time since the end of that second; where they do not have it, 0.
    pub(super) fn censored(&self) -> LatencySet {
        let mut ages = LatencySet::new();
        let in_blocks: u64 = self.open.iter().map(|open| open.unanswered).sum();
        let mut unanswered = self.counts.in_flight().saturating_sub(in_blocks);
        for (second, open) in self.open.iter().enumerate().rev() {
            let age = self
                .ended()
                .saturating_sub(Nanos::from_secs(second as u64 + 1));
            // Which of the open ones had an answer is not known: take those that were sent last.
            let answers = unanswered.min(open.sent);
            unanswered -= answers;
            ages.record_n(LatencyKind::AcceptResponse, age, answers + open.unanswered);
            ages.record_n(LatencyKind::AcceptService, age, answers + open.unanswered);
            if self.followed {
                ages.record_n(LatencyKind::CommitFromDue, age, open.sent);
                ages.record_n(LatencyKind::CommitFromSent, age, open.sent);
                ages.record_n(LatencyKind::CommitFromAccepted, age, open.accepted);
            }
        }
        let unsent = self.offered().unsent;
        let no_answer = self.counts.errors + unanswered;
        ages.record_n(LatencyKind::AcceptService, Nanos::ZERO, no_answer);
        ages.record_n(LatencyKind::AcceptResponse, Nanos::ZERO, no_answer + unsent);
        ages.record_n(LatencyKind::Lateness, Nanos::ZERO, unsent);
        if self.followed {
            ages.record_n(LatencyKind::CommitFromDue, Nanos::ZERO, unsent);
        }
        ages
    }

    /// What the rows add up to, with these steps.
    pub(super) fn figures(&self, steps: &[StepRow]) -> Figures {
        Figures {
            model: self.model,
            interrupted: true,
            time: TimeSpans {
                origin_unix_ns: self.origin_unix_ns,
                warmup_s: self.warmup.as_secs_f64(),
                offered_s: self.offered_s,
                ended_s: self.ended_s,
            },
            offered: self.offered(),
            fate: self.fate(),
            late: LateCauses {
                causes: sum(steps.iter().map(|step| &step.late)),
                displaced: displaced(steps),
                generator_max_ms: 0.0,
            },
            latency_ms: None,
            reconnects: Reconnects::default(),
            recorder: RecorderHealth::default(),
            verdict: ScheduleVerdict::Degraded,
            bars: Vec::new(),
        }
    }

    fn offered(&self) -> Offered {
        let Counts {
            offered: due,
            sent,
            unsent: given_up,
            ..
        } = self.counts;
        let waiting = match self.model {
            LoadModel::Open => due.saturating_sub(sent + given_up),
            LoadModel::Closed => 0,
        };
        // What was due and had not left when the program was killed waited then.
        let mut by_reason = [0; UnsentReason::ALL.len()];
        by_reason[UnsentReason::Interrupted as usize] = waiting;
        let planned = Some(sent + given_up + waiting);
        let mut offered = Offered::new(planned, sent, by_reason, self.sent_while_offering);
        offered.unsent += given_up;
        offered
    }

    fn fate(&self) -> Fate {
        let Counts {
            sent,
            accepted,
            rejected,
            errors,
            commit_failed,
            unverified,
            ..
        } = self.counts;
        let in_blocks = self.counts.in_blocks();
        let mut anyway = self.anyway;
        // Seen in a block, and its answer not read yet.
        anyway.unanswered += in_blocks.saturating_sub(anyway.total() + accepted);
        let committed = self.counts.committed.saturating_sub(anyway.total());
        Fate {
            sent,
            accepted,
            rejected,
            errors,
            unanswered: self.counts.in_flight(),
            committed,
            commit_failed,
            unverified,
            pending: accepted.saturating_sub(committed + commit_failed + unverified),
            committed_anyway: anyway,
            rejected_by_code: self.rejected_by_code.clone(),
            commit_failed_by_code: self.commit_failed_by_code.clone(),
            errors_by_kind: fate::by_kind([0; Failure::ALL.len()]),
            ..Fate::default()
        }
    }
}

/// What the rows of steps have of it, which is with what was given up.
fn displaced(steps: &[StepRow]) -> Displaced {
    let cohort: Cohort = sum(steps.iter().map(|step| &step.cohort));
    Displaced {
        behind: cohort.due_behind,
        crowded: cohort.due_crowded,
        held_up: cohort.due_held_up,
    }
}

/// The first reason of the verdict on a killed run.
pub(super) const KILLED: &str = "the run was killed: this summary was made from the rows it left, up to the end of its last \
                      whole second; reasons of unsent transactions, kinds of errors, windows against the plan, \
                      reconnects and the knee are not known";
