//! Where a client's entries wait: in a flow of its own, or in a lane of an overflow flow.

use hashbrown::HashTable;

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
    clients: HashTable<(ClientKey, Home)>,
    /// How many flows the clients of an IPv6 /48 have.
    sites: HashTable<(Network, usize)>,
    connections: HashTable<(u32, u64, u32)>,
    own_flows: usize,
    own_flows_max: usize,
    per_site: usize,
    overflow_flows: usize,
    hand: usize,
    hash: KeyedHash,
    /// Another hash, so that clients that share a bucket do not share a hand.
    dealer: KeyedHash,
}

impl Homes {
    pub(crate) fn new(limits: &QueueLimits, seed: [u64; 2]) -> Self {
        Self {
            clients: HashTable::new(),
            sites: HashTable::new(),
            connections: HashTable::new(),
            own_flows: 0,
            own_flows_max: limits.clients,
            per_site: limits.per_site,
            overflow_flows: limits.overflow_flows,
            hand: limits.hand,
            hash: KeyedHash::new(seed, 0),
            dealer: KeyedHash::new(seed, 1),
        }
    }

    pub(crate) const fn own_flows(&self) -> usize {
        self.own_flows
    }

    pub(crate) fn find(&self, client: &ClientKey) -> Option<Home> {
        let found = self
            .clients
            .find(self.hash.of(client), |(key, _)| key == client);
        found.map(|&(_, home)| home)
    }

    pub(crate) fn insert(&mut self, client: ClientKey, home: Home) {
        let hash = self.hash;
        self.clients
            .insert_unique(hash.of(&client), (client, home), |(key, _)| hash.of(key));
        if let Home::Flow(_) = home {
            self.own_flows += 1;
            self.count_site(&client, 1);
        }
    }

    pub(crate) fn remove(&mut self, client: &ClientKey) {
        let place = self
            .clients
            .find_entry(self.hash.of(client), |(key, _)| key == client);
        let Ok(place) = place else { return };
        let ((_, home), _) = place.remove();
        if let Home::Flow(_) = home {
            self.own_flows -= 1;
            self.count_site(client, -1);
        }
    }

    fn count_site(&mut self, client: &ClientKey, change: isize) {
        let Some(site) = client.site() else { return };
        let hash = self.hash;
        let mut place = self
            .sites
            .entry(
                hash.of(&site),
                |(key, _)| *key == site,
                |(key, _)| hash.of(key),
            )
            .or_insert((site, 0));
        let flows = &mut place.get_mut().1;
        *flows = flows.saturating_add_signed(change);
        if *flows == 0 {
            place.remove();
        }
    }

    /// Whether the site of this client has as many flows as it may.
    fn crowded_site(&self, client: &ClientKey) -> Option<Network> {
        let site = client.site()?;
        let found = self
            .sites
            .find(self.hash.of(&site), |(key, _)| *key == site);
        found
            .filter(|(_, flows)| *flows >= self.per_site)
            .map(|_| site)
    }

    /// The overflow flows that an unknown client may choose from, or none when it may have a flow of
    /// its own.
    pub(crate) fn hand(&self, client: &ClientKey) -> Option<impl Iterator<Item = u32> + use<>> {
        let dealt = match self.crowded_site(client) {
            Some(site) => self.dealer.of(&site),
            None if self.own_flows < self.own_flows_max => return None,
            None => self.dealer.of(client),
        };
        let hand = deal(dealt, self.overflow_flows, self.hand);
        Some(hand.into_iter().take(self.hand))
    }

    pub(crate) fn find_lane(&self, flow: u32, connection: u64) -> Option<u32> {
        let found = self
            .connections
            .find(self.hash.of(&(flow, connection)), |&(f, c, _)| {
                (f, c) == (flow, connection)
            });
        found.map(|&(_, _, lane)| lane)
    }

    pub(crate) fn insert_lane(&mut self, flow: u32, connection: u64, lane: u32) {
        let hash = self.hash;
        self.connections.insert_unique(
            hash.of(&(flow, connection)),
            (flow, connection, lane),
            |&(flow, connection, _)| hash.of(&(flow, connection)),
        );
    }

    pub(crate) fn remove_lane(&mut self, flow: u32, connection: u64) {
        let place = self
            .connections
            .find_entry(self.hash.of(&(flow, connection)), |&(f, c, _)| {
                (f, c) == (flow, connection)
            });
        if let Ok(place) = place {
            place.remove();
        }
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
            for card in &deal(hash.of(&n), 64, 4)[..4] {
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
