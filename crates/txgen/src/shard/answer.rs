//! From sent to answered.

use measure::{Answered, Failure, ReconnectReason, Reply};
use rpc::{AnswerId, ConnectionError, Message, Outcome, Transport};

use super::Shard;
use super::link::{Link, State};
use crate::cli::Interface;

impl Shard<'_> {
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
        let read = connection.read(&mut |message: Message<'_>| match settle(link, &message) {
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
            Err(error) => self.close(number, ReconnectReason::Broken, failure_of(&error)),
        }
    }
}

/// Finds the transaction a message belongs to and what it says about it.
fn settle(link: &mut Link, message: &Message<'_>) -> Option<(super::link::Matched, Reply)> {
    if link.address.interface == Interface::Bigchaindb {
        return Some((link.answered_oldest()?, reply_of_bigchaindb(message)));
    }
    let http = link.address.endpoint.transport() == Transport::Http;
    let Ok(answer) = rpc::decode_answer(message.body) else {
        let failure = if http && message.status != HTTP_OK {
            Failure::HttpStatus
        } else {
            Failure::Malformed
        };
        return Some((link.answered_oldest()?, Reply::Failed(failure)));
    };
    let reply = reply_of(&answer.outcome);
    match answer.id.as_u64() {
        Some(index) => match link.answered(index) {
            Some(matched) => Some((matched, reply)),
            None if http => Some((link.answered_oldest()?, Reply::Failed(Failure::WrongId))),
            None => None,
        },
        // The node could not even read the id: over HTTP there is only one request it can mean.
        None if http => Some((link.answered_oldest()?, reply)),
        None if answer.id == AnswerId::Missing => Some((link.answered_oldest()?, reply)),
        None => None,
    }
}

/// BigchainDB says it with the status: 202 with the transaction when it was taken, 400 when the server
/// refuses it, 500 when its Tendermint does. Anything else comes from somebody else.
fn reply_of_bigchaindb(message: &Message<'_>) -> Reply {
    match message.status {
        202 if message.body.trim_ascii_start().starts_with(b"{") => Reply::Accepted,
        202 => Reply::Failed(Failure::Malformed),
        status @ (400 | 500) => Reply::Rejected {
            code: u32::from(status),
        },
        _ => Reply::Failed(Failure::HttpStatus),
    }
}

fn reply_of(outcome: &Outcome<'_>) -> Reply {
    match outcome {
        Outcome::Broadcast { code: 0, .. } | Outcome::Commit { check_code: 0, .. } => {
            Reply::Accepted
        }
        Outcome::Broadcast { code, .. }
        | Outcome::Commit {
            check_code: code, ..
        } => Reply::Rejected { code: *code },
        Outcome::Error { data, .. } if data.starts_with(COMMIT_TIMEOUT) => {
            Reply::Failed(Failure::CommitTimeout)
        }
        Outcome::Error { code, .. } => Reply::RpcError {
            code: i32::try_from(*code).unwrap_or(i32::MIN),
        },
        Outcome::Other => Reply::Failed(Failure::Malformed),
    }
}

/// What a broken connection means for the oldest transaction on it.
pub(super) fn failure_of(error: &ConnectionError) -> Failure {
    match error {
        ConnectionError::Malformed { .. }
        | ConnectionError::TooLarge { .. }
        | ConnectionError::Unsolicited => Failure::Malformed,
        _ => Failure::Closed,
    }
}

const HTTP_OK: u16 = 200;
/// CometBFT 0.38, rpc/core/mempool.go, `BroadcastTxCommit`.
const COMMIT_TIMEOUT: &str = "timed out waiting for tx to be included in a block";
