//! A connection for tokio's tasks, where time is not measured.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use tokio::io::Interest as Readiness;
use tokio::io::unix::AsyncFd;
use tokio::task::coop::consume_budget;

use super::error::ConnectionError;
use super::{Connection, ConnectionOptions, Message, ReadProgress};
use crate::endpoint::Endpoint;

/// A [`Connection`] whose handshakes are done, woken by the runtime in place of an event loop.
#[derive(Debug)]
pub struct TaskConnection {
    socket: AsyncFd<Connection>,
}

impl TaskConnection {
    /// Looks the host up and connects to the first of its addresses that accepts.
    ///
    /// # Errors
    /// [`ConnectionError`] of the last address.
    pub async fn open(
        endpoint: &Endpoint,
        options: &ConnectionOptions,
    ) -> Result<Self, ConnectionError> {
        let name = (endpoint.host(), endpoint.port());
        let addresses = tokio::net::lookup_host(name).await;
        let addresses = addresses.map_err(ConnectionError::Connect)?;
        Self::open_first(endpoint, addresses, options).await
    }

    async fn open_first(
        endpoint: &Endpoint,
        addresses: impl Iterator<Item = SocketAddr>,
        options: &ConnectionOptions,
    ) -> Result<Self, ConnectionError> {
        let mut result = Err(ConnectionError::Connect(
            io::ErrorKind::AddrNotAvailable.into(),
        ));
        for address in addresses {
            result = match Connection::open(endpoint, address, options).and_then(Self::of) {
                Ok(connection) => connection.connected().await,
                Err(error) => Err(error),
            };
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Registers a connection with the runtime of the caller.
    fn of(connection: Connection) -> Result<Self, ConnectionError> {
        let both = Readiness::READABLE | Readiness::WRITABLE;
        #[expect(
            deprecated,
            reason = "its successor is unsafe, for the sake of types whose descriptor may change or \
                      close; a connection keeps its socket as long as it lives"
        )]
        let socket = AsyncFd::with_interest(connection, both);
        Ok(Self {
            socket: socket.map_err(ConnectionError::Broken)?,
        })
    }

    async fn connected(mut self) -> Result<Self, ConnectionError> {
        self.until(|connection| Ok(connection.drive()?.then_some(())))
            .await?;
        Ok(self)
    }

    /// The connection itself: what is queued on it is sent by the next [`read`](Self::read).
    pub fn connection(&mut self) -> &mut Connection {
        self.socket.get_mut()
    }

    /// Writes what is queued and waits until bytes have come in; hands over the messages that they
    /// complete, of which there may be none.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: after a read it does not wait again.
    ///
    /// # Errors
    /// [`ConnectionError`] when it ended.
    pub async fn read(
        &mut self,
        mut on_message: impl FnMut(Message<'_>),
    ) -> Result<ReadProgress, ConnectionError> {
        consume_budget().await;
        self.until(|connection| {
            connection.flush()?;
            let progress = connection.read(&mut on_message)?;
            Ok((progress != ReadProgress::default()).then_some(progress))
        })
        .await
    }

    /// Bytes that were queued and wait for the socket.
    pub fn unwritten(&self) -> usize {
        self.socket.get_ref().unwritten()
    }

    /// Reads and writes until the socket has nothing more and takes nothing more. What is queued later is written by
    /// [`Connection::flush`], or when this is polled next.
    ///
    /// # Errors
    /// [`ConnectionError`] when it ended: it is ready for nothing else.
    pub fn poll(
        &mut self,
        context: &mut Context<'_>,
        mut on_message: impl FnMut(Message<'_>),
    ) -> Poll<Result<Infallible, ConnectionError>> {
        let mut reads = 0;
        while let Poll::Ready(ready) = self.socket.poll_read_ready_mut(context) {
            let mut ready = ready.map_err(ConnectionError::Broken)?;
            if reads == READS_PER_TURN {
                // There may be more: come back after the others had their turn.
                context.waker().wake_by_ref();
                break;
            }
            reads += 1;
            if !ready.get_inner_mut().read(&mut on_message)?.has_more {
                ready.clear_ready();
            }
        }
        while self.unwritten() > 0
            && let Poll::Ready(ready) = self.socket.poll_write_ready_mut(context)
        {
            let mut ready = ready.map_err(ConnectionError::Broken)?;
            if ready.get_inner_mut().flush()?.blocked {
                ready.clear_ready();
            }
        }
        Poll::Pending
    }

    /// Tries until there is a result, each time after the socket was found ready. `attempt` gives
    /// none only when the socket has nothing more to read and takes nothing more.
    async fn until<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Connection) -> Result<Option<T>, ConnectionError>,
    ) -> Result<T, ConnectionError> {
        // Bytes that came with the end of a handshake are announced by no readiness.
        let mut result = attempt(self.connection())?;
        loop {
            if let Some(result) = result {
                return Ok(result);
            }
            let interest = self.connection().interest();
            let readiness = match (interest.read, interest.write) {
                (true, true) => Readiness::READABLE | Readiness::WRITABLE,
                (false, true) => Readiness::WRITABLE,
                (_, false) => Readiness::READABLE,
            };
            let ready = self.socket.ready_mut(readiness).await;
            let mut ready = ready.map_err(ConnectionError::Broken)?;
            result = attempt(ready.get_inner_mut())?;
            if result.is_none() {
                ready.clear_ready();
            }
        }
    }
}

/// Reads before other tasks get their turn.
const READS_PER_TURN: usize = 16;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Before, an address that cannot be used at all, as one of IPv6 on a host without it, ended the search.
    #[tokio::test]
    async fn an_address_that_cannot_be_used_leaves_the_others() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let endpoint: Endpoint = format!("http://{address}").parse().unwrap();
        let options = ConnectionOptions {
            source: Some([127, 0, 0, 1].into()),
            ..ConnectionOptions::default()
        };
        let unusable = "[2001:db8::1]:9".parse().unwrap();
        let open = |addresses: Vec<SocketAddr>| {
            let (endpoint, options) = (&endpoint, &options);
            TaskConnection::open_first(endpoint, addresses.into_iter(), options)
        };
        assert!(open(vec![unusable]).await.is_err());
        open(vec![unusable, address]).await.unwrap();
    }
}
