//! HTTP/2 for JSON-RPC: each stream is served as a connection of HTTP/1.1 with one request, so that identity, bytes, lanes
//! and answers are the same.
//!
//! hyper speaks HTTP/2 with the client. The connection of a stream reads its request, and writes its answer, in memory
//! ([`StreamIo`]).

use std::future::poll_fn;
use std::io::{self, Cursor};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use futures_util::FutureExt as _;
use futures_util::future::FusedFuture;
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, join, split};
use wire::http::{
    BodyReader, Framing, LAST_CHUNK, ReplyFraming, ReplyHead, ReplyReader, write_chunk_end,
    write_chunk_start,
};

use super::Shared;
use super::backend::Backend;
use super::http::{Connection, Http2};
use super::socket::Stream;
use super::streams::{Answer, NoAnswer, Streams, drive};
use crate::front::buffer::Buffer;
use crate::front::streams::STREAM_BYTES;
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
    let io = join(AsyncReadExt::chain(Cursor::new(read), rest), written);
    let bounds = (&*streams, front.leave.clone());
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

/// What the connection reads and writes.
struct StreamIo {
    /// Of the request, what is there and was not read yet.
    next: Bytes,
    /// What follows; none at its end.
    body: Option<Incoming>,
    is_chunked: bool,
    written: Arc<Mutex<Written>>,
}

/// What the connection has written, until it is taken.
#[derive(Default)]
struct Written {
    bytes: Buffer,
    /// Whether the head of the answer was taken.
    has_head: bool,
}

/// The longest head of an answer.
const MOST_HEAD: usize = 64 << 10;

impl StreamIo {
    fn new(request: Request<Incoming>) -> Self {
        let (head, body) = request.into_parts();
        let body = Some(body).filter(|body| !body.is_end_stream());
        let is_chunked = body.is_some() && !head.headers.contains_key(header::CONTENT_LENGTH);
        Self {
            next: head_text(&head, is_chunked).into(),
            body,
            is_chunked,
            written: Arc::default(),
        }
    }

    fn push(&mut self, data: Bytes) {
        self.next = if self.is_chunked && !data.is_empty() {
            let mut chunk = Vec::with_capacity(data.len() + 32);
            write_chunk_start(&mut chunk, data.len());
            chunk.extend_from_slice(&data);
            write_chunk_end(&mut chunk);
            chunk.into()
        } else {
            data
        };
    }
}

/// The head of a request as HTTP/1.1 has it: its authority is the host, and `Expect` is left out.
fn head_text(head: &Parts, is_chunked: bool) -> Vec<u8> {
    let authority = head.uri.authority().map(|authority| authority.as_str());
    let target = match head.uri.path_and_query() {
        _ if head.method == Method::CONNECT => authority.unwrap_or_default(),
        target => target.map_or("/", |target| target.as_str()),
    };
    let mut text = format!("{} {target} HTTP/1.1\r\n", head.method).into_bytes();
    text.reserve(512);
    let mut push = |name: &str, value: &[u8]| {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            text.extend_from_slice(part);
        }
    };
    if authority.is_some() || !head.headers.contains_key(header::HOST) {
        push("host", authority.unwrap_or_default().as_bytes());
    }
    for (name, value) in &head.headers {
        let is_left_out = is_of_connection(name)
            || *name == header::EXPECT
            || *name == header::HOST && authority.is_some();
        if !is_left_out {
            push(name.as_str(), value.as_bytes());
        }
    }
    if is_chunked {
        push("transfer-encoding", b"chunked");
    }
    text.extend_from_slice(b"\r\n");
    text
}

/// Whether a header concerns a connection of HTTP/1.1 (RFC 9113, section 8.2.2).
fn is_of_connection(name: &HeaderName) -> bool {
    [
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        header::TE,
    ]
    .contains(name)
        || name == "keep-alive"
}

impl AsyncRead for StreamIo {
    /// Ends once something was answered: there is one request.
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.next.is_empty() {
            let Some(body) = &mut self.body else {
                let written = self.written.lock();
                let is_answered = written.has_head || !written.bytes.is_empty();
                return if is_answered {
                    Poll::Ready(Ok(()))
                } else {
                    Poll::Pending
                };
            };
            match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => self.push(frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => {
                    self.body = None;
                    self.next = Bytes::from_static(if self.is_chunked { LAST_CHUNK } else { b"" });
                }
            }
        }
        let count = self.next.len().min(into.remaining());
        into.put_slice(&self.next[..count]);
        self.next.advance(count);
        Poll::Ready(Ok(()))
    }
}

/// The task that takes what is written polls the connection afterwards, so nothing has to be woken.
impl AsyncWrite for StreamIo {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut written = self.written.lock();
        let most = if written.has_head {
            STREAM_BYTES
        } else {
            MOST_HEAD
        };
        let count = bytes.len().min(most.saturating_sub(written.bytes.len()));
        if count == 0 {
            return Poll::Pending;
        }
        written.bytes.make_room(count);
        written.bytes.tail().extend_from_slice(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Stream for StreamIo {
    fn is_hung_up(&self) -> bool {
        false
    }

    fn is_reset(&self) -> bool {
        false
    }
}

/// The connection, up to its end.
type Serving = Pin<Box<dyn FusedFuture<Output = ()> + Send>>;

/// The answer, and the connection that writes it.
struct Output {
    serving: Serving,
    written: Arc<Mutex<Written>>,
    body: BodyReader,
}

impl Output {
    /// Serves a request up to the head of its answer.
    ///
    /// # Errors
    /// The connection has ended before.
    async fn begin<F>(
        request: Request<Incoming>,
        serve: impl FnOnce(StreamIo) -> F,
    ) -> Result<Response<Self>, NoAnswer>
    where
        F: FusedFuture<Output = ()> + Send + 'static,
    {
        let wants_body = request.method() != Method::HEAD;
        let io = StreamIo::new(request);
        let written = Arc::clone(&io.written);
        let mut serving: Serving = Box::pin(serve(io));
        let mut reader = ReplyReader::default();
        let (answer, body) = poll_fn(|context| {
            let has_ended = has_ended(&mut serving, context);
            match written.lock().head(&mut reader, wants_body)? {
                Some(head) => Poll::Ready(Ok(head)),
                None if has_ended => Poll::Ready(Err(NoAnswer)),
                None => Poll::Pending,
            }
        })
        .await?;
        Ok(answer.map(|()| Self {
            serving,
            written,
            body,
        }))
    }
}

/// Serves on.
fn has_ended(serving: &mut Serving, context: &mut Context<'_>) -> bool {
    serving.is_terminated() || serving.as_mut().poll(context).is_ready()
}

impl Written {
    /// Takes the head of the answer, if it is there.
    fn head(
        &mut self,
        reader: &mut ReplyReader,
        wants_body: bool,
    ) -> Result<Option<(Response<()>, BodyReader)>, NoAnswer> {
        let bytes = self.bytes.filled();
        // A full buffer without a whole head is an error.
        let head = reader.read(bytes, MOST_HEAD - 1).map_err(|_| NoAnswer)?;
        let Some(head) = head else {
            return Ok(None);
        };
        let framing = match head.framing {
            ReplyFraming::Length(length) if wants_body => Framing::Length(length),
            ReplyFraming::Chunked if wants_body => Framing::Chunked,
            _ => Framing::Length(0),
        };
        let body = BodyReader::new(framing, usize::MAX).map_err(|_| NoAnswer)?;
        let answer = as_http2(&head, &Bytes::copy_from_slice(&bytes[..head.len]))?;
        self.bytes.consume(head.len);
        self.has_head = true;
        Ok(Some((answer, body)))
    }
}

/// The head of an answer as HTTP/2 has it.
fn as_http2(head: &ReplyHead, text: &Bytes) -> Result<Response<()>, NoAnswer> {
    let mut answer = Response::new(());
    *answer.status_mut() = StatusCode::from_u16(head.status).map_err(|_| NoAnswer)?;
    for field in head.fields(text).iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| NoAnswer)?;
        let value =
            HeaderValue::from_maybe_shared(text.slice_ref(field.value)).map_err(|_| NoAnswer)?;
        if !is_of_connection(&name) {
            answer.headers_mut().append(name, value);
        }
    }
    Ok(answer)
}

impl Body for Output {
    type Data = Bytes;
    type Error = NoAnswer;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, NoAnswer>>> {
        let this = &mut *self;
        // What is there is taken first: a writer may wait for the room.
        let mut served = None;
        loop {
            let mut data = Vec::new();
            let mut waiting = this.written.lock();
            let progress = this.body.read(waiting.bytes.filled(), &mut data);
            let progress = progress.map_err(|_| NoAnswer)?;
            waiting.bytes.consume(progress.used);
            drop(waiting);
            return match served {
                _ if !data.is_empty() => Poll::Ready(Some(Ok(Frame::data(data.into())))),
                _ if progress.done => Poll::Ready(None),
                Some(true) => Poll::Ready(Some(Err(NoAnswer))),
                Some(false) => Poll::Pending,
                None => {
                    served = Some(has_ended(&mut this.serving, context));
                    continue;
                }
            };
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_done()
    }
}
