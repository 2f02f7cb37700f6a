//! One request from a connection, read as a whole within its bounds and deadlines.

use tokio::time::Instant;

use super::Connection;
use crate::front::backend::Backend;
use crate::front::socket::{Ended, Stream};
use crate::refusal::{Reason, Refusal};
use wire::http::{BodyReader, CONTINUE, Expect, Framing, Head, HeadReader, HttpError};

/// A request, head and body.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) head: Head,
    bytes: Whole,
}

/// Where head and body lie, one behind the other.
#[derive(Debug)]
enum Whole {
    /// At the start of the socket's input, so many bytes.
    InPlace(usize),
    /// By themselves, because the body came in chunks.
    Apart(Vec<u8>),
}

/// Why there is no request.
#[derive(Debug)]
pub(super) enum NoRequest {
    /// The connection is over: closed, idle for too long, or told to end while idle.
    End,
    /// What came is no request, or not one that is taken.
    Malformed(HttpError),
    /// There is no room for it.
    Refused(Refusal),
}

impl From<HttpError> for NoRequest {
    fn from(error: HttpError) -> Self {
        Self::Malformed(error)
    }
}

impl Incoming {
    /// Head and body, if the body came with its length; the socket's input has to be the one it
    /// was read from.
    pub(super) fn bytes<'a>(&'a self, input: &'a [u8]) -> &'a [u8] {
        match &self.bytes {
            Whole::InPlace(len) => input.get(..*len).unwrap_or_default(),
            Whole::Apart(bytes) => bytes,
        }
    }

    /// How much of the socket's input belongs to it.
    pub(super) const fn in_place(&self) -> usize {
        match self.bytes {
            Whole::InPlace(len) => len,
            Whole::Apart(_) => 0,
        }
    }
}

/// Line ends behind the body of a POST that are overlooked, as the node's server does for old
/// clients that send some.
const STRAY_LINE_ENDS: usize = 4;

impl<B: Backend, IO: Stream> Connection<B, IO> {
    /// The next request.
    pub(super) async fn incoming(&mut self) -> Result<Incoming, NoRequest> {
        let head = self.head().await?;
        self.had_body = head.has_body();
        match head.framing {
            Framing::Length(0) => Ok(Incoming {
                bytes: Whole::InPlace(head.len),
                head,
            }),
            Framing::Length(length) => self.body_in_place(head, length).await,
            Framing::Chunked => Box::pin(self.body_in_chunks(head)).await,
        }
    }

    async fn head(&mut self) -> Result<Head, NoRequest> {
        let limits = self.front.head_limits;
        let mut reader = HeadReader::new();
        let mut until = None;
        loop {
            if self.had_body {
                self.skip_line_ends();
            }
            if self.socket.input.is_empty() {
                self.idle().await?;
                continue;
            }
            if let Some(head) = reader.read(self.socket.input.filled(), &limits)? {
                return Ok(head);
            }
            let patience = self.front.config.limits.header_timeout;
            let until = *until.get_or_insert_with(|| Instant::now() + patience);
            self.more(until, HttpError::HeadTimeout).await?;
        }
    }

    /// Waits for the first bytes of a request. An idle connection ends with the program.
    async fn idle(&mut self) -> Result<(), NoRequest> {
        self.socket.settle();
        let until = Instant::now() + self.front.config.limits.idle_timeout;
        let filled = self.socket.fill_unless(until, self.stop.as_mut()).await;
        filled.map_err(|_| NoRequest::End)
    }

    fn skip_line_ends(&mut self) {
        let input = self.socket.input.filled();
        let stray = input
            .iter()
            .take(STRAY_LINE_ENDS)
            .take_while(|byte| matches!(byte, b'\r' | b'\n'))
            .count();
        if !input.is_empty() {
            self.had_body = false;
        }
        self.socket.input.consume(stray);
    }

    async fn body_in_place(&mut self, head: Head, length: u64) -> Result<Incoming, NoRequest> {
        let most = self.front.config.limits.body_bytes;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > most {
            return Err(HttpError::BodyTooLarge(most).into());
        }
        let whole = head.len + length;
        if self.socket.input.len() < whole {
            self.rest_of_body(&head, whole).await?;
        }
        Ok(Incoming {
            head,
            bytes: Whole::InPlace(whole),
        })
    }

    /// Reads until head and body are there. Room is set aside before anything is read.
    async fn rest_of_body(&mut self, head: &Head, whole: usize) -> Result<(), NoRequest> {
        if !self.socket.expect(whole) {
            return Err(no_room());
        }
        if head.expect == Expect::Continue && self.socket.input.len() == head.len {
            self.ask_for_body().await?;
        }
        let until = Instant::now() + self.front.config.limits.body_timeout;
        while self.socket.input.len() < whole {
            let missing = whole - self.socket.input.len();
            self.socket.input.make_room(missing);
            self.more(until, HttpError::BodyTimeout).await?;
        }
        Ok(())
    }

    async fn body_in_chunks(&mut self, head: Head) -> Result<Incoming, NoRequest> {
        let mut reader = BodyReader::new(head.framing, self.front.config.limits.body_bytes)?;
        let mut bytes = self.socket.input.filled()[..head.len].to_vec();
        self.socket.input.consume(head.len);
        if head.expect == Expect::Continue && self.socket.input.is_empty() {
            self.ask_for_body().await?;
        }
        let until = Instant::now() + self.front.config.limits.body_timeout;
        loop {
            let progress = reader.read(self.socket.input.filled(), &mut bytes)?;
            self.socket.input.consume(progress.used);
            if !self.socket.expect(bytes.capacity()) {
                return Err(no_room());
            }
            if progress.done {
                return Ok(Incoming {
                    head,
                    bytes: Whole::Apart(bytes),
                });
            }
            self.more(until, HttpError::BodyTimeout).await?;
        }
    }

    async fn ask_for_body(&mut self) -> Result<(), NoRequest> {
        self.socket.output.tail().extend_from_slice(CONTINUE);
        let patience = self.front.config.limits.write_timeout;
        let asked = self.socket.flush(patience).await;
        asked.map_err(|_| NoRequest::End)
    }

    /// Reads more of a request that has begun.
    async fn more(&mut self, until: Instant, late: HttpError) -> Result<(), NoRequest> {
        self.socket.fill(until).await.map_err(|ended| match ended {
            Ended::Closed => NoRequest::End,
            Ended::Late => late.into(),
            Ended::Full => no_room(),
        })
    }
}

fn no_room() -> NoRequest {
    NoRequest::Refused(full())
}

/// The ledger is full.
pub(crate) fn full() -> Refusal {
    Refusal::new(Reason::Bytes, "the buffers are full").retry_after(FULL_RETRY)
}

/// When room may be there again: a second's worth of forwarded writes.
const FULL_RETRY: std::time::Duration = std::time::Duration::from_secs(1);
