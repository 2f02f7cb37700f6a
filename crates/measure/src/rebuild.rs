//! The summary of a run that was killed before it could write one, from the rows it left.

use std::collections::BTreeMap;

use pacing::Nanos;

use crate::conservation::Conservation;
use crate::event::{Failure, UnsentReason};
use crate::latency::LatencySet;
use crate::limit::{self, Pressure};
use crate::manifest::Manifest;
use crate::rates::{PerSecond, RateStats};
use crate::read::TxRow;
use crate::rows::{BlockRow, SeriesRow, StepRow};
use crate::span::BlockSpan;
use crate::summary::{
    Blocks, CommittedAnyway, FORMAT, Fate, LateCauses, LoadModel, Offered, Rates, Reconnects,
    RecorderHealth, Summary, TimeSpans,
};
use crate::verdict::{self, Evidence, ScheduleVerdict};
use crate::windows::WorstWindows;

/// What a killed run left. Everything is cut at the end of its last whole second, so that all files
/// speak of the same time.
///
/// What only the program knew is missing from the summary made of it: reasons of unsent
/// transactions, kinds of errors, what was late in the step under way, windows against the plan,
/// reconnects, the knee. The verdict says so and is `degraded` at best.
#[derive(Debug)]
pub struct Remains<'a> {
    manifest: &'a Manifest,
    series: &'a [SeriesRow],
    steps: Vec<StepRow>,
    blocks: &'a [BlockRow],
    ended: Nanos,
    rejected_by_code: BTreeMap<String, u64>,
    anyway: CommittedAnyway,
}

impl<'a> Remains<'a> {
    /// Of the rows of a run; those of transactions come with [`tx`](Self::tx).
    #[must_use]
    pub fn new(
        manifest: &'a Manifest,
        series: &'a [SeriesRow],
        steps: Vec<StepRow>,
        blocks: &'a [BlockRow],
    ) -> Self {
        let ended_s = series
            .last()
            .map_or(0.0, |row| row.second as f64 + row.span_s);
        let mut remains = Self {
            manifest,
            series,
            steps,
            blocks,
            ended: Nanos::from_nanos((ended_s * 1e9).round() as u64),
            rejected_by_code: BTreeMap::new(),
            anyway: CommittedAnyway::default(),
        };
        let underway = remains.step_underway();
        remains.steps.extend(underway);
        remains
    }

    /// Counts what only the transactions' own rows say.
    pub fn tx(&mut self, row: &TxRow<'_>) {
        let committed = row.committed.is_some_and(|at| at < self.ended);
        match (row.accepted, row.error_unix_us) {
            (Some(_), _) => {}
            (None, Some(at)) if at < self.ended_unix_us() => {
                if committed {
                    self.anyway.errors += 1;
                } else if let Some(code) = row.code {
                    *self.rejected_by_code.entry(code.to_string()).or_default() += 1;
                }
            }
            (None, _) => self.anyway.unanswered += u64::from(committed),
        }
    }

    /// The end of the warm-up, where the summary's latencies begin.
    #[must_use]
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
        let offered = self.offered(model);
        let fate = self.fate();
        let own_txs = self.blocks().map(|block| block.own_txs).sum();
        let conservation = Conservation::of(&offered, &fate, own_txs);
        let late = self.late();
        let rate = self.rates(&offered);
        let blocks = self.blocks_summary(own_txs);
        let limited_by = limit::limited_by(&Pressure {
            model,
            offered: &offered,
            fate: &fate,
            late,
            rate: &rate,
            blocks: blocks.count,
        });
        let mut verdict = verdict::judge(&Evidence {
            model,
            offered: &offered,
            late,
            conservation: &conservation,
            late_events: 0,
            missing_blocks: blocks.missing,
            failed_followers: 0,
        });
        verdict.schedule = verdict.schedule.max(ScheduleVerdict::Degraded);
        verdict.reasons.insert(0, KILLED.to_owned());
        Summary {
            format: FORMAT.to_owned(),
            model,
            interrupted: true,
            time: TimeSpans {
                origin_unix_ns: self.manifest.origin_unix_ns,
                warmup_s: self.warmup().as_secs_f64(),
                offered_s: self.offered_until().as_secs_f64(),
                ended_s: self.ended.as_secs_f64(),
            },
            verdict,
            offered,
            fate,
            conservation,
            rate,
            latency_ms: latencies.summary(),
            late,
            windows: WorstWindows::default(),
            blocks,
            steps: self.steps,
            knee: None,
            knee_reason: "the run was killed before it could tell".to_owned(),
            limited_by,
            reconnects: Reconnects::default(),
            recorder: RecorderHealth::default(),
        }
    }

    /// A closed loop has no arrivals.
    fn model(&self) -> LoadModel {
        match self.manifest.plan.get("arrivals") {
            Some(_) => LoadModel::Open,
            None => LoadModel::Closed,
        }
    }

    fn offered(&self, model: LoadModel) -> Offered {
        let sent = self.total(|row| row.sent);
        let given_up = self.total(|row| row.unsent);
        let due = self.total(|row| row.offered);
        let waiting = match model {
            LoadModel::Open => due.saturating_sub(sent + given_up),
            LoadModel::Closed => 0,
        };
        let mut by_reason: BTreeMap<String, u64> = UnsentReason::ALL
            .iter()
            .map(|reason| (reason.name().to_owned(), 0))
            .collect();
        // What was due and had not left when the program was killed waited then.
        by_reason.insert(UnsentReason::Interrupted.name().to_owned(), waiting);
        Offered {
            planned: sent + given_up + waiting,
            sent,
            unsent: given_up + waiting,
            unsent_by_reason: by_reason,
        }
    }

    fn fate(&self) -> Fate {
        let sent = self.total(|row| row.sent);
        let accepted = self.total(|row| row.accepted);
        let rejected = self.total(|row| row.rejected);
        let errors = self.total(|row| row.errors);
        let in_blocks = self.total(|row| row.committed);
        let commit_failed = self.total(|row| row.commit_failed);
        let mut anyway = self.anyway;
        // Seen in a block, and its answer not read yet.
        let ahead = (in_blocks + commit_failed).saturating_sub(anyway.total() + accepted);
        anyway.unanswered += ahead;
        let committed = in_blocks.saturating_sub(anyway.total());
        Fate {
            sent,
            accepted,
            rejected,
            errors,
            unanswered: sent.saturating_sub(accepted + rejected + errors),
            committed,
            commit_failed,
            pending: accepted.saturating_sub(committed + commit_failed),
            committed_anyway: anyway,
            rejected_by_code: self.rejected_by_code.clone(),
            errors_by_kind: Failure::ALL
                .iter()
                .map(|kind| (kind.name().to_owned(), 0))
                .collect(),
        }
    }

    fn late(&self) -> LateCauses {
        let total = |of: fn(&StepRow) -> u64| self.steps.iter().map(of).sum();
        LateCauses {
            schedule: total(|step| step.late_schedule),
            source: total(|step| step.late_source),
            connection: total(|step| step.late_connection),
            node: total(|step| step.late_node),
            generator_max_ms: 0.0,
        }
    }

    fn rates(&self, offered: &Offered) -> Rates {
        let span_s = self.offered_until().as_secs_f64();
        let over_span = |count: u64| (span_s > 0.0).then(|| count as f64 / span_s);
        Rates {
            planned_tps: over_span(offered.planned),
            sent_tps: over_span(offered.sent),
            accepted_tps: self.per_second(|row| row.accepted),
            committed_tps: self.per_second(|row| row.committed),
        }
    }

    fn blocks_summary(&self, own_txs: u64) -> Blocks {
        let heights = || self.blocks().map(|block| block.height);
        let count = heights().count() as u64;
        let (first, last) = (heights().min(), heights().max());
        let txs = self.blocks().map(|block| block.txs).sum();
        let span = first.zip(last).map_or(0, |(first, last)| last - first + 1);
        Blocks {
            count,
            first_height: first,
            last_height: last,
            missing: span.saturating_sub(count),
            txs,
            own_txs,
            foreign_txs: txs.saturating_sub(own_txs),
            bytes: self.blocks().map(|block| block.bytes).sum(),
            per_s: self.per_second(|row| row.blocks),
        }
    }

    /// The step that had not ended, from the seconds that begin in it; no latencies, no causes.
    fn step_underway(&self) -> Option<StepRow> {
        let next = self.steps.last().map_or(0, |step| step.step + 1);
        let rows = || {
            let belongs = move |row: &&SeriesRow| row.step.is_some_and(|step| step >= next);
            self.series.iter().filter(belongs)
        };
        let (first, last) = (rows().next()?, rows().next_back()?);
        let start_s = self
            .steps
            .last()
            .map_or(first.second as f64, |step| step.end_s);
        let end_s = last.second as f64 + last.span_s;
        let total = |of: fn(&SeriesRow) -> u64| rows().map(of).sum::<u64>();
        let rate = |count: u64| (end_s > start_s).then(|| count as f64 / (end_s - start_s));
        let (offered, sent) = (total(|row| row.offered), total(|row| row.sent));
        let accepted = total(|row| row.accepted);
        let grown = |now: u64, before: Option<u64>| {
            now.cast_signed()
                .wrapping_sub(before.unwrap_or(0).cast_signed())
        };
        let before = self.steps.last();
        Some(StepRow {
            step: first.step?,
            start_s,
            end_s,
            rate_tps: rate(offered)?,
            offered,
            sent,
            unsent: total(|row| row.unsent),
            accepted,
            rejected: total(|row| row.rejected),
            errors: total(|row| row.errors),
            committed: total(|row| row.committed),
            commit_failed: total(|row| row.commit_failed),
            blocks: total(|row| row.blocks),
            offered_tps: rate(offered),
            sent_tps: rate(sent),
            accepted_tps: rate(accepted),
            committed_tps: self.committed_between(start_s, end_s),
            in_flight: last.in_flight,
            in_flight_growth: grown(last.in_flight, before.map(|step| step.in_flight)),
            backlog: last.backlog,
            backlog_growth: grown(last.backlog, before.map(|step| step.backlog)),
            mempool_txs: last.mempool_txs,
            ..StepRow::default()
        })
    }

    fn committed_between(&self, start_s: f64, end_s: f64) -> Option<f64> {
        let mut span = BlockSpan::default();
        for block in self.blocks() {
            let observed = Nanos::from_nanos(block.observed_ns);
            if (start_s..end_s).contains(&observed.as_secs_f64()) {
                let committed = block.own_txs.saturating_sub(block.own_failed);
                span.add(&BlockSpan::one(observed, committed));
            }
        }
        span.rate()
    }

    fn per_second(&self, of: fn(&SeriesRow) -> u64) -> Option<RateStats> {
        let mut values = PerSecond::default();
        self.series.iter().for_each(|row| values.push(of(row)));
        let first = self.warmup().as_nanos().div_ceil(SECOND) as usize;
        let last = (self.offered_until().as_nanos() / SECOND) as usize;
        values.stats(first..last.max(first))
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

    fn total(&self, of: fn(&SeriesRow) -> u64) -> u64 {
        self.series.iter().map(of).sum()
    }

    const fn ended_unix_us(&self) -> u64 {
        self.manifest
            .origin_unix_ns
            .saturating_add(self.ended.as_nanos())
            / 1_000
    }
}

const SECOND: u64 = 1_000_000_000;
const KILLED: &str = "the run was killed: this summary was made from the rows it left, up to the end of its last \
                      whole second; reasons of unsent transactions, kinds of errors, windows against the plan, \
                      reconnects and the knee are not known";
