//! Less for a server than the machine has: a relay in front of its port that passes on so many bits a second in each
//! direction, and a program that is stopped for a part of each twentieth of a second, or has fewer cores.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::process::{Group, Process, StartError};

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
    /// One in front of a node, if its rate is limited.
    ///
    /// # Errors
    /// As [`Link::open`].
    pub fn before(node: SocketAddr, rate: Option<f64>) -> Result<Option<Self>, StartError> {
        let link = rate.map(|rate| Self::open(node, rate)).transpose();
        link.map_err(StartError::io("cannot relay a node's link"))
    }

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

/// Programs that run for a share of the time only, until this is dropped. They then have so much of every core, as on a
/// slower machine: their work takes longer by 1 / share, their timers do not. It needs no rights that starting them did
/// not, unlike a quota of a control group.
#[derive(Debug)]
pub struct Throttle {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Throttle {
    /// Lets them, with all that they started, run for this share of the time: above 0 and below 1.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start<'a>(processes: impl Iterator<Item = &'a Process>, share: f64) -> io::Result<Self> {
        let groups: Vec<Group> = processes.map(Process::group).collect();
        let (stop, stopped) = sync_channel(1);
        let run = move || {
            let mut owed = Owed::new(share);
            let began = Instant::now();
            loop {
                let freeze = owed.at(began.elapsed());
                if !freeze.is_zero() {
                    let frozen = Instant::now();
                    groups.iter().for_each(Group::freeze);
                    thread::sleep(freeze);
                    groups.iter().for_each(Group::thaw);
                    owed.paid(frozen.elapsed());
                }
                if stopped.recv_timeout(PERIOD.saturating_sub(freeze))
                    != Err(RecvTimeoutError::Timeout)
                {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("throttle".into()).spawn(run)?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic was printed when it happened.
            let _ = thread.join();
        }
    }
}

/// How long programs have been stopped, and should have been.
#[derive(Debug)]
struct Owed {
    share: f64,
    frozen: Duration,
}

impl Owed {
    fn new(share: f64) -> Self {
        Self {
            share: share.clamp(0.0, 1.0),
            frozen: Duration::ZERO,
        }
    }

    /// How long they have to be stopped in the period that begins now: what a stop before took too long is taken off,
    /// and what it lacked is added, as far as the period has room.
    fn at(&self, elapsed: Duration) -> Duration {
        let wanted = (elapsed + PERIOD).mul_f64(1.0 - self.share);
        wanted.saturating_sub(self.frozen).min(LONGEST)
    }

    fn paid(&mut self, frozen: Duration) {
        self.frozen += frozen;
    }
}

/// Short beside the intervals of blocks, long beside what a thread wakes too late.
const PERIOD: Duration = Duration::from_millis(50);
/// So that a program always gets on.
const LONGEST: Duration = Duration::from_millis(45);

/// Calls `start` while this thread may use only so many of its cores: the programs that it starts meanwhile have no
/// others, and see a machine of so many.
///
/// # Errors
/// When the thread has fewer, or the system refuses.
pub fn on_cores<T>(cores: NonZeroU32, start: impl FnOnce() -> T) -> io::Result<T> {
    let all = sched_getaffinity(None)?;
    if all.count() < cores.get() {
        let problem = format!("this machine gives {} cores, not {cores}", all.count());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    let mut fewer = CpuSet::new();
    let those = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core));
    for core in those.take(cores.get() as usize) {
        fewer.set(core);
    }
    sched_setaffinity(None, &fewer)?;
    let started = start();
    sched_setaffinity(None, &all)?;
    Ok(started)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

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

    #[test]
    fn stops_that_last_too_long_are_taken_off_the_next_ones() {
        let mut owed = Owed::new(0.6);
        let (mut elapsed, mut frozen) = (Duration::ZERO, Duration::ZERO);
        for period in 0..1_000_u64 {
            let freeze = owed.at(elapsed);
            // A thread that wakes up to 9 ms late, and once a second after a tenth of a second.
            let late = Duration::from_millis(period * 7 % 10 + 100 * u64::from(period % 20 == 9));
            let lasted = if freeze.is_zero() {
                freeze
            } else {
                freeze + late
            };
            owed.paid(lasted);
            frozen += lasted;
            elapsed += lasted + PERIOD.saturating_sub(freeze);
        }
        let share = frozen.as_secs_f64() / elapsed.as_secs_f64();
        assert!((share - 0.4).abs() < 0.01, "{share}");
    }

    #[test]
    fn a_program_has_the_cores_that_it_was_started_on_and_the_thread_has_its_own_again() {
        let seen = || {
            let output = Command::new("nproc").output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let before = seen();
        assert_eq!(on_cores(NonZeroU32::MIN, seen).unwrap().trim(), "1");
        assert_eq!(seen(), before);
        let error = on_cores(NonZeroU32::MAX, seen).unwrap_err();
        assert!(error.to_string().contains("this machine gives"), "{error}");
    }
}
