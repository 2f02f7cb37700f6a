//! The pump: from the queue to the node, at the pace the controller allows.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Weak};

use fairq::Popped;
use pacing::Nanos;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::api::{Permit, WriteBody};
use super::commits::Commits;
use super::job::{Job, Reply};
use super::link::Link;
use super::links::{Answered, LinkEvent, Links};
use super::log::Log;
use super::recovery::{BackOff, Recovery};
use super::retained::Retained;
use super::shared::Shared;
use crate::config::Config;
use crate::metrics::{Metrics, ReconnectCause, UpstreamError};
use crate::upstream::{NodeEvent, Nodes};
use control::{BreakController, Demand, Gate, Pacer};

/// The one task that sends writes to nodes. It owns the connections, the pace and everything that
/// is under way.
pub struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) config: Arc<Config>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) nodes: Nodes,
    events: mpsc::Receiver<NodeEvent>,
    /// The node that takes the writes.
    pub(super) active: Option<usize>,
    pub(super) links: Links,
    pub(super) pacer: Pacer,
    pub(super) breaks: BreakController,
    pub(super) gate: Gate,
    pub(super) commits: Commits,
    pub(super) retained: Retained,
    /// Goes out before anything that is queued, in this order.
    pub(super) resend: VecDeque<Job>,
    pub(super) recovery: Option<Recovery>,
    pub(super) back_off: Option<BackOff>,
    /// The node has them, their check is not certain.
    pub(super) confirming: VecDeque<Job>,
    pub(super) answered: Vec<Answered>,
    popped: Vec<Popped<Job>>,
    pub(super) results: JoinSet<()>,
    pub(super) forwarded: u64,
    /// Acknowledged writes that the node refused later.
    pub(super) broken_promises: u64,
    pub(super) log: Log,
    pub(super) last_block: Option<Nanos>,
    /// New connections that wait until nothing is under way on the old ones.
    pub(super) fresh: Option<Vec<Link>>,
    /// Why the last break began.
    pub(super) break_cause: ReconnectCause,
    /// The part of the breaks' time that metrics have counted.
    pub(super) counted_pause: Nanos,
    next_tick: Nanos,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, surroundings: Surroundings) -> Self {
        let Surroundings {
            config,
            metrics,
            nodes,
            events,
            seed,
            ..
        } = surroundings;
        let now = shared.clock.now();
        Self {
            links: Links::new(config.upstream.connections, config.upstream.connect_timeout),
            pacer: Pacer::new(now, config.fair.max_req, &config.pace.settings()),
            breaks: BreakController::new(now, &config.pause, seed[0] ^ seed[1]),
            gate: Gate::Open { factor: 1.0 },
            commits: Commits::new(config.fair.commit_waiters),
            retained: Retained::new(config.upstream.retain_bytes),
            shared,
            config,
            metrics,
            nodes,
            events,
            active: None,
            resend: VecDeque::new(),
            recovery: None,
            back_off: None,
            confirming: VecDeque::new(),
            answered: Vec::new(),
            popped: Vec::new(),
            results: JoinSet::new(),
            forwarded: 0,
            broken_promises: 0,
            log: Log::default(),
            last_block: None,
            fresh: None,
            break_cause: ReconnectCause::Interval,
            counted_pause: Nanos::ZERO,
            next_tick: now,
        }
    }

    /// Sends until `shutdown`, and then until the queue is empty or the budget is spent.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut sleep = pin!(tokio::time::sleep(std::time::Duration::ZERO));
        let mut stop_at = None;
        loop {
            let now = self.now();
            if stop_at.is_none() && shutdown.is_cancelled() {
                // A little less than the front's budget, so that it can still say no.
                stop_at = Some(now.saturating_add((self.config.shutdown.drain * 9 / 10).into()));
                self.shared.lock().stopping = true;
            }
            let wake_at = self.turn(now);
            if stop_at.is_some_and(|at| at <= now || self.is_empty()) {
                break;
            }
            let wake_at = stop_at.map_or(wake_at, |at| at.min(wake_at));
            sleep.as_mut().reset(self.shared.clock.instant(wake_at));
            let event = {
                let Self {
                    links,
                    answered,
                    events,
                    shared,
                    results,
                    ..
                } = &mut self;
                tokio::select! {
                    event = links.next(answered, now) => Event::Links(event),
                    event = events.recv() => event.map_or(Event::NodesGone, Event::Node),
                    () = shared.wake.notified() => Event::Woken,
                    () = &mut sleep => Event::Woken,
                    () = shutdown.cancelled(), if stop_at.is_none() => Event::Woken,
                    Some(_) = results.join_next(), if !results.is_empty() => Event::Woken,
                }
            };
            let now = self.now();
            match event {
                Event::Links(event) => self.on_links(event, now),
                Event::Node(event) => self.on_node(event, now),
                Event::NodesGone if stop_at.is_some() => break,
                Event::NodesGone | Event::Woken => {}
            }
        }
        self.stop();
    }

    pub(super) fn now(&self) -> Nanos {
        self.shared.clock.now()
    }

    /// Does what can be done now; when to come again at the latest.
    fn turn(&mut self, now: Nanos) -> Nanos {
        self.settle(now);
        if self.next_tick <= now {
            self.tick(now);
            self.next_tick = now.saturating_add(TICK);
        }
        let mut wake_at = self.next_tick;
        if let Some(active) = self.active
            && let Some(at) = self.links.tend(self.nodes.endpoint(active), now)
        {
            wake_at = wake_at.min(at);
        }
        self.replace_links(now);
        self.end_back_off(now);
        if let Some(at) = self.back_off_until() {
            wake_at = wake_at.min(at.max(now.saturating_add(SHORT)));
        }
        match self.pump(now) {
            Some(at) => wake_at.min(at),
            None => wake_at,
        }
    }

    /// Sends what may be sent; when more may be sent, if time alone decides.
    fn pump(&mut self, now: Nanos) -> Option<Nanos> {
        let (permits, queued) = {
            let state = self.shared.lock();
            (state.permits, state.queue.len())
        };
        let under_way = self.links.in_flight() + permits;
        let room = if self.may_send() {
            self.window().saturating_sub(under_way)
        } else {
            0
        };
        let demand = Demand {
            waiting: self.waiting_again() + queued,
            under_way,
            room,
        };
        let grant = self.pacer.grant(now, demand);
        if grant.now > 0 {
            self.send(grant.now, now);
        }
        grant.next
    }

    /// Writes that may be under way at once.
    fn window(&self) -> usize {
        let pace = &self.config.pace;
        let of_all = pace.inflight_per_connection * self.config.upstream.connections;
        pace.inflight.min(of_all)
    }

    /// Whether the node may get writes at all.
    fn may_send(&self) -> bool {
        self.links.is_up()
            && self
                .active
                .is_some_and(|node| self.nodes.takes_writes(node))
            && matches!(self.gate, Gate::Open { .. })
            && !self.is_recovering()
            && self.back_off.is_none()
    }

    /// Sends up to `count` writes: first those that are offered again, then the queue's.
    fn send(&mut self, count: usize, now: Nanos) {
        let mut left = count;
        while left > 0
            && let Some(job) = self.next_again(now)
        {
            self.forward(job, now);
            left -= 1;
        }
        let mut popped = std::mem::take(&mut self.popped);
        {
            let mut state = self.shared.lock();
            while popped.len() < left
                && let Some(next) = state.next(now)
            {
                popped.push(next);
            }
        }
        left -= popped.len();
        for next in popped.drain(..) {
            let job = next.item.value;
            self.metrics.queue_wait(now.saturating_sub(job.arrived));
            self.forward(job, now);
        }
        self.popped = popped;
        self.pacer.unused(left);
        if let Err(error) = self.links.flush() {
            self.broken(&error.to_string(), ReconnectCause::Broken);
        }
    }

    /// The next of those that are offered again, unless its time is over or its client gone.
    fn next_again(&mut self, now: Nanos) -> Option<Job> {
        while let Some(job) = self.resend.pop_front() {
            if job.is_cancelled() {
                self.shared.lock().accounts.cancelled += 1;
            } else if job.deadline <= now {
                self.give_up(&job);
            } else {
                return Some(job);
            }
        }
        None
    }

    fn forward(&mut self, job: Job, now: Nanos) {
        if matches!(job.body, WriteBody::Unusual) {
            self.forwarded += 1;
            job.permit(self.new_permit());
            return;
        }
        if job.is_commit() && !self.commits.has_room() {
            self.shared.lock().accounts.displaced += 1;
            job.refuse(super::log::too_many_commits());
            return;
        }
        if let Some(link) = self.links.of(job.client) {
            link.queue(job, now);
        } else {
            self.resend.push_back(job);
        }
    }

    fn new_permit(&self) -> Permit {
        self.shared.lock().permits += 1;
        let shared: Weak<Shared> = Arc::downgrade(&self.shared);
        Permit::new(move || {
            if let Some(shared) = shared.upgrade() {
                shared.lock().permits -= 1;
                shared.wake.notify_one();
            }
        })
    }

    fn on_links(&mut self, event: LinkEvent, now: Nanos) {
        match event {
            LinkEvent::Answers => {}
            LinkEvent::Opened => {
                self.log.connected(self.active);
                self.reopened(now);
                self.pacer.connection_up(now);
            }
            LinkEvent::Replaceable(fresh) => self.replaceable(fresh),
            LinkEvent::NotOpened(error) => {
                self.metrics.upstream_error(UpstreamError::Connect);
                self.log.not_connected(&error.to_string());
            }
            LinkEvent::Broken(error) => {
                self.settle(now);
                self.metrics.upstream_error(UpstreamError::Broken);
                self.broken(&error.to_string(), ReconnectCause::Broken);
            }
        }
    }

    /// What has waited in vain ends here.
    pub(super) fn give_up(&mut self, job: &Job) {
        if !matches!(job.reply, Reply::Again) {
            self.shared.lock().accounts.expired += 1;
        }
        job.refuse(super::state::expired());
    }

    fn is_empty(&self) -> bool {
        self.links.in_flight() == 0
            && self.waiting_again() == 0
            && self.confirming.is_empty()
            && self.commits.len() == 0
            && self.shared.lock().queue.len() == 0
    }

    /// The end: everybody who still waits is told.
    fn stop(&mut self) {
        let mut jobs: Vec<Job> = self.links.give_up();
        for job in &mut jobs {
            job.ambiguous = true;
        }
        jobs.extend(self.resend.drain(..));
        jobs.extend(self.confirming.drain(..));
        let mut state = self.shared.lock();
        while let Some(popped) = state.queue.pop() {
            jobs.push(popped.item.value);
        }
        let lost = jobs
            .iter()
            .filter(|job| !matches!(job.reply, Reply::Again))
            .count();
        state.accounts.lost += lost as u64;
        state.accounts.forwarded = self.forwarded;
        drop(state);
        for job in &jobs {
            job.refuse(super::log::stopped());
        }
        self.commits.expire(Nanos::MAX);
        self.log.stopped(lost);
    }
}

enum Event {
    Links(LinkEvent),
    Node(NodeEvent),
    NodesGone,
    Woken,
}

/// How often deadlines, breaks and figures are looked after.
pub(super) const TICK: Nanos = Nanos::from_millis(50);
/// The shortest sleep.
const SHORT: Nanos = Nanos::from_millis(1);
