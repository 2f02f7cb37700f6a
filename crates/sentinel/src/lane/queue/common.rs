//! What a queue tells the others that share its limit, and what it has of the shares of clients that they have as well.

use hashbrown::HashMap;

use fairq::{ClientKey, Weight};

use super::WriteQueue;

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
        let waiting = self.queue.longest().take(MOST_CLIENTS);
        let mut demands: Vec<ClientDemand> = waiting
            .map(|(client, backlog)| {
                let arrived = arrived.remove(&client).unwrap_or_default();
                self.demand(client, arrived, backlog.entries)
            })
            .collect();
        demands.extend(
            arrived
                .into_iter()
                .map(|(client, arrived)| self.demand(client, arrived, 0)),
        );
        demands
    }

    fn demand(
        &self,
        client: ClientKey,
        (taken, is_refused): (u32, bool),
        waiting: usize,
    ) -> ClientDemand {
        ClientDemand {
            client,
            taken,
            is_refused,
            waiting,
            weight: self.configured_weight(client),
        }
    }

    /// What this queue has of the shares of clients that others have as well.
    pub(crate) fn set_parts(&mut self, parts: HashMap<ClientKey, f64>) {
        self.common.get_or_insert_default().parts = parts;
    }
}
