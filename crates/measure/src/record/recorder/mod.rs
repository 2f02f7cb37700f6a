//! The recorder: one owner of every count, fed by every source.

mod close;
mod settle;
pub(crate) mod watch;

use std::collections::VecDeque;
use std::io::Write;
use std::num::NonZeroU32;

use pacing::Nanos;

pub use self::settle::{Finished, RunEnd};
pub use self::watch::{MAX_FRESH_SECONDS, MAX_MARK_CHARS, MAX_MARKS};

pub(crate) use self::close::growth;

use self::close::{EndedSteps, RunTotals, StepUnderway};
use crate::format::code::Codespace;
use crate::format::counts::{AddUp as _, Displaced};
use crate::format::event::{
    Answered, BlockSeen, Cause, Failure, LATE_LIMIT, MempoolSample, ReconnectReason, Reconnected,
    Reply, Sent, SourceId, Unsent,
};
use crate::format::hlog::{self, HlogWriter};
use crate::format::latency::{LatencyKind, LatencySet};
use crate::format::rows::{IdText, KeptRows, SeriesRow, StepRow};
use crate::format::summary::{LoadModel, Reconnects, RecorderHealth};
use crate::format::windows::Windows;
use crate::judge::{EndpointSigns, EndpointWatch};
use crate::limits::SAMPLED_WITHIN;
use crate::record::account::Tally;
use crate::record::answers::Answers;
use crate::record::files::{Files, RecordError, RunFolderWriters, TxWriter};
use crate::record::pending::{Pending, RecordState};
use crate::record::segments::{Depth, Depths, Plan, Segment, Segments, Span, add_depths};
use crate::record::waiting::RoomyBlocks;
use crate::record::waiting::Waiting;
use crate::record::watermarks::{WaitingBlocks, Watermarks};

/// How a run is recorded.
#[derive(Debug, Clone)]
pub struct RecorderConfig {
    /// The run's origin, nanoseconds since the Unix epoch: the only wall-clock time there is.
    pub origin_unix_ns: u64,
    /// Open or closed loop.
    pub model: LoadModel,
    /// Number of senders: the sources `0..senders`.
    pub senders: u16,
    /// Number of followers: the sources after the senders.
    pub followers: u16,
    /// What happens before this is left out of the summary's rates and latencies.
    pub warmup: Nanos,
    /// Most transactions with an open fate. A full table settles one early for each new one, and
    /// counts it. Choose it above `--max-in-flight` plus what the node may accept and not commit;
    /// each takes 107 to 112 bytes.
    pub max_pending: usize,
    /// How long a source that lags behind is waited for before rows close without it. Longer than
    /// any batch; each second of lag costs 1.6 MB.
    pub max_lag: Nanos,
    /// Seconds in one interval of `latency.hlog`. One is right up to a day; a week of seconds
    /// makes a file of gigabytes.
    pub hlog_interval_s: NonZeroU32,
    /// Whether an answer shows that the node has checked the transaction.
    pub checked: bool,
    /// How many may be in flight, where what is due beyond waits for them instead of being given up.
    pub waits_at: Option<u64>,
    /// Whether the schedule counts as kept only to the millisecond (`--strict`).
    pub strict: bool,
    /// Gas that a block may have, where that is limited and known.
    pub block_gas: Option<u64>,
    /// How ids are written in `txs.csv`.
    pub ids: IdText,
    /// The addresses of the endpoints, in the order of their positions.
    pub endpoints: Vec<String>,
    /// Which transactions have a row there.
    pub rows: KeptRows,
}

impl RecorderConfig {
    /// An open-loop run without warm-up: 2,097,152 pending, ten seconds of lag, intervals of one
    /// second.
    pub const fn new(origin_unix_ns: u64, senders: u16, followers: u16) -> Self {
        Self {
            origin_unix_ns,
            model: LoadModel::Open,
            senders,
            followers,
            warmup: Nanos::ZERO,
            max_pending: 1 << 21,
            max_lag: Nanos::from_nanos(10_000_000_000),
            hlog_interval_s: NonZeroU32::MIN,
            checked: true,
            waits_at: None,
            strict: false,
            block_gas: None,
            ids: IdText::UpperHex,
            endpoints: Vec::new(),
            rows: KeptRows::All,
        }
    }
}

/// Takes every event of a run and keeps its account.
///
/// Each source reports its own events in the order of their stamps, a `Sent` before its
/// `Answered`, and raises its watermark after them. Sources are independent of each other.
pub struct Recorder<'a> {
    config: RecorderConfig,
    plan: Box<dyn Plan + 'a>,
    files: Files<'a>,
    tx_writer: TxWriter,
    answers: Answers,
    hlog: HlogWriter,
    pending: Pending,
    waiting: Waiting,
    tally: Tally,
    watermarks: Watermarks,
    low: Nanos,
    /// The latest stamp of all events.
    latest: Nanos,
    /// When a node last answered anything.
    last_sign: Nanos,
    blocks: WaitingBlocks,
    segments: Segments,
    windows: Windows,
    /// The second, the step and the interval of the log that are being put together.
    second: Span,
    second_begin: SecondBegin,
    /// What the endpoints did in the last second.
    signs: EndpointSigns,
    endpoints: EndpointWatch,
    step: StepUnderway,
    ended_steps: EndedSteps,
    interval: LatencySet,
    interval_start: Nanos,
    run: RunTotals,
    /// When each endpoint's mempool was last sampled, and what was in it.
    mempools: Vec<Option<(Nanos, Depth)>>,
    roomy: RoomyBlocks,
    reconnects: Reconnects,
    health: RecorderHealth,
    step_rows: Vec<StepRow>,
    last_second: Option<SeriesRow>,
    /// Seconds that were not taken yet.
    fresh_seconds: VecDeque<SeriesRow>,
    /// Commit latencies of the block under way.
    scratch: Vec<u64>,
}

/// Where the second under way began.
#[derive(Debug, Clone, Copy, Default)]
struct SecondBegin {
    start: Nanos,
    step: Option<u32>,
    fresh: bool,
}

impl<'a> Recorder<'a> {
    /// Writes the header of each file. A writer that fails is remembered, see
    /// [`Recorder::write_error`].
    pub fn new(
        config: RecorderConfig,
        plan: impl Plan + 'a,
        writers: RunFolderWriters<impl Write + Send + 'a>,
    ) -> Self {
        let mut plan = Box::new(plan);
        let sources = usize::from(config.senders) + usize::from(config.followers);
        Self {
            files: Files::new(writers, &hlog::header(config.origin_unix_ns)),
            tx_writer: TxWriter::new(config.origin_unix_ns, config.ids),
            answers: Answers::default(),
            hlog: HlogWriter::new(),
            pending: Pending::new(config.max_pending),
            waiting: Waiting::default(),
            tally: Tally::default(),
            watermarks: Watermarks::new(sources, config.max_lag),
            low: Nanos::ZERO,
            latest: Nanos::ZERO,
            last_sign: Nanos::ZERO,
            blocks: WaitingBlocks::default(),
            segments: Segments::new(config.warmup, &mut *plan),
            windows: Windows::default(),
            second: Span::default(),
            second_begin: SecondBegin {
                fresh: true,
                ..SecondBegin::default()
            },
            signs: EndpointSigns::of(config.endpoints.len()),
            endpoints: EndpointWatch::default(),
            step: StepUnderway::default(),
            ended_steps: EndedSteps::default(),
            interval: LatencySet::new(),
            interval_start: Nanos::ZERO,
            run: RunTotals::default(),
            mempools: vec![None; config.endpoints.len()],
            roomy: RoomyBlocks::default(),
            reconnects: Reconnects::default(),
            health: RecorderHealth::default(),
            step_rows: Vec::new(),
            last_second: None,
            fresh_seconds: VecDeque::new(),
            scratch: Vec::new(),
            config,
            plan,
        }
    }

    /// A transaction left.
    pub fn sent(&mut self, sent: &Sent) {
        if self.pending.is_full() {
            self.settle_one_early();
        }
        self.pending.insert(sent);
        self.health.pending_peak = self.health.pending_peak.max(self.pending.len() as u64);
        self.tally.fate.sent += 1;
        self.windows.sent(sent.sent);
        let lateness = sent.sent.saturating_sub(sent.due);
        if sent.cause == Cause::Source {
            self.run.generator_late_max = self.run.generator_late_max.max(lateness);
        }
        self.reach(sent.sent);
        let displaced = if lateness > LATE_LIMIT {
            self.displaced(sent, lateness)
        } else {
            Displaced::default()
        };
        self.run.displaced.add_up(&displaced);
        let span = &mut self.segments.at(sent.sent).span;
        span.counts.sent += 1;
        span.waiting.begin(sent.due);
        span.late.count(sent);
        span.endpoints.sent(sent.endpoint);
        span.latencies.record(LatencyKind::Lateness, lateness);
        let cohort = span.cohorts.of(sent.step);
        cohort.due_sent += 1;
        cohort.displace(displaced);
    }

    /// Whether one that left late was so late that the load was another one.
    fn displaced(&mut self, sent: &Sent, lateness: Nanos) -> Displaced {
        let step = self.segments.at(sent.sent).step.as_ref();
        let in_step = step.is_some_and(|step| step.index == sent.step);
        let length = self.segments.length_of(sent.step);
        Displaced::sent(sent.cause, lateness, in_step, length)
    }

    /// A request ended.
    pub fn answered(&mut self, answered: &Answered) {
        let found = self
            .pending
            .find_answered(answered.hash_prefix, answered.index)
            .filter(|&slot| self.pending.at(slot).state == RecordState::Unanswered);
        let Some(slot) = found else {
            self.health.stray_answers += 1;
            return;
        };
        self.tally.answer(answered.reply);
        match answered.reply {
            Reply::Accepted => self.accepted(slot, answered.at),
            Reply::Rejected { code, space } => {
                self.refused(slot, answered.at, RecordState::Rejected, (code, space));
            }
            Reply::RpcError { code } => {
                let code = (code.cast_unsigned(), Codespace::NONE);
                self.refused(slot, answered.at, RecordState::RpcError, code);
            }
            Reply::Failed(failure) => {
                let (record, span) = self.ended(slot, answered.at, RecordState::Failed(failure));
                let (due, sent, is_committed) = (record.due, record.sent, record.is_committed());
                span.counts.errors += 1;
                span.cohorts.of(record.step).due_refused += 1;
                match failure {
                    Failure::Closed | Failure::Timeout => span.endpoints.gave_up(record.endpoint),
                    // An unusable answer is a sign, too.
                    _ => span.endpoints.answered(record.endpoint, answered.at),
                }
                self.censor(LatencyKind::AcceptResponse, due, answered.at);
                self.censor(LatencyKind::AcceptService, sent, answered.at);
                // It may be in the node all the same: the record waits for a block.
                if is_committed || self.is_unfollowed() {
                    self.settle(slot, answered.at);
                }
            }
        }
    }

    /// A sender got answers that belong to none of its requests.
    pub const fn stray_answers(&mut self, count: u64) {
        self.health.stray_answers += count;
    }

    /// A sender got answers to requests that it had given up.
    pub const fn late_answers(&mut self, count: u64) {
        self.health.late_answers += count;
    }

    /// A sender waited this long for its events to be taken.
    pub const fn unrecorded(&mut self, span: Nanos) {
        self.health.unrecorded_ms += span.as_millis();
    }

    /// A sender's loop had its turn this long after it was due.
    pub fn stalled(&mut self, span: Nanos) {
        self.run.generator_late_max = self.run.generator_late_max.max(span);
    }

    /// A due transaction was given up.
    pub fn unsent(&mut self, unsent: &Unsent) {
        self.tally.unsent[unsent.reason as usize] += 1;
        let span = &mut self.segment(unsent.at).span;
        span.counts.unsent += 1;
        let cohort = span.cohorts.of(unsent.step);
        cohort.due_unsent += 1;
        cohort.displace(Displaced::unsent(unsent.reason));
        self.censor(LatencyKind::Lateness, unsent.due, unsent.at);
        self.censor(LatencyKind::AcceptResponse, unsent.due, unsent.at);
        if !self.is_unfollowed() {
            self.censor(LatencyKind::CommitFromDue, unsent.due, unsent.at);
        }
    }

    /// A follower saw a block. It counts once every source is past `observed`.
    pub fn block(&mut self, block: BlockSeen) {
        self.blocks.insert(block);
    }

    /// The depth of one node's mempool.
    pub fn mempool(&mut self, sample: &MempoolSample) {
        let endpoint = usize::from(sample.endpoint);
        if endpoint >= self.mempools.len() {
            self.mempools.resize(endpoint + 1, None);
        }
        self.last_sign = self.last_sign.max(sample.at);
        let depth = Depth {
            txs: sample.txs,
            bytes: sample.bytes,
        };
        self.mempools[endpoint] = Some((sample.at, depth));
        let mempools = self.mempools.iter();
        let mempools = mempools.map(|it| it.map(|(at, depth)| (at, depth.txs)));
        self.roomy.sampled(sample.at, mempools);
        let since = sample.at.saturating_sub(SAMPLED_WITHIN);
        let sampled = self.mempools.iter().flatten();
        let sampled = sampled.filter(|(at, _)| *at >= since);
        let all_known = sampled.clone().count() == self.mempools.len();
        let fullest = sampled.map(|(_, depth)| *depth).max_by_key(|it| it.txs);
        let depths = fullest.map(|fullest| Depths::one(fullest, all_known));
        add_depths(&mut self.segment(sample.at).span.depth, depths);
    }

    /// The generator's process used so much processor time since the last call.
    pub fn processor(&mut self, at: Nanos, used: Nanos) {
        let span = &mut self.segment(at).span;
        let before = span.processor.unwrap_or(Nanos::ZERO);
        span.processor = Some(before.saturating_add(used));
    }

    /// So long since the last call a thread of a node on this machine waited for a processor, and was never without work.
    pub fn node_lacked(&mut self, at: Nanos, lack: Nanos) {
        let span = &mut self.segment(at).span;
        span.node_lack = span.node_lack.saturating_add(lack);
    }

    /// A connection is usable again.
    pub const fn reconnected(&mut self, reconnected: &Reconnected) {
        let cost = &mut self.reconnects;
        match reconnected.reason {
            ReconnectReason::Planned => cost.planned += 1,
            ReconnectReason::Broken => cost.broken += 1,
            ReconnectReason::NotBack => cost.not_back += 1,
        }
        cost.failed_attempts += reconnected.failed_attempts as u64;
        let down_ms = reconnected.down.as_nanos() as f64 / 1e6;
        cost.down_ms_total += down_ms;
        cost.down_ms_max = cost.down_ms_max.max(down_ms);
    }

    /// Nothing stamped before `t` will come from `source` any more. Blocks observed
    /// and rows that end by the time all sources are past are taken over and written.
    pub fn watermark(&mut self, source: SourceId, t: Nanos) {
        let low = self.watermarks.raise(source, t);
        self.advance(low);
    }

    /// Nothing more will come from `source`: it is not waited for.
    pub fn retire(&mut self, source: SourceId) {
        self.watermark(source, Nanos::MAX);
    }

    /// A follower cannot go on: it is not waited for, and the verdict names commits that may be missing.
    pub fn follower_failed(&mut self, source: SourceId) {
        self.health.failed_followers += 1;
        self.retire(source);
    }

    /// So many blocks that had been reported left the best chain, with so many transactions that the new
    /// one does not have yet: the verdict names them, because they stay committed in the account.
    pub fn reorganised(&mut self, blocks: u64, taken_back: u64) {
        self.health.reorganised_blocks += blocks;
        self.health.taken_back += taken_back;
    }

    /// Offering ends at `at`, earlier than the profile: what is due later was not planned, and
    /// belongs to no step. To be called before the senders' watermarks pass `at`.
    pub fn offering_ended(&mut self, at: Nanos) {
        self.segments.cut(at);
    }

    /// The closed steps; of a profile with more than 10,000 of them, the first 10,000.
    pub fn step_rows(&self) -> &[StepRow] {
        &self.step_rows
    }

    /// The instant that every source is past.
    pub const fn low_watermark(&self) -> Nanos {
        self.low
    }

    /// The first write error, if there was one. Counting goes on.
    pub const fn write_error(&self) -> Option<&RecordError> {
        self.files.error()
    }

    /// Bytes held: pending records and their table, and the histograms.
    pub fn bytes(&self) -> usize {
        self.pending.bytes()
            + self.segments.bytes()
            + self.second.latencies.bytes()
            + self.step.span.latencies.bytes()
            + self.interval.bytes()
            + self.run.latencies.bytes()
            + self.run.censored.bytes()
            + self.files.bytes()
    }

    /// The open segment of `t`.
    fn segment(&mut self, t: Nanos) -> &mut Segment {
        self.reach(t);
        self.segments.at(t)
    }

    /// Opens the time line up to `t`.
    fn reach(&mut self, t: Nanos) {
        self.latest = self.latest.max(t);
        while !self.segments.reaches(t) {
            if self.segments.is_crowded() {
                let end = self.segments.next_end();
                self.close_until(end);
            }
            self.segments.extend(&mut *self.plan);
        }
        if self.segments.has_closed(t) {
            self.health.late_events += 1;
        }
    }
}
