//! Reads over HTTP: forwarded, and their answers passed on as they come.

use wire::http::{
    BodyLength, LAST_CHUNK, ResponseHead, Version, write_chunk_end, write_chunk_start,
};

use super::exchange::{Exchange, Room};
use super::replies;
use super::work::{CallInfo, Forward, Next};
use crate::front::backend::Backend;
use crate::front::outcome;
use crate::front::socket::{Ended, Stream};
use crate::metrics::{LaneLabel, OutcomeLabel};
use crate::respond::Asked;
use crate::upstream::{Pieces as _, ReadAnswer};

/// Serves a read.
pub(super) async fn serve<B: Backend, IO: Stream>(
    exchange: &mut Exchange<B, IO>,
    read: Forward,
    asked: Asked,
) -> Result<Next, Ended> {
    let Forward {
        client,
        call,
        request,
    } = read;
    let _held = match exchange.reserve(&Room::Request(request.body.len())) {
        Ok(held) => held,
        Err(refusal) => {
            exchange.count(&call, LaneLabel::Read, OutcomeLabel::Rejected);
            return Ok(replies::refuse(exchange, &call, &refusal, asked));
        }
    };
    let answer = match exchange.forward(client, call.class, request).await {
        Ok(answer) => answer,
        Err(ended) => {
            exchange.count(&call, LaneLabel::Read, OutcomeLabel::Cancelled);
            return Err(ended);
        }
    };
    match answer {
        Ok(answer) => {
            exchange.count(&call, LaneLabel::Read, OutcomeLabel::Forwarded);
            exchange.served();
            stream(exchange, &call, answer, asked).await
        }
        Err(refusal) => {
            exchange.count(&call, LaneLabel::Read, outcome::of_read(refusal.reason));
            Ok(replies::refuse(exchange, &call, &refusal, asked))
        }
    }
}

/// Passes an answer on, piece by piece: the next is taken when the last was.
pub(super) async fn stream<B: Backend, IO: Stream>(
    exchange: &mut Exchange<B, IO>,
    call: &CallInfo,
    mut answer: ReadAnswer<B::Body>,
    asked: Asked,
) -> Result<Next, Ended> {
    let length = body_length(&answer, asked);
    let keep_alive = asked.keep_alive && length != BodyLength::UntilClose;
    let has_body = asked.with_body && !matches!(length, BodyLength::Nothing | BodyLength::Known(0));
    // As long as nothing of the answer went out, the client can still be told what went wrong.
    let mut piece = None;
    if has_body {
        piece = match answer.body.next().await.transpose() {
            Ok(piece) => piece,
            Err(refusal) => return Ok(replies::refuse(exchange, call, &refusal, asked)),
        };
    }
    let out = exchange.socket().output.tail();
    let mut head = ResponseHead::start(out, asked.version, answer.status);
    for (name, value) in &answer.headers {
        head = head.field(name, value);
    }
    head.finish(length, keep_alive);
    while let Some(bytes) = piece {
        let out = exchange.socket().output.tail();
        if length == BodyLength::Chunked {
            write_chunk_start(out, bytes.len());
            out.extend_from_slice(&bytes);
            write_chunk_end(out);
        } else {
            out.extend_from_slice(&bytes);
        }
        exchange.flush().await?;
        // Half an answer cannot be taken back: the connection ends, and the client sees that.
        let next = answer.body.next().await.transpose();
        piece = next.map_err(|_| Ended::Closed)?;
    }
    if has_body && length == BodyLength::Chunked {
        let out = exchange.socket().output.tail();
        out.extend_from_slice(LAST_CHUNK);
    }
    Ok(Next::after(keep_alive))
}

/// How the length of an answer's body is told to this client.
fn body_length<T>(answer: &ReadAnswer<T>, asked: Asked) -> BodyLength {
    match (answer.status, answer.length) {
        (100..200 | 204 | 304, _) => BodyLength::Nothing,
        (_, Some(length)) => BodyLength::Known(length),
        (_, None) if asked.version == Version::Http11 => BodyLength::Chunked,
        (_, None) => BodyLength::UntilClose,
    }
}
