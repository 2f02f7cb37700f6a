//! How a full mempool is asked for room.

use pacing::Nanos;

use crate::in_flight::AHEAD;

/// Whether a full mempool is asked for room.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Probe {
    None,
    /// So many may be under way; twice as many after each 20 ms without an answer, so that some stand in the
    /// node's sockets while it commits the block that makes room.
    Asking {
        count: usize,
        since: Nanos,
    },
    /// It took one: a block has made room, which was not seen yet.
    Answered,
}

impl Probe {
    /// The same at `now`, while `most` writes may be under way.
    pub(crate) fn at(self, now: Nanos, most: usize) -> Self {
        match self {
            Self::Asking { count, since } if since == Nanos::ZERO || most == 0 => {
                Self::Asking { count, since: now }
            }
            Self::Asking { count, since } if now.saturating_sub(since) >= AHEAD => Self::Asking {
                count: (2 * count).min(most),
                since: now,
            },
            _ => self,
        }
    }
}
