//! From sent to answered.

use measure::{Answered, Failure, ReconnectReason, Reply};
use rpc::{ConnectionError, Message, Transport};

use super::Shard;
use super::link::{Link, Matched, State};
use crate::target::{Closing, ReplyTo, Target};

impl<T: Target> Shard<'_, T> {
    /// Reads what the socket holds and gives every complete answer to its transaction.
    pub(super) fn read(&mut self, number: usize) {
        let link = &mut self.links[number];
        // The connection is out of the link while its messages go into it.
        let state = std::mem::replace(&mut link.state, State::empty());
        let State::Up(mut connection) = state else {
            link.state = state;
            return;
        };
        let now = self.origin.now();
        let batch = &mut self.reporter.batch;
        let mut answers = 0;
        let read = connection.read(&mut |message: Message<'_>| {
            self.target
                .read(&message, &mut |to, reply| match settle(link, to, reply) {
                    Some((matched, reply)) => {
                        answers += 1;
                        batch.answered.push(Answered {
                            index: matched.index,
                            hash_prefix: matched.hash_prefix,
                            at: now,
                            reply,
                        });
                    }
                    None => batch.stray_answers += 1,
                });
        });
        link.state = State::Up(connection);
        self.under_way -= answers;
        match read {
            Ok(_) => {
                self.watch(number);
                self.offer_room(number);
                // A connection that has room again is used at once.
                if self.offering && (!self.backlog.is_empty() || self.pace.next_at().is_none()) {
                    self.send_due(now);
                }
            }
            Err(error) => self.close(number, ReconnectReason::Broken, self.failure_of(&error)),
        }
    }

    /// What a broken connection means for the oldest transaction on it.
    pub(super) fn failure_of(&self, error: &ConnectionError) -> Failure {
        match self.target.closing(error) {
            Closing::Expected => Failure::Closed,
            Closing::Outage(failure) => failure,
        }
    }
}

/// Finds the transaction that a reply is about.
fn settle(link: &mut Link, to: ReplyTo, reply: Reply) -> Option<(Matched, Reply)> {
    let http = link.address.endpoint.transport() == Transport::Http;
    match to {
        ReplyTo::OldestRequest => Some((link.answered_oldest()?, reply)),
        ReplyTo::Index(index) => match link.answered(index) {
            Some(matched) => Some((matched, reply)),
            None if http => Some((link.answered_oldest()?, Reply::Failed(Failure::WrongId))),
            None => None,
        },
        // Over HTTP there is only one request it can mean.
        ReplyTo::Unknown if http => Some((link.answered_oldest()?, reply)),
        ReplyTo::Unknown => None,
    }
}
