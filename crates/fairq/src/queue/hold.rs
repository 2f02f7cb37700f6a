//! Clients and connections of which nothing leaves for a while.

use std::collections::HashMap;

use super::FairQueue;
use crate::{hash::KeyedHash, key::ClientKey};

/// What is held, and how often. It outlives what waits, so that what comes later is held as well.
pub(super) struct Holds(HashMap<(ClientKey, Option<u64>), usize, KeyedHash>);

impl Holds {
    pub(super) fn new(seed: [u64; 2]) -> Self {
        Self(HashMap::with_hasher(KeyedHash::new(seed, 0)))
    }

    /// Whether all of a client is held, or one of its lines.
    pub(super) fn has(&self, client: ClientKey, line: Option<u64>) -> bool {
        self.0.contains_key(&(client, line))
    }

    /// Holds once more, or once less: whether it was held, and whether it is.
    fn count(&mut self, key: (ClientKey, Option<u64>), more: bool) -> [bool; 2] {
        let before = self.0.get(&key).copied().unwrap_or(0);
        let after = if more {
            before + 1
        } else {
            before.saturating_sub(1)
        };
        match after {
            0 => drop(self.0.remove(&key)),
            _ => drop(self.0.insert(key, after)),
        }
        [before, after].map(|count| count > 0)
    }
}

impl<T> FairQueue<T> {
    /// From now on nothing leaves by its turn that is of this connection, or of this client if none is given, until it is
    /// [released](Self::release) as often. What waits keeps its place and its deadline, and the turn goes to the next.
    /// Where clients are what stays in order, their connections are held together. The caller bounds what it holds.
    pub fn hold(&mut self, client: ClientKey, connection: Option<u64>) {
        self.change_hold(client, connection, true);
    }

    /// Takes one hold back.
    pub fn release(&mut self, client: ClientKey, connection: Option<u64>) {
        self.change_hold(client, connection, false);
    }

    fn change_hold(&mut self, client: ClientKey, connection: Option<u64>, more: bool) {
        let line = connection.map(|connection| self.line(connection));
        let [was_held, is_held] = self.holds.count((client, line), more);
        let Some(flow) = (self.clients.find(&client)).filter(|_| was_held != is_held) else {
            return;
        };
        let Some(line) = line else {
            self.flows[flow].is_held = is_held;
            return self.settle(flow);
        };
        if let Some(lane) = self.clients.find_lane(flow, line) {
            self.lanes[lane].is_held = is_held;
            let ring = &mut self.flows[flow].ring;
            if is_held {
                ring.remove(&mut self.lanes, lane);
            } else {
                ring.push_back(&mut self.lanes, lane);
            }
            self.settle(flow);
        }
    }
}
