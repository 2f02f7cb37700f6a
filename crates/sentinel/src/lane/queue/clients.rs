//! What the queue knows of clients besides their writes: what they ask for and have where several sentinels share a limit,
//! which of them ask for little, and which sessions wait for room.

use std::sync::Arc;

use fairq::{ClientKey, Neutral, Weight};
use hashbrown::HashMap;
use pacing::{Nanos, Rate};
use tokio::sync::Notify;

use super::WriteQueue;
use crate::lane::status::Tally;

/// What one client did since it was last asked, for the others that share the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientDemand {
    /// The client.
    pub client: ClientKey,
    /// Its writes that were taken.
    pub taken: u32,
    /// Whether one was refused.
    pub is_refused: bool,
    /// Its writes that wait.
    pub waiting: usize,
    /// Its weight.
    pub weight: Weight,
}

/// Kept only where several sentinels share a limit.
#[derive(Default)]
pub(super) struct CommonLimit {
    /// Writes that were taken, and whether one was refused.
    arrived: HashMap<ClientKey, (u32, bool)>,
    parts: HashMap<ClientKey, f64>,
}

/// Clients that are counted between two questions, and that wait, at most.
const MOST_CLIENTS: usize = 1 << 16;

impl CommonLimit {
    pub(super) fn note_arrival(&mut self, client: ClientKey, is_taken: bool) {
        if self.arrived.len() < MOST_CLIENTS || self.arrived.contains_key(&client) {
            let (taken, is_refused) = self.arrived.entry(client).or_default();
            *taken += u32::from(is_taken);
            *is_refused |= !is_taken;
        }
    }

    /// What this queue has of a client's share.
    pub(super) fn part(&self, client: &ClientKey) -> Option<f64> {
        self.parts.get(client).copied()
    }
}

impl WriteQueue {
    /// What each client that came or waits asks for. The first call begins to count.
    pub(crate) fn demands(&mut self) -> Vec<ClientDemand> {
        let mut arrived = std::mem::take(&mut self.common.get_or_insert_default().arrived);
        let demand = |client, (taken, is_refused), waiting| ClientDemand {
            client,
            taken,
            is_refused,
            waiting,
            weight: self.configured_weight(client),
        };
        let waiting = self.queue.longest().take(MOST_CLIENTS);
        let mut demands = Vec::with_capacity(self.queue.backlogged_clients() + arrived.len());
        demands.extend(waiting.map(|(client, backlog)| {
            let arrived = arrived.remove(&client).unwrap_or_default();
            demand(client, arrived, backlog.entries)
        }));
        demands.extend((arrived.drain()).map(|(client, arrived)| demand(client, arrived, 0)));
        // Its room serves until the next question.
        self.common.get_or_insert_default().arrived = arrived;
        demands
    }

    /// Most writes a second from now on; zero holds all of them. What this queue has of the shares of clients that others
    /// have as well.
    pub(crate) fn set_ceiling(&mut self, ceiling: Rate, parts: HashMap<ClientKey, f64>) {
        self.ceiling = ceiling;
        self.common.get_or_insert_default().parts = parts;
    }
}

/// What clients have had of the places that the last block freed, in the price of their writes. A client asks for little
/// while it has had less than the mean of those that had any, by their weights, in these places or in those before, and
/// its queue is short: for such clients places are kept.
#[derive(Default)]
pub(super) struct Places {
    /// Blocks so far.
    block: u32,
    price: u64,
    weights: u64,
    /// The mean for a weight of one before the last block.
    mean_before: f64,
}

/// What a client has had.
#[derive(Default)]
pub(super) struct Had {
    pub(super) tally: Tally,
    /// The block after which it had the rest.
    block: u32,
    price: u64,
}

impl Neutral for Had {
    /// It counts until the next block, so it may always be forgotten.
    fn is_neutral(&self, _now: Nanos) -> bool {
        true
    }
}

impl Places {
    /// A block frees places.
    pub(super) fn block(&mut self) {
        *self = Self {
            block: self.block.wrapping_add(1),
            mean_before: self.mean(),
            ..Self::default()
        };
    }

    fn mean(&self) -> f64 {
        self.price as f64 / self.weights.max(1) as f64
    }

    /// A client takes some.
    pub(super) fn take(&mut self, had: &mut Had, weight: Weight, price: u32) {
        if had.block != self.block || had.price == 0 {
            (had.block, had.price) = (self.block, 0);
            self.weights += u64::from(weight.shares());
        }
        had.price += u64::from(price);
        self.price += u64::from(price);
        had.tally.dispatched += 1;
    }

    /// Whether a client asks for little, whose queue is short or is not.
    pub(super) fn is_little(&self, had: Option<&Had>, weight: Weight, is_short: bool) -> bool {
        let had = had.filter(|had| had.block == self.block);
        let price = had.map_or(0, |had| had.price);
        let part = self.mean().max(self.mean_before) * f64::from(weight.shares());
        is_short && (price as f64) < part
    }
}

impl WriteQueue {
    /// Whether a session of this client may go on reading: its queue is not full, and what it
    /// reads now would be served in half of the time that a write may wait.
    pub(in crate::lane) fn has_room(&self, client: ClientKey, now: Nanos) -> bool {
        self.queue.backlog(&client).entries < self.queue.limits().per_client
            && self.wait(client, now).saturating_mul(2) <= self.timeout
    }

    /// What to wait on until a client has room.
    pub(in crate::lane) fn room(&mut self, client: ClientKey) -> Arc<Notify> {
        self.rooms.entry(client).or_default().clone()
    }

    /// Wakes sessions of a client once its queue is down to half: one for each write that leaves then, and for an empty
    /// queue those that no write has woken before. So a full queue that becomes empty wakes as many as it has places.
    pub(super) fn offer_room(&self, client: ClientKey) {
        if let Some(room) = self.rooms.get(&client) {
            let most = self.queue.limits().per_client;
            match self.queue.backlog(&client).entries {
                0 => wake(room, most.div_ceil(2)),
                entries if entries <= most / 2 => wake(room, 1),
                _ => {}
            }
        }
    }

    /// Wakes the sessions for which there is room, because time passes or those that were woken did not use it.
    pub(in crate::lane) fn offer_rooms(&mut self, now: Nanos) {
        let mut rooms = std::mem::take(&mut self.rooms);
        rooms.retain(|client, room| {
            if self.has_room(*client, now) {
                let entries = self.queue.backlog(client).entries;
                let most = self.queue.limits().per_client;
                wake(room, most.saturating_sub(entries));
            }
            waiting(room) > 0
        });
        self.rooms = rooms;
    }
}

/// Sessions that wait for this: each has a clone of it.
fn waiting(room: &Arc<Notify>) -> usize {
    Arc::strong_count(room) - 1
}

/// Wakes so many sessions, those first that have waited longest.
fn wake(room: &Arc<Notify>, places: usize) {
    for _ in 0..places.min(waiting(room)) {
        room.notify_one();
    }
}
