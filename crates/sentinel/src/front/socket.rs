//! One client's socket with its buffers, its deadlines and what they cost the ledger.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use fairq::ClientKey;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::buffer::{Buffer, READ_BYTES};
use crate::budget::{LONG_BYTES, Ledger, Piece, Reservation, Turn};
use crate::clock::Timer;

/// What a connection is made of.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Whether the client has ended its side, even if not all it sent was read.
    fn is_hung_up(&self) -> bool;

    /// Whether it takes no more either: it was reset.
    fn is_reset(&self) -> bool;
}

impl Stream for TcpStream {
    fn is_hung_up(&self) -> bool {
        let ready =
            pin!(self.ready(Interest::READABLE)).poll(&mut Context::from_waker(Waker::noop()));
        matches!(ready, Poll::Ready(Ok(ready)) if ready.is_read_closed())
    }

    fn is_reset(&self) -> bool {
        let ready =
            pin!(self.ready(Interest::WRITABLE)).poll(&mut Context::from_waker(Waker::noop()));
        matches!(ready, Poll::Ready(Ok(ready)) if ready.is_write_closed())
    }
}

/// A socket and what was read from it and is to be written to it.
///
/// Bytes that stay in a buffer while the socket waits are charged to the ledger; a request that is
/// read, served and answered without waiting for its client costs the ledger nothing.
pub(crate) struct Socket<IO> {
    io: IO,
    /// What the client sent and was not consumed yet.
    pub(crate) input: Buffer,
    /// What the client is to get.
    pub(crate) output: Buffer,
    large: Box<LargeTransfer>,
    timer: Timer,
    /// Bytes of a request or message that is held apart from the input: what came in chunks or
    /// fragments.
    pub(crate) apart: usize,
    /// Whether the client has sent its last byte.
    has_ended: bool,
    /// What its client holds in the account.
    held: Reservation,
}

/// What only long requests, answers and events need.
struct LargeTransfer {
    turn: Turn,
    /// Something in the middle of the output which other sockets write too.
    shared: Option<SharedBytes>,
}

/// Bytes that many sockets write, each from the one copy there is.
#[derive(Debug)]
struct SharedBytes {
    /// Bytes of `output` that go before them; the others follow.
    after: usize,
    bytes: Bytes,
}

/// Why a socket is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The client closed it, or it broke.
    Closed,
    /// The client was too slow.
    Late,
    /// What it has sent, or does not take, does not fit the ledger.
    OverBudget,
}

/// How long a connection that ends in the middle of a request is still read from, so that the
/// client sees the answer before the reset (Go's server waits as long: `rstAvoidanceDelay`).
const LINGER: Duration = Duration::from_millis(500);
/// How often a client that has sent its last byte is looked at, whether it still takes its answer.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// What is read and thrown away at most in that time.
const LINGER_BYTES: usize = 1 << 20;
/// What one write takes of shared bytes: some 50 µs of copying into the kernel.
const SHARED_AT_ONCE: usize = 128 << 10;

impl<IO: Stream> Socket<IO> {
    /// Nothing read, nothing to write.
    pub(crate) fn new(io: IO, ledger: &Ledger, turn: Turn) -> Self {
        Self {
            io,
            input: Buffer::new(),
            output: Buffer::new(),
            large: Box::new(LargeTransfer { turn, shared: None }),
            timer: Timer::default(),
            apart: 0,
            has_ended: false,
            held: ledger.nothing(),
        }
    }

    /// The connection for another protocol, and what was read of it.
    pub(crate) fn into_io(self) -> (IO, Bytes) {
        let read = Bytes::copy_from_slice(self.input.filled());
        (self.io, read)
    }

    /// Whether the client has ended its side, even if not all it sent was read.
    pub(crate) fn is_hung_up(&self) -> bool {
        self.io.is_hung_up()
    }

    /// Its turns at what takes long.
    pub(crate) fn turn(&mut self) -> &mut Turn {
        &mut self.large.turn
    }

    /// What waits in its buffers, and its turns, are this client's from now on; false if that is more than the
    /// client's share.
    pub(crate) fn bind(&mut self, ledger: &Ledger, client: ClientKey) -> bool {
        self.turn().bind(client);
        self.held.move_to(ledger)
    }

    /// The account its waiting bytes are charged to.
    pub(crate) const fn ledger(&self) -> &Ledger {
        self.held.ledger()
    }

    /// Takes over what was set aside, for a request that was read completely: at least `bytes`.
    pub(crate) fn take_reserved(&mut self, bytes: usize) -> Option<Reservation> {
        let missing = bytes.saturating_sub(self.held.bytes());
        self.held.grow(missing).then(|| self.held.split(bytes))
    }

    /// Gives back what was set aside, unless something still waits in a buffer.
    pub(crate) fn settle(&mut self) {
        if self.input.is_empty() && self.unsent() == 0 {
            self.held.shrink_to(0);
        }
    }

    /// Reads more behind what is there.
    ///
    /// # Errors
    /// Nothing came until then, or the socket has ended.
    ///
    /// # Cancel safety
    /// What was read stays in `input`.
    pub(crate) async fn fill(&mut self, until: Instant) -> Result<(), Ended> {
        self.fill_unless(until, pin!(std::future::pending())).await
    }

    /// Reads more behind what is there, in turns if that is long. Memory is held only for what came.
    pub(crate) fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        if self.input.len() > LONG_BYTES {
            ready!(self.turn().poll_begin(Piece::LONG, context));
            self.turn().used();
        }
        self.input.make_read_room();
        let read = pin!(self.io.read_buf(self.input.tail())).poll(context);
        match read {
            Poll::Ready(Ok(0) | Err(_)) => {
                self.has_ended = matches!(read, Poll::Ready(Ok(_)));
                Poll::Ready(Err(Ended::Closed))
            }
            // What is large is charged as it comes; what is small, once it waits.
            Poll::Ready(Ok(_)) if self.input.capacity() > READ_BYTES && !self.charge() => {
                Poll::Ready(Err(Ended::OverBudget))
            }
            Poll::Ready(Ok(_)) => Poll::Ready(Ok(())),
            Poll::Pending => {
                self.input.release();
                if self.charge() {
                    Poll::Pending
                } else {
                    Poll::Ready(Err(Ended::OverBudget))
                }
            }
        }
    }

    /// Writes what it can of the output, before the socket waits for something else.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Result<(), Ended> {
        while self.unsent() > 0 {
            match self.poll_write(context) {
                Poll::Ready(written) => written?,
                Poll::Pending => break,
            };
        }
        Ok(())
    }

    /// Reads more behind what is there, or is done when `stop` is. Meanwhile the output is written.
    ///
    /// # Cancel safety
    /// As of [`fill`](Self::fill).
    pub(crate) async fn fill_unless<S>(
        &mut self,
        until: Instant,
        stop: Pin<&mut S>,
    ) -> Result<(), Ended>
    where
        S: Future<Output = ()>,
    {
        let mut stop = stop;
        poll_fn(|context| {
            self.poll_rest(context)?;
            if let Poll::Ready(read) = self.poll_read(context) {
                return Poll::Ready(read);
            }
            if stop.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(Ended::Closed));
            }
            self.poll_late(until, context).map(Err)
        })
        .await
    }

    /// Ready when the client is gone, while it waits for an answer. Its next request may be read
    /// meanwhile, but not more: then, as in Go's server, its end shows when its turn comes. A client that has sent
    /// its last byte is not gone until it is seen to take no more either.
    pub(crate) fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<Ended> {
        if self.input.is_empty() && !self.has_ended {
            match self.poll_read(context) {
                Poll::Ready(Err(ended)) if !self.has_ended => return Poll::Ready(ended),
                Poll::Ready(_) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
        if self.has_ended {
            if self.io.is_reset() {
                return Poll::Ready(Ended::Closed);
            }
            let _ = self.poll_late(Instant::now() + PROBE_INTERVAL, context);
        }
        if self.charge() {
            Poll::Pending
        } else {
            Poll::Ready(Ended::OverBudget)
        }
    }

    /// Awaits something unless the client hangs up before. Meanwhile the output is written.
    pub(crate) async fn unless_gone<T>(
        &mut self,
        what: impl Future<Output = T>,
    ) -> Result<T, Ended> {
        let mut what = pin!(what);
        poll_fn(|context| {
            if let Poll::Ready(done) = what.as_mut().poll(context) {
                return Poll::Ready(Ok(done));
            }
            self.poll_rest(context)?;
            self.poll_gone(context).map(Err)
        })
        .await
    }

    /// Ready when it is later than `until`.
    pub(crate) fn poll_late(&mut self, until: Instant, context: &mut Context<'_>) -> Poll<Ended> {
        self.timer.poll_until(until, context).map(|()| Ended::Late)
    }

    /// Writes everything in `output`. Within `patience` the client has to take 64 KiB, or all there is.
    ///
    /// # Errors
    /// It took too little for that long, or the socket has ended.
    ///
    /// # Cancel safety
    /// What was not written stays in `output`.
    pub(crate) async fn flush(&mut self, patience: Duration) -> Result<(), Ended> {
        let mut backlog = Backlog::default();
        poll_fn(|context| self.poll_flush(&mut backlog, patience, context)).await
    }

    /// The same as a poll function; `backlog` is what it notes meanwhile.
    pub(crate) fn poll_flush(
        &mut self,
        backlog: &mut Backlog,
        patience: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Ended>> {
        if let Poll::Ready(flushed) = self.poll_drain(backlog, context) {
            return Poll::Ready(flushed);
        }
        let until = backlog.overdue_at(patience);
        let until = until.unwrap_or_else(|| Instant::now() + patience);
        self.poll_late(until, context).map(Err)
    }

    /// Writes everything in `output`, however long the client takes, and what is shared in turns.
    pub(crate) fn poll_drain(
        &mut self,
        backlog: &mut Backlog,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Ended>> {
        let before = self.unsent();
        loop {
            if self.is_sharing() {
                ready!(self.turn().poll_begin(Piece::LONG, context));
            }
            let is_piece = self.shares_next();
            match self.poll_write(context) {
                Poll::Ready(Ok(true)) if is_piece => self.turn().used(),
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => {
                    backlog.written();
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Err(ended)) => return Poll::Ready(Err(ended)),
                Poll::Pending => {
                    let waiting = self.unsent();
                    backlog.blocked(before.saturating_sub(waiting), waiting);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Makes room for so many more bytes in `output`, if the account has room for them.
    pub(crate) fn make_output_room(&mut self, more: usize) -> bool {
        let (len, capacity) = (self.output.len(), self.output.capacity());
        if capacity < len + more {
            // As a list grows.
            let grown = (2 * capacity).max(len + more);
            if !self.hold(self.waiting() + grown - capacity) {
                return false;
            }
        }
        self.output.make_room(more);
        true
    }

    /// Puts bytes that other sockets write too behind what is in `output`; what comes into `output`
    /// afterwards follows them. Only one such piece may wait at a time.
    pub(crate) fn share(&mut self, bytes: Bytes) {
        debug_assert!(
            self.large.shared.is_none(),
            "a second piece would lose the first"
        );
        let after = self.output.len();
        self.large.shared = Some(SharedBytes { after, bytes });
    }

    /// Whether shared bytes wait.
    pub(crate) fn is_sharing(&self) -> bool {
        self.large.shared.is_some()
    }

    /// Whether shared bytes are what is written next.
    fn shares_next(&self) -> bool {
        let shared = self.large.shared.as_ref();
        shared.is_some_and(|shared| shared.after == 0)
    }

    /// How much the client has still to take.
    pub(crate) fn unsent(&self) -> usize {
        let shared = self.large.shared.as_ref();
        self.output.len() + shared.map_or(0, |shared| shared.bytes.len())
    }

    /// Writes some of `output` and of what is shared: whether there was anything to write.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, Ended>> {
        let next = match &self.large.shared {
            None => self.output.filled(),
            Some(shared) if shared.after > 0 => &self.output.filled()[..shared.after],
            Some(shared) => &shared.bytes[..shared.bytes.len().min(SHARED_AT_ONCE)],
        };
        if next.is_empty() {
            self.output.release();
            return Poll::Ready(Ok(false));
        }
        match Pin::new(&mut self.io).poll_write(context, next) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Err(Ended::Closed)),
            Poll::Ready(Ok(count)) => {
                self.written(count);
                Poll::Ready(Ok(true))
            }
            Poll::Pending if self.charge() => Poll::Pending,
            Poll::Pending => Poll::Ready(Err(Ended::OverBudget)),
        }
    }

    fn written(&mut self, count: usize) {
        match &mut self.large.shared {
            None => self.output.consume(count),
            Some(shared) if shared.after > 0 => {
                shared.after -= count;
                self.output.consume(count);
            }
            Some(shared) => {
                shared.bytes.advance(count);
                if shared.bytes.is_empty() {
                    self.large.shared = None;
                }
            }
        }
    }

    /// Shuts down the writing side, and reads what still comes for a moment, so that
    /// the last answer is not lost to a reset.
    pub(crate) async fn close(&mut self) {
        let until = Instant::now() + LINGER;
        if self.io.shutdown().await.is_err() {
            return;
        }
        let mut read = 0;
        while read < LINGER_BYTES {
            self.input.consume(self.input.len());
            if self.fill(until).await.is_err() {
                break;
            }
            read += self.input.len();
        }
    }

    /// Charges the ledger with what has come and is to be written; false if it does not fit.
    pub(crate) fn charge(&mut self) -> bool {
        self.hold(self.waiting())
    }

    /// Bytes of the buffers that are in use, and of what is held apart.
    fn waiting(&self) -> usize {
        let used = |buffer: &Buffer| {
            if buffer.is_empty() {
                0
            } else {
                buffer.capacity()
            }
        };
        let shared = self.unsent() - self.output.len();
        used(&self.input) + used(&self.output) + shared + self.apart
    }

    /// Reserves this much in all; false if it does not fit.
    fn hold(&mut self, bytes: usize) -> bool {
        self.held.shrink_to(bytes);
        self.held.grow(bytes - self.held.bytes())
    }
}

/// What a client has still to take, judged by averages: one that takes a byte now and then could
/// otherwise keep its answers waiting for ever.
#[derive(Debug, Default)]
pub(crate) struct Backlog(Option<Unsent>);

#[derive(Clone, Copy, Debug)]
struct Unsent {
    since: Instant,
    taken: usize,
    needed: usize,
}

/// What a client must take within the write timeout, in bytes, or all there is.
const LEAST_TAKEN: usize = 64 << 10;

impl Backlog {
    /// Notes that `waiting` bytes could not be written, after `taken` were.
    pub(crate) fn blocked(&mut self, taken: usize, waiting: usize) {
        if let Some(open) = &mut self.0 {
            open.taken += taken;
            if open.taken < open.needed {
                return;
            }
        }
        self.0 = Some(Unsent {
            since: Instant::now(),
            taken: 0,
            needed: waiting.clamp(1, LEAST_TAKEN),
        });
    }

    /// Notes that everything was written.
    pub(crate) const fn written(&mut self) {
        self.0 = None;
    }

    /// When the client has taken too little for too long, if it has a backlog.
    pub(crate) fn overdue_at(&self, patience: Duration) -> Option<Instant> {
        self.0.map(|open| open.since + patience)
    }
}

#[cfg(test)]
mod tests;
