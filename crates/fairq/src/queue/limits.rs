//! What bounds a queue, how a client's connections take turns; what goes into the queue, comes out of it, and is refused by
//! it.

use std::fmt;
use std::str::FromStr;

use crate::key::ClientKey;
use crate::{Error, check_limit};

base::settings! {
    /// The bounds of a [`FairQueue`](crate::FairQueue).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct QueueLimits {
        /// Flows of clients, 1 to 16,777,216. A flow exists while its client has entries or has not yet
        /// sat out the turn that it took; choose as many as clients may be backlogged at once. Further
        /// clients are refused.
        pub clients: usize = 100_000,
        /// Entries of one client, 1 to 16,777,216. Fairness needs a backlog: at least what one client's
        /// share brings in 250 ms, and not under 256, or a client that offers just over its share loses turns
        /// whenever its queue runs dry.
        pub per_client: usize = 4_096,
        /// Entries in all, 1 to 268,435,456.
        pub entries: usize = 262_144,
        /// Bytes in all, as the items count them, 1 or more.
        pub bytes: usize = 64 << 20,
        /// Flows of the clients of one IPv6 /48, 1 or more. A single customer may own a /48 with its 65,536
        /// networks of 64 bits; further clients from there are refused.
        pub per_site: usize = 16,
        /// Cost that a flow of weight 1 may send in a turn, 1 to 1,024: about the usual cost of an item.
        /// More makes others wait longer, less makes dear items take several turns.
        pub quantum: u32 = 1,
    }
}

impl QueueLimits {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let many = 1 << 24;
        check_limit("clients", self.clients, (1, many))?;
        check_limit("per_client", self.per_client, (1, many))?;
        check_limit("entries", self.entries, (1, 1 << 28))?;
        check_limit("bytes", self.bytes, (1, usize::MAX))?;
        check_limit("per_site", self.per_site, (1, usize::MAX))?;
        check_limit("quantum", self.quantum as usize, (1, 1_024))
    }
}

/// How many shares a client gets: 1 to 1,000, or a part of so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u32);

impl Weight {
    /// One share.
    pub const ONE: Self = Self(PARTS);

    /// So many shares.
    ///
    /// # Errors
    /// Zero, or above 1,000.
    pub fn new(weight: u32) -> Result<Self, Error> {
        check_limit("a weight", weight as usize, (1, 1_000))?;
        Ok(Self(weight * PARTS))
    }

    /// This part of it, of 0 to 1: of a client that has the rest elsewhere. A 1,024th of a share is the least.
    #[must_use]
    pub fn part(self, of_it: f64) -> Self {
        Self(((f64::from(self.0) * of_it.min(1.0)).round() as u32).max(1))
    }

    /// Whole shares.
    pub const fn shares(self) -> u32 {
        self.0 / PARTS
    }

    /// 1,024ths of a share.
    pub(super) const fn parts(self) -> u32 {
        self.0
    }
}

/// Parts of a share, so that a third of one is divided with an error below 1 in 300.
pub(super) const PARTS: u32 = 1_024;

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shares().fmt(f)
    }
}

impl FromStr for Weight {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // What is no number at all is as illegal as zero.
        Self::new(text.trim().parse().unwrap_or(0))
    }
}

/// Something that waits for its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item<T> {
    /// What it is.
    pub value: T,
    /// What it holds in memory, in bytes, counted against the queue's bound.
    pub bytes: u32,
    /// What its turn costs, 1 to 16,384; outside of that the nearer end counts. 1 for a transaction,
    /// or its bytes divided by 64 where bytes are scarce.
    pub cost: u32,
}

/// The greatest cost of an item: 1 MiB at 64 bytes a unit. It bounds how many laps a flow can owe.
const COST_MAX: u32 = 16_384;

/// What a cost counts as, whatever its source.
pub(super) fn counted(cost: u32) -> u32 {
    cost.clamp(1, COST_MAX)
}

impl<T> Item<T> {
    /// An item of cost 1.
    pub const fn new(value: T, bytes: u32) -> Self {
        Self {
            value,
            bytes,
            cost: 1,
        }
    }
}

/// An item whose turn has come, or that had to make room.
#[derive(Debug)]
pub struct Popped<T> {
    /// Whose it is.
    pub client: ClientKey,
    /// The connection it came from.
    pub connection: u64,
    /// The item.
    pub item: Item<T>,
}

/// An item was taken.
#[derive(Debug)]
#[must_use = "what was displaced has to be refused"]
pub struct Pushed<T> {
    /// The newest items of the longest flow, which made room for it. Empty unless the queue is full;
    /// more than one only when this item has more bytes than the first of them.
    pub displaced: Vec<Popped<T>>,
}

/// An item was not taken; here it is again.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct PushError<T> {
    /// Which bound refused it.
    pub reason: Refusal,
    /// The item.
    pub item: Item<T>,
}

/// Which bound refused an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The client's own queue is full.
    #[error("the client's queue is full")]
    QueueFull,
    /// As many clients as the queue holds have items waiting or owe for some, or as many of its IPv6 /48, and this one
    /// is not among them.
    #[error("as many clients wait as may, and this one is not among them")]
    Clients,
    /// The queue holds as many entries as it may, and no flow is longer than this client's.
    #[error("the queue is full of entries, and no client has more waiting than this one")]
    Entries,
    /// The queue holds as many bytes as it may, and no flow is longer than this client's.
    #[error("the queue is full of bytes, and no client has more waiting than this one")]
    Bytes,
}

/// What waits: of one client, or in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// How many items.
    pub entries: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Their cost.
    pub cost: u64,
}

impl Backlog {
    /// Whether these are at most 7 entries.
    pub const fn is_short(&self) -> bool {
        self.entries <= SHORT
    }

    pub(crate) fn add(&mut self, bytes: u32, cost: u32) {
        self.entries += 1;
        self.bytes += u64::from(bytes);
        self.cost += u64::from(cost);
    }

    pub(crate) fn subtract(&mut self, bytes: u32, cost: u32) {
        self.entries -= 1;
        self.bytes -= u64::from(bytes);
        self.cost -= u64::from(cost);
    }
}

/// Up to this length a queue is short.
pub(super) const SHORT: usize = 7;

/// What becomes of an item that is the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// It stays, and so do all younger ones.
    Young,
    /// It stays, as the youngest of all.
    Renewed,
    /// It is removed.
    Over,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_1_to_1000() {
        assert_eq!("1000".parse::<Weight>().unwrap().shares(), 1_000);
        assert_eq!(Weight::default(), Weight::ONE);
        for text in ["0", "1001", "65537", "-1", "x", ""] {
            assert!(text.parse::<Weight>().is_err(), "{text}");
        }
        assert_eq!(
            Weight::new(0).unwrap_err().to_string(),
            "a weight is 1 to 1000, not 0"
        );
    }

    #[test]
    fn limits_are_checked_by_name() {
        let wrong = |change: fn(&mut QueueLimits)| {
            let mut limits = QueueLimits::default();
            change(&mut limits);
            limits.check().unwrap_err().to_string()
        };
        assert!(QueueLimits::default().check().is_ok());
        assert!(wrong(|limits| limits.clients = 0).starts_with("clients is 1"));
        assert_eq!(
            wrong(|limits| limits.quantum = 1_025),
            "quantum is 1 to 1024, not 1025"
        );
    }
}
