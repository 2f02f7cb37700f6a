//! The loop of a shard: send what is due, read what came, check the connections, wait.

use std::collections::VecDeque;
use std::io;

use measure::{Cause, LATE_LIMIT, Sent, Unsent, UnsentReason};
use pacing::Nanos;

use super::link::OPENING_TIMEOUT;
use super::links::{Burst, Links, Route};
use super::load::{AtMaxInFlight, Orders, Rules};
use super::pace::{Blockage, DueTx, Pace};
use super::reporter::Reporter;
use super::requests::{Request, Resigner};
use super::system::Platform;
use crate::protocol::Protocol;
use crate::source::{Ring, Take};

/// A sender at work.
pub(super) struct Sender<'a, T, P: Platform> {
    links: Links<T, P>,
    ring: Ring,
    pace: Pace,
    /// Due and not yet sent, oldest first.
    backlog: VecDeque<DueTx>,
    request: Request,
    resigner: Option<Resigner<T>>,
    blockage: Blockage,
    reporter: Reporter,
    orders: &'a Orders,
    rules: Rules,
    /// Whether the origin has passed: nothing is sent before.
    offering: bool,
    /// Whether what is due stays in the schedule until answers make room below the limit in flight.
    held: bool,
    /// Whether the last wait was a sleep, which looks at no socket.
    slept: bool,
    /// Until when the loop kept its times; how the connections were later, it has not looked.
    awake_until: Nanos,
    /// When the last transaction was due, once it is known.
    offered_until: Option<Nanos>,
}

impl<'a, T: Protocol, P: Platform> Sender<'a, T, P> {
    pub(super) fn new(
        links: Links<T, P>,
        ring: Ring,
        pace: Pace,
        reporter: Reporter,
        orders: &'a Orders,
        rules: Rules,
    ) -> Self {
        Self {
            links,
            ring,
            pace,
            backlog: VecDeque::new(),
            request: Request::default(),
            resigner: None,
            blockage: Blockage::default(),
            reporter,
            orders,
            rules,
            offering: false,
            held: false,
            slept: false,
            awake_until: Nanos::ZERO,
            offered_until: None,
        }
    }

    /// The same, with what signs anew what an account's broken sequences made stale.
    pub(super) fn resigning(self, resigner: Option<Resigner<T>>) -> Self {
        Self { resigner, ..self }
    }

    /// Opens all connections before the run; a node that is reachable and slow gets its time.
    ///
    /// # Errors
    /// When not all are open in time, or the run was called off.
    pub(super) fn open_all(&mut self) -> io::Result<()> {
        let deadline = self.links.now().saturating_add(OPENING_TIMEOUT);
        loop {
            let now = self.links.now();
            self.links.tend(now);
            let down = self.links.down();
            if down == 0 {
                return Ok(());
            }
            if now >= deadline || self.orders.is_aborted() {
                let reason = self.links.open_error().unwrap_or(
                    "the node did not take them; use fewer connections or raise its max_open_connections",
                );
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!(
                        "{down} of {} connections could not be opened in {OPENING_TIMEOUT}: {reason}",
                        self.links.len()
                    ),
                ));
            }
            self.keep_alive(OPENING_POLL)?;
        }
    }

    /// Waits before the run, keeping the connections alive.
    pub(super) fn keep_alive(&mut self, span: Nanos) -> io::Result<()> {
        let now = self.links.now();
        self.links.wait(now, now.saturating_add(span))?;
        self.serve_sockets();
        Ok(())
    }

    /// The platform, before the run.
    pub(super) fn platform(&mut self) -> &mut P {
        self.links.platform()
    }

    /// Offers the load from the origin to its end, and reports all of it.
    ///
    /// # Errors
    /// When the system cannot wait for sockets.
    pub(super) fn run(mut self) -> io::Result<()> {
        // What happened before the origin had another clock and belongs to no run.
        self.links.restart();
        self.reporter.forget_reconnects();
        self.offering = true;
        let offered = self.offer();
        // Also after a failure: the recorder waits for a last batch.
        let now = self.links.now();
        self.give_up_rest(now);
        self.links.tell_outages(now, &mut self.reporter);
        self.reporter.finish(now);
        offered
    }

    fn offer(&mut self) -> io::Result<()> {
        loop {
            self.pace.follow(self.orders);
            let now = self.links.now();
            self.send_due(now);
            if self.is_finished(now) {
                return Ok(());
            }
            self.reporter.read_since(self.links.looked_at());
            self.reporter.flush_if_due(now);
            self.links.check(now, &mut self.reporter);
            let now = self.links.now();
            let until = self.idle_until(now);
            self.wait(now, until)?;
            // What is due goes first: an answer can wait a microsecond, its stamp is not late by it.
            let now = self.links.now();
            self.awake_until = now.min(until);
            self.reporter.stalled(now.saturating_sub(until));
            if self.next_due().is_some_and(|at| at <= now) {
                self.send_due(now);
            }
            self.serve_sockets();
        }
    }

    /// Waits for the next thing to do. Answers that the system stamps need no turn of their own: they are
    /// read after a transaction has left, those of up to a millisecond together.
    fn wait(&mut self, now: Nanos, until: Nanos) -> io::Result<()> {
        let sends_next = self.next_due().is_some_and(|due| due <= until) && !self.has_waiting();
        let slept = std::mem::replace(&mut self.slept, false);
        if sends_next && self.links.may_stay_unread(until) {
            self.slept = true;
            self.links.sleep(until);
            Ok(())
        } else if slept {
            self.links.wait(now, now)
        } else {
            self.links.wait(now, until)
        }
    }

    /// Everything is answered, or the time for it is over, or the run was called off.
    fn is_finished(&mut self, now: Nanos) -> bool {
        let stop_at = self.orders.stop_at();
        if self.orders.is_aborted() && now >= stop_at {
            return true;
        }
        let may_go_on = self.orders.is_held() && now < stop_at;
        if may_go_on || !self.pace.is_over(now, stop_at) {
            return false;
        }
        let offered_until = *self.offered_until.get_or_insert(now.min(stop_at));
        if now >= stop_at {
            self.give_up_backlog(now, self.orders.unsent_reason());
        }
        let waits = self.has_waiting();
        // An open loop has offered everything at an instant of its schedule, sent or not.
        let offered = !waits || matches!(self.pace, Pace::Open(_));
        self.reporter.offered_all(offered);
        self.links.under_way() == 0 && !waits
            || now >= offered_until.saturating_add(self.rules.drain_timeout)
    }

    /// Until when nothing needs to be done but what sockets ask for.
    fn idle_until(&self, now: Nanos) -> Nanos {
        let mut until = self.reporter.flush_at().min(self.links.check_at());
        if let Some(due) = self.next_due() {
            until = until.min(due);
        }
        if self.blockage.is_source() {
            until = until.min(now.saturating_add(SOURCE_POLL));
        }
        until
    }

    /// When the next transaction is due, unless an order ends the offering before, or answers decide.
    fn next_due(&self) -> Option<Nanos> {
        self.pace
            .next_at()
            .filter(|due| !self.held && *due < self.orders.stop_at())
    }

    /// Whether something is due and not queued.
    fn has_waiting(&self) -> bool {
        self.held || !self.backlog.is_empty()
    }

    /// Gives every socket of the last wait its turn. What falls due meanwhile leaves between two of them: a
    /// millisecond's answers take longer than it may be late.
    fn serve_sockets(&mut self) {
        let mut position = 0;
        while let Some(ready) = self.links.ready(position) {
            position += 1;
            let read = self.links.serve(ready, &mut self.reporter);
            let Some(read_at) = read.filter(|_| self.offering) else {
                continue;
            };
            let due = self.pace.next_at();
            let now = due.map_or(read_at, |_| self.links.now());
            // A connection that has room again is used at once.
            if self.has_waiting() || due.is_none_or(|due| due <= now) {
                self.send_due(now);
            }
        }
    }

    /// Sends everything that is due by `now` and can be sent.
    fn send_due(&mut self, now: Nanos) {
        let waited = self.has_waiting();
        self.take_due(now);
        self.blockage.begin_turn();
        loop {
            self.queue_backlog(now);
            self.links.flush_queued(&mut self.reporter);
            // A socket that took everything has room again.
            if self.blockage.is_ongoing() || !self.may_go_on(now) {
                break;
            }
        }
        let oldest = self.backlog.front();
        let route = oldest.map_or(Route::Any, |oldest| self.route(oldest, now));
        self.links.open_for(self.backlog.len(), route, now);
        if self.has_waiting() {
            let since = oldest.map_or(now, |oldest| oldest.at);
            self.links.retest(now, since);
            if oldest.is_none() || !self.blockage.is_ongoing() {
                let (links, as_of) = (&self.links, self.awake_until);
                // What the limit in flight holds back is still in the schedule.
                let since = oldest.map(|oldest| oldest.at).or(self.pace.next_at());
                self.blockage.note_no_room(now, since.unwrap_or(now), || {
                    links.why_no_room(as_of, route)
                });
            }
        } else if waited {
            self.blockage.ended(self.links.now());
        }
    }

    /// Moves what is due from the schedule to the backlog, within `--max-in-flight`.
    fn take_due(&mut self, now: Nanos) {
        let stop_at = self.orders.stop_at();
        let waited = self.has_waiting();
        self.held = false;
        loop {
            let unanswered = self.backlog.len() + self.links.under_way();
            let full = unanswered as u64 >= self.rules.max_in_flight.get();
            if full && self.rules.at_max_in_flight == AtMaxInFlight::Wait {
                self.held = self.pace.has_due(now, stop_at);
                return;
            }
            let Some(mut due) = self.pace.next(now, stop_at, unanswered) else {
                return;
            };
            if waited || self.blockage.is_before(due.at) {
                due.seen = due.at;
            } else {
                self.reporter.stalled(now.saturating_sub(due.at));
            }
            if full {
                let (links, as_of) = (&self.links, self.awake_until);
                let reason = match self
                    .blockage
                    .judged(now, || links.why_no_room(as_of, Route::Any))
                {
                    Cause::Node => UnsentReason::Node,
                    _ => UnsentReason::MaxInFlight,
                };
                self.unsent(due, now, reason);
            } else {
                self.backlog.push_back(due);
            }
        }
    }

    /// Puts waiting transactions into the buffers of connections with room.
    fn queue_backlog(&mut self, now: Nanos) {
        self.drop_overdue(now);
        let mut burst = Burst::default();
        while let Some(oldest) = self.backlog.front() {
            let route = self.route(oldest, now);
            let Some(number) = self.links.next_with_room(route, &mut burst) else {
                return;
            };
            if self.links.has_ended(number, now, &mut self.reporter) {
                continue;
            }
            if !self.queue_request(number, route, now) {
                return self.links.offer_room(number);
            }
        }
    }

    /// Which connections a transaction may take.
    fn route(&self, due: &DueTx, now: Nanos) -> Route {
        match self.reporter.accounts() {
            Some(accounts) => Route::Account(accounts.place(due.index)),
            None => self.links.route(due.index, now),
        }
    }

    /// Whether the oldest transaction that waits may find room.
    fn may_go_on(&self, now: Nanos) -> bool {
        let oldest = self.backlog.front();
        oldest.is_some_and(|oldest| self.links.may_have_room(self.route(oldest, now)))
    }

    /// Gives up what the catch-up policy does not send any more: the oldest first.
    fn drop_overdue(&mut self, now: Nanos) {
        while let Some(due) = self.backlog.front().copied()
            && !self.rules.catch_up.admits(due.at, now)
        {
            self.backlog.pop_front();
            let reason = match self.blockage.cause_of(due, now) {
                Cause::Node => UnsentReason::Node,
                _ => UnsentReason::CatchUp,
            };
            self.unsent(due, now, reason);
        }
    }

    /// Puts one request of what takes this route into the connection's buffer; false when there is nothing to put into
    /// it.
    fn queue_request(&mut self, number: usize, route: Route, now: Nanos) -> bool {
        let limits = self.links.limits();
        let (most, framing) = (limits.batch.get() as usize, limits.framing);
        self.request.txs.clear();
        self.request.body.clear();
        while self.request.txs.len() < most
            && let Some(&due) = self.backlog.front()
            && (self.request.txs.is_empty() || self.route(&due, now) == route)
        {
            let mut prepared = match self.ring.take(due.index) {
                Take::Ready(prepared) => prepared,
                Take::Dry => {
                    self.blockage.note(Cause::Source, now);
                    break;
                }
                Take::Ended => {
                    self.give_up_backlog(now, UnsentReason::Source);
                    break;
                }
            };
            self.backlog.pop_front();
            if let (Some(accounts), Some(resigner)) = (self.reporter.accounts(), &mut self.resigner)
            {
                let wanted = accounts.sequence(due.index);
                if wanted.is_some_and(|sequence| sequence != prepared.sequence)
                    && let Ok(anew) = resigner.sign(due.index)
                {
                    prepared = anew;
                }
                if wanted.is_none() {
                    self.unsent(due, now, UnsentReason::SequenceBroken);
                    return true;
                }
                self.reporter.queued(due.index);
            }
            let sent = Sent {
                index: due.index,
                hash: prepared.hash,
                size: prepared.size,
                due: due.at,
                sent: now,
                endpoint: 0,
                step: due.step,
                cause: self.blockage.cause_of(due, now),
                own_late: due.seen.saturating_sub(due.at) > LATE_LIMIT,
            };
            if most == 1 {
                self.links.queue(number, prepared.body, &[sent]);
                return true;
            }
            self.request.add(prepared.body, sent, framing);
        }
        self.request.end(framing);
        let Request { txs, body } = &self.request;
        if !txs.is_empty() {
            self.links.queue(number, body, txs);
        }
        !txs.is_empty()
    }

    fn give_up_backlog(&mut self, now: Nanos, reason: UnsentReason) {
        while let Some(due) = self.backlog.pop_front() {
            self.unsent(due, now, reason);
        }
        // What answers were awaited for.
        while let Some(due) = self.pace.next(now, self.orders.stop_at(), usize::MAX) {
            self.unsent(due, now, reason);
        }
        self.held = false;
    }

    /// This reason, unless the node is why it came to that.
    fn reason_now(&self, reason: UnsentReason) -> UnsentReason {
        if self.blockage.is_node() {
            UnsentReason::Node
        } else {
            reason
        }
    }

    /// At the end of the drain: what waits is unsent, what is half-written was never sent. Sent and
    /// unanswered transactions need no event; the recorder has them.
    fn give_up_rest(&mut self, now: Nanos) {
        let reason = match self.orders.stop_at() {
            Nanos::MAX => self.reason_now(UnsentReason::Deadline),
            _ => self.orders.unsent_reason(),
        };
        self.give_up_backlog(now, reason);
        self.links.drop_unwritten(now, &mut self.reporter);
    }

    fn unsent(&mut self, due: DueTx, now: Nanos, reason: UnsentReason) {
        self.reporter.unsent(Unsent {
            index: due.index,
            due: due.at,
            at: now,
            step: due.step,
            reason,
        });
    }
}

const OPENING_POLL: Nanos = Nanos::from_millis(10);
/// A dry ring is looked at this often.
const SOURCE_POLL: Nanos = Nanos::from_nanos(50_000);
