//! A slower link to a server: a relay in front of its port that passes on so many bits a second in each direction.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A relay that is there until this is dropped. All connections through it share one rate in each direction, as those
/// through a network card do. It needs no rights, unlike a queue of the kernel's. It adds no delay of its own but that
/// of a busy line, and passes on the end of either direction.
#[derive(Debug)]
pub struct Link {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Link {
    /// Listens on a free port of the loopback device, and connects each caller to `to`; the rate is in bits a second.
    ///
    /// # Errors
    /// When the system gives no port or no thread.
    pub fn open(to: SocketAddr, bits_per_s: f64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let lines = [(); 2].map(|()| Arc::new(Mutex::new(Line::new(bits_per_s))));
        let run = move || accept(&listener, to, &lines, &ends);
        let acceptor = thread::Builder::new().name("link".into()).spawn(run)?;
        Ok(Self {
            address,
            is_over,
            acceptor: Some(acceptor),
        })
    }

    /// Where to connect instead.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // It waits for a caller.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(acceptor) = self.acceptor.take().filter(|_| woken) {
            // A panic was printed when it happened.
            let _ = acceptor.join();
        }
    }
}

/// A connection with its two threads.
struct Passing {
    streams: [TcpStream; 2],
    threads: Vec<JoinHandle<()>>,
}

impl Passing {
    fn begin(from: TcpStream, to: SocketAddr, lines: &[Arc<Mutex<Line>>; 2]) -> io::Result<Self> {
        let onward = TcpStream::connect(to)?;
        let mut passing = Self {
            streams: [from, onward],
            threads: Vec::new(),
        };
        for (side, line) in lines.iter().enumerate() {
            let [from, to] = [side, 1 - side].map(|side| passing.streams[side].try_clone());
            let (from, to, line) = (from?, to?, Arc::clone(line));
            to.set_nodelay(true)?;
            let run = move || pass(from, to, &line);
            let started = thread::Builder::new().name("link".into()).spawn(run)?;
            passing.threads.push(started);
        }
        Ok(passing)
    }

    fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        for stream in &self.streams {
            // One that has ended is shut already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn accept(
    listener: &TcpListener,
    to: SocketAddr,
    lines: &[Arc<Mutex<Line>>; 2],
    is_over: &AtomicBool,
) {
    let mut all: Vec<Passing> = Vec::new();
    while let Ok((caller, _)) = listener.accept() {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        all.retain(|passing| !passing.is_over());
        // A caller beyond them, or while the server does not listen, finds its connection closed.
        if all.len() < MOST_CONNECTIONS {
            all.extend(Passing::begin(caller, to, lines));
        }
    }
}

/// Passes on what comes until it ends or the other side is gone: one piece at a time, so that the sender feels a line
/// that is busy.
fn pass(mut from: TcpStream, mut to: TcpStream, line: &Mutex<Line>) {
    let began = line.lock().began;
    let mut piece = vec![0; line.lock().piece()];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        let leaves = line.lock().send(began.elapsed(), read);
        thread::sleep(leaves.saturating_sub(began.elapsed()));
        if to.write_all(&piece[..read]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Read), to.shutdown(Shutdown::Write));
}

/// A line that sends one bit after the other.
#[derive(Debug)]
struct Line {
    bits_per_s: f64,
    began: Instant,
    /// When it has sent what it was given.
    free: Duration,
}

impl Line {
    fn new(bits_per_s: f64) -> Self {
        Self {
            bits_per_s,
            began: Instant::now(),
            free: Duration::ZERO,
        }
    }

    /// When so many bytes have left it, which it is given `now`.
    fn send(&mut self, now: Duration, bytes: usize) -> Duration {
        let lasts = Duration::from_secs_f64(bytes as f64 * 8.0 / self.bits_per_s);
        self.free = self.free.max(now.saturating_sub(CATCH_UP)) + lasts;
        self.free
    }

    /// Bytes that it is given at once: those of [`CATCH_UP`].
    fn piece(&self) -> usize {
        let bytes = self.bits_per_s / 8.0 * CATCH_UP.as_secs_f64();
        (bytes as usize).clamp(LEAST_PIECE, LARGEST_PIECE)
    }
}

/// What a thread that woke too late may send at once, so that a busy line has its whole rate.
const CATCH_UP: Duration = Duration::from_millis(5);
/// More than the 200 that a btcd takes.
const MOST_CONNECTIONS: usize = 512;
const LEAST_PIECE: usize = 256;
const LARGEST_PIECE: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_line_has_its_rate_and_an_idle_one_no_store() {
        let ms = Duration::from_millis;
        // 1,000 bytes take 10 ms.
        let mut line = Line::new(800_000.0);
        let left = [line.send(ms(100), 1_000), line.send(ms(100), 1_000)];
        assert_eq!(left, [ms(105), ms(115)]);
        // A thread that comes late catches up to the same rate.
        assert_eq!(line.send(ms(118), 1_000), ms(125));
        // Of a pause only the catch-up is left.
        assert_eq!(line.send(ms(10_000), 1_000), ms(10_005));
    }

    #[test]
    fn both_directions_pass_unchanged_and_their_ends_too() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let link = Link::open(server.local_addr().unwrap(), 1e9).unwrap();
        let sent: Vec<u8> = (0..300_000_u32).map(|it| (it % 251) as u8).collect();
        let served = thread::spawn(move || {
            let (mut caller, _) = server.accept().unwrap();
            let mut got = Vec::new();
            // Ends with the caller's half.
            caller.read_to_end(&mut got).unwrap();
            caller.write_all(&got).unwrap();
        });
        let mut caller = TcpStream::connect(link.address()).unwrap();
        caller.write_all(&sent).unwrap();
        caller.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        caller.read_to_end(&mut got).unwrap();
        assert!(got == sent);
        served.join().unwrap();
    }

    #[test]
    fn connections_end_with_the_link_and_where_nobody_listens() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = server.local_addr().unwrap();
        let link = Link::open(address, 1e6).unwrap();
        let mut caller = TcpStream::connect(link.address()).unwrap();
        let (mut served, _) = server.accept().unwrap();
        drop(link);
        assert_eq!(served.read(&mut [0]).unwrap_or(0), 0);
        assert_eq!(caller.read(&mut [0]).unwrap_or(0), 0);
        drop(server);
        let link = Link::open(address, 1e6).unwrap();
        let mut caller = TcpStream::connect(link.address()).unwrap();
        assert_eq!(caller.read(&mut [0]).unwrap_or(0), 0);
    }
}
