//! One connection: reads for the node, and writes on when its socket has room again.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use gossip::PeerId;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::engine::Engine;

/// A connection as the engine sees it.
pub(super) struct Connection {
    stream: TcpStream,
    /// What the socket did not take, from this place on.
    rest: RefCell<Option<(Vec<u8>, usize)>>,
    changed: Notify,
    closed: Cell<bool>,
}

/// What became of a write.
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
    pub(super) fn new(stream: TcpStream) -> Self {
        // Without it small parcels wait for acknowledgements; Go sets it on every connection.
        let _ = stream.set_nodelay(true);
        Self {
            stream,
            rest: RefCell::new(None),
            changed: Notify::new(),
            closed: Cell::new(false),
        }
    }

    /// Writes as much as the socket takes. There is no rest before.
    pub(super) fn write(&self, engine: &Engine, bytes: Vec<u8>) -> Wrote {
        *self.rest.borrow_mut() = Some((bytes, 0));
        self.write_on(engine)
    }

    fn write_on(&self, engine: &Engine) -> Wrote {
        let mut rest = self.rest.borrow_mut();
        let Some((bytes, place)) = rest.as_mut() else {
            return Wrote::All;
        };
        while *place < bytes.len() {
            match self.stream.try_write(&bytes[*place..]) {
                Ok(0) => return Wrote::Broken,
                Ok(written) => {
                    *place += written;
                    engine.wrote(written);
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

    /// Has its task end, without a word to the node.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.changed.notify_one();
    }

    /// Serves it until it ends.
    pub(super) async fn serve(self: Rc<Self>, peer: PeerId, engine: Rc<Engine>) {
        let mut buffer = vec![0; READ_BYTES];
        while !self.closed.get() {
            let waits = self.rest.borrow().is_some();
            let interest = match waits {
                true => Interest::READABLE | Interest::WRITABLE,
                false => Interest::READABLE,
            };
            let ready = tokio::select! {
                ready = self.stream.ready(interest) => ready,
                () = self.changed.notified() => continue,
            };
            let Ok(ready) = ready else {
                break;
            };
            if waits && ready.is_writable() {
                match self.write_on(&engine) {
                    Wrote::All => engine.writable(peer),
                    Wrote::Part => {}
                    Wrote::Broken => break,
                }
            }
            if (ready.is_readable() || ready.is_read_closed())
                && !self.read(peer, &engine, &mut buffer)
            {
                break;
            }
        }
        if !self.closed.get() {
            engine.closed(peer);
        }
    }

    /// Says whether the connection goes on.
    fn read(&self, peer: PeerId, engine: &Rc<Engine>, buffer: &mut [u8]) -> bool {
        match self.stream.try_read(buffer) {
            Ok(0) => false,
            Ok(length) => {
                engine.bytes(peer, &buffer[..length]);
                true
            }
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

/// Connections at once, whoever opened them: links, and what has not said who it is.
pub(super) const MAX_CONNECTIONS: usize = 1024;
/// Some hundred parcels: more would keep the other connections waiting.
const READ_BYTES: usize = 64 * 1024;
