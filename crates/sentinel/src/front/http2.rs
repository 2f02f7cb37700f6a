//! HTTP/2 for JSON-RPC: each stream is served as a connection of HTTP/1.1 with one request, so that identity, bytes, lanes
//! and answers are the same.
//!
//! hyper speaks HTTP/2 with the client, and HTTP/1.1 with that connection, in memory, in the one task of the client's.

use std::future::poll_fn;
use std::io::Cursor;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::FusedFuture;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http1;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{HeaderMap, Method, Request, Response, Uri, Version};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, DuplexStream, duplex, join, split};

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
    let (client, io) = duplex(MOST_WAITING);
    let connection = Connection::of_stream(front, io, (peer, number)).run();
    let mut builder = http1::Builder::new();
    let handshake = builder
        .max_buf_size(MOST_HEAD)
        .handshake(TokioIo::new(client));
    let (mut sender, talking) = handshake.await.map_err(|_| NoAnswer)?;
    let mut answer = pin!(sender.send_request(as_http1(request)));
    let mut serving: Serving =
        Box::pin(async move { drop(tokio::join!(connection, talking)) }.fuse());
    let answer = poll_fn(|context| {
        let has_ended = serving.as_mut().poll(context).is_ready() || serving.is_terminated();
        match answer.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(answer.map_err(|_| NoAnswer)),
            Poll::Pending if has_ended => Poll::Ready(Err(NoAnswer)),
            Poll::Pending => Poll::Pending,
        }
    });
    let (mut head, body) = answer.await?.into_parts();
    without_connection(&mut head.headers);
    head.version = Version::HTTP_2;
    under_way.answered();
    let output = Output { body, serving };
    Ok(Response::from_parts(head, Answer::new(output, under_way)))
}

/// A request as HTTP/1.1 has it.
fn as_http1(request: Request<Incoming>) -> Request<Incoming> {
    let (mut head, body) = request.into_parts();
    let authority = head.uri.authority().map(|authority| authority.as_str());
    // The authority is the host.
    if let Some(host) = authority.and_then(|host| HeaderValue::from_str(host).ok()) {
        head.headers.insert(header::HOST, host);
    } else {
        let host = head.headers.entry(header::HOST);
        host.or_insert(HeaderValue::from_static(""));
    }
    if head.method != Method::CONNECT {
        let target = head.uri.path_and_query().cloned();
        let target = target.unwrap_or_else(|| PathAndQuery::from_static("/"));
        head.uri = Uri::from(target);
    }
    // Nobody waits to be asked for the body.
    head.headers.remove(header::EXPECT);
    without_connection(&mut head.headers);
    head.version = Version::HTTP_11;
    Request::from_parts(head, body)
}

/// Removes the headers that concern a connection of HTTP/1.1 (RFC 9113, section 8.2.2).
fn without_connection(headers: &mut HeaderMap) {
    for name in [
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        header::TE,
        HeaderName::from_static("keep-alive"),
    ] {
        headers.remove(name);
    }
}

/// Bytes of a request, or of an answer, that wait in memory.
const MOST_WAITING: usize = 16 << 10;
/// The longest head of an answer.
const MOST_HEAD: usize = 64 << 10;

impl Stream for DuplexStream {
    fn is_hung_up(&self) -> bool {
        false
    }

    fn is_reset(&self) -> bool {
        false
    }
}

/// Both ends of the connection in memory.
type Serving = Pin<Box<dyn FusedFuture<Output = ()> + Send>>;

/// The rest of an answer, and the connection that writes it.
struct Output {
    body: Incoming,
    serving: Serving,
}

impl Body for Output {
    type Data = Bytes;
    type Error = NoAnswer;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, NoAnswer>>> {
        if !self.serving.is_terminated() {
            let _ = self.serving.as_mut().poll(context);
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| frame.map_err(|_| NoAnswer)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
