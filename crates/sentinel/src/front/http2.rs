//! HTTP/2 for JSON-RPC: each stream is served as a connection of HTTP/1.1 with one request, so that identity, bytes, lanes
//! and answers are the same.
//!
//! hyper speaks HTTP/2. A stream's request is written as a connection's input and its output read as an answer, in
//! memory, by the one task of the connection.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use futures_util::FutureExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::http::{
    BodyReader, Framing, LAST_CHUNK, ReplyFraming, ReplyHead, ReplyReader, write_chunk_end,
    write_chunk_start,
};

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
    let io = Prefixed { read, io };
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
    let written = Written {
        is_bodiless: request.method() == Method::HEAD,
        ..Written::default()
    };
    let written = Arc::new(Mutex::new(written));
    let stream = InMemory::new(request, Arc::clone(&written));
    let mut output = Output {
        connection: Box::pin(
            Connection::of_stream(front, stream, (peer, number))
                .run()
                .map(drop),
        ),
        written,
        has_ended: false,
    };
    let head = std::future::poll_fn(|context| output.poll_head(context));
    let response = head.await?;
    under_way.answered();
    Ok(response.map(|()| Answer::new(output, under_way)))
}

/// A stream as a connection: what is read from it is the request, what is written to it the answer.
struct InMemory {
    /// What is read next.
    input: VecDeque<Bytes>,
    /// What comes behind that, until the request has ended.
    body: Option<Incoming>,
    is_chunked: bool,
    written: Arc<Mutex<Written>>,
}

impl InMemory {
    fn new(request: Request<Incoming>, written: Arc<Mutex<Written>>) -> Self {
        let (head, body) = request.into_parts();
        let body = Some(body).filter(|body| !body.is_end_stream());
        let is_chunked = body.is_some() && !head.headers.contains_key(header::CONTENT_LENGTH);
        Self {
            input: VecDeque::from([head_of(&head, is_chunked)]),
            body,
            is_chunked,
            written,
        }
    }

    /// Has the next bytes of the request read; pending for ever behind its end, as the client of a stream can send
    /// nothing more.
    fn poll_input(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.input.is_empty() {
            let Some(body) = &mut self.body else {
                return Poll::Pending;
            };
            let piece = match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => {
                    self.body = None;
                    if self.is_chunked {
                        self.input.push_back(Bytes::from_static(LAST_CHUNK));
                    }
                    continue;
                }
            };
            if piece.is_empty() {
                continue;
            }
            if self.is_chunked {
                let (mut start, mut end) = (Vec::new(), Vec::new());
                write_chunk_start(&mut start, piece.len());
                write_chunk_end(&mut end);
                self.input.extend([start.into(), piece, end.into()]);
            } else {
                self.input.push_back(piece);
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The head of a request as HTTP/1.1 has it.
fn head_of(head: &Parts, is_chunked: bool) -> Bytes {
    let uri = &head.uri;
    let host = uri.authority().map(|authority| authority.as_str());
    let target = if head.method == Method::CONNECT {
        host.unwrap_or("/")
    } else {
        uri.path_and_query().map_or("/", |target| target.as_str())
    };
    let mut out = Vec::with_capacity(512);
    // Writing to memory does not fail.
    let _ = write!(out, "{} {target} HTTP/1.1\r\n", head.method);
    let mut line = |name: &str, value: &[u8]| {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            out.extend_from_slice(part);
        }
    };
    if let Some(host) = host {
        line("host", host.as_bytes());
    } else if !head.headers.contains_key(header::HOST) {
        line("host", b"");
    }
    if is_chunked {
        line("transfer-encoding", b"chunked");
    }
    for (name, value) in &head.headers {
        // The authority is the host, and nobody waits to be asked for the body.
        let is_replaced = name == header::HOST && host.is_some();
        if !is_replaced && !CONNECTION_HEADERS.contains(name) {
            line(name.as_str(), value.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
    out.into()
}

/// Headers that concern a connection of HTTP/1.1, or the way a request comes on it (RFC 9113, section 8.2.2).
const CONNECTION_HEADERS: [HeaderName; 6] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
    header::EXPECT,
    HeaderName::from_static("keep-alive"),
];

impl Stream for InMemory {
    fn is_hung_up(&self) -> bool {
        false
    }

    fn is_reset(&self) -> bool {
        false
    }
}

impl AsyncRead for InMemory {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_input(context))?;
        if let Some(piece) = self.input.front_mut() {
            let most = piece.len().min(into.remaining());
            into.put_slice(&piece.split_to(most));
            if piece.is_empty() {
                self.input.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Bytes of an answer that wait for its client here.
const MOST_WRITTEN: usize = 16 << 10;

impl AsyncWrite for InMemory {
    /// Takes what there is room for. Nobody is woken when there is some: whoever takes from the output looks here again.
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut written = self.written.lock();
        let room = MOST_WRITTEN.saturating_sub(written.body.len());
        if room == 0 {
            return Poll::Pending;
        }
        let taken = bytes.len().min(room);
        written.take(&bytes[..taken]).map_err(io::Error::other)?;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// An answer in HTTP/1.1, taken apart as it is written.
#[derive(Default)]
struct Written {
    /// Whether only the head is sent.
    is_bodiless: bool,
    /// What was not taken apart yet.
    raw: Vec<u8>,
    reading: ReplyReader,
    /// Once the head is there, until it is taken.
    head: Option<Response<()>>,
    /// Once the head is there: how the body comes.
    framing: Option<BodyReader>,
    /// What has come of it and was not taken.
    body: Vec<u8>,
}

impl Written {
    fn take(&mut self, bytes: &[u8]) -> Result<(), NoAnswer> {
        self.raw.extend_from_slice(bytes);
        if self.framing.is_none() {
            let head = self.reading.read(&self.raw, usize::MAX);
            let Some(head) = head.map_err(|_| NoAnswer)? else {
                return Ok(());
            };
            // 100 Continue, and whatever else is no answer.
            if head.status < 200 {
                self.raw.drain(..head.len);
                return self.take(&[]);
            }
            self.head = Some(response(&head, &self.raw));
            self.framing = Some(self.body_of(&head)?);
            self.raw.drain(..head.len);
        }
        if let Some(framing) = &mut self.framing {
            let read = framing.read(&self.raw, &mut self.body);
            self.raw.drain(..read.map_err(|_| NoAnswer)?.used);
        }
        Ok(())
    }

    fn body_of(&self, head: &ReplyHead) -> Result<BodyReader, NoAnswer> {
        let framing = match head.framing {
            _ if self.is_bodiless => Framing::Length(0),
            ReplyFraming::Length(length) => Framing::Length(length),
            ReplyFraming::Chunked => Framing::Chunked,
            // Only what is asked for in HTTP/1.0 is answered so.
            ReplyFraming::UntilClose => return Err(NoAnswer),
        };
        BodyReader::new(framing, usize::MAX).map_err(|_| NoAnswer)
    }

    fn is_done(&self) -> bool {
        self.framing.as_ref().is_some_and(BodyReader::is_done)
    }
}

fn response(head: &ReplyHead, bytes: &[u8]) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or_default();
    for field in head.fields(bytes).iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(field.value))
            && !CONNECTION_HEADERS.contains(&name)
        {
            response.headers_mut().append(name, value);
        }
    }
    response
}

/// The rest of an answer, and the connection that writes it.
struct Output {
    connection: Pin<Box<dyn Future<Output = ()> + Send>>,
    written: Arc<Mutex<Written>>,
    has_ended: bool,
}

impl Output {
    /// Serves the stream as far as it goes: pending unless it has ended.
    fn serve(&mut self, context: &mut Context<'_>) {
        self.has_ended = self.has_ended || self.connection.as_mut().poll(context).is_ready();
    }

    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<Result<Response<()>, NoAnswer>> {
        self.serve(context);
        let head = self.written.lock().head.take();
        match head {
            Some(head) => Poll::Ready(Ok(head)),
            None if self.has_ended => Poll::Ready(Err(NoAnswer)),
            None => Poll::Pending,
        }
    }
}

impl Body for Output {
    type Data = Bytes;
    type Error = NoAnswer;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, NoAnswer>>> {
        if self.written.lock().body.is_empty() && !self.is_end_stream() {
            self.serve(context);
        }
        let mut written = self.written.lock();
        if !written.body.is_empty() {
            let piece = std::mem::take(&mut written.body);
            return Poll::Ready(Some(Ok(Frame::data(piece.into()))));
        }
        match (written.is_done(), self.has_ended) {
            (true, _) => Poll::Ready(None),
            (false, true) => Poll::Ready(Some(Err(NoAnswer))),
            (false, false) => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        let written = self.written.lock();
        written.is_done() && written.body.is_empty()
    }
}

/// A connection of which something was read already.
struct Prefixed<IO> {
    read: Bytes,
    io: IO,
}

impl<IO: AsyncRead + Unpin> AsyncRead for Prefixed<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.io).poll_read(context, into);
        }
        let most = self.read.len().min(into.remaining());
        into.put_slice(&self.read[..most]);
        self.read.advance(most);
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Prefixed<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
