//! Sessions that wait for room in their client's queue.

use std::sync::Arc;

use fairq::ClientKey;
use pacing::Nanos;
use tokio::sync::Notify;

use super::WriteQueue;

impl WriteQueue {
    /// Whether a session of this client may go on reading: its queue is not full, and what it
    /// reads now would be served in time.
    pub(in crate::lane) fn has_room(&self, client: ClientKey, now: Nanos) -> bool {
        self.queue.backlog(&client).entries < self.queue_per_client
            && self.wait(client, now) <= self.comfortable
    }

    /// What to wait on until a client has room.
    pub(in crate::lane) fn room(&mut self, client: ClientKey) -> Arc<Notify> {
        self.rooms.entry(client).or_default().clone()
    }

    /// Wakes sessions of a client once its queue is down to half: one for each write that leaves then, and for an empty
    /// queue those for which nobody was woken before. So a full queue that becomes empty wakes as many as it has places.
    pub(super) fn offer_room(&self, client: ClientKey) {
        if let Some(room) = self.rooms.get(&client) {
            match self.queue.backlog(&client).entries {
                0 => wake(room, self.queue_per_client.div_ceil(2)),
                entries if entries <= self.queue_per_client / 2 => wake(room, 1),
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
                wake(room, self.queue_per_client.saturating_sub(entries));
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
