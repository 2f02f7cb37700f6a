//! The one way to a summary: from what a recorder counted, from the rows that a killed run left, or
//! from the parts of a load that several generators sent; and the totals that a recorder counts.

use std::collections::BTreeMap;
use std::ops::Range;

use pacing::Nanos;

use crate::format::code::{Code, Codespace};
use crate::format::document::FORMAT;
use crate::format::event::{Failure, Reply, UNKNOWN_CODE, UnsentReason};
use crate::format::evidence::LimitedBy;
use crate::format::fate::{Conservation, Fate, Offered};
use crate::format::latency::Latencies;
use crate::format::rows::{BlockRow, SeriesRow, StepRow};
use crate::format::summary::{
    Blocks, LateCauses, LoadModel, Rates, Reconnects, RecorderHealth, Summary, TimeSpans, Verdict,
};
use crate::format::windows::{PerSecond, RateStats, WorstWindows};
use crate::format::{SECOND, fate};
use crate::judge::{self, JudgeContext, OverloadSignals};
use crate::record::pending::{Record, RecordState};
use crate::stats::block_span::BlockSpan;

/// The figures of a load, from which everything else in its summary follows.
#[derive(Debug)]
pub(crate) struct Account<'a> {
    pub(crate) model: LoadModel,
    pub(crate) interrupted: bool,
    /// Whether blocks were watched.
    pub(crate) followed: bool,
    pub(crate) context: JudgeContext,
    pub(crate) time: TimeSpans,
    pub(crate) offered: Offered,
    pub(crate) fate: Fate,
    pub(crate) late: LateCauses,
    pub(crate) latency_ms: Latencies,
    pub(crate) seconds: &'a Seconds,
    /// Without the statistics of the seconds.
    pub(crate) blocks: Blocks,
    /// The blocks between the end of the warm-up and the end of offering.
    pub(crate) steady_blocks: BlockSpan,
    pub(crate) windows: WorstWindows,
    pub(crate) steps: Vec<StepRow>,
    pub(crate) reconnects: Reconnects,
    pub(crate) recorder: RecorderHealth,
}

/// What was counted in each second of a load.
#[derive(Debug, Default)]
pub(crate) struct Seconds {
    accepted: PerSecond,
    committed: PerSecond,
    blocks: PerSecond,
    signals: OverloadSignals,
}

impl Seconds {
    /// Takes the next block, before the second it was observed in; `gas` is what a block may have.
    pub(crate) fn block(&mut self, row: &BlockRow, gas: Option<u64>) {
        self.signals.block(row, gas);
    }

    /// Counts the next second.
    pub(crate) fn push(&mut self, row: &SeriesRow) {
        self.signals.second(row);
        self.accepted.push(row.counts.accepted);
        self.committed.push(row.counts.committed);
        self.blocks.push(row.counts.blocks);
    }
}

impl Account<'_> {
    /// Works out the rates and the laws, and draws the conclusions.
    pub(crate) fn summary(mut self) -> Summary {
        self.latency_ms.resolve(&self.late.causes);
        let steady = steady_seconds(&self.time);
        let conservation = Conservation::of(&self.offered, &self.fate, self.blocks.own_txs);
        let offered_s = self.time.offered_s;
        let over_offering = |count: u64| (offered_s > 0.0).then(|| count as f64 / offered_s);
        // Seconds cut blocks in two; between two blocks the rate is exact.
        let (signals, at) = (&self.seconds.signals, |seconds: f64| {
            Nanos::from_nanos((seconds * 1e9) as u64)
        });
        let next_block = signals.next_block.unwrap_or(at(self.time.ended_s));
        let committed = match signals.backlog_offered {
            0 => self.steady_blocks.rate(),
            _ => self.steady_blocks.rate_until(at(offered_s), next_block),
        };
        // What is committed in between was accepted in between: beside each other they are of one time.
        let over_blocks = self.steady_blocks.edges_s().filter(|_| committed.is_some());
        let accepted_tps = self
            .seconds
            .accepted
            .stats(steady.clone())
            .map(|of_seconds| {
                let mean =
                    over_blocks.and_then(|(from, until)| self.seconds.accepted.rate(from, until));
                RateStats {
                    mean: mean.unwrap_or(of_seconds.mean),
                    ..of_seconds
                }
            });
        let committed_tps = committed.and_then(|mean| {
            let of_seconds = self.seconds.committed.stats(steady.clone())?;
            Some(RateStats { mean, ..of_seconds })
        });
        let mut summary = Summary {
            format: FORMAT.to_owned(),
            model: self.model,
            interrupted: self.interrupted,
            followed: self.followed,
            time: self.time,
            verdict: Verdict::default(),
            conservation,
            rate: Rates {
                planned_tps: over_offering(self.offered.planned),
                sent_tps: over_offering(self.offered.sent_while_offering),
                accepted_tps,
                committed_tps,
            },
            offered: self.offered,
            fate: self.fate,
            latency_ms: self.latency_ms,
            late: self.late,
            windows: self.windows,
            blocks: Blocks {
                per_s: self.seconds.blocks.stats(steady),
                ..self.blocks
            },
            steps: self.steps,
            knee: None,
            knee_reason: String::new(),
            limited_by: LimitedBy::Nothing,
            evidence: Vec::new(),
            machine: None,
            reconnects: self.reconnects,
            recorder: self.recorder,
        };
        judge::conclude(&mut summary, &self.seconds.signals, self.context);
        summary
    }
}

/// Whole seconds after the warm-up and before offering ended.
fn steady_seconds(time: &TimeSpans) -> Range<usize> {
    let first = time.warmup_s.ceil() as usize;
    let nanos = (time.offered_s.min(time.ended_s) * 1e9).round() as u64;
    let last = (nanos / SECOND.as_nanos()) as usize;
    first..last.max(first)
}

/// Step rows kept in memory and in the summary; the file has them all.
pub(crate) const MAX_STEP_ROWS: usize = 10_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Without the counts by code and by kind.
    pub(crate) fate: Fate,
    pub(crate) unsent: [u64; UnsentReason::ALL.len()],
    pub(crate) errors: [u64; Failure::ALL.len()],
    rejected: ByCode,
    commit_failed: ByCode,
}

/// Counts by code. The codes come from the node, so their number is bounded here: those beyond the first 64 are
/// counted together.
#[derive(Debug, Default)]
struct ByCode(BTreeMap<Option<Code>, u64>);

impl ByCode {
    fn count(&mut self, code: Code) {
        let known = self.0.len() < MAX_CODES || self.0.contains_key(&Some(code));
        *self.0.entry(known.then_some(code)).or_default() += 1;
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let name = |code: &Option<Code>| code.map_or("other".to_owned(), |code| code.to_string());
        let counts = self.0.iter();
        counts.map(|(code, count)| (name(code), *count)).collect()
    }
}

impl Tally {
    pub(crate) fn answer(&mut self, reply: Reply) {
        match reply {
            Reply::Accepted => self.fate.accepted += 1,
            Reply::Rejected { code, space } => self.reject(space, i64::from(code)),
            Reply::RpcError { code } => self.reject(Codespace::NONE, i64::from(code)),
            Reply::Failed(failure) => {
                self.fate.errors += 1;
                self.errors[failure as usize] += 1;
            }
        }
    }

    /// The one end of a transaction.
    pub(crate) fn settle(&mut self, record: &Record) {
        let committed = u64::from(record.is_committed());
        let fate = &mut self.fate;
        match record.state {
            RecordState::Free => debug_assert!(false, "a free record has no fate"),
            RecordState::Accepted if committed == 0 => fate.pending += 1,
            RecordState::Accepted if record.code == 0 => fate.committed += 1,
            RecordState::Accepted if record.code == UNKNOWN_CODE => fate.unverified += 1,
            RecordState::Accepted => {
                fate.commit_failed += 1;
                let (space, number) = (record.space, i64::from(record.code));
                self.commit_failed.count(Code { space, number });
            }
            RecordState::Rejected | RecordState::RpcError => {
                fate.committed_anyway.rejected += committed;
            }
            RecordState::Failed(_) => fate.committed_anyway.errors += committed,
            RecordState::Unanswered => {
                fate.unanswered += 1;
                fate.committed_anyway.unanswered += committed;
            }
        }
    }

    pub(crate) fn offered(&self, planned: Option<u64>, while_offering: u64) -> Offered {
        Offered::new(planned, self.fate.sent, self.unsent, while_offering)
    }

    pub(crate) fn fate(&self) -> Fate {
        Fate {
            rejected_by_code: self.rejected.counts(),
            commit_failed_by_code: self.commit_failed.counts(),
            errors_by_kind: fate::by_kind(self.errors),
            ..self.fate.clone()
        }
    }

    fn reject(&mut self, space: Codespace, number: i64) {
        self.fate.rejected += 1;
        self.rejected.count(Code { space, number });
    }
}

const MAX_CODES: usize = 64;
