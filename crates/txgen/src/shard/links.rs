//! The life of a shard's connections: opened, used, broken, opened again.

use measure::{Failure, ReconnectReason, Reconnected};
use pacing::Nanos;
use rpc::Connection;

use super::link::{Outage, State};
use super::{OPENING_TIMEOUT, Shard};
use crate::target::Target;

impl<T: Target> Shard<'_, T> {
    /// Opens what is down and gives up what takes too long to open.
    pub(super) fn tend_links(&mut self, now: Nanos) {
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
            .map_err(|error| error.to_string())
            .and_then(|connection| {
                let interest = connection.interest();
                let added = self.poller.add(&connection, number as u32, interest);
                added.map_err(|error| error.to_string())?;
                Ok((connection, interest))
            });
        match opened {
            Ok((connection, interest)) => {
                link.registered = interest;
                link.state = State::Opening {
                    connection: Box::new(connection),
                    outage,
                    give_up_at: now.saturating_add(OPENING_TIMEOUT),
                };
            }
            Err(error) => {
                outage.failed_attempts += 1;
                link.state = State::Down {
                    outage,
                    retry_at: now.saturating_add(outage.backoff()),
                };
                self.open_error = Some(error);
            }
        }
    }

    /// Opening => Up, or a step on the way.
    pub(super) fn open_further(&mut self, number: usize) {
        let link = &mut self.links[number];
        let State::Opening { connection, .. } = &mut link.state else {
            return;
        };
        match connection.drive() {
            Err(error) => {
                self.open_error = Some(error.to_string());
                self.failed_to_open(number);
            }
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
        // Bytes that came together with the handshake are in the connection, not in the socket.
        self.read(number);
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
    pub(super) fn close(&mut self, number: usize, reason: ReconnectReason, failure: Failure) {
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
        let outage = Outage {
            since: now,
            failed_attempts: 0,
            reason: Some(reason),
        };
        // A connection that broke before it brought an answer is made again after a pause: whatever
        // takes connections only to drop them would otherwise get thousands a second.
        let retry_at = match link.fruitless {
            0 => now,
            _ => now.saturating_add(FRUITLESS_PAUSE),
        };
        link.fruitless += u32::from(reason == ReconnectReason::Broken);
        link.state = State::Down { outage, retry_at };
        self.next_check = now;
    }

    /// Breaks all connections once in every pause: as soon as nothing is under way, at the latest in
    /// the pause's middle.
    pub(super) fn break_in_pause(&mut self, now: Nanos) {
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

    pub(super) fn expire_answers(&mut self, now: Nanos) {
        for number in 0..self.links.len() {
            let oldest = self.links[number].oldest_sent();
            if oldest.is_some_and(|sent| now.saturating_sub(sent) >= self.answer_timeout) {
                self.close(number, ReconnectReason::Broken, Failure::Timeout);
            }
        }
    }

    /// Tells the poller what the connection waits for, when that changed.
    pub(super) fn watch(&mut self, number: usize) {
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
    pub(super) fn offer_room(&mut self, number: usize) {
        let link = &mut self.links[number];
        if !link.queued && link.has_room() {
            link.queued = true;
            self.idle.push_back(number as u32);
        }
    }
}

/// Between a connection that broke without an answer and the next one.
const FRUITLESS_PAUSE: Nanos = Nanos::from_millis(50);
