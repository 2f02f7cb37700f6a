//! The clients that have a flow, the flows that take turns, the lanes of their connections, and the holds under which nothing
//! of a client or connection leaves for a while.
//!
//! A flow belongs to one client. It has a lane for each connection that has something waiting.

use std::collections::{BTreeSet, HashMap};

use super::limits::{Backlog, Item, QueueLimits, SHORT, Weight};
use super::slab::{Link, Linked, List};
use super::turns::{Turn, Wait};
use crate::key::{ClientKey, KeyedHash};
use crate::network::Network;

/// The flows by their clients, and their lanes by connection. As many as the limits allow.
pub(super) struct Clients {
    flows: HashMap<ClientKey, u32, KeyedHash>,
    /// How many flows the clients of an IPv6 /48 have.
    sites: HashMap<Network, usize, KeyedHash>,
    lanes: HashMap<(u32, u64), u32, KeyedHash>,
    most: usize,
    most_per_site: usize,
}

impl Clients {
    pub(super) fn new(limits: &QueueLimits, seed: [u64; 2]) -> Self {
        let hash = KeyedHash::new(seed, 0);
        Self {
            flows: HashMap::with_hasher(hash),
            sites: HashMap::with_hasher(hash),
            lanes: HashMap::with_hasher(hash),
            most: limits.clients,
            most_per_site: limits.per_site,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    pub(super) fn find(&self, client: &ClientKey) -> Option<u32> {
        self.flows.get(client).copied()
    }

    /// Whether all flows are taken.
    pub(super) fn is_full(&self) -> bool {
        self.flows.len() >= self.most
    }

    /// Whether the site of this client has as many flows as it may.
    pub(super) fn is_full_site(&self, client: &ClientKey) -> bool {
        let flows = client.site().and_then(|site| self.sites.get(&site));
        flows.is_some_and(|flows| *flows >= self.most_per_site)
    }

    pub(super) fn insert(&mut self, client: ClientKey, flow: u32) {
        self.flows.insert(client, flow);
        if let Some(site) = client.site() {
            *self.sites.entry(site).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, client: &ClientKey) {
        self.flows.remove(client);
        if let Some(site) = client.site()
            && let Some(flows) = self.sites.get_mut(&site)
        {
            *flows -= 1;
            if *flows == 0 {
                self.sites.remove(&site);
            }
        }
    }

    pub(super) fn find_lane(&self, flow: u32, connection: u64) -> Option<u32> {
        self.lanes.get(&(flow, connection)).copied()
    }

    pub(super) fn insert_lane(&mut self, flow: u32, connection: u64, lane: u32) {
        self.lanes.insert((flow, connection), lane);
    }

    pub(super) fn remove_lane(&mut self, flow: u32, connection: u64) {
        self.lanes.remove(&(flow, connection));
    }
}

/// What is held, and how often. It outlives what waits, so that what comes later is held as well.
pub(super) struct Holds(HashMap<(ClientKey, Option<u64>), usize, KeyedHash>);

impl Holds {
    pub(super) fn new(seed: [u64; 2]) -> Self {
        Self(HashMap::with_hasher(KeyedHash::new(seed, 0)))
    }

    /// Whether all of a client is held, or one of its connections.
    pub(super) fn has(&self, client: ClientKey, connection: Option<u64>) -> bool {
        self.0.contains_key(&(client, connection))
    }

    /// Holds once more, or once less: whether it was held, and whether it is.
    pub(super) fn count(&mut self, key: (ClientKey, Option<u64>), more: bool) -> [bool; 2] {
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

/// An item in its lane, and among all of its flow.
pub(super) struct Entry<T> {
    pub(super) item: Item<T>,
    pub(super) lane: u32,
    in_lane: Link<InLane>,
    in_flow: Link<InFlow>,
    in_all: Link<InAll>,
}

impl<T> Entry<T> {
    pub(super) fn new(item: Item<T>, lane: u32) -> Self {
        Self {
            item,
            lane,
            in_lane: Link::default(),
            in_flow: Link::default(),
            in_all: Link::default(),
        }
    }
}

/// First in, first out. There is one only while it holds something.
pub(super) struct Lane {
    pub(super) flow: u32,
    pub(super) connection: u64,
    /// Nothing of it may leave.
    pub(super) is_held: bool,
    pub(super) fifo: List<InLane>,
    in_flow: Link<Ring>,
}

impl Lane {
    pub(super) fn new(flow: u32, connection: u64, is_held: bool) -> Self {
        Self {
            flow,
            connection,
            is_held,
            fifo: List::default(),
            in_flow: Link::default(),
        }
    }
}

/// What takes turns.
pub(super) struct Flow {
    pub(super) owner: ClientKey,
    pub(super) weight: Weight,
    pub(super) turn: Turn,
    /// Nothing of it may leave.
    pub(super) is_held: bool,
    /// Lanes that are not held, in the order of their turns.
    pub(super) ring: List<Ring>,
    /// All entries, the newest last.
    pub(super) arrivals: List<InFlow>,
    pub(super) load: Backlog,
}

impl Flow {
    pub(super) fn new(owner: ClientKey, weight: Weight, is_held: bool) -> Self {
        Self {
            owner,
            weight,
            turn: Turn::default(),
            is_held,
            ring: List::default(),
            arrivals: List::default(),
            load: Backlog::default(),
        }
    }

    /// What it waits for while nothing of it may leave.
    pub(super) const fn without_turn(&self) -> Option<Wait> {
        if self.load.entries == 0 {
            Some(Wait::Rest)
        } else if self.is_held || self.ring.is_empty() {
            Some(Wait::Release)
        } else {
            None
        }
    }
}

pub(super) struct InLane;
pub(super) struct InFlow;
pub(super) struct InAll;
pub(super) struct Ring;

macro_rules! linked {
    ($([$($generic:ident)?] $node:ty, $tag:ty, $field:ident;)*) => {$(
        impl$(<$generic>)? Linked<$tag> for $node {
            fn link(&self) -> &Link<$tag> {
                &self.$field
            }

            fn link_mut(&mut self) -> &mut Link<$tag> {
                &mut self.$field
            }
        }
    )*};
}

linked! {
    [T] Entry<T>, InLane, in_lane;
    [T] Entry<T>, InFlow, in_flow;
    [T] Entry<T>, InAll, in_all;
    [] Lane, Ring, in_flow;
}

/// Flows by their length; one of length 0 is not here.
#[derive(Default)]
pub(super) struct Rank(BTreeSet<(u64, u32)>);

impl Rank {
    /// Moves a flow whose length changes.
    pub(super) fn update(&mut self, flow: u32, (before, after): (u64, u64)) {
        if before != after {
            self.0.remove(&(before, flow));
            if after > 0 {
                self.0.insert((after, flow));
            }
        }
    }

    /// One of the longest.
    pub(super) fn longest(&self) -> Option<u32> {
        self.descending().next()
    }

    /// Whether a short flow is here beside one that is not.
    pub(super) fn is_uneven(&self) -> bool {
        let is_short = |flow: &(u64, u32)| flow.0 <= SHORT as u64;
        self.0.first().is_some_and(is_short) && !self.0.last().is_some_and(is_short)
    }

    /// Flows from long to short.
    pub(super) fn descending(&self) -> impl Iterator<Item = u32> {
        self.0.iter().rev().map(|(_, flow)| *flow)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_beside_long_is_uneven() {
        let mut rank = Rank::default();
        let mut lengths = [0; 2];
        let mut is_uneven = |after: [u64; 2]| {
            for at in 0..2 {
                rank.update(at as u32, (lengths[at], after[at]));
            }
            lengths = after;
            rank.is_uneven()
        };
        for even in [[0, 0], [7, 1], [0, 5_000], [8, 9], [u64::MAX, 8]] {
            assert!(!is_uneven(even), "{even:?}");
        }
        for uneven in [[7, 8], [1, 5_000], [u64::MAX, 1]] {
            assert!(is_uneven(uneven), "{uneven:?}");
        }
    }

    proptest! {
        #[test]
        fn flows_come_by_their_length(
            steps in prop::collection::vec((0_usize..12, 0_u64..2_000, 0_u32..50), 1..200),
        ) {
            let mut rank = Rank::default();
            let mut lengths = [0_u64; 12];
            for (flow, mantissa, shift) in steps {
                let before = std::mem::replace(&mut lengths[flow], mantissa << shift);
                rank.update(flow as u32, (before, lengths[flow]));
                let longest = rank.longest().map_or(0, |flow| lengths[flow as usize]);
                prop_assert_eq!(longest, lengths.into_iter().max().unwrap());
                let all: Vec<u64> = rank.descending().map(|flow| lengths[flow as usize]).collect();
                prop_assert_eq!(all.len(), lengths.iter().filter(|&&length| length > 0).count());
                prop_assert!(all.is_sorted_by(|one, next| one >= next));
            }
        }
    }
}
