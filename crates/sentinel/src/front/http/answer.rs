//! Answers that are made here, written behind what is still to be written.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use super::batch::Instead;
use super::plan::To;
use super::{Connection, Next};
use tokio::time::Instant;

use crate::front::backend::Backend;
use crate::front::slots::Full;
use crate::front::socket::Stream;
use crate::metrics::{LaneLabel, OutcomeLabel, Transport};
use crate::refusal::{Reason, Refusal};
use crate::respond::{Asked, Form, HttpAnswer, HttpDate};
use wire::http::{BodyLength, HttpError, ResponseHead, Version};
use wire::ws::HandshakeError;

/// What an answer has to know of its request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    pub(super) version: Version,
    /// Whether another request may follow.
    pub(super) keep_alive: bool,
    /// Whether the body has to stay away: the answer to `HEAD`.
    pub(super) is_head: bool,
    /// When it was asked, in seconds since the Unix epoch.
    pub(super) at: u64,
}

thread_local! {
    static DATE: RefCell<HttpDate> = RefCell::new(HttpDate::new(0));
}

impl Tail {
    /// The same for the last answer on its connection.
    pub(super) const fn last(self) -> Self {
        Self {
            keep_alive: false,
            ..self
        }
    }

    /// For what is no request.
    fn of_none() -> Self {
        Self {
            version: Version::Http11,
            keep_alive: false,
            is_head: false,
            at: unix_seconds(),
        }
    }

    const fn next(self) -> Next {
        if self.keep_alive {
            Next::Request
        } else {
            Next::Close
        }
    }
}

impl To {
    fn form(&self) -> Form<'_> {
        match self.transport {
            Transport::Uri => Form::Uri,
            Transport::Post | Transport::Ws => Form::Post(self.id()),
        }
    }

    /// The id as it is echoed.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_ref().map(crate::jsonrpc::KeptId::as_str)
    }
}

/// Seconds since the Unix epoch.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

impl<B: Backend, IO: Stream> Connection<B, IO> {
    /// Counts the end of a request.
    pub(super) fn count(&self, to: &To, lane: LaneLabel, outcome: OutcomeLabel) {
        let metrics = &self.front.metrics;
        metrics.request(to.transport, lane, to.class, outcome);
    }

    fn answer(&mut self, tail: Tail, write: impl FnOnce(HttpAnswer<'_>)) -> Next {
        let asked = Asked {
            version: tail.version,
            keep_alive: tail.keep_alive,
            with_body: !tail.is_head,
            at: tail.at,
        };
        DATE.with_borrow_mut(|date| {
            date.set(unix_seconds());
            write(HttpAnswer::new(self.socket.output.tail(), asked, date));
        });
        tail.next()
    }

    /// The node's result or error.
    pub(super) fn member(&mut self, to: &To, member: &[u8], tail: Tail) -> Next {
        self.rest.served();
        self.answer(tail, |answer| answer.member(to.form(), member))
    }

    /// The answers to a batch.
    pub(super) fn composed(&mut self, answers: &[Vec<u8>], tail: Tail) -> Next {
        self.answer(tail, |answer| answer.batch(answers))
    }

    /// The answer to notifications.
    pub(super) fn nothing(&mut self, tail: Tail) -> Next {
        self.answer(tail, |answer| answer.nothing())
    }

    /// Counts a refusal of something on this connection; when.
    pub(super) fn told(&self, refusal: &Refusal) -> Instant {
        let now = Instant::now();
        self.front.refused(self.asking, refusal, now.into_std());
        now
    }

    /// A refusal. The connection stays, unless the program is going down.
    pub(super) fn refuse(&mut self, to: &To, refusal: &Refusal, tail: Tail) -> Next {
        let now = self.told(refusal);
        self.rest_for(refusal, now);
        let tail = match refusal.reason {
            Reason::Shutdown => tail.last(),
            _ => tail,
        };
        self.answer(tail, |answer| answer.refused(to.form(), refusal))
    }

    /// Refuses what was not read to its end; the connection cannot go on.
    pub(super) fn turn_away(&mut self, refusal: &Refusal) -> Next {
        self.told(refusal);
        self.answer(Tail::of_none(), |answer| {
            answer.refused(Form::Post(None), refusal);
        })
    }

    /// Refuses what is no request; the connection cannot go on.
    pub(super) fn malformed(&mut self, error: HttpError) -> Next {
        let reason = match error {
            HttpError::HeadTooLarge(_)
            | HttpError::TooManyFields(_)
            | HttpError::TargetTooLong(_)
            | HttpError::BodyTooLarge(_) => Reason::Body,
            _ => Reason::Parse,
        };
        self.told(&Refusal::new(reason, error.to_string()));
        self.answer(Tail::of_none(), |answer| answer.malformed(error))
    }

    /// Becomes a WebSocket, if nothing was sent before it is one and the client may have another.
    pub(super) fn upgrade(&mut self, client: fairq::ClientKey, accept: &str, tail: Tail) -> Next {
        // The node's server closes such a connection as well: nobody knows what the bytes are.
        if !self.socket.input.is_empty() {
            return Next::Close;
        }
        let charge = if self.peer.is_proxy {
            match self.front.slots.charge(client) {
                Ok(slot) => Some(slot),
                Err(full) => {
                    let refusal = too_many(full);
                    self.told(&refusal);
                    return self.answer(tail.last(), |answer| answer.refused(Form::Uri, &refusal));
                }
            }
        } else {
            None
        };
        self.answer(tail, |answer| answer.upgraded(accept));
        Next::WebSocket(client, charge)
    }

    /// Does not become a WebSocket.
    pub(super) fn not_upgraded(&mut self, error: HandshakeError, tail: Tail) -> Next {
        self.answer(tail, |answer| answer.not_upgraded(error))
    }

    /// The node's answer to a part of a batch, as the answer to all of it.
    pub(super) fn instead(&mut self, instead: &Instead, tail: Tail) -> Next {
        let out = self.socket.output.tail();
        let mut head = ResponseHead::start(out, tail.version, instead.status);
        for (name, value) in &instead.headers {
            head = head.field(name, value);
        }
        head.finish(
            BodyLength::Known(instead.body.len() as u64),
            tail.keep_alive,
        );
        if !tail.is_head {
            self.socket.output.tail().extend_from_slice(&instead.body);
        }
        tail.next()
    }
}

/// Why a connection was not let in, in words.
pub(crate) fn too_many(full: Full) -> Refusal {
    let text = match full {
        Full::All => "all connections are taken",
        Full::Client => "this client has too many connections",
    };
    Refusal::new(Reason::Connections, text).retry_after(CONNECTION_RETRY)
}

/// Connections end when their clients please; a second is a guess.
const CONNECTION_RETRY: std::time::Duration = std::time::Duration::from_secs(1);
