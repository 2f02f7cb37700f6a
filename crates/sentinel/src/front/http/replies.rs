//! Answers that are made here.

use fairq::ClientKey;
use wire::http::{BodyLength, HttpError, ResponseHead, Version};

use super::date::unix_seconds;
use super::exchange::Exchange;
use super::work::{CallInfo, Next};
use crate::front::backend::Backend;
use crate::front::socket::Stream;
use crate::refusal::{Reason, Refusal};
use crate::respond::{Asked, Form};

/// A node's answer that is complete in memory.
pub(super) struct WholeAnswer {
    pub(super) status: u16,
    pub(super) headers: Vec<(std::borrow::Cow<'static, str>, bytes::Bytes)>,
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

/// The node's result or error.
pub(super) fn member<B: Backend, IO: Stream>(
    exchange: &mut Exchange<B, IO>,
    call: &CallInfo,
    member: &[u8],
    asked: Asked,
) -> Next {
    exchange.served();
    exchange.answer(asked, |answer| answer.member(call.form(), member))
}

/// A refusal. The connection stays, unless the program is going down.
pub(super) fn refuse<B: Backend, IO: Stream>(
    exchange: &mut Exchange<B, IO>,
    call: &CallInfo,
    refusal: &Refusal,
    asked: Asked,
) -> Next {
    exchange.note(refusal);
    exchange.slow_down(refusal);
    let asked = match refusal.reason {
        Reason::Shutdown => last(asked),
        _ => asked,
    };
    exchange.answer(asked, |answer| answer.refused(call.form(), refusal))
}

/// Refuses what was not read to its end; the connection cannot go on.
pub(super) fn turn_away<B: Backend, IO: Stream>(
    exchange: &mut Exchange<B, IO>,
    refusal: &Refusal,
) -> Next {
    exchange.note(refusal);
    exchange.answer(unasked(), |answer| {
        answer.refused(Form::Post(None), refusal);
    })
}

/// Refuses what is no request; the connection cannot go on.
pub(super) fn malformed<B: Backend, IO: Stream>(
    exchange: &mut Exchange<B, IO>,
    error: HttpError,
) -> Next {
    let reason = match error {
        HttpError::HeadTooLarge(_)
        | HttpError::TooManyFields(_)
        | HttpError::TargetTooLong(_)
        | HttpError::BodyTooLarge(_) => Reason::Body,
        _ => Reason::Parse,
    };
    exchange.note(&Refusal::new(reason, error.to_string()));
    exchange.answer(unasked(), |answer| answer.malformed(error))
}

/// Becomes a WebSocket, if nothing was sent before it is one and the client may have another.
pub(super) fn upgrade<B: Backend, IO: Stream>(
    exchange: &mut Exchange<B, IO>,
    client: ClientKey,
    accept: &str,
    asked: Asked,
) -> Next {
    // The node's server closes such a connection as well: nobody knows what the bytes are.
    if !exchange.socket().input.is_empty() {
        return Next::Close;
    }
    match exchange.charge(client) {
        Ok(charge) => {
            exchange.answer(asked, |answer| answer.upgraded(accept));
            Next::WebSocket(client, charge)
        }
        Err(full) => {
            let refusal = full.refusal();
            exchange.note(&refusal);
            exchange.answer(last(asked), |answer| answer.refused(Form::Uri, &refusal))
        }
    }
}

/// A node's answer as it is.
pub(super) fn whole<B: Backend, IO: Stream>(
    exchange: &mut Exchange<B, IO>,
    whole: &WholeAnswer,
    asked: Asked,
) -> Next {
    let out = exchange.socket().output.tail();
    let mut head = ResponseHead::start(out, asked.version, whole.status);
    for (name, value) in &whole.headers {
        head = head.field(name, value);
    }
    head.finish(BodyLength::Known(whole.body.len() as u64), asked.keep_alive);
    if asked.with_body {
        exchange
            .socket()
            .output
            .tail()
            .extend_from_slice(&whole.body);
    }
    Next::after(asked.keep_alive)
}
