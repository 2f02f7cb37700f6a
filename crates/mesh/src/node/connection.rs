//! One connection: writes what its socket takes, and keeps the rest until there is room again. And what bounds it: a rate
//! and a delay of the node's own, and a switch that it shares. What the node writes leaves it at the rate, over all its
//! links, and later by the delay. Without any of them the sockets alone limit it.
//!
//! The switch is one rate for what all nodes of a machine write. The nodes are processes: what they share is a file with the
//! instant at which the switch is free again, and its lock.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::rc::Rc;

use gossip::PeerId;
use gossip::sim::Line;
use pacing::Nanos;
use rustix::time::{ClockId, clock_gettime};
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

/// The writes of a node on their way to its sockets.
pub(super) struct Shaper {
    line: Line,
    switch: Option<Switch>,
    /// When the line has sent the last write to a peer. Both queues are in the order of time, since all writes take
    /// the same line.
    sent: VecDeque<(Nanos, PeerId)>,
    leaving: VecDeque<(Nanos, PeerId, Vec<u8>)>,
    /// Bytes in `leaving`.
    held: usize,
}

/// What the shaper releases.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Released {
    /// The line has sent the last write to this peer: the node may write to it again.
    Writable(PeerId),
    /// The write leaves the node now.
    Write(PeerId, Vec<u8>),
}

impl Shaper {
    /// `None` where nothing is limited.
    pub(super) fn new(
        bits_per_s: Option<u64>,
        delay: Nanos,
        switch: Option<Switch>,
    ) -> Option<Self> {
        let is_limited = bits_per_s.is_some() || !delay.is_zero() || switch.is_some();
        is_limited.then(|| Self {
            line: Line::new(bits_per_s, delay),
            switch,
            sent: VecDeque::new(),
            leaving: VecDeque::new(),
            held: 0,
        })
    }

    /// Takes a write of the node.
    pub(super) fn write(&mut self, now: Nanos, peer: PeerId, bytes: Vec<u8>) {
        // A switch comes first, so that what waits for the node's own line keeps no others from passing it.
        let passes = self.switch.as_ref().map(|switch| switch.pass(bytes.len()));
        let passes = passes.map(|took| took.expect("the program made the file for its nodes"));
        let passed = now.saturating_add(passes.unwrap_or_default());
        let (sent, leaves) = self.line.send(passed, bytes.len());
        self.held += bytes.len();
        self.sent.push_back((sent, peer));
        self.leaving.push_back((leaves, peer, bytes));
    }

    /// When [`Shaper::release`] has something next.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        let leaves = self.leaving.front().map(|(at, ..)| *at);
        let sent = self.sent.front().map(|(at, _)| *at);
        let sent = sent.filter(|_| self.held <= MAX_HELD);
        leaves.into_iter().chain(sent).min()
    }

    /// The next thing that is due by `now`.
    pub(super) fn release(&mut self, now: Nanos) -> Option<Released> {
        if self.leaving.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, peer, bytes) = self.leaving.pop_front()?;
            self.held -= bytes.len();
            return Some(Released::Write(peer, bytes));
        }
        let is_sent = self.sent.front().is_some_and(|(at, _)| *at <= now);
        if is_sent && self.held <= MAX_HELD {
            let (_, peer) = self.sent.pop_front()?;
            return Some(Released::Writable(peer));
        }
        None
    }
}

/// With more bytes on the way the node writes no more: those of 100 ms at 5 Gbit/s.
const MAX_HELD: usize = 64 << 20;

/// A node's way into the switch.
pub(super) struct Switch {
    file: File,
    bits_per_s: u64,
}

impl Switch {
    /// The switch of this file, which may be empty.
    ///
    /// # Errors
    /// When the file cannot be opened or made.
    pub(super) fn open(path: &Path, bits_per_s: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path)?;
        Ok(Self { file, bits_per_s })
    }

    /// How long a write of so many bytes takes from now on, behind those of all nodes before it.
    ///
    /// # Errors
    /// When the file cannot be locked, read or written.
    pub(super) fn pass(&self, bytes: usize) -> io::Result<Nanos> {
        self.pass_at(since_boot(), bytes)
    }

    fn pass_at(&self, now: Nanos, bytes: usize) -> io::Result<Nanos> {
        // Held for microseconds; it ends with the process too.
        self.file.lock()?;
        let passed = self.reserve(now, bytes);
        self.file.unlock()?;
        passed
    }

    fn reserve(&self, now: Nanos, bytes: usize) -> io::Result<Nanos> {
        let mut free_at = [0; 8];
        // Nothing was written before: it is free.
        self.file.read_at(&mut free_at, 0)?;
        let begin = now.max(Nanos::new(u64::from_le_bytes(free_at)));
        let takes = bytes as u128 * 8 * 1_000_000_000 / u128::from(self.bits_per_s.max(1));
        let end = begin.saturating_add(Nanos::new(takes as u64));
        self.file.write_all_at(&end.as_nanos().to_le_bytes(), 0)?;
        Ok(end.saturating_sub(now))
    }
}

/// The clock that all processes of a machine share.
fn since_boot() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    Nanos::new(now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEERS: [PeerId; 2] = [PeerId(1), PeerId(2)];

    fn at(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// Everything that is released up to this millisecond, with the millisecond.
    fn released(shaper: &mut Shaper, until_ms: u64) -> Vec<(u64, Released)> {
        let mut all = Vec::new();
        while let Some(due) = shaper.next_due().filter(|due| *due <= at(until_ms)) {
            let released = shaper.release(due).unwrap();
            all.push((due.as_nanos() / 1_000_000, released));
        }
        all
    }

    #[test]
    fn writes_to_all_peers_share_the_rate_and_each_leaves_later_by_the_delay() {
        // 1,000 bytes take 10 ms.
        let mut shaper = Shaper::new(Some(800_000), at(40), None).unwrap();
        for peer in PEERS {
            shaper.write(at(0), peer, vec![0; 1000]);
        }
        let expected = [
            (10, Released::Writable(PEERS[0])),
            (20, Released::Writable(PEERS[1])),
            (50, Released::Write(PEERS[0], vec![0; 1000])),
            (60, Released::Write(PEERS[1], vec![0; 1000])),
        ];
        assert_eq!(released(&mut shaper, 100), expected);
        assert_eq!(shaper.next_due(), None);
    }

    #[test]
    fn a_delay_alone_lets_a_peer_be_written_to_at_once() {
        let mut shaper = Shaper::new(None, at(40), None).unwrap();
        shaper.write(at(3), PEERS[0], vec![1]);
        let expected = [
            (3, Released::Writable(PEERS[0])),
            (43, Released::Write(PEERS[0], vec![1])),
        ];
        assert_eq!(released(&mut shaper, 100), expected);
    }

    #[test]
    fn what_is_on_the_way_is_bounded() {
        let mut shaper = Shaper::new(None, at(1000), None).unwrap();
        shaper.write(at(0), PEERS[0], vec![0; MAX_HELD + 1]);
        assert_eq!(shaper.release(at(999)), None, "no further write yet");
        let left = released(&mut shaper, 1000);
        assert!(matches!(
            left[..],
            [(1000, Released::Write(..)), (_, Released::Writable(_))]
        ));
    }

    #[test]
    fn without_a_rate_and_a_delay_there_is_no_shaper() {
        assert!(Shaper::new(None, Nanos::ZERO, None).is_none());
    }

    #[test]
    fn what_all_write_passes_one_after_the_other_at_the_rate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("switch");
        // 1,000 bytes take 10 ms.
        let [one, other] = [(); 2].map(|()| Switch::open(&path, 800_000).unwrap());
        let ms = |switch: &Switch, now, bytes| {
            let took = switch.pass_at(Nanos::from_millis(now), bytes).unwrap();
            took.as_nanos() / 1_000_000
        };
        assert_eq!(ms(&one, 5, 1000), 10);
        assert_eq!(ms(&other, 5, 1000), 20, "behind the first node's");
        assert_eq!(ms(&one, 20, 500), 10, "from 25 ms on it is free");
        assert_eq!(ms(&other, 100, 1000), 10, "nothing is saved up");
    }
}
