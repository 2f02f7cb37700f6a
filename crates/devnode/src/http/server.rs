//! Reads requests from a connection one after the other and writes their responses.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;
use wire::http::{BodyReader, CONTINUE, Expect, Framing, HeadLimits, HeadReader, HttpError};
use wire::ws::{Event, FrameReader, Step, WsError, WsLimits};

use super::{Request, Response};
use crate::config::Config;

/// Bounds of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long it may be idle, and how long a request may take to come in.
    pub idle: Duration,
    /// Largest body in bytes.
    pub body: usize,
}

impl Limits {
    /// Those of the RPC's settings.
    pub fn of_rpc(config: &Config) -> Self {
        Self {
            idle: config.rpc.idle_timeout,
            body: config.rpc.max_body_bytes,
        }
    }
}

/// A connection that changes its protocol, and what was read of the new one already.
#[derive(Debug)]
pub struct Upgrade {
    /// The connection.
    pub stream: TcpStream,
    /// What was read of the new protocol.
    pub read: Vec<u8>,
}

/// What answers the requests of a connection.
pub trait Handler: Sync {
    /// Answers one request; the next is not read before.
    fn answer<'a>(&'a self, request: &'a Request) -> impl Future<Output = Response> + Send + 'a;
}

/// Bounds of a head: `max_header_bytes`, and Go's slack.
const HEAD_LIMITS: HeadLimits = HeadLimits {
    bytes: (1 << 20) + 4096,
    fields: 128,
    target: 1 << 20,
};
/// Room for one read.
const READ_BYTES: usize = 16 << 10;
/// How long a connection that is closed in the middle of a request is still read from, so that
/// the client sees the answer before the reset (`rstAvoidanceDelay` of Go's server).
const LINGER: Duration = Duration::from_millis(500);

/// Serves a connection until it ends, or until a response switches protocols.
///
/// # Errors
/// When the connection breaks.
///
/// # Cancel safety
/// Dropping it closes the connection.
pub async fn serve(
    stream: TcpStream,
    limits: Limits,
    handler: &impl Handler,
) -> io::Result<Option<Upgrade>> {
    let mut connection = Connection {
        stream,
        buffer: BytesMut::new(),
        limits,
    };
    let mut out = Vec::with_capacity(1024);
    loop {
        let request = match connection.request().await? {
            Incoming::Request(request) => request,
            Incoming::Malformed(status) => return connection.refuse(status).await.map(|()| None),
            Incoming::End => return Ok(None),
        };
        let response = tokio::select! {
            biased;
            response = handler.answer(&request) => response,
            () = connection.gone() => return Ok(None),
        };
        let keep_alive = request.head().keep_alive && !response.close;
        out.clear();
        response.write(&mut out, &request, keep_alive);
        connection.stream.write_all(&out).await?;
        if response.status == 101 {
            return Ok(Some(Upgrade {
                stream: connection.stream,
                read: connection.buffer.to_vec(),
            }));
        }
        if response.close {
            return connection.linger().await.map(|()| None);
        }
        if !keep_alive {
            return connection.stream.shutdown().await.map(|()| None);
        }
    }
}

/// Serves a connection that keeps its protocol, for an endpoint.
pub async fn serve_plainly(handler: Arc<impl Handler>, limits: Limits, stream: TcpStream) {
    // A broken connection needs no action of the node.
    let _ = serve(stream, limits, &*handler).await;
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    buffer: BytesMut,
    limits: Limits,
}

#[derive(Debug)]
enum Incoming {
    Request(Request),
    /// Not a request; the status of the refusal.
    Malformed(&'static str),
    End,
}

impl Connection {
    /// The next request.
    async fn request(&mut self) -> io::Result<Incoming> {
        let idle = self.limits.idle;
        // The time of a request begins with its first byte, not while the connection is idle.
        if self.buffer.is_empty() {
            match timeout(idle, self.read_more()).await {
                Ok(Ok(0)) | Err(_) => return Ok(Incoming::End),
                Ok(read) => read.map(drop)?,
            }
        }
        timeout(idle, self.whole_request())
            .await
            .unwrap_or(Ok(Incoming::End))
    }

    async fn whole_request(&mut self) -> io::Result<Incoming> {
        let mut heads = HeadReader::new();
        let head = loop {
            match heads.read(&self.buffer, &HEAD_LIMITS) {
                Ok(Some(head)) => break head,
                Ok(None) => {
                    if self.read_more().await? == 0 {
                        return Ok(Incoming::End);
                    }
                }
                Err(error) => return Ok(Incoming::Malformed(refusal(error))),
            }
        };
        let (framing, expect) = (head.framing, head.expect);
        let mut request = Request::new(head, &self.buffer);
        self.buffer.advance(request.head().len);
        if expect == Expect::Continue && framing != Framing::Length(0) {
            self.stream.write_all(CONTINUE).await?;
        }
        match self.body(framing).await? {
            Ok(body) => request.body = body,
            Err(broken) => request.broken_body = Some(broken),
        }
        Ok(Incoming::Request(request))
    }

    /// The body, or the text of Go's server for one that cannot be read.
    async fn body(&mut self, framing: Framing) -> io::Result<Result<Vec<u8>, &'static str>> {
        let Ok(mut reader) = BodyReader::new(framing, self.limits.body) else {
            return Ok(Err(TOO_LARGE));
        };
        let mut body = Vec::new();
        loop {
            match reader.read(&self.buffer, &mut body) {
                Ok(progress) => self.buffer.advance(progress.used),
                Err(HttpError::BodyTooLarge(_)) => return Ok(Err(TOO_LARGE)),
                Err(_) => return Ok(Err("invalid byte in chunk length")),
            }
            if reader.is_done() {
                return Ok(Ok(body));
            }
            if self.read_more().await? == 0 {
                return Ok(Err(UNEXPECTED_END));
            }
        }
    }

    /// Waits until the client has gone while its request is being worked on, which ends the work,
    /// as the context of a Go handler does. It may read the start of a next request, no more.
    async fn gone(&mut self) {
        while self.buffer.is_empty() {
            if !matches!(self.read_more().await, Ok(1..)) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    async fn read_more(&mut self) -> io::Result<usize> {
        self.buffer.reserve(READ_BYTES);
        self.stream.read_buf(&mut self.buffer).await
    }

    /// Answers what is not a request, as Go's server does, and closes.
    async fn refuse(mut self, text: &str) -> io::Result<()> {
        let response = format!(
            "HTTP/1.1 {text}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{text}"
        );
        self.stream.write_all(response.as_bytes()).await?;
        self.linger().await
    }

    async fn linger(mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        let drain = async {
            loop {
                self.buffer.clear();
                if self.read_more().await.map_or(true, |read| read == 0) {
                    return;
                }
            }
        };
        // The delay is over in either case.
        let _ = timeout(LINGER, drain).await;
        Ok(())
    }
}

const fn refusal(error: HttpError) -> &'static str {
    match error {
        HttpError::HeadTooLarge(_) | HttpError::TooManyFields(_) | HttpError::TargetTooLong(_) => {
            "431 Request Header Fields Too Large"
        }
        HttpError::Expectation => "417 Expectation Failed",
        _ => "400 Bad Request",
    }
}

const TOO_LARGE: &str = "http: request body too large";
const UNEXPECTED_END: &str = "unexpected EOF";

/// What a client sends, frame by frame.
#[derive(Debug)]
pub struct Frames {
    stream: OwnedReadHalf,
    buffer: BytesMut,
    /// Bytes of the buffer that the last event took.
    used: usize,
    reader: FrameReader,
}

impl Frames {
    /// The two halves of a connection; messages have at most `limit` bytes.
    pub fn of(upgrade: Upgrade, limit: usize) -> (Self, OwnedWriteHalf) {
        let (stream, writer) = upgrade.stream.into_split();
        let frames = Self {
            stream,
            buffer: BytesMut::from(upgrade.read.as_slice()),
            used: 0,
            reader: FrameReader::new(WsLimits {
                message: limit,
                fragments: MAX_FRAGMENTS,
            }),
        };
        (frames, writer)
    }

    /// The next event of what was read; none while a frame is incomplete.
    ///
    /// # Errors
    /// When what was read is no frame, or too long.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, WsError> {
        self.buffer.advance(std::mem::take(&mut self.used));
        Ok(match self.reader.next(&mut self.buffer)? {
            Step::Incomplete { .. } => None,
            Step::Event { used, event } => {
                self.used = used;
                Some(event)
            }
        })
    }

    /// Reads once; false at the end of the stream.
    ///
    /// # Errors
    /// When the connection breaks.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn read_more(&mut self) -> io::Result<bool> {
        self.buffer.reserve(READ_BYTES);
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }
}
/// Fragments of a message.
const MAX_FRAGMENTS: usize = 1024;
