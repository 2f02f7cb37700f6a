//! Waiting for sockets and for the clock at once, to the microsecond.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use pacing::Nanos;
use rpc::Interest;
use rustix::event::{Timespec, epoll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// A level-triggered epoll set with a timer in it.
///
/// The timer is a `timerfd`, exact to the microsecond and not subject to timer slack. It stays armed
/// while sockets wake the thread in between: a timeout of the wait itself would be programmed anew
/// each time, which on a virtual machine costs more than the write it waits for. tokio's timer wheel
/// has a tick of 1 ms and serves everything else in this program.
pub(super) struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// When the timer fires.
    armed: Option<Nanos>,
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
    /// Makes an empty set.
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let data = epoll::EventData::new_u64(u64::from(TIMER));
        epoll::add(&epoll, &timer, data, epoll::EventFlags::IN)?;
        Ok(Self {
            epoll,
            timer,
            armed: None,
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

    /// Waits until a socket is ready or `until` has come; interruptions count as the latter.
    pub(super) fn wait(&mut self, now: Nanos, until: Nanos) -> io::Result<()> {
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

    /// Forgets what the timer was armed for, after the clock got another origin.
    pub(super) fn forget_timer(&mut self) {
        self.armed = None;
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
