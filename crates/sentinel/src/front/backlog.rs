//! Whether a client takes what waits for it fast enough.

use std::time::Duration;

use tokio::time::Instant;

/// What a client has still to take, judged by averages: one that takes a byte now and then could
/// otherwise keep its answers waiting for ever.
#[derive(Debug, Default)]
pub(crate) struct Backlog(Option<Waiting>);

#[derive(Clone, Copy, Debug)]
struct Waiting {
    since: Instant,
    taken: usize,
    needed: usize,
}

/// What a client must take within the write timeout, in bytes, or all there is.
const LEAST_TAKEN: usize = 64 << 10;

impl Backlog {
    /// Notes that `waiting` bytes could not be written, after `taken` were.
    pub(crate) fn blocked(&mut self, taken: usize, waiting: usize) {
        if let Some(open) = &mut self.0 {
            open.taken += taken;
            if open.taken < open.needed {
                return;
            }
        }
        self.0 = Some(Waiting {
            since: Instant::now(),
            taken: 0,
            needed: waiting.clamp(1, LEAST_TAKEN),
        });
    }

    /// Notes that everything was written.
    pub(crate) const fn written(&mut self) {
        self.0 = None;
    }

    /// When the client has taken too little for too long, if it has a backlog.
    pub(crate) fn overdue_at(&self, patience: Duration) -> Option<Instant> {
        self.0.map(|open| open.since + patience)
    }
}
