//! What was carried over each link.

use std::collections::HashMap;

use gossip::{Node, PeerId};

use crate::control::LinkCount;

/// What was carried over each link, also over those that have ended.
#[derive(Debug, Default)]
pub(super) struct LinkCounts {
    links: HashMap<PeerId, LinkCount>,
    /// Links that ended without being asked to.
    pub(super) broken: u64,
    /// How many links were last reported to the program.
    pub(super) reported: usize,
}

impl LinkCounts {
    pub(super) fn wrote(&mut self, peer: PeerId, parcels: u32) {
        self.links.entry(peer).or_insert(UNKNOWN).written += u64::from(parcels);
    }

    /// Copies what the node counted on its links.
    pub(super) fn update(&mut self, node: &Node) {
        for peer in node.peers() {
            if let Some(number) = number(peer.node_id) {
                let link = self.links.entry(peer.id).or_insert(UNKNOWN);
                (link.peer, link.read) = (number, peer.parcels_read);
            }
        }
    }

    /// A link ended without being asked to.
    pub(super) fn broke(&mut self, peer: PeerId) {
        if self
            .links
            .get(&peer)
            .is_some_and(|link| link.peer != UNKNOWN.peer)
        {
            self.broken += 1;
        }
        self.closed(peer);
    }

    pub(super) fn closed(&mut self, peer: PeerId) {
        if let Some(link) = self.links.get_mut(&peer) {
            link.broken = 1;
        }
    }

    /// All links to a peer together.
    pub(super) fn counts(&self) -> Vec<LinkCount> {
        let mut counts: Vec<LinkCount> = Vec::new();
        for link in self.links.values().filter(|link| link.peer != UNKNOWN.peer) {
            match counts.iter_mut().find(|count| count.peer == link.peer) {
                Some(count) => {
                    count.written += link.written;
                    count.read += link.read;
                    count.broken += link.broken;
                }
                None => counts.push(*link),
            }
        }
        counts.sort_unstable_by_key(|count| count.peer);
        counts
    }
}

const UNKNOWN: LinkCount = LinkCount {
    peer: u16::MAX,
    written: 0,
    read: 0,
    broken: 0,
};

/// A node's number from the id in its handshake, which counts from 1.
pub(super) fn number(node_id: u32) -> Option<u16> {
    u16::try_from(node_id.checked_sub(1)?).ok()
}
