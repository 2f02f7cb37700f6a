//! A sender shard: one thread, its connections, and every N-th due time of the global schedule.
//!
//! Nothing stands between the clock and the socket: the thread wakes at the due time, takes the
//! prepared request from its ring, writes it and stamps it. Answers are read by the same loop.

mod answer;
mod link;
mod pace;
mod poller;
mod report;
mod send;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender};
use measure::{Failure, ReconnectReason, Reconnected, UnsentReason};
use pacing::{CatchUp, Nanos, Profile};
use rpc::Connection;

use crate::clock::Origin;
use crate::source::Ring;
use link::{Link, Outage, State};
use pace::{DueTx, Pace};
use poller::Poller;
use report::Reporter;
use send::Blocked;

pub(crate) use link::Address;
pub(crate) use report::{BATCHES_IN_FLIGHT, ShardBatch};

/// What a shard needs to know.
pub(crate) struct ShardConfig {
    pub(crate) shard: u32,
    pub(crate) of: u32,
    /// One entry per connection.
    pub(crate) connections: Vec<Address>,
    pub(crate) catch_up: CatchUp,
    /// This shard's part of `--max-in-flight`.
    pub(crate) max_in_flight: usize,
    pub(crate) answer_timeout: Nanos,
    pub(crate) drain_timeout: Nanos,
    pub(crate) spin: Nanos,
    pub(crate) load: ShardLoad,
}

/// What the shard offers.
pub(crate) enum ShardLoad {
    /// Its part of the schedule, up to (without) index `end`.
    Open {
        dues: Box<pacing::Shard>,
        profile: Profile,
        end: u64,
        reconnect_in_pauses: bool,
    },
    /// Its part of a flood.
    Flood { end: u64, slots: usize },
}

/// Orders from the outside, read at every turn of the loop.
#[derive(Debug)]
pub(crate) struct Orders {
    /// Nothing due at or after this instant is offered; in nanoseconds since the origin.
    stop_at: AtomicU64,
    reason: AtomicU8,
    /// Leave at once.
    abort: AtomicBool,
}

/// The two ways to and from a shard's recorder.
pub(crate) struct ShardChannels {
    pub(crate) full: Sender<ShardBatch>,
    pub(crate) empty: Receiver<ShardBatch>,
    /// Says that every connection is up.
    pub(crate) opened: Sender<u32>,
    /// Brings the origin when all shards are ready.
    pub(crate) start: Receiver<Origin>,
}

impl Default for Orders {
    fn default() -> Self {
        Self {
            stop_at: AtomicU64::new(u64::MAX),
            reason: AtomicU8::new(0),
            abort: AtomicBool::new(false),
        }
    }
}

impl Orders {
    /// Ends the offering at `at`; what waits then is unsent with this reason. The first call counts.
    pub(crate) fn stop(&self, at: Nanos, interrupted: bool) {
        self.reason
            .store(1 + u8::from(interrupted), Ordering::Relaxed);
        let _ = self.stop_at.compare_exchange(
            u64::MAX,
            at.as_nanos(),
            Ordering::Release,
            Ordering::Relaxed,
        );
    }

    /// Makes every shard leave at once.
    pub(crate) fn abort(&self) {
        self.abort.store(true, Ordering::Release);
    }

    /// When the offering ends by order; [`Nanos::MAX`] without an order.
    pub(crate) fn stop_at(&self) -> Nanos {
        Nanos::from_nanos(self.stop_at.load(Ordering::Acquire))
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Acquire)
    }

    fn reason(&self) -> UnsentReason {
        match self.reason.load(Ordering::Relaxed) {
            1 => UnsentReason::Stopped,
            _ => UnsentReason::Interrupted,
        }
    }
}

/// A sender at work.
pub(crate) struct Shard<'a> {
    number: u32,
    links: Vec<Link>,
    /// Links with room, in turn.
    idle: VecDeque<u32>,
    poller: Poller,
    ring: Ring,
    pace: Pace,
    /// Due and not yet sent, oldest first.
    backlog: VecDeque<DueTx>,
    /// Queued or unanswered on all links.
    under_way: usize,
    /// Links with something to write.
    dirty: Vec<u32>,
    blocked: Blocked,
    reporter: Reporter,
    origin: Origin,
    orders: &'a Orders,
    catch_up: CatchUp,
    max_in_flight: usize,
    answer_timeout: Nanos,
    drain_timeout: Nanos,
    spin: Nanos,
    pauses: Option<Pauses>,
    next_check: Nanos,
    /// When the last transaction was due, once it is known.
    offered_until: Option<Nanos>,
}

/// The pauses of a profile whose connections are broken in each.
struct Pauses {
    profile: Profile,
    /// The end of the last pause that was dealt with.
    done_until: Nanos,
}

/// Runs one shard to its end.
///
/// # Errors
/// When the system refuses an epoll set, or no connection could be opened before the start.
pub(crate) fn run(
    config: ShardConfig,
    ring: Ring,
    channels: ShardChannels,
    orders: &Orders,
) -> io::Result<()> {
    let mut shard = Shard::new(config, ring, channels.full, channels.empty, orders)?;
    shard.open_all()?;
    let _ = channels.opened.send(shard.number);
    let Some(origin) = shard.await_start(&channels.start)? else {
        return Ok(());
    };
    origin.wait();
    shard.origin = origin;
    shard.poller.forget_timer();
    shard.next_check = Nanos::ZERO;
    let offered = shard.offer();
    // Also after a failure: the recorder waits for a last batch.
    let now = shard.origin.now();
    shard.give_up_rest(now);
    shard.reporter.finish(now);
    offered
}

impl<'a> Shard<'a> {
    fn new(
        config: ShardConfig,
        ring: Ring,
        full: Sender<ShardBatch>,
        empty: Receiver<ShardBatch>,
        orders: &'a Orders,
    ) -> io::Result<Self> {
        let (pace, pauses) = match config.load {
            ShardLoad::Flood { end, slots } => {
                (Pace::closed(config.shard, config.of, end, slots), None)
            }
            ShardLoad::Open {
                dues,
                profile,
                end,
                reconnect_in_pauses,
            } => {
                let pauses = reconnect_in_pauses.then(|| Pauses {
                    profile: profile.clone(),
                    done_until: Nanos::ZERO,
                });
                (Pace::open(*dues, profile, end), pauses)
            }
        };
        Ok(Self {
            number: config.shard,
            links: config.connections.into_iter().map(Link::new).collect(),
            idle: VecDeque::new(),
            poller: Poller::new()?,
            ring,
            pace,
            backlog: VecDeque::new(),
            under_way: 0,
            dirty: Vec::new(),
            blocked: Blocked::default(),
            reporter: Reporter::new(config.shard as u16, full, empty),
            origin: Origin::capture(),
            orders,
            catch_up: config.catch_up,
            max_in_flight: config.max_in_flight,
            answer_timeout: config.answer_timeout,
            drain_timeout: config.drain_timeout,
            spin: config.spin,
            pauses,
            next_check: Nanos::ZERO,
            offered_until: None,
        })
    }

    /// Opens all connections before the run; a node that is reachable and slow gets its time.
    fn open_all(&mut self) -> io::Result<()> {
        let deadline = self.origin.now().saturating_add(OPENING_TIMEOUT);
        loop {
            let now = self.origin.now();
            self.tend_links(now);
            if self.links.iter().all(Link::is_up) {
                return Ok(());
            }
            if now >= deadline || self.orders.is_aborted() {
                let down = self.links.iter().filter(|link| !link.is_up()).count();
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!(
                        "{down} of {} connections could not be opened in {OPENING_TIMEOUT}; use fewer \
                         connections or raise the node's max_open_connections",
                        self.links.len()
                    ),
                ));
            }
            self.poller.wait(now, now.saturating_add(OPENING_POLL))?;
            self.serve_sockets();
        }
    }

    /// Waits for the other shards, keeping the connections alive; `None` when the run was called off.
    fn await_start(&mut self, start: &Receiver<Origin>) -> io::Result<Option<Origin>> {
        loop {
            match start.try_recv() {
                Ok(origin) => return Ok(Some(origin)),
                Err(crossbeam_channel::TryRecvError::Disconnected) => return Ok(None),
                Err(crossbeam_channel::TryRecvError::Empty) => {}
            }
            let now = self.origin.now();
            self.poller.wait(now, now.saturating_add(START_POLL))?;
            self.serve_sockets();
        }
    }

    /// The loop: send what is due, read what came, keep house, wait.
    fn offer(&mut self) -> io::Result<()> {
        self.links.iter_mut().for_each(Link::forget_first_opening);
        loop {
            let now = self.origin.now();
            self.send_due(now);
            if self.is_finished(now) {
                return Ok(());
            }
            self.keep_house(now);
            let now = self.origin.now();
            let until = self.idle_until(now);
            self.poller.wait(now, until)?;
            if self.spin > Nanos::ZERO {
                self.spin_to_due();
            }
            // What is due goes first: an answer can wait a microsecond, its stamp is not late by it.
            let now = self.origin.now();
            if self.pace.next_at().is_some_and(|at| at <= now) {
                self.send_due(now);
            }
            self.serve_sockets();
        }
    }

    /// Everything is answered, or the time for it is over, or the run was called off.
    fn is_finished(&mut self, now: Nanos) -> bool {
        if self.orders.is_aborted() {
            return true;
        }
        let stop_at = self.orders.stop_at();
        if !self.pace.is_over(now, stop_at) {
            return false;
        }
        let offered_until = *self.offered_until.get_or_insert(now.min(stop_at));
        if now >= stop_at {
            self.give_up_backlog(now, self.orders.reason());
        }
        self.reporter.batch.offered_all = self.backlog.is_empty();
        self.under_way == 0 && self.backlog.is_empty()
            || now >= offered_until.saturating_add(self.drain_timeout)
    }

    fn keep_house(&mut self, now: Nanos) {
        self.reporter.flush_if_due(now);
        if now < self.next_check {
            return;
        }
        self.next_check = now.saturating_add(CHECK_INTERVAL);
        self.break_in_pause(now);
        self.expire_answers(now);
        self.tend_links(now);
    }

    /// Until when nothing needs to be done but what sockets ask for.
    fn idle_until(&self, now: Nanos) -> Nanos {
        let mut until = self.reporter.flush_at().min(self.next_check);
        if let Some(due) = self.pace.next_at() {
            until = until.min(due.saturating_sub(self.spin));
        }
        if self.blocked.on_source() {
            until = until.min(now.saturating_add(SOURCE_POLL));
        }
        until
    }

    fn spin_to_due(&self) {
        let Some(due) = self.pace.next_at() else {
            return;
        };
        let latest = self.origin.now().saturating_add(self.spin);
        while due <= latest && self.origin.now() < due {
            std::hint::spin_loop();
        }
    }

    /// Gives every socket of the last wait its turn.
    fn serve_sockets(&mut self) {
        let mut position = 0;
        while let Some(ready) = self.poller.ready(position) {
            position += 1;
            let number = ready.token as usize;
            if !self.links[number].is_up() {
                self.open_further(number);
                continue;
            }
            if ready.writable && self.links[number].registered.write {
                self.flush(number);
            }
            if ready.readable {
                self.read(number);
            }
        }
    }

    /// Opens what is down and gives up what takes too long to open.
    fn tend_links(&mut self, now: Nanos) {
        for number in 0..self.links.len() {
            match &self.links[number].state {
                State::Up(_) => {}
                State::Down { retry_at, .. } if *retry_at <= now => self.open(number, now),
                State::Opening { give_up_at, .. } if *give_up_at <= now => {
                    self.failed_to_open(number);
                }
                State::Down { .. } | State::Opening { .. } => {}
            }
        }
    }

    /// Down => Opening
    fn open(&mut self, number: usize, now: Nanos) {
        let link = &mut self.links[number];
        let State::Down { outage, .. } = &link.state else {
            return;
        };
        let mut outage = *outage;
        let address = &link.address;
        let opened = Connection::open(&address.endpoint, address.socket, &address.options)
            .ok()
            .and_then(|connection| {
                let interest = connection.interest();
                let added = self.poller.add(&connection, number as u32, interest);
                added.is_ok().then_some((connection, interest))
            });
        match opened {
            Some((connection, interest)) => {
                link.registered = interest;
                link.state = State::Opening {
                    connection: Box::new(connection),
                    outage,
                    give_up_at: now.saturating_add(OPENING_TIMEOUT),
                };
            }
            None => {
                outage.failed_attempts += 1;
                link.state = State::Down {
                    outage,
                    retry_at: now.saturating_add(outage.backoff()),
                };
            }
        }
    }

    /// Opening => Up, or a step on the way.
    fn open_further(&mut self, number: usize) {
        let link = &mut self.links[number];
        let State::Opening { connection, .. } = &mut link.state else {
            return;
        };
        match connection.drive() {
            Err(_) => self.failed_to_open(number),
            Ok(true) => self.opened(number),
            Ok(false) => self.watch(number),
        }
    }

    /// Opening => Up
    fn opened(&mut self, number: usize) {
        let now = self.origin.now();
        let link = &mut self.links[number];
        let state = std::mem::replace(
            &mut link.state,
            State::Down {
                outage: Outage {
                    since: now,
                    failed_attempts: 0,
                    reason: None,
                },
                retry_at: now,
            },
        );
        let State::Opening {
            connection, outage, ..
        } = state
        else {
            link.state = state;
            return;
        };
        link.state = State::Up(connection);
        if let Some(reason) = outage.reason {
            self.reporter.batch.reconnected.push(Reconnected {
                at: now,
                endpoint: link.address.number,
                down: now.saturating_sub(outage.since),
                failed_attempts: outage.failed_attempts,
                reason,
            });
        }
        self.watch(number);
        self.offer_room(number);
    }

    /// Opening => Down
    fn failed_to_open(&mut self, number: usize) {
        let now = self.origin.now();
        let link = &mut self.links[number];
        if let State::Opening { outage, .. } = &link.state {
            let mut outage = *outage;
            outage.failed_attempts += 1;
            link.state = State::Down {
                outage,
                retry_at: now.saturating_add(outage.backoff()),
            };
        }
    }

    /// Up => Down: fails everything on the link; the next check opens it again.
    fn close(&mut self, number: usize, reason: ReconnectReason, failure: Failure) {
        let now = self.origin.now();
        let link = &mut self.links[number];
        self.under_way -= link.load();
        let batch = &mut self.reporter.batch;
        let (answered, unsent) = (&mut batch.answered, &mut batch.unsent);
        link.fail_all(
            now,
            failure,
            |event| answered.push(event),
            |event| unsent.push(event),
        );
        link.state = State::Down {
            outage: Outage {
                since: now,
                failed_attempts: 0,
                reason: Some(reason),
            },
            retry_at: now,
        };
        self.next_check = now;
    }

    /// Breaks all connections once in every pause: as soon as nothing is under way, at the latest in
    /// the pause's middle.
    fn break_in_pause(&mut self, now: Nanos) {
        let Some(pauses) = &mut self.pauses else {
            return;
        };
        if now < pauses.done_until {
            return;
        }
        let step = pauses.profile.step_at(now);
        let end = step.end.unwrap_or(Nanos::MAX);
        if !step.pause {
            return;
        }
        let half = end.saturating_sub(step.start).as_nanos() / 2;
        if self.under_way > 0 && now < step.start.saturating_add(Nanos::from_nanos(half)) {
            return;
        }
        pauses.done_until = end;
        for number in 0..self.links.len() {
            if self.links[number].is_up() {
                self.close(number, ReconnectReason::Planned, Failure::Closed);
            }
        }
    }

    fn expire_answers(&mut self, now: Nanos) {
        for number in 0..self.links.len() {
            let oldest = self.links[number].oldest_sent();
            if oldest.is_some_and(|sent| now.saturating_sub(sent) >= self.answer_timeout) {
                self.close(number, ReconnectReason::Broken, Failure::Timeout);
            }
        }
    }

    /// Tells the poller what the connection waits for, when that changed.
    fn watch(&mut self, number: usize) {
        let link = &mut self.links[number];
        let (State::Up(connection) | State::Opening { connection, .. }) = &link.state else {
            return;
        };
        let interest = connection.interest();
        if interest != link.registered
            && self
                .poller
                .modify(&**connection, number as u32, interest)
                .is_ok()
        {
            link.registered = interest;
        }
    }

    /// Puts the link into the queue of links with room, if it has some and is not there yet.
    fn offer_room(&mut self, number: usize) {
        let link = &mut self.links[number];
        if !link.queued && link.has_room() {
            link.queued = true;
            self.idle.push_back(number as u32);
        }
    }
}

const OPENING_TIMEOUT: Nanos = Nanos::from_secs(10);
const OPENING_POLL: Nanos = Nanos::from_millis(10);
const START_POLL: Nanos = Nanos::from_millis(1);
/// Timeouts, reconnects and pauses are looked after this often.
const CHECK_INTERVAL: Nanos = Nanos::from_millis(10);
/// A dry ring is looked at this often.
const SOURCE_POLL: Nanos = Nanos::from_nanos(50_000);
