//! The system's clock and sockets: a wait for both at once, exact to the microsecond.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;

use pacing::Nanos;
use rpc::{Connection, ConnectionError, Flushed, Interest, Message};
use rustix::event::{Timespec, epoll};
use rustix::thread::{clock_nanosleep_relative, set_current_timer_slack};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, clock_gettime,
    timerfd_create, timerfd_settime,
};

use super::load::Address;
use crate::clock::Origin;

/// A level-triggered epoll set with a timer in it.
///
/// The timer is a `timerfd`, exact to the microsecond and not subject to timer slack. It stays armed
/// while sockets wake the thread in between: a timeout of the wait itself would be programmed anew
/// each time, which on a virtual machine costs more than the write it waits for. tokio's timer wheel
/// has a tick of 1 ms and serves everything else in this program.
pub(super) struct System {
    origin: Origin,
    epoll: OwnedFd,
    timer: OwnedFd,
    /// When the timer fires.
    armed: Option<Nanos>,
    events: Vec<epoll::Event>,
}

impl System {
    /// An empty set, with the present as the origin.
    pub(super) fn new() -> io::Result<Self> {
        // Sleeps are as exact as timers then; where it is refused, up to 50 µs longer.
        let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let data = epoll::EventData::new_u64(u64::from(TIMER));
        epoll::add(&epoll, &timer, data, epoll::EventFlags::IN)?;
        Ok(Self {
            origin: Origin::capture(),
            epoll,
            timer,
            armed: None,
            events: Vec::with_capacity(EVENTS_PER_WAIT),
        })
    }

    /// Sleeps until the origin of the run, whose clock this is from now on.
    pub(super) fn start(&mut self, origin: Origin) {
        origin.wait();
        self.origin = origin;
        // It was armed on the other clock.
        self.armed = None;
    }
}

impl Platform for System {
    type Socket = Connection;

    fn now(&self) -> Nanos {
        self.origin.now()
    }

    fn since_unix(&self, unix_ns: u64) -> Nanos {
        let now = clock_gettime(ClockId::Realtime);
        let now = now.tv_sec as u64 * NANOS_PER_SECOND + now.tv_nsec as u64;
        Nanos::from_nanos(now.saturating_sub(unix_ns))
    }

    /// Interruptions count as the end of the sleep.
    fn sleep(&mut self, until: Nanos) {
        self.events.clear();
        let left = timespec(until.saturating_sub(self.now()));
        let _ = clock_nanosleep_relative(ClockId::Monotonic, &left);
    }

    fn open(&mut self, address: &Address, token: u32) -> Result<Connection, String> {
        let connection = Connection::open(&address.endpoint, address.socket, &address.options)
            .map_err(|error| error.to_string())?;
        epoll::add(
            &self.epoll,
            &connection,
            epoll::EventData::new_u64(u64::from(token)),
            flags(connection.interest()),
        )
        .map_err(|error| error.to_string())?;
        Ok(connection)
    }

    fn watch(&mut self, socket: &Connection, token: u32, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(u64::from(token));
        Ok(epoll::modify(&self.epoll, socket, data, flags(interest))?)
    }

    /// Interruptions count as the end of the wait.
    fn wait(&mut self, now: Nanos, until: Nanos) -> io::Result<()> {
        self.events.clear();
        let left = until.saturating_sub(now);
        let at_once = left.is_zero().then_some(timespec(Nanos::ZERO));
        if at_once.is_none() && self.armed != Some(until) {
            let value = Itimerspec {
                it_interval: timespec(Nanos::ZERO),
                it_value: timespec(left),
            };
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &value)?;
            self.armed = Some(until);
        }
        let buffer = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, buffer, at_once.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // A timer that has fired stays readable until it is armed again.
        self.events
            .retain(|event| event.data.u64() != u64::from(TIMER));
        Ok(())
    }

    fn ready(&self, position: usize) -> Option<Ready> {
        let event = self.events.get(position)?;
        let (data, flags) = (event.data, event.flags);
        let broken = epoll::EventFlags::ERR | epoll::EventFlags::HUP;
        Some(Ready {
            token: data.u64() as u32,
            readable: flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP | broken),
            writable: flags.intersects(epoll::EventFlags::OUT | broken),
        })
    }
}

impl Socket for Connection {
    #[inline]
    fn interest(&self) -> Interest {
        Self::interest(self)
    }

    fn drive(&mut self) -> Result<bool, ConnectionError> {
        Self::drive(self)
    }

    #[inline]
    fn queue(&mut self, body: &[u8]) -> u64 {
        Self::queue(self, body)
    }

    #[inline]
    fn unwritten(&self) -> usize {
        Self::unwritten(self)
    }

    #[inline]
    fn flush(&mut self) -> Result<Flushed, ConnectionError> {
        Self::flush(self)
    }

    #[inline]
    fn read(&mut self, on_message: &mut impl FnMut(Message<'_>)) -> Result<(), ConnectionError> {
        Self::read(self, on_message).map(drop)
    }
}

fn flags(interest: Interest) -> epoll::EventFlags {
    let mut flags = epoll::EventFlags::empty();
    if interest.read {
        flags |= epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
    }
    if interest.write {
        flags |= epoll::EventFlags::OUT;
    }
    flags
}

fn timespec(span: Nanos) -> Timespec {
    Timespec {
        tv_sec: (span.as_nanos() / NANOS_PER_SECOND) as i64,
        tv_nsec: (span.as_nanos() % NANOS_PER_SECOND) as _,
    }
}

/// The timer's token; connections count from zero.
const TIMER: u32 = u32::MAX;
const EVENTS_PER_WAIT: usize = 256;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

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
    /// Reading will not block (or will return the error).
    pub(super) readable: bool,
    /// Writing will not block (or will return the error).
    pub(super) writable: bool,
}
