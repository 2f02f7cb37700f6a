//! A connection over which writes go to a node.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rpc::{BroadcastMethod, Connection, ConnectionError, ConnectionOptions, Endpoint, Message};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

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
