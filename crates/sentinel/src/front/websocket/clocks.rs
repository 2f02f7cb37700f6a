//! The deadlines of a session.

use std::time::Duration;

use tokio::time::Instant;

use crate::config;

/// The deadlines of a session.
#[derive(Debug)]
pub(super) struct Clocks {
    ping_interval: Duration,
    read_timeout: Duration,
    write_timeout: Duration,
    ping_at: Instant,
    received_at: Instant,
    /// Since when what is to be written waits, and how much has to be gone until that is over.
    backlog: Option<Backlog>,
    pings: Pings,
}

#[derive(Clone, Copy, Debug)]
struct Backlog {
    since: Instant,
    taken: usize,
    needed: usize,
}

/// The client's pings that are answered, counted by the second.
#[derive(Debug)]
struct Pings {
    most: u32,
    left: u32,
    since: Instant,
}

/// What a client with a backlog must take within the write timeout, in bytes, or all there is.
/// Without it a client could keep its events waiting for ever by taking a byte now and then.
const LEAST_TAKEN: usize = 64 << 10;

impl Clocks {
    pub(super) fn new(ws: &config::Ws, write_timeout: Duration) -> Self {
        let now = Instant::now();
        Self {
            ping_interval: ws.ping_interval,
            read_timeout: ws.read_timeout,
            write_timeout,
            ping_at: now + ws.ping_interval,
            received_at: now,
            backlog: None,
            pings: Pings {
                most: ws.pings_per_second,
                left: ws.pings_per_second,
                since: now,
            },
        }
    }

    /// The client has sent something, or is read from again.
    pub(super) fn received(&mut self) {
        self.received_at = Instant::now();
    }

    /// When the client has been silent for too long.
    pub(super) fn silent_at(&self) -> Instant {
        self.received_at + self.read_timeout
    }

    /// When it is to be pinged.
    pub(super) const fn ping_at(&self) -> Instant {
        self.ping_at
    }

    /// It was pinged.
    pub(super) fn pinged(&mut self, now: Instant) {
        self.ping_at = now + self.ping_interval;
    }

    /// Notes that `waiting` bytes could not be written, after `taken` were.
    pub(super) fn blocked(&mut self, taken: usize, waiting: usize) {
        if let Some(backlog) = &mut self.backlog {
            backlog.taken += taken;
            if backlog.taken < backlog.needed {
                return;
            }
        }
        self.backlog = Some(Backlog {
            since: Instant::now(),
            taken: 0,
            needed: waiting.clamp(1, LEAST_TAKEN),
        });
    }

    /// Notes that everything was written.
    pub(super) const fn written(&mut self) {
        self.backlog = None;
    }

    /// When the client has taken too little for too long, if it has a backlog.
    pub(super) fn overdue_at(&self) -> Option<Instant> {
        self.backlog
            .map(|backlog| backlog.since + self.write_timeout)
    }

    /// Whether one more ping of this second is answered.
    pub(super) fn may_pong(&mut self) -> bool {
        let now = Instant::now();
        let pings = &mut self.pings;
        if now.duration_since(pings.since) >= Duration::from_secs(1) {
            (pings.since, pings.left) = (now, pings.most);
        }
        let may = pings.left > 0;
        pings.left = pings.left.saturating_sub(1);
        may
    }
}
