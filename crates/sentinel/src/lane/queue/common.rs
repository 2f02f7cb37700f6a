//! What a queue tells the others that share its limit, and what it has of the shares of clients that they have as well.

use hashbrown::HashMap;

use fairq::{ClientKey, Weight};

use super::WriteQueue;

/// What one client did since it was last asked, for the others that share the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientDemand {
    /// The client.
    pub client: ClientKey,
    /// Its writes that came, taken or not.
    pub arrived: u32,
    /// Its writes that wait.
    pub waiting: usize,
    /// Its weight.
    pub weight: Weight,
}

/// Kept only where several sentinels share a limit.
#[derive(Default)]
pub(super) struct CommonLimit {
    arrived: HashMap<ClientKey, u32>,
    parts: HashMap<ClientKey, f64>,
}

/// Clients that are counted between two questions, and that wait, at most.
const MOST_CLIENTS: usize = 1 << 16;

impl CommonLimit {
    pub(super) fn note_arrival(&mut self, client: ClientKey) {
        if self.arrived.len() < MOST_CLIENTS || self.arrived.contains_key(&client) {
            *self.arrived.entry(client).or_default() += 1;
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
            .map(|(client, backlog)| self.demand(client, arrived.remove(&client), backlog.entries))
            .collect();
        demands.extend(
            arrived
                .into_iter()
                .map(|(client, count)| self.demand(client, Some(count), 0)),
        );
        demands
    }

    fn demand(&self, client: ClientKey, arrived: Option<u32>, waiting: usize) -> ClientDemand {
        ClientDemand {
            client,
            arrived: arrived.unwrap_or_default(),
            waiting,
            weight: self.configured_weight(client),
        }
    }

    /// What this queue has of the shares of clients that others have as well.
    pub(crate) fn set_parts(&mut self, parts: HashMap<ClientKey, f64>) {
        self.common.get_or_insert_default().parts = parts;
    }
}
