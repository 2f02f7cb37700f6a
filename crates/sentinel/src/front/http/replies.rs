//! Answers that are made here.

use std::borrow::Cow;
use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use wire::http::{BodyLength, HttpError, ResponseHead, Version};

use super::exchange::Exchange;
use super::work::{CallInfo, Next};
use crate::front::backend::Backend;
use crate::front::socket::Stream;
use crate::metrics::OutcomeLabel;
use crate::refusal::{Reason, Refusal};
use crate::respond::{Asked, Form, HttpDate, malformed};

/// A node's answer that is complete in memory.
pub(super) struct WholeAnswer {
    pub(super) status: u16,
    pub(super) headers: Vec<(Cow<'static, str>, Bytes)>,
    pub(super) body: Vec<u8>,
}

/// The same for the last answer on its connection.
pub(super) const fn last(asked: Asked) -> Asked {
    Asked {
        keep_alive: false,
        ..asked
    }
}

/// What an answer heeds that answers no request.
fn unasked() -> Asked {
    Asked {
        version: Version::Http11,
        keep_alive: false,
        with_body: true,
        at: unix_seconds(),
    }
}

impl<B: Backend, IO: Stream> Exchange<B, IO> {
    /// Answers with the node's result or error.
    pub(super) fn member(&mut self, call: &CallInfo, member: &[u8], asked: Asked) -> Next {
        self.answer(asked, |answer| answer.member(call.form(), member))
    }

    /// Answers with a refusal. The connection stays, unless the program is going down.
    pub(super) fn refuse(&mut self, call: &CallInfo, refusal: &Refusal, asked: Asked) -> Next {
        self.note(Some(call), refusal);
        let asked = match refusal.reason {
            Reason::Shutdown => last(asked),
            _ => asked,
        };
        self.answer(asked, |answer| answer.refused(call.form(), refusal))
    }

    /// Refuses a request when it comes: counted as rejected.
    pub(super) fn reject(&mut self, call: &CallInfo, refusal: &Refusal, asked: Asked) -> Next {
        self.count(call, OutcomeLabel::Rejected);
        self.refuse(call, refusal, asked)
    }

    /// Refuses what was not read to its end; the connection cannot go on.
    pub(super) fn turn_away(&mut self, refusal: &Refusal) -> Next {
        self.note(None, refusal);
        self.answer(unasked(), |answer| {
            answer.refused(Form::Post(None), refusal);
        })
    }

    /// Refuses what is no request; the connection cannot go on.
    pub(super) fn malformed(&mut self, error: HttpError) -> Next {
        self.note(None, &malformed(error));
        self.answer(unasked(), |answer| answer.malformed(error))
    }

    /// Becomes a WebSocket, if nothing was sent before it is one.
    pub(super) fn upgrade(&mut self, accept: &str, asked: Asked) -> Next {
        // The node's server closes such a connection as well: the bytes belong to neither protocol.
        if !self.socket().input.is_empty() {
            return Next::Close;
        }
        self.answer(asked, |answer| answer.upgraded(accept));
        Next::WebSocket(self.take_slot())
    }

    /// Answers with a node's answer as it is.
    pub(super) fn whole(&mut self, whole: &WholeAnswer, asked: Asked) -> Next {
        let length = BodyLength::Known(whole.body.len() as u64);
        self.head(whole.status, &whole.headers, length, asked);
        if asked.with_body {
            self.socket().output.tail().extend_from_slice(&whole.body);
        }
        Next::after(asked.keep_alive)
    }

    /// Writes the head of a node's answer.
    pub(super) fn head(
        &mut self,
        status: u16,
        headers: &[(Cow<'static, str>, Bytes)],
        length: BodyLength,
        asked: Asked,
    ) {
        let out = self.socket().output.tail();
        let mut head = ResponseHead::start(out, asked.version, status);
        for (name, value) in headers {
            head = head.field(name, value);
        }
        head.finish(length, asked.keep_alive);
    }
}

thread_local! {
    /// The date of answers, written once a second for each thread.
    static DATE: RefCell<HttpDate> = RefCell::new(HttpDate::new(0));
}

/// Seconds since the Unix epoch.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Calls `write` with the date of now.
pub(super) fn with_date<T>(write: impl FnOnce(&HttpDate) -> T) -> T {
    DATE.with_borrow_mut(|date| {
        date.set(unix_seconds());
        write(date)
    })
}
