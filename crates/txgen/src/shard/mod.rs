//! A sender shard: one thread, its connections, and every N-th due time of the global schedule.
//!
//! Nothing stands between the clock and the socket: the thread wakes at the due time, takes the
//! prepared request from its ring, writes it and stamps it. Answers are read by the same loop.

mod answer;
mod link;
mod links;
mod orders;
mod pace;
mod poller;
mod report;
mod send;

use std::collections::VecDeque;
use std::io;

use crossbeam_channel::{Receiver, Sender};
use pacing::{CatchUp, Nanos, Profile};

use crate::clock::Origin;
use crate::source::Ring;
use crate::target::Target;
use link::Link;
use pace::{DueTx, Pace};
use poller::Poller;
use report::Reporter;
use send::Blocked;

pub(crate) use link::Address;
pub(crate) use orders::{Orders, StopReason};
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
        /// When the last transaction is due at the latest; [`Nanos::MAX`] without an end.
        ends_at: Nanos,
        reconnect_in_pauses: bool,
    },
    /// Its part of a flood.
    Flood { end: u64, slots: usize },
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

/// A sender at work.
pub(crate) struct Shard<'a, T> {
    target: T,
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
    /// Whether the origin has passed: nothing is sent before.
    offering: bool,
    /// When the last transaction was due, once it is known.
    offered_until: Option<Nanos>,
    /// Why the last attempt to open a connection failed.
    open_error: Option<String>,
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
pub(crate) fn run<T: Target>(
    target: T,
    config: ShardConfig,
    ring: Ring,
    channels: ShardChannels,
    orders: &Orders,
) -> io::Result<()> {
    let mut shard = Shard::new(target, config, ring, channels.full, channels.empty, orders)?;
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

impl<'a, T: Target> Shard<'a, T> {
    fn new(
        target: T,
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
                ends_at,
                reconnect_in_pauses,
            } => {
                let pauses = reconnect_in_pauses.then(|| Pauses {
                    profile: profile.clone(),
                    done_until: Nanos::ZERO,
                });
                (Pace::open(*dues, profile, end, ends_at), pauses)
            }
        };
        Ok(Self {
            target,
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
            offering: false,
            offered_until: None,
            open_error: None,
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
                let reason = self.open_error.take().unwrap_or_else(|| {
                    "the node did not take them; use fewer connections or raise its max_open_connections".into()
                });
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!(
                        "{down} of {} connections could not be opened in {OPENING_TIMEOUT}: {reason}",
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
        // What happened before the origin had another clock and belongs to no run.
        self.links.iter_mut().for_each(Link::forget_first_opening);
        self.reporter.batch.reconnected.clear();
        self.offering = true;
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
            if self.next_due().is_some_and(|at| at <= now) {
                self.send_due(now);
            }
            self.serve_sockets();
        }
    }

    /// Everything is answered, or the time for it is over, or the run was called off.
    fn is_finished(&mut self, now: Nanos) -> bool {
        let stop_at = self.orders.stop_at();
        if self.orders.is_aborted() && now >= stop_at {
            return true;
        }
        if !self.pace.is_over(now, stop_at) {
            return false;
        }
        let offered_until = *self.offered_until.get_or_insert(now.min(stop_at));
        if now >= stop_at {
            self.give_up_backlog(now, self.orders.unsent_reason());
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
        if let Some(due) = self.next_due() {
            until = until.min(due.saturating_sub(self.spin));
        }
        if self.blocked.on_source() {
            until = until.min(now.saturating_add(SOURCE_POLL));
        }
        until
    }

    /// When the next transaction is due, unless an order ends the offering before.
    fn next_due(&self) -> Option<Nanos> {
        self.pace
            .next_at()
            .filter(|due| *due < self.orders.stop_at())
    }

    fn spin_to_due(&self) {
        let Some(due) = self.next_due() else {
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
}

const OPENING_TIMEOUT: Nanos = Nanos::from_secs(10);
const OPENING_POLL: Nanos = Nanos::from_millis(10);
const START_POLL: Nanos = Nanos::from_millis(1);
/// Timeouts, reconnects and pauses are looked after this often.
const CHECK_INTERVAL: Nanos = Nanos::from_millis(10);
/// A dry ring is looked at this often.
const SOURCE_POLL: Nanos = Nanos::from_nanos(50_000);
