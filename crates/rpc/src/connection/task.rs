//! A connection for tokio's tasks, where time is not measured.

use std::io;

use tokio::io::Interest as Readiness;
use tokio::net::TcpStream;
use tokio::task::coop::consume_budget;

use super::error::ConnectionError;
use super::{Connection, ConnectionOptions, Message, ReadProgress};
use crate::endpoint::Endpoint;

/// A [`Connection`] whose handshakes are done, woken by the runtime in place of an event loop.
#[derive(Debug)]
pub struct TaskConnection {
    connection: Connection,
    /// The same socket, registered with the runtime, which waits for it and reads nothing.
    socket: TcpStream,
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
        let mut result = Err(ConnectionError::Connect(
            io::ErrorKind::AddrNotAvailable.into(),
        ));
        for address in addresses.map_err(ConnectionError::Connect)? {
            let connection = Connection::open(endpoint, address, options)?;
            result = Self::of(connection)?.connected().await;
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Registers a connection with the runtime of the caller.
    fn of(connection: Connection) -> Result<Self, ConnectionError> {
        let socket = connection.stream.tcp().try_clone();
        let socket = socket.and_then(TcpStream::from_std);
        Ok(Self {
            socket: socket.map_err(ConnectionError::Broken)?,
            connection,
        })
    }

    async fn connected(mut self) -> Result<Self, ConnectionError> {
        self.until(|connection| Ok(connection.drive()?.then_some(())))
            .await?;
        Ok(self)
    }

    /// The connection itself: what is queued on it is sent by the next [`read`](Self::read).
    pub const fn connection(&mut self) -> &mut Connection {
        &mut self.connection
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

    /// Tries until there is a result, each time after the socket was found ready. `attempt` gives
    /// none only when the socket has nothing more to read and takes nothing more.
    async fn until<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Connection) -> Result<Option<T>, ConnectionError>,
    ) -> Result<T, ConnectionError> {
        // Bytes that came with the end of a handshake are announced by no readiness.
        let mut result = attempt(&mut self.connection)?;
        loop {
            if let Some(result) = result {
                return Ok(result);
            }
            let interest = self.connection.interest();
            let readiness = match (interest.read, interest.write) {
                (true, true) => Readiness::READABLE | Readiness::WRITABLE,
                (false, true) => Readiness::WRITABLE,
                (_, false) => Readiness::READABLE,
            };
            let ready = self.socket.ready(readiness).await;
            ready.map_err(ConnectionError::Broken)?;
            let mut attempted = Ok(None);
            let once = || {
                attempted = attempt(&mut self.connection);
                match attempted {
                    // Forgets the readiness that was found, and waits for the next.
                    Ok(None) => Err(io::ErrorKind::WouldBlock.into()),
                    _ => Ok(()),
                }
            };
            // The result is in `attempted`.
            let _ = self.socket.try_io(readiness, once);
            result = attempted?;
        }
    }
}
