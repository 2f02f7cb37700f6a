//! What goes into the queue, comes out of it, and is refused by it.

use super::removal::SHORT;
use crate::key::ClientKey;

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

/// What a cost counts as, whoever named it.
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
