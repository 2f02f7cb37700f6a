//! One connection: writes what its socket takes, and keeps the rest until there is room again.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use tokio::io::{Interest, Ready};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// Write calls that sockets took something of, and how much.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) calls: Cell<u64>,
    pub(super) bytes: Cell<u64>,
}

/// A connection as the engine sees it.
pub(super) struct Connection {
    stream: TcpStream,
    written: Rc<Written>,
    /// What the socket did not take, from this place on.
    rest: RefCell<Option<(Vec<u8>, usize)>>,
    changed: Notify,
    closed: Cell<bool>,
    /// The node waits for the socket to take the rest.
    owes_writable: Cell<bool>,
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrote {
    /// The socket has all of it.
    All,
    /// The rest follows when there is room.
    Part,
    /// The connection is broken.
    Broken,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, written: Rc<Written>) -> Self {
        // Without it small parcels wait for acknowledgements; Go sets it on every connection.
        let _ = stream.set_nodelay(true);
        Self {
            stream,
            written,
            rest: RefCell::new(None),
            changed: Notify::new(),
            closed: Cell::new(false),
            owes_writable: Cell::new(false),
        }
    }

    /// Writes as much as the socket takes, behind the rest of earlier writes.
    pub(super) fn write(&self, bytes: Vec<u8>) -> Wrote {
        if let Some((waiting, _)) = self.rest.borrow_mut().as_mut() {
            waiting.extend_from_slice(&bytes);
            return Wrote::Part;
        }
        *self.rest.borrow_mut() = Some((bytes, 0));
        self.write_on()
    }

    /// Notes that the node is to be called when the rest is written.
    pub(super) fn owe_writable(&self) {
        self.owes_writable.set(true);
    }

    /// Whether the node is to be called; that is done then.
    pub(super) fn take_owed(&self) -> bool {
        self.owes_writable.take()
    }

    /// Writes as much of the rest as the socket takes.
    pub(super) fn write_on(&self) -> Wrote {
        let mut rest = self.rest.borrow_mut();
        let Some((bytes, place)) = rest.as_mut() else {
            return Wrote::All;
        };
        while *place < bytes.len() {
            match self.stream.try_write(&bytes[*place..]) {
                Ok(0) => return Wrote::Broken,
                Ok(written) => {
                    *place += written;
                    self.written.calls.set(self.written.calls.get() + 1);
                    let bytes = self.written.bytes.get() + written as u64;
                    self.written.bytes.set(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.changed.notify_one();
                    return Wrote::Part;
                }
                Err(_) => return Wrote::Broken,
            }
        }
        *rest = None;
        Wrote::All
    }

    /// Ends its task; the node is not called.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.changed.notify_one();
    }

    /// Whether some of what was to be written waits for room.
    pub(super) fn waits(&self) -> bool {
        self.rest.borrow().is_some()
    }

    /// Whether it was closed from this side.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Waits until the socket can be read or, where something waits, written; `None` when what is waited
    /// for has changed.
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped.
    pub(super) async fn ready(&self) -> Option<io::Result<Ready>> {
        let interest = if self.waits() {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        tokio::select! {
            ready = self.stream.ready(interest) => Some(ready),
            () = self.changed.notified() => None,
        }
    }

    /// Reads what is there.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.try_read(buffer)
    }
}

/// Connections at once: links, and those without a handshake.
pub(super) const MAX_CONNECTIONS: usize = 1024;
