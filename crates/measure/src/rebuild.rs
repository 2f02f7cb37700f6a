//! The summary of a run that was killed before it could write one, from the rows it left.

use std::collections::BTreeMap;

use pacing::Nanos;

use crate::account::{Account, Seconds};
use crate::counts::{CommittedAnyway, Counts, sum};
use crate::event::{Failure, UnsentReason};
use crate::evidence::LimitedBy;
use crate::fate::{self, Fate, Offered};
use crate::latency::{LatencyKind, LatencySet};
use crate::manifest::Manifest;
use crate::plan::LoadModel;
use crate::read::{TxFate, TxRow};
use crate::recorder::growth;
use crate::rows::{BlockRow, SeriesRow, StepRow};
use crate::span::BlockSpan;
use crate::summary::{
    Blocks, LateCauses, Reconnects, RecorderHealth, ScheduleVerdict, Summary, TimeSpans,
};
use crate::windows::WorstWindows;

/// What a killed run left. Everything is cut at the end of its last whole second, so that all files
/// cover the same time.
///
/// What only the program knew is missing from the summary made of it: reasons of unsent
/// transactions, kinds of errors, what was late in the step under way, windows against the plan,
/// reconnects, the knee. The verdict gives that as a reason and is `degraded` at best.
#[derive(Debug)]
pub struct KilledRun<'a> {
    manifest: &'a Manifest,
    series: &'a [SeriesRow],
    steps: Vec<StepRow>,
    blocks: &'a [BlockRow],
    /// Of all seconds.
    counts: Counts,
    ended: Nanos,
    rejected_by_code: BTreeMap<String, u64>,
    commit_failed_by_code: BTreeMap<String, u64>,
    anyway: CommittedAnyway,
    /// What no row of a transaction has given an end, for each second.
    open: Vec<Open>,
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

impl<'a> KilledRun<'a> {
    /// Of the rows of a run; those of transactions come with [`tx`](Self::tx).
    pub fn new(
        manifest: &'a Manifest,
        series: &'a [SeriesRow],
        steps: Vec<StepRow>,
        blocks: &'a [BlockRow],
    ) -> Self {
        let ended_s = series
            .last()
            .map_or(0.0, |row| row.second as f64 + row.span_s);
        let mut killed = Self {
            manifest,
            series,
            steps,
            blocks,
            counts: sum(series.iter().map(|row| &row.counts)),
            ended: Nanos::from_nanos((ended_s * 1e9).round() as u64),
            rejected_by_code: BTreeMap::new(),
            commit_failed_by_code: BTreeMap::new(),
            anyway: CommittedAnyway::default(),
            open: series
                .iter()
                .map(|row| Open {
                    sent: row.counts.sent,
                    accepted: row.counts.accepted,
                    unanswered: 0,
                })
                .collect(),
        };
        let underway = killed.step_underway();
        killed.steps.extend(underway);
        killed
    }

    /// Counts what only the transactions' own rows say.
    pub fn tx(&mut self, row: &TxRow<'_>) {
        let committed = row.committed.is_some_and(|at| at < self.ended);
        let is_refused = row.fate() == TxFate::Rejected;
        if committed || (is_refused && row.error_unix_us < Some(self.ended_unix_us())) {
            let second = |at: Nanos| at.as_secs() as usize;
            let answered = row.accepted.is_some_and(|at| at < self.ended)
                || row
                    .error_unix_us
                    .is_some_and(|at| at < self.ended_unix_us());
            if let Some(open) = self.open.get_mut(second(row.sent)) {
                open.sent = open.sent.saturating_sub(1);
                open.unanswered += u64::from(!answered);
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
        match (row.accepted, row.error_unix_us) {
            (Some(_), _) if committed && row.fate() == TxFate::CommitFailed => {
                count(&mut self.commit_failed_by_code);
            }
            (Some(_), _) => {}
            (None, Some(at)) if at < self.ended_unix_us() => {
                if committed {
                    self.anyway.errors += 1;
                } else {
                    count(&mut self.rejected_by_code);
                }
            }
            (None, _) => self.anyway.unanswered += u64::from(committed),
        }
    }

    /// The end of the warm-up, where the summary's latencies begin.
    pub fn warmup(&self) -> Nanos {
        let text = self
            .manifest
            .plan
            .get("warmup")
            .and_then(|text| text.as_str());
        text.and_then(|text| text.parse().ok())
            .unwrap_or(Nanos::ZERO)
    }

    /// The summary, with `latencies` of everything after the warm-up
    /// (see [`HlogReader::sum`](crate::read::HlogReader::sum)).
    #[must_use]
    pub fn summary(self, latencies: &LatencySet) -> Summary {
        let model = self.model();
        let (seconds, blocks) = self.course();
        let offered = self.offered(model);
        let latency_ms = latencies.summary(&self.censored(offered.unsent));
        let steady = self.warmup()..self.offered_until();
        let steady_blocks = BlockSpan::of(
            self.blocks()
                .filter(|block| steady.contains(&Nanos::from_nanos(block.observed_ns))),
        );
        let account = Account {
            model,
            interrupted: true,
            followed: self.manifest.follows(),
            terms: self.manifest.terms(),
            time: TimeSpans {
                origin_unix_ns: self.manifest.origin_unix_ns,
                warmup_s: self.warmup().as_secs_f64(),
                offered_s: self.offered_until().as_secs_f64(),
                ended_s: self.ended.as_secs_f64(),
            },
            offered,
            fate: self.fate(),
            late: LateCauses {
                causes: sum(self.steps.iter().map(|step| &step.late)),
                generator_max_ms: 0.0,
            },
            latency_ms,
            seconds: &seconds,
            blocks,
            steady_blocks,
            windows: WorstWindows::default(),
            steps: self.steps,
            reconnects: Reconnects::default(),
            recorder: RecorderHealth::default(),
        };
        let mut summary = account.summary();
        let verdict = &mut summary.verdict;
        verdict.schedule = verdict.schedule.max(ScheduleVerdict::Degraded);
        verdict.reasons.insert(0, KILLED.to_owned());
        if summary.limited_by == LimitedBy::Nothing {
            summary.limited_by = LimitedBy::Unknown;
        }
        summary.knee = None;
        summary.knee_reason = "the run was killed before a knee could be found".to_owned();
        summary
    }

    /// Ages of what had no end at the cut. Rows say in which second it was sent or accepted, so
    /// each is at least the time since the end of that second; where they do not say that, 0.
    fn censored(&self, unsent: u64) -> LatencySet {
        let mut ages = LatencySet::new();
        let in_blocks: u64 = self.open.iter().map(|open| open.unanswered).sum();
        let mut unanswered = self.counts.in_flight().saturating_sub(in_blocks);
        for (row, open) in self.series.iter().zip(&self.open).rev() {
            let end = Nanos::from_secs(row.second.saturating_add(1));
            let age = self.ended.saturating_sub(end);
            // Which of the open ones had an answer is not known: take those that were sent last.
            let answers = unanswered.min(open.sent);
            unanswered -= answers;
            ages.record_n(LatencyKind::AcceptResponse, age, answers + open.unanswered);
            ages.record_n(LatencyKind::AcceptService, age, answers + open.unanswered);
            if self.manifest.follows() {
                ages.record_n(LatencyKind::CommitFromDue, age, open.sent);
                ages.record_n(LatencyKind::CommitFromSent, age, open.sent);
                ages.record_n(LatencyKind::CommitFromAccepted, age, open.accepted);
            }
        }
        let no_answer = self.counts.errors + unanswered;
        ages.record_n(LatencyKind::AcceptService, Nanos::ZERO, no_answer);
        ages.record_n(LatencyKind::AcceptResponse, Nanos::ZERO, no_answer + unsent);
        ages.record_n(LatencyKind::Lateness, Nanos::ZERO, unsent);
        if self.manifest.follows() {
            ages.record_n(LatencyKind::CommitFromDue, Nanos::ZERO, unsent);
        }
        ages
    }

    /// What the rows of seconds and blocks add up to, in the order of time.
    fn course(&self) -> (Seconds, Blocks) {
        let (mut seconds, mut blocks) = (Seconds::default(), Blocks::default());
        let mut next = self.blocks().peekable();
        for row in self.series {
            let end_ns = (row.second as f64 + row.span_s) * 1e9;
            while let Some(block) = next.next_if(|block| (block.observed_ns as f64) < end_ns) {
                blocks.add(block);
                seconds.block(block, self.manifest.limits.block_gas);
            }
            seconds.push(row);
        }
        (seconds, blocks)
    }

    /// A closed loop has no arrivals.
    fn model(&self) -> LoadModel {
        match self.manifest.plan.get("arrivals") {
            Some(_) => LoadModel::Open,
            None => LoadModel::Closed,
        }
    }

    fn offered(&self, model: LoadModel) -> Offered {
        let Counts {
            offered: due,
            sent,
            unsent: given_up,
            ..
        } = self.counts;
        let waiting = match model {
            LoadModel::Open => due.saturating_sub(sent + given_up),
            LoadModel::Closed => 0,
        };
        // What was due and had not left when the program was killed waited then.
        let mut by_reason = [0; UnsentReason::ALL.len()];
        by_reason[UnsentReason::Interrupted as usize] = waiting;
        let planned = Some(sent + given_up + waiting);
        let offering = self.series.iter().filter(|row| row.step.is_some());
        let while_offering = offering.map(|row| row.counts.sent).sum();
        let mut offered = Offered::new(planned, sent, by_reason, while_offering);
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
            rejected_by_text: BTreeMap::new(),
            unusable_by_text: BTreeMap::new(),
            errors_by_kind: fate::by_kind([0; Failure::ALL.len()]),
            sequence_gaps: BTreeMap::new(),
        }
    }

    /// The step that had not ended, from the seconds that begin in it; no latencies, no causes.
    fn step_underway(&self) -> Option<StepRow> {
        let before = self.steps.last();
        let next = before.map_or(0, |step| step.step + 1);
        let rows = || {
            let belongs = move |row: &&SeriesRow| row.step.is_some_and(|step| step >= next);
            self.series.iter().filter(belongs)
        };
        let (first, last) = (rows().next()?, rows().next_back()?);
        let start_s = before.map_or(first.second as f64, |step| step.end_s);
        let end_s = last.second as f64 + last.span_s;
        let of_step = |block: &&BlockRow| {
            let observed = Nanos::from_nanos(block.observed_ns);
            (start_s..end_s).contains(&observed.as_secs_f64())
        };
        let blocks = BlockSpan::of(self.blocks().filter(of_step));
        let row = StepRow {
            step: first.step?,
            start_s,
            end_s,
            counts: sum(rows().map(|row| &row.counts)),
            in_flight: last.in_flight,
            in_flight_growth: growth(last.in_flight, before.map_or(0, |step| step.in_flight)),
            backlog: last.backlog,
            backlog_growth: growth(last.backlog, before.map_or(0, |step| step.backlog)),
            mempool_txs: last.mempool_txs,
            ..StepRow::default()
        };
        let mut row = row.with_rates(blocks.rate());
        row.rate_tps = row.offered_tps?;
        Some(row)
    }

    /// The end of the last second that belongs to a step.
    fn offered_until(&self) -> Nanos {
        let last = self.series.iter().rfind(|row| row.step.is_some());
        let end_s = last.map_or(0.0, |row| row.second as f64 + row.span_s);
        Nanos::from_nanos((end_s * 1e9).round() as u64)
    }

    fn blocks(&self) -> impl Iterator<Item = &BlockRow> {
        let ended = self.ended.as_nanos();
        self.blocks
            .iter()
            .filter(move |block| block.observed_ns < ended)
    }

    const fn ended_unix_us(&self) -> u64 {
        self.manifest
            .origin_unix_ns
            .saturating_add(self.ended.as_nanos())
            / 1_000
    }
}

const KILLED: &str = "the run was killed: this summary was made from the rows it left, up to the end of its last \
                      whole second; reasons of unsent transactions, kinds of errors, windows against the plan, \
                      reconnects and the knee are not known";
