//! What the operator reads of the lane: its state in numbers, how writes end, what one client waits for, and which
//! bound holds, in the log.

use std::fmt;
use std::time::Duration;

use control::{Bound, BreakState};
use fairq::Backlog;
use pacing::{Nanos, Rate};
use serde::Serialize;
use tracing::info;

use super::scarcity::Shortage;

/// The state of the lane. Published by the worker twenty times a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// The node that takes the writes, by its place in the list.
    pub node: Option<usize>,
    /// Whether it takes writes and answers: an acknowledged write will be sent.
    pub answering: bool,
    /// Whether the write connections are up.
    pub connected: bool,
    /// Write connections that are up.
    pub connections: usize,
    /// Write connections that are being opened.
    pub connecting: usize,
    /// Writes under way on them.
    pub in_flight: usize,
    /// Bytes of accepted transactions that no block has shown yet.
    pub retained_bytes: usize,
    /// Own transactions that were forgotten, as too many were in no block.
    pub forgotten: u64,
    /// `broadcast_tx_commit` calls that wait for a block.
    pub commits: usize,
    /// The state of the break controller.
    pub state: BreakState,
    /// Transactions a second that the chain commits, smoothed.
    pub committed_rate: f64,
    /// Whether neither blocks nor the mempool's depth are known, so that only answers and refusals count.
    pub blind: bool,
    /// Writes a second that may be sent.
    pub rate: Rate,
    /// What shares are counted in.
    pub shortage: Shortage,
    /// Writes a second that leave while some wait all the time.
    pub served: Rate,
    /// What holds the next write back.
    pub bound: Bound,
    /// Writes in the queue.
    pub queued: usize,
    /// Their bytes.
    pub queued_bytes: usize,
    /// Clients that have any.
    pub backlogged_clients: usize,
    /// Clients in the table.
    pub known_clients: usize,
    /// Clients that were evicted from the table.
    pub evictions: u64,
    /// How admitted writes ended.
    pub accounts: Accounts,
}

/// How every admitted write ended; the sum is what was admitted, less what is still here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Accounts {
    /// Writes taken into the queue.
    pub admitted: u64,
    /// Writes that were not taken.
    pub refused: u64,
    /// Answered by the node, with a result or an error, or taken over by the front.
    pub forwarded: u64,
    /// Pushed out of the queue by the bound on the bytes or entries of all clients.
    pub displaced: u64,
    /// Waited longer than the deadline.
    pub expired: u64,
    /// Their client left.
    pub cancelled: u64,
    /// Still here when the proxy stopped.
    pub lost: u64,
    /// Acknowledged before, and then not accepted by the node, or in no block: some of all of these.
    pub unkept: u64,
}

impl fmt::Display for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "of {} writes taken {} were forwarded, {} displaced, {} expired, {} cancelled, {} lost \
             ({} acknowledged and not carried out); {} refused",
            self.admitted,
            self.forwarded,
            self.displaced,
            self.expired,
            self.cancelled,
            self.lost,
            self.unkept,
            self.refused
        )
    }
}

/// What a client has had since it is in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Writes that left the queue for the node.
    pub dispatched: u64,
    /// Writes that were not taken.
    pub refused: u64,
}

/// Why a client waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// What it has had.
    pub tally: Tally,
    /// What it has in the queue.
    pub backlog: Backlog,
    /// Its weight.
    pub weight: u32,
    /// Writes a second it gets while all clients that wait now go on waiting.
    pub share: f64,
    /// How long its next write would wait.
    pub wait: Duration,
}

/// The last bound that was logged, and the one that may be next. One is logged once it has held for a while, so that a
/// load in which two of them take turns does not fill the log.
#[derive(Debug, Default)]
pub(super) struct BoundLog {
    /// Its name; empty while none was.
    logged: &'static str,
    /// Which, and since when it holds.
    next: Option<(&'static str, Nanos)>,
}

impl BoundLog {
    /// Looks at the bound that holds now, and logs it when it has held for long enough and another was
    /// logged last: whether it did.
    pub(super) fn look(&mut self, bound: &Bound, now: Nanos) -> bool {
        let name = bound.name();
        if self.logged == name || self.logged.is_empty() && *bound == Bound::Nothing {
            self.next = None;
            return false;
        }
        let since = match self.next {
            Some((known, since)) if known == name => since,
            _ => now,
        };
        self.next = Some((name, since));
        let is_due = now.saturating_sub(since) >= HELD_FOR;
        if is_due {
            match bound {
                Bound::Nothing => info!("nothing holds writes back"),
                bound => info!(bound = name, "writes wait for {}", bound.text(now)),
            }
            self.logged = name;
        }
        is_due
    }
}

/// A bound that holds for less is not logged.
const HELD_FOR: Nanos = Nanos::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explain_76_a_bound_is_logged_once_it_has_held_for_a_while() {
        let mut log = BoundLog::default();
        let ceiling = Bound::Ceiling(Rate::per_second(2_000).unwrap());
        let window = |own| Bound::Window {
            own,
            limit: 100,
            unit: control::Unit::Transactions,
        };
        // Two that take turns are not logged.
        for second in 0..20 {
            let bound = if second % 2 == 0 {
                ceiling
            } else {
                window(100)
            };
            assert!(!log.look(&bound, Nanos::from_secs(second)));
        }
        // One that stays is, once, whatever its numbers are.
        let logged: Vec<u64> = (20..40)
            .filter(|second| log.look(&window(*second as usize), Nanos::from_secs(*second)))
            .collect();
        assert_eq!(logged, [24]);
    }
}
