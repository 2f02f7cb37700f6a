//! What one client may use of the read lane and of the relays.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairq::{ClientKey, ClientTable, GcraLimit, GcraState, Neutral, SlotId, TableLimits};
use pacing::Nanos;

use crate::clock::Clock;
use crate::config::Config;
use crate::refusal::{Reason, Refusal};

/// The limits and what each client has used of them.
#[derive(Debug)]
pub(super) struct ClientLimits {
    rate: GcraLimit,
    reads: u32,
    clock: Clock,
    table: Mutex<ClientTable<Usage>>,
    under_way: AtomicUsize,
}

/// What one client has used.
#[derive(Debug, Default)]
struct Usage {
    bucket: GcraState,
    /// When the bucket will be full, if nothing more is taken.
    full_at: Nanos,
    reads: u32,
    relays: u32,
}

impl Neutral for Usage {
    fn is_neutral(&self, now: Nanos) -> bool {
        self.reads == 0 && self.relays == 0 && self.full_at <= now
    }
}

/// What a [`ClientSlot`] counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Relay,
}

/// A read or a relay of a client, counted until dropped.
#[derive(Debug)]
pub(super) struct ClientSlot {
    limits: Arc<ClientLimits>,
    id: SlotId,
    kind: Kind,
}

impl ClientLimits {
    /// Limits of which nothing is used yet.
    ///
    /// # Errors
    /// A table size out of range.
    pub(super) fn new(config: &Config, clock: Clock, seed: [u64; 2]) -> Result<Self, fairq::Error> {
        let reads = &config.reads;
        let limits = TableLimits {
            clients: config.fair.clients_max,
            ..TableLimits::default()
        };
        Ok(Self {
            rate: GcraLimit::new(reads.rate_per_client, reads.burst_per_client.into()),
            reads: u32::try_from(reads.concurrency_per_client).unwrap_or(u32::MAX),
            clock,
            table: Mutex::new(ClientTable::new(limits, seed)?),
            under_way: AtomicUsize::new(0),
        })
    }

    /// Takes `calls` from a client's rate.
    pub(super) fn admit(&self, client: ClientKey, calls: u32) -> Result<(), Refusal> {
        let now = self.clock.now();
        let mut table = self.table();
        self.take(table.entry(client, now).state, now, calls)
    }

    /// Counts a read until the slot is dropped.
    pub(super) fn enter(self: &Arc<Self>, client: ClientKey) -> Result<ClientSlot, Refusal> {
        let now = self.clock.now();
        let mut table = self.table();
        let entry = table.entry(client, now);
        if entry.state.reads >= self.reads {
            let text = format!("{} reads of this client are under way", self.reads);
            return Err(Refusal::new(Reason::Rate, text).retry_after(BUSY_PAUSE.into()));
        }
        entry.state.reads += 1;
        self.under_way.fetch_add(1, Ordering::Relaxed);
        Ok(self.slot(entry.id, Kind::Read))
    }

    /// Counts a relay until the slot is dropped.
    pub(super) fn open_relay(self: &Arc<Self>, client: ClientKey) -> Result<ClientSlot, Refusal> {
        let now = self.clock.now();
        let mut table = self.table();
        let entry = table.entry(client, now);
        if entry.state.relays >= RELAYS_PER_CLIENT {
            return Err(Refusal::new(
                Reason::Connections,
                format!("{RELAYS_PER_CLIENT} WebSockets of this client use the node already"),
            ));
        }
        entry.state.relays += 1;
        Ok(self.slot(entry.id, Kind::Relay))
    }

    /// Reads under way.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    fn take(&self, usage: &mut Usage, now: Nanos, calls: u32) -> Result<(), Refusal> {
        // More than ever fits at once would never pass.
        let most = u32::try_from(self.rate.burst_tokens()).unwrap_or(u32::MAX);
        let taken = self
            .rate
            .try_take_many(&mut usage.bucket, now, calls.min(most));
        usage.full_at = self.rate.next_at(&usage.bucket, now, u32::MAX);
        taken.map_err(|at| {
            let rate = self.rate.rate();
            let refusal = Refusal::new(
                Reason::Rate,
                format!("more than {rate} reads of one client"),
            );
            match at == Nanos::MAX {
                true => refusal,
                false => refusal.retry_after(at.saturating_sub(now).into()),
            }
        })
    }

    fn slot(self: &Arc<Self>, id: SlotId, kind: Kind) -> ClientSlot {
        ClientSlot {
            limits: Arc::clone(self),
            id,
            kind,
        }
    }

    fn table(&self) -> MutexGuard<'_, ClientTable<Usage>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        let mut table = self.limits.table();
        // A state in use is not neutral, so it is still there.
        if let Some(usage) = table.get_mut(self.id) {
            let count = match self.kind {
                Kind::Read => &mut usage.reads,
                Kind::Relay => &mut usage.relays,
            };
            *count = count.saturating_sub(1);
        }
        if self.kind == Kind::Read {
            self.limits.under_way.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// WebSockets of one client that may have a connection to a node: a quarter of all there may be.
pub(super) const RELAYS_PER_CLIENT: u32 = 128;
/// A read takes some milliseconds; whoever has too many under way may try again soon.
const BUSY_PAUSE: Nanos = Nanos::from_secs(1);
