//! One request from a connection, read as a whole within its bounds and deadlines.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tokio::time::Instant;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::budget::{LONG_BYTES, Piece};
use crate::config::Live;
use crate::front::Shared;
use crate::front::socket::{Ended, Socket, Stream};
use crate::refusal::Refusal;
use wire::http::{BodyReader, CONTINUE, Expect, Framing, Head, HeadLimits, HeadReader, HttpError};

/// A request, head and body.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) head: Head,
    /// How many bytes of it lie at the start of the socket's input.
    pub(super) in_place: usize,
    /// Or all of it by itself, because the body came in chunks.
    apart: Vec<u8>,
}

/// Why there is no request.
#[derive(Debug)]
pub(super) enum NoRequest {
    /// The connection is over: closed, idle for too long, or ended by sentinel while idle.
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

impl Request {
    /// Head and body, if the body came with its length; the socket's input has to be the one it
    /// was read from.
    pub(super) fn bytes<'a>(&'a self, input: &'a [u8]) -> &'a [u8] {
        match self.in_place {
            0 => &self.apart,
            len => input.get(..len).unwrap_or_default(),
        }
    }

    /// Bytes of head and body.
    pub(super) const fn len(&self) -> usize {
        self.in_place + self.apart.len()
    }
}

/// Line ends behind the body of a POST that are overlooked, as the node's server does for old
/// clients that send some.
const STRAY_LINE_ENDS: usize = 4;

/// Reads the requests of one connection, one after the other.
pub(super) struct RequestReader {
    config: Live,
    head_limits: HeadLimits,
    /// Whether the last request had a body: stray line ends may follow it.
    had_body: bool,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl RequestReader {
    /// Nothing was read yet.
    pub(super) fn new<B>(front: &Shared<B>) -> Self {
        Self {
            config: front.config.clone(),
            head_limits: front.head_limits,
            had_body: false,
            stop: Box::pin(front.stop.clone().cancelled_owned()),
        }
    }

    /// Reads nothing until then. A client that hangs up, and the end of the program, end the pause.
    ///
    /// # Errors
    /// The client is gone.
    pub(super) async fn pause<IO: Stream>(
        &mut self,
        socket: &mut Socket<IO>,
        until: Instant,
    ) -> Result<(), Ended> {
        poll_fn(|context| {
            if self.stop.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if let Poll::Ready(ended) = socket.poll_gone(context) {
                return Poll::Ready(Err(ended));
            }
            socket.poll_late(until, context).map(|_| Ok(()))
        })
        .await
    }

    /// The request that this head begins, once there is a turn at it.
    pub(super) async fn body<IO: Stream>(
        &mut self,
        socket: &mut Socket<IO>,
        head: Head,
    ) -> Result<Request, NoRequest> {
        self.had_body = head.has_body();
        let (mut in_place, mut apart) = (head.len, Vec::new());
        match head.framing {
            Framing::Length(0) => {}
            Framing::Length(length) => {
                in_place = self.body_in_place(socket, &head, length).await?;
            }
            Framing::Chunked => {
                apart = Box::pin(self.body_in_chunks(socket, &head)).await?;
                in_place = 0;
            }
        }
        let piece = Piece::of(in_place + apart.len());
        poll_fn(|context| socket.turn().poll_begin(piece, context)).await;
        socket.turn().finish();
        Ok(Request {
            head,
            in_place,
            apart,
        })
    }

    /// The head of the next request.
    pub(super) async fn head<IO: Stream>(
        &mut self,
        socket: &mut Socket<IO>,
    ) -> Result<Head, NoRequest> {
        let limits = self.head_limits;
        let mut reader = HeadReader::new();
        let mut until = None;
        loop {
            if self.had_body {
                self.skip_line_ends(socket);
            }
            if socket.input.is_empty() {
                self.idle(socket).await?;
                continue;
            }
            if let Some(head) = reader.read(socket.input.filled(), &limits)? {
                return Ok(head);
            }
            let patience = self.config.fixed().header_timeout;
            let until = *until.get_or_insert_with(|| Instant::now() + patience);
            self.more(socket, until, HttpError::HeadTimeout).await?;
        }
    }

    /// Waits for the first bytes of a request. An idle connection ends with the program.
    async fn idle<IO: Stream>(&mut self, socket: &mut Socket<IO>) -> Result<(), NoRequest> {
        socket.settle();
        let until = Instant::now() + self.config.fixed().idle_timeout;
        let filled = socket.fill_unless(until, self.stop.as_mut()).await;
        filled.map_err(|_| NoRequest::End)
    }

    fn skip_line_ends<IO: Stream>(&mut self, socket: &mut Socket<IO>) {
        let input = socket.input.filled();
        let stray = input
            .iter()
            .take(STRAY_LINE_ENDS)
            .take_while(|byte| matches!(byte, b'\r' | b'\n'))
            .count();
        if !input.is_empty() {
            self.had_body = false;
        }
        socket.input.consume(stray);
    }

    async fn body_in_place<IO: Stream>(
        &mut self,
        socket: &mut Socket<IO>,
        head: &Head,
        length: u64,
    ) -> Result<usize, NoRequest> {
        let most = self.config.load().limits.body_bytes;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > most {
            return Err(HttpError::BodyTooLarge(most).into());
        }
        let whole = head.len + length;
        if socket.input.len() >= whole {
            return Ok(whole);
        }
        if head.expect == Expect::Continue && socket.input.len() == head.len {
            self.ask_for_body(socket).await?;
        }
        let until = Instant::now() + self.config.fixed().body_timeout;
        while socket.input.len() < whole {
            socket.input.grow_towards(whole);
            self.more(socket, until, HttpError::BodyTimeout).await?;
        }
        Ok(whole)
    }

    async fn body_in_chunks<IO: Stream>(
        &mut self,
        socket: &mut Socket<IO>,
        head: &Head,
    ) -> Result<Vec<u8>, NoRequest> {
        let mut reader = BodyReader::new(head.framing, self.config.load().limits.body_bytes)?;
        let mut bytes = socket.input.filled()[..head.len].to_vec();
        let mut next_turn = LONG_BYTES;
        socket.input.consume(head.len);
        if head.expect == Expect::Continue && socket.input.is_empty() {
            self.ask_for_body(socket).await?;
        }
        let until = Instant::now() + self.config.fixed().body_timeout;
        loop {
            let progress = reader.read(socket.input.filled(), &mut bytes)?;
            socket.input.consume(progress.used);
            socket.apart = bytes.capacity();
            if !socket.charge() {
                return Err(no_room());
            }
            if bytes.len() > next_turn {
                next_turn = bytes.len() + LONG_BYTES;
                socket.turn().take(Piece::LONG).await;
            }
            if progress.done {
                return Ok(bytes);
            }
            self.more(socket, until, HttpError::BodyTimeout).await?;
        }
    }

    async fn ask_for_body<IO: Stream>(&mut self, socket: &mut Socket<IO>) -> Result<(), NoRequest> {
        socket.output.tail().extend_from_slice(CONTINUE);
        let patience = self.config.fixed().write_timeout;
        let asked = socket.flush(patience).await;
        asked.map_err(|_| NoRequest::End)
    }

    /// Reads more of a request that has begun.
    async fn more<IO: Stream>(
        &mut self,
        socket: &mut Socket<IO>,
        until: Instant,
        late: HttpError,
    ) -> Result<(), NoRequest> {
        socket.fill(until).await.map_err(|ended| match ended {
            Ended::Closed => NoRequest::End,
            Ended::Late => late.into(),
            Ended::OverBudget => no_room(),
        })
    }
}

fn no_room() -> NoRequest {
    NoRequest::Refused(Refusal::buffers_full())
}
