//! The task that sends writes: from the queue to the node, at the pace the controllers allow.

mod answers;
mod node;

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use control::{Demand, Pacer};
use fairq::Popped;
use pacing::Nanos;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::acknowledged::Acknowledged;
use super::api::{Permit, WriteBody};
use super::bound_log::BoundLog;
use super::breaks::Breaks;
use super::commits::Commits;
use super::connections::{Connections, ConnectionsEvent, NodeAnswer, Replaced};
use super::job::Job;
use super::passive::PassiveBlocks;
use super::queue::expired;
use super::reoffers::Reoffers;
use super::retained::Retained;
use super::shared::Shared;
use crate::config::Config;
use crate::metrics::{Metrics, ReconnectCause, UpstreamError};
use crate::refusal::{Reason, Refusal};
use crate::surroundings::Surroundings;
use crate::upstream::{NodeEvent, Nodes};

/// The one task that sends writes to nodes. It passes events of the node and of the
/// clock to the parts of the lane, and moves writes between them.
pub struct Worker {
    shared: Arc<Shared>,
    config: Arc<Config>,
    metrics: Arc<Metrics>,
    nodes: Nodes,
    events: mpsc::Receiver<NodeEvent>,
    /// The node that takes the writes.
    active: Option<usize>,
    connections: Connections,
    /// Whether the last attempt to connect failed, which is logged once.
    connect_failed: bool,
    pacer: Pacer,
    breaks: Breaks,
    bound_log: BoundLog,
    commits: Commits,
    retained: Retained,
    reoffers: Reoffers,
    passive: PassiveBlocks,
    acknowledged: Arc<Acknowledged>,
    /// Empty lists that keep their memory between turns.
    answers: Vec<NodeAnswer>,
    popped: Vec<Popped<Job>>,
    forwarded: u64,
    last_block: Option<Nanos>,
    /// When the node answered a write last.
    last_answer: Nanos,
    /// Since when no node takes writes.
    down_since: Option<Nanos>,
    next_tick: Nanos,
    /// Whether nothing more will be told of the nodes.
    is_unwatched: bool,
}

impl Worker {
    pub(super) fn new(
        (shared, acknowledged): (Arc<Shared>, Arc<Acknowledged>),
        surroundings: &Surroundings,
        nodes: Nodes,
        events: mpsc::Receiver<NodeEvent>,
    ) -> Self {
        let config = Arc::clone(&surroundings.config);
        let metrics = Arc::clone(&surroundings.metrics);
        let now = shared.clock.now();
        let (fair, upstream) = (&config.fair, &config.upstream);
        let jitter = surroundings.seed[0] ^ surroundings.seed[1];
        Self {
            connections: Connections::new(
                upstream.connections,
                upstream.connect_timeout,
                fair.order,
            ),
            connect_failed: false,
            pacer: Pacer::new(now, fair.max_req, &config.pacer()),
            breaks: Breaks::new(now, &config.pause, jitter, Arc::clone(&metrics)),
            bound_log: BoundLog::default(),
            commits: Commits::new(fair.commit_waiters, fair.commit_timeout.into()),
            retained: Retained::new(upstream.retain_bytes),
            reoffers: Reoffers::default(),
            passive: PassiveBlocks::default(),
            is_unwatched: false,
            acknowledged,
            shared,
            config,
            metrics,
            nodes,
            events,
            active: None,
            answers: Vec::new(),
            popped: Vec::new(),
            forwarded: 0,
            last_block: None,
            last_answer: now,
            down_since: Some(now),
            next_tick: now,
        }
    }

    /// Sends until `shutdown`, and then until the queue is empty or the budget is spent.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
        let mut stop_at = None;
        loop {
            let now = self.now();
            if stop_at.is_none() && shutdown.is_cancelled() {
                // A little less than the front's budget, so that it can still send refusals.
                stop_at = Some(now.saturating_add((self.config.shutdown.drain * 9 / 10).into()));
                self.shared.lock().stop();
            }
            let wake_at = self.turn(now);
            if stop_at.is_some_and(|at| at <= now || self.is_empty()) {
                break;
            }
            let wake_at = stop_at.map_or(wake_at, |at| at.min(wake_at));
            sleep.as_mut().reset(self.shared.clock.instant(wake_at));
            tokio::select! {
                event = self.connections.next(now) => self.on_connections(event),
                event = self.events.recv(), if !self.is_unwatched => match event {
                    Some(event) => self.on_node(event),
                    None => {
                        error!("the nodes are no longer watched; writes go on to the node they go to");
                        self.is_unwatched = true;
                    }
                },
                () = self.shared.wake.notified() => {}
                () = &mut sleep => {}
                () = shutdown.cancelled(), if stop_at.is_none() => {}
                () = self.commits.answered() => {}
            }
        }
        self.stop();
    }

    fn now(&self) -> Nanos {
        self.shared.clock.now()
    }

    /// Does what can be done now; when to come again at the latest.
    fn turn(&mut self, now: Nanos) -> Nanos {
        self.settle(now);
        self.connections.release(&mut self.reoffers, now);
        if self.next_tick <= now {
            self.tick(now);
            self.next_tick = now.saturating_add(TICK);
        }
        let retry_at = self
            .active
            .and_then(|node| self.connections.tend(self.nodes.endpoint(node), now));
        match self.connections.replace_if_idle() {
            Some(Replaced::Same) => self.breaks.reconnected(),
            Some(Replaced::Widened(count)) => info!(count, "writes go over more connections"),
            None => {}
        }
        if self.connections.in_flight() == 0 {
            self.reoffers.end_refusal(now);
        }
        let refused_until = self.reoffers.refused_until();
        let offer_at = refused_until.map(|at| at.max(now.saturating_add(SHORT)));
        let send_at = self.send_due(now);
        [retry_at, offer_at, send_at]
            .into_iter()
            .flatten()
            .fold(self.next_tick, Nanos::min)
    }

    /// Sends what may be sent; when more may be sent, if time alone decides.
    fn send_due(&mut self, now: Nanos) -> Option<Nanos> {
        let (permits, queued) = {
            let queue = self.shared.lock();
            (queue.permits(), queue.len())
        };
        let under_way = self.connections.in_flight() + permits;
        let demand = Demand {
            waiting: self.reoffers.len() + queued,
            under_way,
            most: if self.may_send() {
                self.most_under_way()
            } else {
                0
            },
            connections: self.connections.in_use(),
        };
        let grant = self.pacer.grant(now, demand);
        if grant.now > 0 && !self.send(grant.now, now) {
            return Some(now.saturating_add(SHORT));
        }
        grant.next
    }

    /// Writes that may be under way at once, whatever the pace says.
    fn most_under_way(&self) -> usize {
        let pace = &self.config.pace;
        let of_all = pace.inflight_per_connection * self.connections.in_use();
        pace.inflight.min(of_all)
    }

    /// Whether the node may get writes at all.
    fn may_send(&self) -> bool {
        self.active_takes_writes() && self.breaks.factor() > 0.0 && self.hold().is_none()
    }

    /// Sends up to `count` writes: first those that are offered again, then the queue's. False when the
    /// bytes of one turn, or those that wait for the sockets, are too many for more.
    fn send(&mut self, count: usize, now: Nanos) -> bool {
        let mut left = count;
        let mut room = self.connections.room();
        while left > 0
            && room > 0
            && let Some(job) = self.next_reoffer(now)
        {
            room = room.saturating_sub(job.bytes());
            self.forward(job, Connections::send_again, now);
            left -= 1;
        }
        let mut popped = std::mem::take(&mut self.popped);
        {
            let mut queue = self.shared.lock();
            while popped.len() < left
                && room > 0
                && let Some(next) = queue.next(now)
            {
                room = room.saturating_sub(next.item.value.bytes());
                popped.push(next);
            }
        }
        left -= popped.len();
        for next in popped.drain(..) {
            let job = next.item.value;
            self.metrics.queue_wait(now.saturating_sub(job.arrived));
            self.forward(job, Connections::send, now);
        }
        self.popped = popped;
        self.pacer.unused(left);
        if let Err(error) = self.connections.flush() {
            self.disconnect(&error.to_string(), ReconnectCause::Broken);
        }
        room > 0
    }

    /// The next of those that are offered again, unless its time is over or its client gone.
    fn next_reoffer(&mut self, now: Nanos) -> Option<Job> {
        while let Some(job) = self.reoffers.pop() {
            if job.is_cancelled() {
                self.shared.lock().accounts().cancelled += 1;
            } else if job.deadline <= now {
                self.expire(&job);
            } else {
                return Some(job);
            }
        }
        None
    }

    fn forward(&mut self, job: Job, send: Sending, now: Nanos) {
        if matches!(job.body, WriteBody::Unusual) {
            self.forwarded += 1;
            job.permit(self.new_permit());
            return;
        }
        if job.is_commit() && !self.commits.admit(&job) {
            self.shared.lock().accounts().displaced += 1;
            job.refuse(too_many_commits());
            return;
        }
        if let Err(job) = send(&mut self.connections, job, now) {
            self.reoffers.push(job);
        }
    }

    fn new_permit(&self) -> Permit {
        self.shared.lock().count_permit(true);
        let shared: Weak<Shared> = Arc::downgrade(&self.shared);
        Permit::new(move || {
            if let Some(shared) = shared.upgrade() {
                shared.lock().count_permit(false);
                shared.wake.notify_one();
            }
        })
    }

    fn on_connections(&mut self, event: ConnectionsEvent) {
        let now = self.now();
        match event {
            ConnectionsEvent::Answers | ConnectionsEvent::Replaceable => {}
            ConnectionsEvent::Opened => {
                self.connect_failed = false;
                info!(node = self.active, "write connections are up");
                self.reoffers.connected(now, self.retained.is_empty());
                self.pacer.connection_up(now);
            }
            ConnectionsEvent::NotOpened(error) => {
                self.metrics.upstream_error(UpstreamError::Connect);
                if !std::mem::replace(&mut self.connect_failed, true) {
                    let reason = error.to_string();
                    warn!(reason, "no write connection to the node; retrying");
                }
            }
            ConnectionsEvent::Broken(error) => {
                self.settle(now);
                self.metrics.upstream_error(UpstreamError::Broken);
                self.disconnect(&error.to_string(), ReconnectCause::Broken);
            }
        }
    }

    /// Closes all connections: the writes under way are offered again once it is known what the
    /// node has.
    fn disconnect(&mut self, reason: &str, cause: ReconnectCause) {
        let under_way = self.connections.give_up();
        warn!(
            reason,
            under_way = under_way.len(),
            "the write connections are closed; writes under way are held until their fate is known"
        );
        self.reoffers.disconnected(under_way);
        self.pacer.connection_lost();
        self.metrics.reconnected(cause);
    }

    /// The deadline of a write passed before it was forwarded, or before its fate was known.
    fn expire(&self, job: &Job) {
        if job.is_counted() {
            self.shared.lock().accounts().expired += 1;
        }
        job.refuse(expired());
    }

    fn is_empty(&self) -> bool {
        self.connections.in_flight() == 0
            && self.reoffers.is_empty()
            && self.commits.len() == 0
            && self.shared.lock().len() == 0
    }

    /// The end: every client that still waits gets a refusal.
    fn stop(&mut self) {
        let mut jobs: Vec<Job> = self.connections.give_up();
        for job in &mut jobs {
            job.ambiguous = true;
        }
        jobs.extend(self.reoffers.take_all());
        let lost = {
            let mut queue = self.shared.lock();
            jobs.extend(queue.take_all());
            let lost = jobs.iter().filter(|job| job.is_counted()).count();
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

/// The refusal of one commit too many.
fn too_many_commits() -> Refusal {
    Refusal::new(
        Reason::Rate,
        "too many broadcast_tx_commit calls wait for a block; use broadcast_tx_sync",
    )
    .retry_after(Duration::from_secs(1))
}

/// How a write is handed to the connections: for the first time, or again.
type Sending = fn(&mut Connections, Job, Nanos) -> Result<(), Job>;

/// How often deadlines, breaks and figures are updated.
const TICK: Nanos = Nanos::from_millis(50);
/// The shortest sleep.
const SHORT: Nanos = Nanos::from_millis(1);
