//! A connection over which writes go to a node: its state, what is under way on it, and when it is opened again.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fairq::ClientKey;
use pacing::Nanos;
use rpc::{BroadcastMethod, ConnectionError, ConnectionOptions, Endpoint, TaskConnection};
use tokio::time::timeout;

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
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        on_message: &mut dyn FnMut(&[u8]),
    ) -> Poll<ConnectionError>;
}

impl Link for TaskConnection {
    fn queue(&mut self, id: u64, method: BroadcastMethod, tx: &[u8]) {
        self.connection().queue_broadcast(id, method, tx);
    }

    fn flush(&mut self) -> Result<(), ConnectionError> {
        self.connection().flush().map(drop)
    }

    fn unwritten(&self) -> usize {
        self.unwritten()
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        on_message: &mut dyn FnMut(&[u8]),
    ) -> Poll<ConnectionError> {
        let polled = self.poll(context, |message| on_message(message.body));
        polled.map(|Err(error)| error)
    }
}

/// Opens a connection, all handshakes included.
///
/// # Cancel safety
/// The connection is closed when the future is dropped.
pub(super) async fn open(
    endpoint: Endpoint,
    limit: Duration,
) -> Result<TaskConnection, ConnectionError> {
    let options = ConnectionOptions {
        read_buffer_bytes: READ_BUFFER,
        ..ConnectionOptions::default()
    };
    let late = |_| {
        let text = format!("no connection within {} s", limit.as_secs_f64());
        Err(ConnectionError::Connect(io::Error::new(
            io::ErrorKind::TimedOut,
            text,
        )))
    };
    let opened = timeout(limit, TaskConnection::open(&endpoint, &options)).await;
    opened.unwrap_or_else(late)
}

/// Some 400 answers of 150 bytes.
const READ_BUFFER: usize = 64 << 10;

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
                let polled = link.poll(context, &mut |message| {
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
