//! What a shard needs from the machine: a clock, sockets, and a wait for both. The system gives them
//! in a run ([`System`](super::system::System)), a script in tests.

use std::io;

use pacing::Nanos;
use rpc::{ConnectionError, Flushed, Interest, Message};

use super::address::Address;

/// The clock and the sockets of one shard.
pub(super) trait Platform {
    type Socket: Socket;

    /// Nanoseconds since the origin; monotonic.
    fn now(&self) -> Nanos;

    /// How long ago an instant of the system's clock was, in nanoseconds since the Unix epoch.
    fn since_unix(&self, unix_ns: u64) -> Nanos;

    /// Sleeps until `until` has come, whatever the sockets hold; none of them is ready then.
    fn sleep(&mut self, until: Nanos);

    /// Starts to connect and registers the socket with what it waits for. The error is for the user.
    fn open(&mut self, address: &Address, token: u32) -> Result<Self::Socket, String>;

    /// Registers a socket again after its interest has changed.
    fn watch(&mut self, socket: &Self::Socket, token: u32, interest: Interest) -> io::Result<()>;

    /// Waits until a socket is ready or `until` has come. It may return early.
    fn wait(&mut self, now: Nanos, until: Nanos) -> io::Result<()>;

    /// The `position`-th socket of the last wait.
    fn ready(&self, position: usize) -> Option<Ready>;
}

/// One non-blocking connection; [`rpc::Connection`] describes how it is used. Dropping it closes it.
pub(super) trait Socket {
    /// What to wait for now.
    fn interest(&self) -> Interest;

    /// Continues the handshakes; whether they are done.
    fn drive(&mut self) -> Result<bool, ConnectionError>;

    /// Appends one message to what is to be written; the stream offset behind its last byte.
    fn queue(&mut self, body: &[u8]) -> u64;

    /// Bytes that were queued and not handed to the system.
    fn unwritten(&self) -> usize;

    /// Writes what the system takes.
    fn flush(&mut self) -> Result<Flushed, ConnectionError>;

    /// Reads once and hands over every complete message.
    fn read(&mut self, on_message: &mut impl FnMut(Message<'_>)) -> Result<(), ConnectionError>;
}

/// One socket that can go on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ready {
    /// What [`Platform::open`] was given.
    pub(super) token: u32,
    /// Reading will not block (or will say what broke).
    pub(super) readable: bool,
    /// Writing will not block (or will say what broke).
    pub(super) writable: bool,
}
