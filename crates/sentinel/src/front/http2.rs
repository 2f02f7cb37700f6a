//! HTTP/2 for JSON-RPC: each stream is served as a connection of HTTP/1.1 with one request, so that identity, bytes, lanes
//! and answers are the same.
//!
//! hyper speaks HTTP/2 with the client. The connection of a stream reads its request, and writes its answer, in memory:
//! `stream.rs`.

mod stream;

use std::io::Cursor;
use std::sync::Arc;

use futures_util::FutureExt as _;
use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio::io::{AsyncReadExt as _, join, split};

use self::stream::Output;
use super::Shared;
use super::backend::Backend;
use super::http::{Connection, Http2};
use super::socket::Stream;
use super::streams::{Answer, NoAnswer, Spoken, Streams, drive};
use crate::identity::Peer;

/// Serves a connection to its end, whichever version of HTTP its client speaks.
///
/// # Cancel safety
/// Dropping the future closes the connection and takes its writes out of the queue.
pub(super) fn run<B: Backend, IO: Stream>(
    connection: Connection<B, IO>,
) -> impl Future<Output = ()> + Send {
    // What HTTP/1.1 needs is not kept for HTTP/2.
    connection.run().then(async |begun| {
        if let Some(begun) = begun {
            Box::pin(serve(begun)).await;
        }
    })
}

async fn serve<B: Backend, IO: Stream>(begun: Http2<B, IO>) {
    let Http2 {
        front,
        io,
        read,
        peer,
        slot: _slot,
    } = begun;
    let streams = Streams::new(&front);
    let (number, client) = (front.next_connection(), peer.identity.client);
    let answer = |request| {
        let (front, streams) = (Arc::clone(&front), Arc::clone(&streams));
        answer(front, streams, request, (peer, number))
    };
    let (rest, written) = split(io);
    // What was read already comes first.
    let io = join(Cursor::new(read).chain(rest), written);
    let bounds = (&*streams, Spoken::Http2, front.leave.clone());
    if let Err(refusal) = drive(&front, (io, client), bounds, answer).await {
        front.refused(client, &refusal);
    }
    front.backend.disconnect(client, number);
}

/// Serves one stream up to the head of its answer; the rest is served as the client takes it.
async fn answer<B: Backend>(
    front: Arc<Shared<B>>,
    streams: Arc<Streams>,
    request: Request<Incoming>,
    (peer, number): (Peer, u64),
) -> Result<Response<Answer<Output>>, NoAnswer> {
    let mut under_way = streams.begin(peer.identity.client);
    let serve = |io| {
        let connection = Connection::of_stream(front, io, (peer, number));
        connection.run().map(drop).fuse()
    };
    let answer = Output::begin(request, serve).await?;
    under_way.answered();
    Ok(answer.map(|output| Answer::new(output, under_way)))
}
