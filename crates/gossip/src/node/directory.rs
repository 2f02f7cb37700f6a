//! Which endpoints a node knows, and which it may dial now.

use std::collections::{BTreeMap, VecDeque};

use pacing::Nanos;

use super::settings::Peering;
use crate::endpoint::Endpoint;

/// Endpoints heard of, dialled and banned.
#[derive(Debug, Default)]
pub(super) struct Directory {
    /// Heard of from peers, to be dialled once.
    candidates: VecDeque<Endpoint>,
    attempts: BTreeMap<Endpoint, Nanos>,
    banned: Vec<Endpoint>,
    accepted: BTreeMap<String, Nanos>,
}

/// Entries of a table before it is cleared of old ones.
const MOST: usize = 4_096;
/// Endpoints heard of that wait to be dialled.
const MOST_CANDIDATES: usize = 64;

impl Directory {
    /// An endpoint to dial when there is room.
    pub(super) fn hear_of(&mut self, endpoint: Endpoint) {
        if self.candidates.len() < MOST_CANDIDATES && !self.candidates.contains(&endpoint) {
            self.candidates.push_back(endpoint);
        }
    }

    pub(super) fn next_candidate(&mut self) -> Option<Endpoint> {
        self.candidates.pop_front()
    }

    /// Never to be dialled again: it is this node itself.
    pub(super) fn ban(&mut self, endpoint: &Endpoint) {
        if self.banned.len() < MOST && !self.banned.contains(endpoint) {
            self.banned.push(endpoint.clone());
        }
    }

    /// Notes an attempt to dial, unless it is too early for one.
    pub(super) fn may_dial(&mut self, now: Nanos, endpoint: &Endpoint, peering: &Peering) -> bool {
        if self.banned.contains(endpoint) {
            return false;
        }
        may_again(&mut self.attempts, now, endpoint, peering.redial)
    }

    /// Notes a connection from this host, unless it comes too early.
    pub(super) fn may_accept(&mut self, now: Nanos, host: &String, peering: &Peering) -> bool {
        peering.accept_every.is_zero()
            || may_again(&mut self.accepted, now, host, peering.accept_every)
    }
}

/// Whether `interval` has passed since this last returned true for `key`. When the table is full of
/// younger entries, no.
fn may_again<K: Ord + Clone>(
    table: &mut BTreeMap<K, Nanos>,
    now: Nanos,
    key: &K,
    interval: Nanos,
) -> bool {
    let is_old = |last: &Nanos| now.saturating_sub(*last) >= interval;
    match table.get_mut(key) {
        Some(last) if !is_old(last) => return false,
        Some(last) => {
            *last = now;
            return true;
        }
        None => {}
    }
    if table.len() >= MOST {
        table.retain(|_, last| !is_old(last));
    }
    if table.len() >= MOST {
        return false;
    }
    table.insert(key.clone(), now);
    true
}
