//! Where a client's entries wait: in a flow of its own, or in a lane of an overflow flow.

use std::{collections::HashMap, hash::BuildHasher as _};

use super::limits::{HAND_MAX, QueueLimits};
use crate::{hash::KeyedHash, key::ClientKey, network::Network};

/// Where a known client's entries wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    Flow(u32),
    Lane(u32),
}

/// The known clients, the sites of those with flows of their own, and the lanes of connections.
pub(crate) struct Homes {
    clients: HashMap<ClientKey, Home, KeyedHash>,
    /// How many flows the clients of an IPv6 /48 have.
    sites: HashMap<Network, usize, KeyedHash>,
    /// The lane of a flow's connection.
    connections: HashMap<(u32, u64), u32, KeyedHash>,
    own_flows: usize,
    own_flows_max: usize,
    per_site: usize,
    overflow_flows: usize,
    hand: usize,
    /// Another hash than the maps', so that clients that share a bucket do not share a hand.
    dealer: KeyedHash,
}

impl Homes {
    pub(crate) fn new(limits: &QueueLimits, seed: [u64; 2]) -> Self {
        let hash = KeyedHash::new(seed, 0);
        Self {
            clients: HashMap::with_hasher(hash),
            sites: HashMap::with_hasher(hash),
            connections: HashMap::with_hasher(hash),
            own_flows: 0,
            own_flows_max: limits.clients,
            per_site: limits.per_site,
            overflow_flows: limits.overflow_flows,
            hand: limits.hand,
            dealer: KeyedHash::new(seed, 1),
        }
    }

    pub(crate) const fn own_flows(&self) -> usize {
        self.own_flows
    }

    pub(crate) fn find(&self, client: &ClientKey) -> Option<Home> {
        self.clients.get(client).copied()
    }

    pub(crate) fn insert(&mut self, client: ClientKey, home: Home) {
        self.clients.insert(client, home);
        if let Home::Flow(_) = home {
            self.own_flows += 1;
            if let Some(site) = client.site() {
                *self.sites.entry(site).or_default() += 1;
            }
        }
    }

    pub(crate) fn remove(&mut self, client: &ClientKey) {
        let Some(Home::Flow(_)) = self.clients.remove(client) else {
            return;
        };
        self.own_flows -= 1;
        if let Some(site) = client.site()
            && let Some(flows) = self.sites.get_mut(&site)
        {
            *flows -= 1;
            if *flows == 0 {
                self.sites.remove(&site);
            }
        }
    }

    /// Whether the site of this client has as many flows as it may.
    fn crowded_site(&self, client: &ClientKey) -> Option<Network> {
        let site = client.site()?;
        let flows = self.sites.get(&site)?;
        (*flows >= self.per_site).then_some(site)
    }

    /// The overflow flows that an unknown client may choose from, or none when it may have a flow of
    /// its own.
    pub(crate) fn hand(&self, client: &ClientKey) -> Option<impl Iterator<Item = u32> + use<>> {
        let dealt = match self.crowded_site(client) {
            Some(site) => self.dealer.hash_one(site),
            None if self.own_flows < self.own_flows_max => return None,
            None => self.dealer.hash_one(client),
        };
        let hand = deal(dealt, self.overflow_flows, self.hand);
        Some(hand.into_iter().take(self.hand))
    }

    pub(crate) fn find_lane(&self, flow: u32, connection: u64) -> Option<u32> {
        self.connections.get(&(flow, connection)).copied()
    }

    pub(crate) fn insert_lane(&mut self, flow: u32, connection: u64, lane: u32) {
        self.connections.insert((flow, connection), lane);
    }

    pub(crate) fn remove_lane(&mut self, flow: u32, connection: u64) {
        self.connections.remove(&(flow, connection));
    }
}

/// The first `hand` are different numbers below `of`, as even as the hash is: the k-th card is one of
/// those that the cards before it left (the dealer of Kubernetes' API priority and fairness).
fn deal(mut hash: u64, of: usize, hand: usize) -> [u32; HAND_MAX] {
    let mut dealt = [0_u32; HAND_MAX];
    for k in 0..hand {
        let left = (of - k) as u64;
        let mut card = u32::try_from(hash % left).expect("there are at most 65,536 cards");
        hash /= left;
        let mut taken = dealt;
        taken[..k].sort_unstable();
        for &lower in &taken[..k] {
            if card >= lower {
                card += 1;
            }
        }
        dealt[k] = card;
    }
    dealt
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_hand_has_no_card_twice(hash: u64, of in 1_usize..70, hand in 1_usize..=HAND_MAX) {
            let hand = hand.min(of);
            let mut dealt = deal(hash, of, hand)[..hand].to_vec();
            dealt.sort_unstable();
            dealt.dedup();
            prop_assert_eq!(dealt.len(), hand);
            prop_assert!(dealt.iter().all(|&card| (card as usize) < of));
        }
    }

    #[test]
    fn cards_are_dealt_evenly() {
        let hash = KeyedHash::new([1, 2], 3);
        let mut counts = [0_u32; 64];
        for n in 0..64_000_u64 {
            for card in &deal(hash.hash_one(n), 64, 4)[..4] {
                counts[*card as usize] += 1;
            }
        }
        // 4,000 each; five standard deviations are 310.
        assert!(
            counts.iter().all(|count| count.abs_diff(4_000) < 310),
            "{counts:?}"
        );
    }
}
