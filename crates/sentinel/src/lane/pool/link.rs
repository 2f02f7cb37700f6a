//! A connection over which writes go to a node: its state, what is under way on it, and when it is opened again.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use fairq::ClientKey;
use pacing::Nanos;
use rpc::{BroadcastMethod, Connection, ConnectionError, ConnectionOptions, Endpoint, Message};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{Broken, NodeAnswer, Opening, PoolEvent};
use crate::lane::answer;
use crate::lane::writes::WriteId;

/// What carries messages to a node and its answers back.
pub(in crate::lane) trait Link {
    /// Queues a broadcast; nothing is written before [`flush`](Self::flush).
    fn queue(&mut self, id: u64, method: BroadcastMethod, tx: &[u8]);

    /// Writes what the socket takes.
    fn flush(&mut self) -> Result<(), ConnectionError>;

    /// Bytes that wait for the socket.
    fn unwritten(&self) -> usize;

    /// Reads and writes until the socket has nothing more and takes nothing more. Ready only with an error.
    /// Messages come with their HTTP statuses.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        on_message: &mut dyn FnMut(&[u8], u16),
    ) -> Poll<ConnectionError>;
}

/// A connection over which writes go.
#[derive(Debug)]
pub(in crate::lane) struct WriteConnection {
    socket: AsyncFd<Socket>,
}

#[derive(Debug)]
struct Socket(Connection);

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl WriteConnection {
    /// Connects to the node, all handshakes included.
    ///
    /// # Cancel safety
    /// The connection is closed when the future is dropped.
    async fn open_at(
        endpoint: &Endpoint,
        address: SocketAddr,
        options: &ConnectionOptions,
    ) -> Result<Self, ConnectionError> {
        let opening = Connection::open(endpoint, address, options)?;
        let both = Interest::READABLE | Interest::WRITABLE;
        #[expect(
            deprecated,
            reason = "its successor is unsafe, for the sake of types whose descriptor may change or \
                      close; a connection keeps its socket as long as it lives"
        )]
        let socket =
            AsyncFd::with_interest(Socket(opening), both).map_err(ConnectionError::Connect)?;
        let mut connection = Self { socket };
        std::future::poll_fn(|context| connection.poll_handshakes(context)).await?;
        Ok(connection)
    }

    fn poll_handshakes(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        loop {
            if self.socket.get_mut().0.drive()? {
                return Poll::Ready(Ok(()));
            }
            // What the handshake waits for; both when that is unknown.
            let ready = if self.socket.get_ref().0.interest().write {
                ready!(self.socket.poll_write_ready_mut(context))
            } else {
                ready!(self.socket.poll_read_ready_mut(context))
            };
            ready.map_err(ConnectionError::Connect)?.clear_ready();
        }
    }

    /// Queues a whole body.
    pub(super) fn queue_body(&mut self, body: &[u8]) {
        self.socket.get_mut().0.queue(body);
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        on_message: &mut dyn FnMut(&[u8], u16),
    ) -> Poll<Result<Infallible, ConnectionError>> {
        for _ in 0..READS_PER_TURN {
            let mut guard = ready!(self.socket.poll_read_ready_mut(context))
                .map_err(ConnectionError::Broken)?;
            let connection = &mut guard.get_inner_mut().0;
            let read = connection
                .read(&mut |message: Message<'_>| on_message(message.body, message.status))?;
            if !read.has_more {
                guard.clear_ready();
            }
        }
        // There may be more: come back after the others had their turn.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Infallible, ConnectionError>> {
        while self.unwritten() > 0 {
            let mut guard = ready!(self.socket.poll_write_ready_mut(context))
                .map_err(ConnectionError::Broken)?;
            if guard.get_inner_mut().0.flush()?.blocked {
                guard.clear_ready();
            }
        }
        Poll::Pending
    }
}

impl Link for WriteConnection {
    fn queue(&mut self, id: u64, method: BroadcastMethod, tx: &[u8]) {
        self.socket.get_mut().0.queue_broadcast(id, method, tx);
    }

    fn flush(&mut self) -> Result<(), ConnectionError> {
        if self.unwritten() > 0 {
            self.socket.get_mut().0.flush()?;
        }
        Ok(())
    }

    fn unwritten(&self) -> usize {
        self.socket.get_ref().0.unwritten()
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        on_message: &mut dyn FnMut(&[u8], u16),
    ) -> Poll<ConnectionError> {
        match self.poll_read(context, on_message) {
            Poll::Ready(Err(error)) => Poll::Ready(error),
            _ => self.poll_write(context).map(|Err(error)| error),
        }
    }
}

/// Why a connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub(in crate::lane) enum OpenError {
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("the address of {0} cannot be found: {1}")]
    Resolve(String, std::io::Error),
    #[error("no connection within {} s", .0.as_secs_f64())]
    Timeout(Duration),
}

/// Opens a connection, all handshakes included.
///
/// # Cancel safety
/// The connection is closed when the future is dropped.
pub(super) async fn open(
    endpoint: Endpoint,
    timeout: Duration,
) -> Result<WriteConnection, OpenError> {
    let opening = async {
        let named = endpoint.clone();
        let resolving = tokio::task::spawn_blocking(move || named.resolve());
        let addresses = resolving
            .await
            .unwrap_or_else(|error| Err(std::io::Error::other(error)))
            .map_err(|error| OpenError::Resolve(endpoint.to_string(), error))?;
        open_first(&endpoint, &addresses).await
    };
    tokio::time::timeout(timeout, opening)
        .await
        .unwrap_or(Err(OpenError::Timeout(timeout)))
}

/// Tries the addresses of a name in turn; the last error counts.
async fn open_first(
    endpoint: &Endpoint,
    addresses: &[SocketAddr],
) -> Result<WriteConnection, OpenError> {
    let options = ConnectionOptions {
        read_buffer_bytes: READ_BUFFER,
        ..ConnectionOptions::default()
    };
    let none = std::io::Error::other("the name has no address");
    let mut failure = OpenError::Resolve(endpoint.to_string(), none);
    for address in addresses {
        match WriteConnection::open_at(endpoint, *address, &options).await {
            Ok(connection) => return Ok(connection),
            Err(error) => failure = error.into(),
        }
    }
    Err(failure)
}

/// Some 400 answers of 150 bytes.
const READ_BUFFER: usize = 64 << 10;
/// Reads before other tasks get their turn.
const READS_PER_TURN: usize = 16;

/// A connection, or the place for one.
pub(super) struct Slot<L> {
    pub(super) state: SlotState<L>,
    /// Attempts and breaks since an answer was read.
    pub(super) failures: u32,
    /// Since when the node is surely the same, started once.
    pub(super) same_since: Nanos,
    /// That of the connections that are replaced by this one.
    pub(super) inherited: Option<Nanos>,
    /// What is under way, by the ids of the requests, which count up.
    pub(super) under_way: VecDeque<Sent>,
    pub(super) next_id: u64,
    /// The socket took less than was to be written, and its share of what may wait is full.
    pub(super) is_blocked: bool,
    /// Why it cannot be written to.
    pub(super) flush_error: Option<ConnectionError>,
}

pub(super) enum SlotState<L> {
    /// Not wanted.
    Closed,
    /// To be opened.
    Down {
        retry_at: Nanos,
    },
    Opening(Opening<L>),
    Up(L),
    /// Takes nothing more, and is closed when nothing is under way on it.
    Draining(L),
}

/// A write under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) id: u64,
    pub(super) write: WriteId,
    pub(super) client: ClientKey,
    pub(super) at: Nanos,
}

impl<L: Link> Slot<L> {
    pub(super) fn new() -> Self {
        Self {
            state: SlotState::Closed,
            failures: 0,
            same_since: Nanos::ZERO,
            inherited: None,
            under_way: VecDeque::new(),
            next_id: 1,
            is_blocked: false,
            flush_error: None,
        }
    }

    pub(super) const fn is_up(&self) -> bool {
        matches!(self.state, SlotState::Up(_))
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, SlotState::Up(_) | SlotState::Draining(_))
    }

    pub(super) const fn link(&self) -> Option<&L> {
        match &self.state {
            SlotState::Up(link) | SlotState::Draining(link) => Some(link),
            _ => None,
        }
    }

    /// Whether as many bytes as its share wait for its socket.
    pub(super) fn is_full(&self, share: usize) -> bool {
        self.link().is_some_and(|link| link.unwritten() >= share)
    }

    pub(super) fn want(&mut self, is_wanted: bool, now: Nanos) {
        let state = std::mem::replace(&mut self.state, SlotState::Closed);
        self.state = match (state, is_wanted) {
            // Closed => Down
            (SlotState::Closed, true) => SlotState::Down { retry_at: now },
            // Draining => Up
            (SlotState::Draining(link), true) => SlotState::Up(link),
            // Up => Draining => Closed
            (SlotState::Up(link) | SlotState::Draining(link), false)
                if !self.under_way.is_empty() =>
            {
                SlotState::Draining(link)
            }
            (_, false) => SlotState::Closed,
            (state, true) => state,
        };
    }

    /// The next attempt comes at once, then after pauses that double: what was under way.
    pub(super) fn fail(&mut self, now: Nanos) -> Vec<WriteId> {
        let pause = FIRST_PAUSE * (1 << self.failures.min(5)) * u32::from(self.failures > 0);
        self.failures += 1;
        self.flush_error = None;
        self.is_blocked = false;
        self.inherited = None;
        // Opening | Up => Down, Draining => Closed
        self.state = match self.state {
            SlotState::Draining(_) | SlotState::Closed => SlotState::Closed,
            _ => SlotState::Down {
                retry_at: now.saturating_add(pause.into()),
            },
        };
        self.give_up()
    }

    pub(super) fn give_up(&mut self) -> Vec<WriteId> {
        self.under_way.drain(..).map(|sent| sent.write).collect()
    }

    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        answers: &mut Vec<NodeAnswer>,
        now: Nanos,
    ) -> Poll<PoolEvent> {
        match &mut self.state {
            SlotState::Closed | SlotState::Down { .. } => Poll::Pending,
            SlotState::Opening(opening) => match opening.as_mut().poll(context) {
                Poll::Pending => Poll::Pending,
                // Opening => Up
                Poll::Ready(Ok(link)) => {
                    self.state = SlotState::Up(link);
                    Poll::Ready(PoolEvent::Opened { renewed: false })
                }
                Poll::Ready(Err(error)) => {
                    self.fail(now);
                    Poll::Ready(PoolEvent::NotOpened(error))
                }
            },
            SlotState::Up(link) | SlotState::Draining(link) => {
                let (under_way, failures) = (&mut self.under_way, &mut self.failures);
                let polled = link.poll(context, &mut |message, _| {
                    if let Some(answer) = take_answer(under_way, message) {
                        *failures = 0;
                        answers.push(answer);
                    }
                });
                let error = match (self.flush_error.take(), polled) {
                    (Some(error), _) | (None, Poll::Ready(error)) => error,
                    (None, Poll::Pending) => return Poll::Pending,
                };
                let code = match &error {
                    ConnectionError::CloseFrame { code, .. } => *code,
                    _ => None,
                };
                let broken = Broken {
                    reason: error.to_string(),
                    under_way: self.fail(now),
                    is_too_long: code == Some(MESSAGE_TOO_BIG),
                };
                Poll::Ready(PoolEvent::Broken(broken))
            }
        }
    }
}

/// The answer that a message is. One that names no request is that of the oldest under way.
fn take_answer(under_way: &mut VecDeque<Sent>, message: &[u8]) -> Option<NodeAnswer> {
    let (id, member, kind) = answer::read(message)?;
    // Nearly always the first, as a node answers a connection in order.
    let place = match id {
        Some(id) => under_way.binary_search_by_key(&id, |sent| sent.id).ok()?,
        None => 0,
    };
    let sent = under_way.remove(place)?;
    Some(NodeAnswer {
        write: sent.write,
        sent: sent.at,
        member: Bytes::from(member.into_owned()),
        kind,
    })
}

/// The code of a close frame (RFC 6455, section 7.4.1).
const MESSAGE_TOO_BIG: u16 = 1009;
/// The pause before the second attempt to open a connection.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
