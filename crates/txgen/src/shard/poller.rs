//! Waiting for sockets and for the clock at once, to the microsecond.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use pacing::Nanos;
use rpc::Interest;
use rustix::event::{Timespec, epoll};

/// A level-triggered epoll set.
///
/// `epoll_pwait2` takes its timeout in nanoseconds; together with a timer slack of 1 ns (the default
/// of 50 µs would be added to every wait) it wakes within microseconds of a due time. tokio's timer
/// wheel has a tick of 1 ms and serves everything else in this program.
pub(super) struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

/// One socket that can go on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ready {
    /// What [`Poller::add`] was given.
    pub(super) token: u32,
    /// Reading will not block (or will say what broke).
    pub(super) readable: bool,
    /// Writing will not block (or will say what broke).
    pub(super) writable: bool,
}

impl Poller {
    /// Makes an empty set and sharpens the calling thread's timers.
    pub(super) fn new() -> io::Result<Self> {
        rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))?;
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENTS_PER_WAIT),
        })
    }

    pub(super) fn add(&self, source: impl AsFd, token: u32, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(u64::from(token));
        Ok(epoll::add(&self.epoll, source, data, flags(interest))?)
    }

    pub(super) fn modify(
        &self,
        source: impl AsFd,
        token: u32,
        interest: Interest,
    ) -> io::Result<()> {
        let data = epoll::EventData::new_u64(u64::from(token));
        Ok(epoll::modify(&self.epoll, source, data, flags(interest))?)
    }

    /// Waits until a socket is ready or the time is over; interruptions count as the latter.
    pub(super) fn wait(&mut self, timeout: Nanos) -> io::Result<()> {
        self.events.clear();
        let timeout = Timespec {
            tv_sec: (timeout.as_nanos() / NANOS_PER_SECOND) as i64,
            tv_nsec: (timeout.as_nanos() % NANOS_PER_SECOND) as _,
        };
        let buffer = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, buffer, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The `position`-th socket of the last wait.
    pub(super) fn ready(&self, position: usize) -> Option<Ready> {
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

const EVENTS_PER_WAIT: usize = 256;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
