//! A server that accepts every transaction and answers at once: what a generator can do when the
//! node is not the limit.
//!
//! It speaks just enough of the RPC for a generator and for a proxy in front: broadcasts over HTTP/1.1
//! and WebSocket are accepted without being looked at, `status` says that the chain is up, the mempool
//! is empty, anything else is an empty result. One thread, one epoll set, one read and one write for
//! everything a socket holds.
//!
//! `GET /arrivals/start` begins to count transactions in windows of 10 ms, `GET /arrivals` ends it and
//! answers the counts: so the evenness of different generators is judged by one witness.

mod arrivals;
mod http;
mod message;
mod websocket;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{Timespec, epoll};

use self::arrivals::Arrivals;
use self::message::Request;

/// A bound sink; [`Sink::serve`] runs it.
#[derive(Debug)]
pub struct Sink {
    listener: TcpListener,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
}

/// Stops a sink and tells how much it did.
#[derive(Debug, Clone)]
pub struct SinkHandle {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
}

impl SinkHandle {
    /// Ends [`Sink::serve`] within [`STOP_POLL`].
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Transactions answered so far.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Acquire)
    }
}

impl Sink {
    /// Binds the address; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            stop: Arc::default(),
            answered: Arc::default(),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// A handle to stop it with.
    #[must_use]
    pub fn handle(&self) -> SinkHandle {
        SinkHandle {
            stop: self.stop.clone(),
            answered: self.answered.clone(),
        }
    }

    /// Serves until stopped.
    ///
    /// # Errors
    /// When the epoll set fails. A broken connection only ends itself.
    pub fn serve(self) -> io::Result<()> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            &self.listener,
            token(LISTENER),
            epoll::EventFlags::IN,
        )?;
        let mut peers: Vec<Option<Peer>> = Vec::new();
        let mut arrivals = Arrivals::default();
        let mut events = Vec::with_capacity(EVENTS_PER_WAIT);
        let timeout = Timespec::try_from(STOP_POLL).map_err(io::Error::other)?;
        let mut scratch = vec![0; READ_BYTES];
        while !self.stop.load(Ordering::Acquire) {
            events.clear();
            match epoll::wait(
                &epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let number = event.data.u64();
                if number == LISTENER {
                    self.accept(&epoll, &mut peers)?;
                    continue;
                }
                let slot = &mut peers[number as usize];
                let Some(peer) = slot else { continue };
                let read_at = arrivals.now();
                match peer.serve(&mut scratch, &mut arrivals) {
                    Ok(answered) => {
                        self.answered.fetch_add(answered, Ordering::Relaxed);
                        if let Some(at) = read_at {
                            arrivals.count(at, answered);
                        }
                        peer.watch(&epoll, number)?;
                    }
                    Err(_) => *slot = None,
                }
            }
        }
        Ok(())
    }

    fn accept(
        &self,
        epoll: &std::os::fd::OwnedFd,
        peers: &mut Vec<Option<Peer>>,
    ) -> io::Result<()> {
        loop {
            let (stream, _) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let number = peers
                .iter()
                .position(Option::is_none)
                .unwrap_or(peers.len());
            if number == peers.len() {
                peers.push(None);
            }
            epoll::add(epoll, &stream, token(number as u64), epoll::EventFlags::IN)?;
            peers[number] = Some(Peer::new(stream));
        }
    }
}

/// One connection.
#[derive(Debug)]
struct Peer {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    websocket: bool,
    waits_to_write: bool,
}

impl Peer {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            websocket: false,
            waits_to_write: false,
        }
    }

    /// Reads once, answers every complete request, writes what it can.
    fn serve(&mut self, scratch: &mut [u8], arrivals: &mut Arrivals) -> io::Result<u64> {
        let mut answered = 0;
        // A client that does not read its answers is not read from: TCP backpressure.
        if self.output.is_empty() {
            match self.stream.read(scratch) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.input.extend_from_slice(&scratch[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            answered = self.answer(arrivals)?;
        }
        self.write()?;
        Ok(answered)
    }

    fn answer(&mut self, arrivals: &mut Arrivals) -> io::Result<u64> {
        let mut answered = 0;
        let mut consumed = 0;
        loop {
            let rest = &mut self.input[consumed..];
            let step = if self.websocket {
                websocket::answer(rest, &mut self.output)?
            } else {
                http::answer(rest, &mut self.output, arrivals)?
            };
            match step {
                Step::Incomplete => break,
                Step::Answered(bytes) => {
                    consumed += bytes;
                    answered += 1;
                }
                Step::Skipped(bytes) => consumed += bytes,
                Step::Upgraded(bytes) => {
                    consumed += bytes;
                    self.websocket = true;
                }
            }
        }
        self.input.drain(..consumed);
        Ok(answered)
    }

    fn write(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(written) => {
                    self.output.drain(..written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn watch(&mut self, epoll: &std::os::fd::OwnedFd, number: u64) -> io::Result<()> {
        let waits = !self.output.is_empty();
        if waits != self.waits_to_write {
            self.waits_to_write = waits;
            let flags = if waits {
                epoll::EventFlags::OUT
            } else {
                epoll::EventFlags::IN
            };
            epoll::modify(epoll, &self.stream, token(number), flags)?;
        }
        Ok(())
    }
}

/// What was at the start of the input; the numbers are bytes consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Incomplete,
    /// A transaction was answered.
    Answered(usize),
    /// Something else was, or needs no answer.
    Skipped(usize),
    Upgraded(usize),
}

impl Step {
    fn answered(request: Request, bytes: usize) -> Self {
        match request {
            Request::Broadcast => Self::Answered(bytes),
            Request::Query => Self::Skipped(bytes),
        }
    }
}

fn token(number: u64) -> epoll::EventData {
    epoll::EventData::new_u64(number)
}

const LISTENER: u64 = u64::MAX;
const EVENTS_PER_WAIT: usize = 256;
const READ_BYTES: usize = 256 * 1024;
/// How often the stop flag is read.
pub const STOP_POLL: Duration = Duration::from_millis(50);
