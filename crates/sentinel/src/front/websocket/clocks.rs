//! The deadlines of a session.

use std::time::Duration;

use tokio::time::Instant;

use crate::config;
use crate::front::backlog::Backlog;

/// The deadlines of a session.
#[derive(Debug)]
pub(super) struct Clocks {
    ping_interval: Duration,
    read_timeout: Duration,
    write_timeout: Duration,
    ping_at: Instant,
    received_at: Instant,
    /// What the client has still to take.
    pub(super) backlog: Backlog,
}

impl Clocks {
    pub(super) fn new(ws: &config::Ws, write_timeout: Duration) -> Self {
        let now = Instant::now();
        Self {
            ping_interval: ws.ping_interval,
            read_timeout: ws.read_timeout,
            write_timeout,
            ping_at: now + ws.ping_interval,
            received_at: now,
            backlog: Backlog::default(),
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

    /// When the client has taken too little for too long, if it has a backlog.
    pub(super) fn overdue_at(&self) -> Option<Instant> {
        self.backlog.overdue_at(self.write_timeout)
    }
}
