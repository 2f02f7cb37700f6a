//! The task that sends writes: from the queue to the node, at the pace the controllers allow.

mod answers;
mod node;
mod sending;

use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use control::{BreakController, Pacer};
use pacing::Nanos;
use rpc::ConnectionError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

pub use self::sending::OWN_CONNECTIONS;
use super::Shared;
use super::api::Acknowledged;
use super::commits::{Commits, PassiveBlocks};
use super::job::Job;
use super::pool::{NodeAnswer, Pool, PoolEvent};
use super::queue::expired;
use super::status::BoundLog;
use super::writes::{Event, Known, ShownBlock, WriteId, Writes};
use crate::config::{Config, Live};
use crate::metrics::{Metrics, ReconnectCause, UpstreamError};
use crate::refusal::Refusal;
use crate::shared_context::SharedContext;
use crate::upstream::{NodeEvent, Nodes};

/// The one task that sends writes to nodes. It passes events of the node and of the
/// clock to the parts of the lane, and moves writes between them.
pub struct Worker {
    shared: Arc<Shared>,
    /// The configuration in force, and the one that the parts go by.
    live: Live,
    config: Arc<Config>,
    metrics: Arc<Metrics>,
    nodes: Nodes,
    /// Events at the nodes; `None` once the channel is closed.
    events: Option<mpsc::Receiver<NodeEvent>>,
    /// The node that takes the writes.
    active: Option<usize>,
    pool: Pool,
    /// Whether the last attempt to connect failed, which is logged once.
    connect_failed: bool,
    writes: Writes,
    /// What was accepted earlier than this is known to be at the node, if it is in no block.
    trusted_since: Nanos,
    pacer: Pacer,
    breaks: BreakController,
    /// Why the last break began.
    break_cause: ReconnectCause,
    bound_log: BoundLog,
    commits: Commits,
    passive: PassiveBlocks,
    acknowledged: Arc<Acknowledged>,
    /// An empty list that keeps its memory between turns.
    answers: Vec<NodeAnswer>,
    forwarded: u64,
    last_block: Option<ShownBlock>,
    /// Since when the node is surely the same, and the height of its chain when it was asked after that for the first time.
    made: Option<(Nanos, u64)>,
    /// When the node answered a write last.
    last_answer: Nanos,
    /// Since when no node takes writes.
    down_since: Option<Nanos>,
    next_tick: Nanos,
}

impl Worker {
    pub(super) fn new(
        (shared, acknowledged): (Arc<Shared>, Arc<Acknowledged>),
        shared_context: &SharedContext,
        nodes: Nodes,
        events: mpsc::Receiver<NodeEvent>,
    ) -> Self {
        let live = shared_context.config.clone();
        let config = live.current();
        let metrics = Arc::clone(&shared_context.metrics);
        let now = shared.clock.now();
        let (fair, upstream) = (&config.fair, &config.upstream);
        let jitter = shared_context.seed[0] ^ shared_context.seed[1];
        let patience = [config.fixed.connect_timeout, upstream.timeout];
        Self {
            pool: Pool::new(1, patience),
            connect_failed: false,
            writes: Writes::new(config.retained()),
            trusted_since: now,
            pacer: Pacer::new(now, fair.max_req, config.pace.mode),
            breaks: BreakController::new(now, &config.breaks(), jitter),
            break_cause: ReconnectCause::Interval,
            bound_log: BoundLog::default(),
            commits: Commits::new(
                shared_context.budget.clone(),
                config.fixed.commit_waiters,
                config.fixed.commit_timeout.into(),
            ),
            passive: PassiveBlocks::default(),
            acknowledged,
            shared,
            live,
            config,
            metrics,
            nodes,
            events: Some(events),
            active: None,
            answers: Vec::new(),
            forwarded: 0,
            last_block: None,
            made: None,
            last_answer: now,
            down_since: Some(now),
            next_tick: now,
        }
    }

    /// Sends until `shutdown`, and then until the queue is empty or the budget is spent.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
        let mut stop_at = None;
        let clock = self.shared.clock;
        loop {
            let now = self.now();
            if stop_at.is_none() && shutdown.is_cancelled() {
                stop_at = Some(self.stop_taking(now));
            }
            let wake_at = self.turn(now);
            if stop_at.is_some_and(|at| at <= now || self.is_empty()) {
                return self.stop(now);
            }
            let wake_at = stop_at.map_or(wake_at, |at| at.min(wake_at));
            sleep.as_mut().reset(self.shared.clock.instant(wake_at));
            tokio::select! {
                event = self.pool.next(|| clock.now()) => self.on_pool(event),
                event = next(&mut self.events) => self.on_node(event),
                () = self.shared.wake.notified() => {}
                () = &mut sleep => {}
                () = shutdown.cancelled(), if stop_at.is_none() => {}
                () = self.commits.answered() => {}
            }
        }
    }

    /// Goes by the configuration in force, if that is another one.
    fn follow(&mut self, now: Nanos) {
        if Arc::ptr_eq(&self.live.load(), &self.config) {
            return;
        }
        let config = self.live.current();
        self.breaks.set(now, &config.breaks());
        self.shared.lock().follow(&config);
        self.config = config;
    }

    fn now(&self) -> Nanos {
        self.shared.clock.now()
    }

    /// Does what can be done now; when to come again at the latest.
    fn turn(&mut self, now: Nanos) -> Nanos {
        self.settle(now);
        if self.next_tick <= now {
            self.tick(now);
            self.next_tick = now.saturating_add(TICK);
        }
        self.writes.end_refusal(now);
        let ask_at = self.writes.ask_again_at();
        let ask_at = ask_at.map(|at| at.max(now.saturating_add(SHORT)));
        let send_at = self.send_due(now);
        let endpoint = self.active.map(|node| self.nodes.endpoint(node));
        let retry_at = endpoint.and_then(|endpoint| self.pool.tend(endpoint, now));
        [retry_at, ask_at, send_at]
            .into_iter()
            .flatten()
            .fold(self.next_tick, Nanos::min)
    }

    fn on_pool(&mut self, event: PoolEvent) {
        let now = self.now();
        match event {
            PoolEvent::Answers | PoolEvent::Writable => {}
            PoolEvent::Opened { renewed } => {
                self.connect_failed = false;
                if renewed {
                    self.metrics.reconnected(self.break_cause);
                }
                if self.pool.is_first() {
                    info!(node = self.active, "a write connection is up");
                    self.nodes.look_at(self.active);
                }
            }
            PoolEvent::NotOpened(error) => {
                self.metrics.upstream_error(UpstreamError::Connect);
                if self.pool.is_up() {
                    return;
                }
                if matches!(&error, ConnectionError::Connect(error) if error.kind() == ErrorKind::TimedOut)
                {
                    self.nodes.give_way(self.active);
                }
                if !std::mem::replace(&mut self.connect_failed, true) {
                    let reason = error.to_string();
                    warn!(reason, "no write connection to the node; retrying");
                }
            }
            PoolEvent::Broken(broken) => {
                self.settle(now);
                self.metrics.upstream_error(UpstreamError::Broken);
                if broken.is_too_long {
                    self.writes.note_too_long(&broken.under_way);
                }
                self.broke(
                    &broken.reason,
                    &broken.under_way,
                    ReconnectCause::Broken,
                    now,
                );
            }
            PoolEvent::AloneFailed(write, error) => self.failed_alone(write, &error, now),
        }
    }

    /// A connection is gone: the fate of what was under way on it is unknown for now. Everything else goes on.
    fn broke(&mut self, reason: &str, writes: &[WriteId], cause: ReconnectCause, now: Nanos) {
        warn!(
            reason,
            under_way = writes.len(),
            left = self.pool.in_use(),
            "a write connection is closed; writes under way on it are held until their fate is known"
        );
        for write in writes {
            if !self.ends_as_shown(*write, now) {
                self.writes.apply(*write, Event::Broke, now);
            }
        }
        self.metrics.reconnected(cause);
    }

    /// What is known of the node after a connection broke.
    fn known(&mut self) -> Known {
        let same_since = self.pool.same_since();
        let node = self.active.unwrap_or_default();
        if self.made.map(|(since, _)| since) != same_since {
            let told = |since| Some((since, self.nodes.state(node).height_since(since)?));
            self.made = same_since.and_then(told);
        }
        let mut last_block = self.last_block.unwrap_or_default();
        last_block.height = (last_block.height)
            .max(self.passive.height())
            .max(self.nodes.state(node).followed_after.unwrap_or(0));
        Known {
            same_since,
            made: self.made.map(|(_, height)| height),
            last_block,
            hold: self.block_hold(),
            longest_hold: self.longest_hold(),
        }
    }

    /// How long a block is awaited that may be the last of what the node had before.
    fn block_hold(&self) -> Nanos {
        let hold = self.pacer.loaded_interval().saturating_mul(INTERVALS);
        let longest = self.longest_hold();
        hold.clamp(SHORTEST_HOLD.min(longest), longest)
    }

    fn longest_hold(&self) -> Nanos {
        (self.config.fair.queue_timeout / 2).into()
    }

    /// A write ends without an answer of the node.
    fn refuse(&mut self, job: &Job, refusal: Refusal, count: impl FnOnce(&mut super::Accounts)) {
        if job.is_open() {
            count(self.shared.lock().accounts());
            job.refuse(refusal);
        }
    }

    /// The deadline of a write passed before it was forwarded, or before its fate was known.
    fn expire(&mut self, job: &Job) {
        self.refuse(job, expired(), |accounts| accounts.expired += 1);
    }

    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.commits.is_empty() && self.shared.lock().len() == 0
    }

    /// From now on nothing is taken; until when the rest may be sent. That is a little less than the front's budget,
    /// so that it can still send refusals.
    fn stop_taking(&self, now: Nanos) -> Nanos {
        self.shared.lock().stop();
        now.saturating_add((self.config.shutdown.drain * 9 / 10).into())
    }

    /// The end: every client that still waits gets a refusal.
    fn stop(&mut self, now: Nanos) {
        self.pool.give_up(now);
        let mut jobs = self.writes.take_all();
        let lost = {
            let mut queue = self.shared.lock();
            jobs.extend(queue.take_all());
            let lost = jobs.iter().filter(|job| job.is_open()).count();
            queue.accounts().lost += lost as u64;
            queue.accounts().forwarded = self.forwarded;
            lost
        };
        for job in &jobs {
            job.refuse(Refusal::going_down());
        }
        self.commits.expire(Nanos::MAX);
        self.shared.lock().accounts().unkept = self.acknowledged.all_unkept();
        if lost > 0 {
            warn!(lost, "stopped with writes that were not forwarded");
        } else {
            info!("stopped; every admitted write was answered");
        }
    }
}

/// The next event at a node; never ends once the channel is closed.
async fn next(events: &mut Option<mpsc::Receiver<NodeEvent>>) -> NodeEvent {
    if let Some(open) = events {
        if let Some(event) = open.recv().await {
            return event;
        }
        error!("the nodes are no longer watched; writes go on to the node they go to");
        *events = None;
    }
    std::future::pending().await
}

/// How often deadlines, breaks and figures are updated.
const TICK: Nanos = Nanos::from_millis(50);
/// The shortest sleep.
const SHORT: Nanos = Nanos::from_millis(1);
/// Blocks that could show what the node has are awaited for so many intervals of a loaded chain: the one under way, the
/// one with it and one that is late; at most half of `fair.queue_timeout`, so that what waits for it is still served,
const INTERVALS: u64 = 3;
/// and at least this long, where blocks are short or the interval is unknown: a node needs some time to start.
const SHORTEST_HOLD: Nanos = Nanos::from_secs(1);
