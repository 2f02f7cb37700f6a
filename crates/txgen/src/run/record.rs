//! The recorder's thread: the only owner of the run's account.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, select};
use measure::{
    BlockSeen, Finished, LoadModel, MempoolSample, Recorder, RecorderConfig, RunEnd, SourceId,
    judge,
};
use pacing::Nanos;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use sender::clock::Origin;
use sender::shard::{Orders, ShardBatch};

use super::division::RunPlan;
use super::host::{MachineLook, RowFiles};
use super::own_nodes::NodeWatch;
use crate::live::Update;
use crate::observe::Samples;
use crate::plan::{Load, Plan};
use crate::threshold::ThresholdVerdict;

/// What the followers report to the recorder.
#[derive(Debug)]
pub(crate) enum FollowerReport {
    /// A block.
    Block(BlockSeen),
    /// No block observed before this will come from this follower any more.
    Watermark { follower: u16, at: Nanos },
    /// A mempool's depth.
    Mempool(MempoolSample),
    /// Blocks that had been reported left the best chain, and took so many transactions along.
    Reorganised { blocks: u64, taken_back: u64 },
    /// This follower's node has a block that it does not give.
    Unread { follower: u16 },
    /// Everything that this follower's node has was seen.
    Read { follower: u16 },
    /// This follower has ended.
    Retired { follower: u16, failed: bool },
}

/// What the recorder shows to the thread that watches the run.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<SharedState>,
}

#[derive(Debug, Default)]
struct SharedState {
    /// The run at the last publication.
    snapshot: Option<Snapshot>,
    marks: Vec<(Nanos, String)>,
}

/// A look at the run from outside.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// What is shown; its new rows are those since the last snapshot.
    pub(crate) update: Update,
    /// The first write error, if there was one.
    pub(crate) write_error: Option<String>,
    /// The condition of `--abort-on` that was broken, if one was.
    pub(crate) broken: Option<ThresholdVerdict>,
    /// How far behind blocks are read, where steps wait for them in vain.
    pub(crate) unread: Option<Nanos>,
}

impl Shared {
    /// The state at its last publication; `None` before the first.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        let mut state = self.state.lock();
        let published = state.snapshot.as_mut()?;
        let snapshot = published.clone();
        published.update.new_seconds.clear();
        published.update.new_steps.clear();
        Some(snapshot)
    }

    /// Notes `text` at `at` in the record; false when there are too many notes at once.
    pub(crate) fn mark(&self, at: Nanos, text: &str) -> bool {
        let mut state = self.state.lock();
        let room = state.marks.len() < MARKS_WAITING;
        if room {
            state.marks.push((at, text.to_owned()));
        }
        room
    }
}

/// The ends of the channels the recorder listens to.
pub(crate) struct RecordChannels {
    pub(crate) batches: Receiver<ShardBatch>,
    /// One way back per shard for used batches.
    pub(crate) used: Vec<Sender<ShardBatch>>,
    pub(crate) seen: Receiver<FollowerReport>,
    /// Where the run can be looked at from outside.
    pub(crate) shared: Arc<Shared>,
    /// How many followers report.
    pub(crate) followers: u16,
    /// Receives the sent transactions that other nodes are asked for.
    pub(crate) samples: Option<Samples>,
    /// The addresses of the nodes, in their order.
    pub(crate) endpoints: Vec<String>,
    /// Gas that a block may have.
    pub(crate) block_gas: Option<u64>,
    /// The nodes on this machine, and whether they get its processor.
    pub(crate) own_nodes: NodeWatch,
}

/// The recorder at work.
pub(crate) struct Recording<'a> {
    plan: &'a Plan,
    orders: &'a Orders,
    origin: Origin,
    recorder: Recorder<'a>,
    channels: RecordChannels,
    senders: u16,
    /// Per shard: whether nothing falls due any more, and whether it has left.
    offered: Vec<bool>,
    finished: Vec<bool>,
    offered_until: Option<Nanos>,
    published_steps: usize,
    /// Processor time of this process by now.
    processor: Nanos,
    /// How busy the machine was by the origin, and by the end of the offering.
    machine: [Option<MachineLook>; 2],
    stop_known: bool,
    check_at: Nanos,
    broken: Option<ThresholdVerdict>,
    /// Followers whose nodes have a block that they do not give.
    unread: BTreeSet<u16>,
}

impl<'a> Recording<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        orders: &'a Orders,
        origin: Origin,
        rows: RowFiles,
        mut channels: RecordChannels,
    ) -> Self {
        let senders = channels.used.len() as u16;
        let config = RecorderConfig {
            model: match plan.load {
                Load::Open { .. } => LoadModel::Open,
                Load::Flood { .. } => LoadModel::Closed,
            },
            warmup: plan.warmup,
            ids: plan.target.facts().ids,
            endpoints: std::mem::take(&mut channels.endpoints),
            rows: plan.rows,
            checked: plan.is_checked(),
            waits_at: plan.rules.waits_at(),
            strict: plan.strict,
            block_gas: channels.block_gas,
            max_pending: usize::try_from(plan.rules.max_in_flight.get())
                .unwrap_or(usize::MAX)
                .saturating_add(ACCEPTED_AND_WAITING),
            ..RecorderConfig::new(origin.unix_ns(), senders, channels.followers)
        };
        Self {
            plan,
            orders,
            origin,
            recorder: Recorder::new(config, RunPlan::new(plan, orders), rows),
            senders,
            offered: vec![false; usize::from(senders)],
            finished: vec![false; usize::from(senders)],
            channels,
            offered_until: None,
            published_steps: 0,
            processor: processor_time(),
            machine: [machine_look(), None],
            stop_known: false,
            check_at: CHECK_INTERVAL,
            broken: None,
            unread: BTreeSet::new(),
        }
    }

    /// Records until every shard has left and nothing more is expected from the chain.
    pub(crate) fn run(mut self, interrupted: impl Fn() -> bool) -> Finished {
        let mut publish_at = Nanos::ZERO;
        loop {
            self.receive();
            self.learn_of_stop();
            let now = self.origin.now();
            if now >= publish_at {
                publish_at = now.saturating_add(PUBLISH_INTERVAL);
                self.check_conditions(now);
                self.sample_processor(now);
                self.publish();
            }
            if self.is_done(now) {
                break;
            }
        }
        self.publish();
        self.finish(interrupted())
    }

    fn receive(&mut self) {
        select! {
            recv(self.channels.batches) -> batch => match batch {
                Ok(batch) => self.take_batch(batch),
                // A sender that panicked sends no last batch.
                Err(_) => {
                    self.finished.fill(true);
                    self.channels.batches = crossbeam_channel::never();
                }
            },
            recv(self.channels.seen) -> seen => match seen {
                Ok(seen) => self.take_seen(seen),
                // Without followers the closed channel would be ready for ever.
                Err(_) => self.channels.seen = crossbeam_channel::never(),
            },
            default(IDLE_WAIT) => {}
        }
    }

    fn take_batch(&mut self, mut batch: ShardBatch) {
        let shard = usize::from(batch.shard);
        self.learn_of_stop();
        for sent in &batch.sent {
            self.recorder.sent(sent);
            if let Some(samples) = &self.channels.samples {
                samples.sent(sent.hash, sent.sent);
            }
        }
        for unsent in &batch.unsent {
            self.recorder.unsent(unsent);
        }
        for answered in &batch.answered {
            self.recorder.answered(answered);
        }
        for reconnected in &batch.reconnected {
            self.recorder.reconnected(reconnected);
        }
        self.recorder.stray_answers(batch.stray_answers);
        self.recorder.late_answers(batch.late_answers);
        self.recorder.stalled(batch.stall);
        self.recorder.unrecorded(batch.unrecorded);
        self.offered[shard] |= batch.offered_all;
        self.finished[shard] |= batch.finished;
        if self.offered_until.is_none() && self.offered.iter().all(|offered| *offered) {
            self.offered_until = Some(batch.watermark);
            self.machine[1] = machine_look();
            if matches!(self.plan.load, Load::Flood { .. }) {
                // A flood's one step has no end of its own; the drain is not part of it.
                self.recorder.offering_ended(batch.watermark);
            }
        }
        let source = SourceId(batch.shard);
        if batch.finished {
            self.recorder.retire(source);
        } else {
            self.recorder.watermark(source, batch.watermark);
        }
        batch.clear();
        // The shard may be gone; the batch is freed then.
        let _ = self.channels.used[shard].try_send(batch);
    }

    fn take_seen(&mut self, seen: FollowerReport) {
        match seen {
            // Seen before the origin, so it holds nothing of ours and belongs to no second.
            FollowerReport::Block(block) if block.observed.is_zero() => {}
            FollowerReport::Mempool(sample) if sample.at.is_zero() => {}
            FollowerReport::Block(block) => self.recorder.block(block),
            FollowerReport::Watermark { follower, at } => {
                self.recorder
                    .watermark(SourceId(self.senders + follower), at);
            }
            FollowerReport::Mempool(sample) => self.recorder.mempool(&sample),
            FollowerReport::Reorganised { blocks, taken_back } => {
                self.recorder.reorganised(blocks, taken_back);
            }
            FollowerReport::Unread { follower } => {
                self.unread.insert(follower);
            }
            FollowerReport::Read { follower } => {
                self.unread.remove(&follower);
            }
            FollowerReport::Retired { follower, failed } => {
                let source = SourceId(self.senders + follower);
                if failed {
                    self.recorder.follower_failed(source);
                } else {
                    self.recorder.retire(source);
                }
            }
        }
    }

    /// Orders to stop must reach the recorder before watermarks pass them.
    fn learn_of_stop(&mut self) {
        let stop_at = self.orders.stop_at();
        if !self.stop_known && stop_at < Nanos::MAX {
            self.stop_known = true;
            self.recorder.offering_ended(stop_at);
        }
    }

    /// All shards have left, and every accepted transaction was seen in a block or cannot come in one any more, or the time
    /// for that is over, or blocks are not followed.
    fn is_done(&self, now: Nanos) -> bool {
        if !self.finished.iter().all(|finished| *finished) || !self.channels.batches.is_empty() {
            return false;
        }
        let base = self.offered_until.unwrap_or(now);
        !self.plan.follow
            || self.orders.is_aborted()
            || self.recorder.live().pending == 0
            || self.recorder.rest_is_lost()
            || now >= base.saturating_add(self.plan.rules.drain_timeout)
    }

    /// Looks at the conditions that end a run, until one is broken or nothing more is offered. A
    /// value that there is not yet breaks nothing, nor does one that is not decided yet.
    fn check_conditions(&mut self, now: Nanos) {
        let conditions = &self.plan.abort_on;
        let idle = conditions.is_empty() || self.broken.is_some() || self.offered_until.is_some();
        if idle || now < self.check_at {
            return;
        }
        self.check_at = now.saturating_add(CHECK_INTERVAL);
        let document = serde_json::to_value(self.recorder.so_far()).unwrap_or_default();
        self.broken = conditions
            .iter()
            .map(|condition| condition.check(&document))
            .find(|verdict| verdict.broken);
    }

    /// What was used before the origin belongs to no second.
    fn sample_processor(&mut self, now: Nanos) {
        let before = std::mem::replace(&mut self.processor, processor_time());
        let lack = self.channels.own_nodes.lack();
        if !now.is_zero() {
            let used = self.processor.saturating_sub(before);
            self.recorder.processor(now, used);
            self.recorder.node_lacked(now, lack);
        }
    }

    fn publish(&mut self) {
        let mut state = self.channels.shared.state.lock();
        for (at, text) in state.marks.drain(..) {
            self.recorder.mark(at, &text);
        }
        let snapshot = state.snapshot.get_or_insert_default();
        let update = &mut snapshot.update;
        update.live = self.recorder.live();
        update.counters = self.recorder.counters();
        let seconds = self.recorder.take_seconds();
        if !seconds.is_empty() && self.offered_until.is_none() {
            update.onsets = judge::onsets(&self.recorder.so_far().evidence);
        }
        update.new_seconds.extend(seconds);
        let steps = &self.recorder.step_rows()[self.published_steps..];
        update.new_steps.extend_from_slice(steps);
        self.published_steps += steps.len();
        update.draining = self.offered_until.is_some();
        snapshot.broken.clone_from(&self.broken);
        snapshot.unread = self.recorder.unread(self.origin.now());
        snapshot.write_error = self.recorder.write_error().map(|error| {
            use std::error::Error as _;
            let cause = error.source().map(ToString::to_string).unwrap_or_default();
            format!("{error} ({cause})")
        });
    }

    fn finish(mut self, interrupted: bool) -> Finished {
        let ended = self.origin.now();
        // What is in the blocks that they do not give is not known.
        for follower in std::mem::take(&mut self.unread) {
            self.recorder
                .follower_failed(SourceId(self.senders + follower));
        }
        let stop_at = self.orders.stop_at();
        let (planned, offered_until) = match &self.plan.load {
            Load::Open { schedule, .. } => {
                let schedule = &self.orders.schedule().unwrap_or_else(|| schedule.clone());
                let end = schedule.profile().duration().unwrap_or(Nanos::MAX);
                let until = end.min(stop_at).min(ended);
                let planned = schedule.due_before(until);
                let (planned, until) = match self.plan.workload.count() {
                    // A workload that is used up ends the offering: nothing more falls due.
                    Some(supply) if supply <= planned => {
                        let used_up = schedule.due(supply).unwrap_or(until);
                        (supply, until.min(used_up))
                    }
                    _ => (planned, until),
                };
                (Some(self.plan.part.count(planned)), until)
            }
            Load::Flood { .. } => (None, self.offered_until.unwrap_or(ended).min(stop_at)),
        };
        let mut finished = self.recorder.finish(RunEnd {
            planned,
            offered_until,
            ended,
            interrupted,
        });
        let summary = &mut finished.summary;
        let [from, until] = self.machine;
        let looks = from.zip(until.or_else(machine_look));
        summary.machine =
            looks.map(|(from, until)| from.until(&until, self.channels.own_nodes.has_node));
        if let (Some(_), Some(ceiling)) = (&summary.knee, self.plan.nodes.ceiling()) {
            summary.knee_reason = format!("{}; {ceiling}", summary.knee_reason);
        }
        finished
    }
}

/// What everything on the machine has used by now.
fn machine_look() -> Option<MachineLook> {
    MachineLook::now(processor_time().as_secs_f64())
}

/// Processor time that all threads of this process have used.
fn processor_time() -> Nanos {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = Nanos::from_secs(used.tv_sec.unsigned_abs());
    seconds.saturating_add(Nanos::from_nanos(used.tv_nsec.unsigned_abs()))
}

/// Beside what is in flight, the node may hold accepted transactions for some blocks.
const ACCEPTED_AND_WAITING: usize = 1_000_000;
/// Notes between two publications at most.
const MARKS_WAITING: usize = 64;
const IDLE_WAIT: Duration = Duration::from_millis(10);
/// Conditions are about whole seconds.
const CHECK_INTERVAL: Nanos = Nanos::from_secs(1);
const PUBLISH_INTERVAL: Nanos = Nanos::from_millis(50);
