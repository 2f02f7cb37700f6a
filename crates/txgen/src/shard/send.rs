//! From due to sent.

use measure::{Cause, LATE_LIMIT, ReconnectReason, Sent, Unsent, UnsentReason};
use pacing::Nanos;

use super::Shard;
use super::link::{Link, State};
use super::pace::DueTx;
use crate::source::Take;
use crate::target::Target;

/// Transactions that go to one link in a row.
#[derive(Debug, Default)]
struct Burst {
    link: Option<usize>,
    length: usize,
}

impl Burst {
    fn extend(&mut self, link: usize) {
        let same = self.link == Some(link);
        self.length = if same { self.length + 1 } else { 1 };
        self.link = Some(link);
    }
}

/// What keeps due transactions from being sent.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    cause: Option<Cause>,
    until: Nanos,
    /// Until when the node held connections up. What waits then goes out behind the hold-up, and
    /// whatever keeps it from catching up at once, the node is why it waits.
    held_up_until: Nanos,
    now: bool,
    /// When [`Shard::why_no_link`] last looked at the links.
    judged_at: Nanos,
}

impl Blocked {
    fn note(&mut self, cause: Cause, now: Nanos) {
        self.cause = Some(cause);
        self.until = now;
        if cause == Cause::Node {
            self.held_up_until = now;
        }
        self.now = true;
    }

    /// Whether the ring is dry and must be looked at again soon.
    pub(super) fn on_source(&self) -> bool {
        self.now && self.cause == Some(Cause::Source)
    }

    /// Why a transaction is sent only now: the shard's own lateness, else what blocked it since.
    fn cause_of(&self, due: DueTx, now: Nanos) -> Cause {
        if let Some(fault) = due.fault {
            return fault;
        }
        if now.saturating_sub(due.at) <= LATE_LIMIT {
            return Cause::OnTime;
        }
        match self.cause {
            _ if self.held_up_until >= due.at && self.held_up_until > Nanos::ZERO => Cause::Node,
            Some(cause) if self.until >= due.at => cause,
            _ => Cause::Schedule,
        }
    }
}

impl<T: Target> Shard<'_, T> {
    /// Sends everything that is due by `now` and can be sent.
    pub(super) fn send_due(&mut self, now: Nanos) {
        self.take_due(now);
        self.blocked.now = false;
        loop {
            self.queue_backlog(now);
            // First queued, first written.
            for position in 0..self.dirty.len() {
                self.flush(self.dirty[position] as usize);
            }
            self.dirty.clear();
            // A socket that took everything has room again.
            if self.backlog.is_empty() || self.blocked.now || self.idle.is_empty() {
                break;
            }
        }
        if !self.backlog.is_empty() && !self.blocked.now {
            let cause = match self.blocked.cause {
                // Under a lasting backlog this is asked at every answer: once a millisecond is enough.
                Some(cause @ (Cause::Node | Cause::Connection))
                    if now.saturating_sub(self.blocked.judged_at) < LATE_LIMIT =>
                {
                    cause
                }
                _ => {
                    self.blocked.judged_at = now;
                    self.why_no_link(now)
                }
            };
            self.blocked.note(cause, now);
        }
    }

    /// Moves what is due from the schedule to the backlog, within `--max-in-flight`.
    fn take_due(&mut self, now: Nanos) {
        let stop_at = self.orders.stop_at();
        loop {
            let unanswered = self.backlog.len() + self.under_way;
            let Some(mut due) = self.pace.next(now, stop_at, unanswered) else {
                return;
            };
            if unanswered >= self.max_in_flight {
                self.unsent(due, now, UnsentReason::MaxInFlight);
                continue;
            }
            // Nothing but the shard itself can have kept it from seeing this in time.
            let late = now.saturating_sub(due.at) > LATE_LIMIT;
            due.fault = late.then_some(Cause::Schedule);
            self.backlog.push_back(due);
        }
    }

    /// Puts waiting transactions into the buffers of connections with room.
    fn queue_backlog(&mut self, now: Nanos) {
        let mut burst = Burst::default();
        while let Some(&due) = self.backlog.front() {
            if !self.catch_up.admits(due.at, now) {
                self.backlog.pop_front();
                self.unsent(due, now, UnsentReason::CatchUp);
                continue;
            }
            let Some(number) = self.same_link(&burst).or_else(|| self.next_link()) else {
                return;
            };
            if !self.queue_on(number, due, now) {
                self.offer_room(number);
                return;
            }
            burst.extend(number);
            self.backlog.pop_front();
        }
    }

    /// The link that took the last one, while it has room and its burst is short: what goes out at
    /// once is written with few calls, and the links still take turns.
    fn same_link(&self, burst: &Burst) -> Option<usize> {
        let number = burst.link.filter(|_| burst.length < LONGEST_BURST)?;
        self.links[number].has_room().then_some(number)
    }

    /// Puts the transaction into the connection's buffer; false when there is none to put.
    fn queue_on(&mut self, number: usize, due: DueTx, now: Nanos) -> bool {
        let link = &mut self.links[number];
        let State::Up(connection) = &mut link.state else {
            return false;
        };
        let prepared = match self.ring.take(due.index) {
            Take::Ready(prepared) => prepared,
            Take::Dry => {
                self.blocked.note(Cause::Source, now);
                return false;
            }
            Take::Ended => {
                self.give_up_backlog(now, UnsentReason::Source);
                return false;
            }
        };
        let end = connection.queue(prepared.body);
        if !link.is_writing() {
            self.dirty.push(number as u32);
        }
        link.queue(
            end,
            Sent {
                index: due.index,
                hash: prepared.hash,
                size: prepared.size,
                due: due.at,
                sent: Nanos::ZERO,
                endpoint: link.address.number,
                step: due.step,
                cause: self.blocked.cause_of(due, now),
            },
        );
        self.under_way += 1;
        self.offer_room(number);
        true
    }

    /// Writes what is queued and stamps what was handed over.
    pub(super) fn flush(&mut self, number: usize) {
        let link = &mut self.links[number];
        let State::Up(connection) = &mut link.state else {
            return;
        };
        let flushed = match connection.flush() {
            Ok(flushed) => flushed,
            Err(error) => {
                self.close(number, ReconnectReason::Broken, self.failure_of(&error));
                return;
            }
        };
        let now = self.origin.now();
        while let Some(mut sent) = link.next_written(flushed.written_to) {
            sent.sent = now;
            if sent.cause == Cause::OnTime && now.saturating_sub(sent.due) > LATE_LIMIT {
                // Queued in time: either the socket took nothing for a while, or the shard was slow.
                sent.cause = if link.stuck {
                    Cause::Node
                } else {
                    Cause::Schedule
                };
            }
            link.await_answer(&sent);
            self.reporter.batch.sent.push(sent);
        }
        link.stuck = flushed.blocked;
        self.watch(number);
        self.offer_room(number);
    }

    /// The next link in turn that has room.
    fn next_link(&mut self) -> Option<usize> {
        while let Some(number) = self.idle.pop_front() {
            let link = &mut self.links[number as usize];
            link.queued = false;
            if link.has_room() {
                return Some(number as usize);
            }
        }
        None
    }

    /// Asked after everything queued was written. No connection is up: the connections are the cause.
    /// All are busy: the node, when it lets one of them wait for long or takes nothing from a socket;
    /// otherwise there are too few connections for the rate.
    fn why_no_link(&self, now: Nanos) -> Cause {
        let held_up = |link: &Link| {
            let waited = link.oldest_sent().map(|sent| now.saturating_sub(sent));
            link.stuck || waited.is_some_and(|waited| waited >= SLOW_ANSWER)
        };
        let up = self.links.iter().any(Link::is_up);
        if up && self.links.iter().any(held_up) {
            Cause::Node
        } else {
            Cause::Connection
        }
    }

    pub(super) fn give_up_backlog(&mut self, now: Nanos, reason: UnsentReason) {
        while let Some(due) = self.backlog.pop_front() {
            self.unsent(due, now, reason);
        }
    }

    /// At the end of the drain: what waits is unsent, what is half-written was never sent. Sent and
    /// unanswered transactions need no event; the recorder knows them.
    pub(super) fn give_up_rest(&mut self, now: Nanos) {
        let reason = match self.orders.stop_at() {
            Nanos::MAX => UnsentReason::Deadline,
            _ => self.orders.unsent_reason(),
        };
        self.give_up_backlog(now, reason);
        for link in &mut self.links {
            let batch = &mut self.reporter.batch;
            link.give_up_writing(now, |event| batch.unsent.push(event));
        }
    }

    fn unsent(&mut self, due: DueTx, now: Nanos, reason: UnsentReason) {
        self.reporter.batch.unsent.push(Unsent {
            index: due.index,
            due: due.at,
            at: now,
            step: due.step,
            reason,
        });
        // After a long stall there may be millions.
        self.reporter.flush_if_large(now);
    }
}

/// Enough to make a system call cheap, few enough that all links get their turn within a millisecond
/// at any rate where that matters.
const LONGEST_BURST: usize = 32;
/// An answer that takes longer than this holds its connection up by itself; below it, more
/// connections would carry more.
const SLOW_ANSWER: Nanos = Nanos::from_millis(100);
