//! The state of a node: the gossip node, its application, the load that it offers, and the counts.

use std::collections::HashMap;
use std::rc::Rc;

use bytes::Bytes;
use gossip::app::{App, KindId, Reaction, Source, Timeline};
use gossip::{Node, PeerId};
use pacing::Nanos;

use super::ControlWriter;
use super::connection::Connection;
use super::meter::{CodecTimer, Meter};
use super::shaper::Shaper;
use crate::control::{LinkCount, NodeConfig, NodeMessage, Status};

/// Everything of a node but its sockets.
pub(super) struct NodeParts {
    pub(super) node: Node,
    pub(super) app: App,
    pub(super) meter: Meter,
    pub(super) codec: CodecTimer,
    pub(super) connections: HashMap<PeerId, Rc<Connection>>,
    pub(super) next_peer: u64,
    pub(super) timeline: Option<Timeline>,
    /// Since the engine's start; `None` before the load's is known.
    pub(super) origin: Option<Nanos>,
    pub(super) links: LinkCounts,
    /// The first second that was not reported.
    pub(super) next_second: u64,
    pub(super) control: ControlWriter,
    /// `None` where neither a rate nor a delay is set.
    pub(super) shaper: Option<Shaper>,
    pub(super) reads: u64,
}

impl NodeParts {
    pub(super) fn since_origin(&self, now: Nanos) -> Nanos {
        self.origin
            .map_or(Nanos::ZERO, |origin| now.saturating_sub(origin))
    }

    /// The second that has ended and was not reported.
    pub(super) fn second_over(&mut self, now: Nanos) -> Option<u64> {
        let second = self.since_origin(now).as_secs();
        let over = second.checked_sub(1)?;
        (over >= self.next_second).then(|| {
            self.next_second = second;
            over
        })
    }

    pub(super) fn queued(&self) -> u64 {
        self.node.peers().map(|peer| peer.queued as u64).sum()
    }

    /// Publishes the messages of a transaction, or periodic ones.
    pub(super) fn publish_due(&mut self, what: Source, due: Nanos, now: Nanos) {
        self.meter.counts.offered += u64::from(matches!(what, Source::Transaction(_)));
        for kind in self.app.messages(what) {
            self.publish(kind, due, None, now);
        }
    }

    /// Makes a message and publishes it.
    fn publish(&mut self, kind: KindId, due: Nanos, to: Option<PeerId>, now: Nanos) {
        let message = self.app.message(kind, due);
        self.meter
            .count_made(&message, self.app.mix().kind(kind).relay);
        let routing = self.app.routing(kind, to);
        self.node.publish(now, &Bytes::from(message), routing);
    }

    /// The node has seen a message for the first time.
    pub(super) fn on_delivered(&mut self, from: Option<PeerId>, message: &Bytes, now: Nanos) {
        let Some(reaction) = self.app.receive(message) else {
            self.meter.counts.unknown += 1;
            return;
        };
        let at = self.since_origin(now);
        self.meter
            .count_seen(message, &reaction, from.is_some(), at);
        self.codec.message(message, &mut self.meter.codec);
        self.react(&reaction, from, at, now);
    }

    /// Answers a message, and requests one that is missing.
    fn react(&mut self, reaction: &Reaction, from: Option<PeerId>, at: Nanos, now: Nanos) {
        if let (Some(kind), Some(peer)) = (reaction.answer, from) {
            self.meter.counts.answers += 1;
            self.publish(kind, at, Some(peer), now);
        }
        if let Some(kind) = reaction.request {
            self.meter.counts.requests += 1;
            self.publish(kind, at, None, now);
        }
    }

    /// A connection is broken.
    pub(super) fn on_closed(&mut self, peer: PeerId, now: Nanos) {
        if self.connections.remove(&peer).is_some() {
            self.links.update(&self.node);
            self.links.broke(peer);
            self.node.on_closed(now, peer);
        }
    }

    /// The counts of all links.
    pub(super) fn status(&mut self, round: u64) -> Status {
        self.links.update(&self.node);
        Status {
            round,
            queued: self.queued(),
            links: self.links.counts(),
        }
    }

    /// Reports the peers when their number has changed.
    pub(super) fn report_links(&mut self, config: &NodeConfig) {
        if self.links.reported == self.node.peers_up() {
            return;
        }
        self.links.reported = self.node.peers_up();
        self.links.update(&self.node);
        let up = self.node.peers().filter(|peer| peer.version.is_some());
        let mut peers: Vec<u16> = up.filter_map(|peer| number(peer.node_id)).collect();
        peers.sort_unstable();
        peers.dedup();
        peers.retain(|peer| *peer != config.node);
        self.control.send(&NodeMessage::Links { peers });
    }
}

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
