//! From due to sent.

use measure::{Cause, LATE_LIMIT, ReconnectReason, Sent, Unsent, UnsentReason};
use pacing::Nanos;

use super::link::{Link, State};
use super::pace::DueTx;
use super::{Shard, answer};
use crate::source::Take;

/// What last kept due transactions from being sent, and until when.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    cause: Option<Cause>,
    until: Nanos,
    now: bool,
}

impl Blocked {
    fn note(&mut self, cause: Cause, now: Nanos) {
        self.cause = Some(cause);
        self.until = now;
        self.now = true;
    }

    fn clear(&mut self) {
        self.now = false;
    }

    pub(super) fn on_source(&self) -> bool {
        self.now && self.cause == Some(Cause::Source)
    }

    /// Why a transaction due then is sent only now: what blocked it since, or else the schedule.
    fn cause_of(&self, due: Nanos, now: Nanos) -> Cause {
        if now.saturating_sub(due) <= LATE_LIMIT {
            return Cause::OnTime;
        }
        match self.cause {
            Some(cause) if self.until >= due => cause,
            _ => Cause::Schedule,
        }
    }
}

impl Shard<'_> {
    /// Sends everything that is due by `now` and can be sent.
    pub(super) fn send_due(&mut self, now: Nanos) {
        self.take_due(now);
        self.blocked.clear();
        while let Some(&due) = self.backlog.front() {
            if !self.catch_up.admits(due.at, now) {
                self.backlog.pop_front();
                self.unsent(due, now, UnsentReason::CatchUp);
                continue;
            }
            let Some(number) = self.next_link() else {
                self.blocked.note(self.why_no_link(now), now);
                break;
            };
            if !self.queue_on(number, due, now) {
                self.offer_room(number);
                break;
            }
            self.backlog.pop_front();
        }
        while let Some(number) = self.dirty.pop() {
            self.flush(number as usize);
        }
    }

    /// Moves what is due from the schedule to the backlog, within `--max-in-flight`.
    fn take_due(&mut self, now: Nanos) {
        let stop_at = self.orders.stop_at();
        loop {
            let unanswered = self.backlog.len() + self.under_way;
            let Some(due) = self.pace.next(now, stop_at, unanswered) else {
                return;
            };
            if unanswered >= self.max_in_flight {
                self.unsent(due, now, UnsentReason::MaxInFlight);
            } else {
                self.backlog.push_back(due);
            }
        }
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
                cause: self.blocked.cause_of(due.at, now),
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
                self.close(number, ReconnectReason::Broken, answer::failure_of(&error));
                return;
            }
        };
        let now = self.origin.now();
        while let Some(mut sent) = link.next_written(flushed.written_to) {
            sent.sent = now;
            if sent.cause == Cause::OnTime && now.saturating_sub(sent.due) > LATE_LIMIT {
                // It left the schedule in time and then waited for the socket.
                sent.cause = Cause::Node;
            }
            link.await_answer(&sent);
            self.reporter.batch.sent.push(sent);
        }
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

    /// No connection is up: the connections are the cause. All are busy: the node, when it lets one of
    /// them wait for long or does not read; otherwise there are too few connections for the rate.
    fn why_no_link(&self, now: Nanos) -> Cause {
        if !self.links.iter().any(Link::is_up) {
            return Cause::Connection;
        }
        let waited = self
            .links
            .iter()
            .filter_map(Link::oldest_sent)
            .map(|sent| now.saturating_sub(sent))
            .max();
        let unread = self.links.iter().any(Link::is_writing);
        if unread || waited.is_some_and(|waited| waited >= SLOW_ANSWER) {
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
            _ => UnsentReason::Interrupted,
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
    }
}

/// An answer that takes longer than this holds its connection up by itself; below it, more
/// connections would carry more.
const SLOW_ANSWER: Nanos = Nanos::from_millis(100);
