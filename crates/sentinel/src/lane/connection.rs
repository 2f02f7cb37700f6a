//! A connection over which writes go to a node, and what is under way on it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::task::{Context, Poll, ready};

use pacing::Nanos;
use rpc::{Connection, ConnectionError, ConnectionOptions, Endpoint, Message};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::job::Job;
use super::slots::Slots;

/// A connection over which writes go. The node's answers find their writes by the ids of the
/// requests, which are the numbers of the slots.
#[derive(Debug)]
pub(super) struct WriteConnection {
    socket: AsyncFd<Socket>,
    under_way: Slots<Sent>,
}

/// A write under way.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) job: Job,
    pub(super) at: Nanos,
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
    pub(super) async fn open(
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
        let mut connection = Self {
            socket,
            under_way: Slots::new(),
        };
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

    /// Queues a job; nothing is written before [`flush`](Self::flush).
    pub(super) fn queue(&mut self, job: Job, now: Nanos) {
        let id = self.under_way.next_number();
        let method = job.upstream_method();
        if let Some(tx) = job.tx() {
            self.socket.get_mut().0.queue_broadcast(id, method, tx);
        }
        self.under_way.push(Sent { job, at: now });
    }

    /// Writes under way.
    pub(super) const fn in_flight(&self) -> usize {
        self.under_way.len()
    }

    /// Whether a write that fits is under way.
    pub(super) fn any(&self, fits: impl Fn(&Job) -> bool) -> bool {
        self.under_way.iter().any(|sent| fits(&sent.job))
    }

    /// When the oldest write under way was sent.
    pub(super) fn oldest(&self) -> Option<Nanos> {
        self.under_way.oldest().map(|sent| sent.at)
    }

    /// The writes under way, in the order in which they were sent.
    pub(super) fn into_jobs(mut self) -> Vec<Job> {
        self.under_way.drain().map(|sent| sent.job).collect()
    }

    /// Writes what the socket takes.
    pub(super) fn flush(&mut self) -> Result<(), ConnectionError> {
        if self.unwritten() > 0 {
            self.socket.get_mut().0.flush()?;
        }
        Ok(())
    }

    /// Bytes that wait for the socket.
    pub(super) fn unwritten(&self) -> usize {
        self.socket.get_ref().0.unwritten()
    }

    /// Reads and writes until the socket has nothing more and takes nothing more. Ready only with
    /// an error.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        on_message: &mut impl FnMut(&mut Slots<Sent>, &[u8]),
    ) -> Poll<ConnectionError> {
        match self.poll_read(context, on_message) {
            Poll::Ready(Err(error)) => Poll::Ready(error),
            _ => self.poll_write(context).map(|Err(error)| error),
        }
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        on_message: &mut impl FnMut(&mut Slots<Sent>, &[u8]),
    ) -> Poll<Result<Infallible, ConnectionError>> {
        let under_way = &mut self.under_way;
        for _ in 0..READS_PER_TURN {
            let mut guard = ready!(self.socket.poll_read_ready_mut(context))
                .map_err(ConnectionError::Broken)?;
            let connection = &mut guard.get_inner_mut().0;
            let read =
                connection.read(&mut |message: Message<'_>| on_message(under_way, message.body))?;
            if read.bytes == 0 {
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

/// Reads before other tasks get their turn.
const READS_PER_TURN: usize = 16;
