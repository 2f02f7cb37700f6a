//! What a node knows: the gossip node, its application, the load that it offers and what was counted.

use std::collections::HashMap;
use std::rc::Rc;

use bytes::Bytes;
use gossip::app::{App, KindId, Reaction, Source, Timeline};
use gossip::{Node, PeerId};
use pacing::Nanos;

use super::codec_timer::CodecTimer;
use super::connection::Connection;
use super::control::Words;
use super::links::{LinkBook, number};
use super::meter::Meter;
use crate::control::{NodeConfig, Status, Word};

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
    pub(super) links: LinkBook,
    /// The first second that was not told of.
    pub(super) next_second: u64,
    pub(super) words: Words,
    pub(super) reads: u64,
}

impl NodeParts {
    pub(super) fn since_origin(&self, now: Nanos) -> Nanos {
        self.origin
            .map_or(Nanos::ZERO, |origin| now.saturating_sub(origin))
    }

    /// The second that has ended and was not told of.
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

    /// A transaction's messages, or periodic ones.
    pub(super) fn hand_out(&mut self, what: Source, due: Nanos, now: Nanos) {
        self.meter.counts.offered += u64::from(matches!(what, Source::Transaction(_)));
        for kind in self.app.messages(what) {
            self.make(kind, due, None, now);
        }
    }

    /// Makes a message and gives it to the node.
    pub(super) fn make(&mut self, kind: KindId, due: Nanos, to: Option<PeerId>, now: Nanos) {
        let message = self.app.message(kind, due);
        self.meter.made(&message, self.app.mix().kind(kind).relay);
        let routing = self.app.routing(kind, to);
        self.node.publish(now, &Bytes::from(message), routing);
    }

    pub(super) fn deliver(&mut self, from: Option<PeerId>, message: &Bytes, now: Nanos) {
        let Some(reaction) = self.app.receive(message) else {
            self.meter.counts.unknown += 1;
            return;
        };
        let at = self.since_origin(now);
        self.meter.seen(message, &reaction, from.is_some(), at);
        self.codec.message(message, &mut self.meter.codec);
        self.react(&reaction, from, at, now);
    }

    pub(super) fn react(
        &mut self,
        reaction: &Reaction,
        from: Option<PeerId>,
        at: Nanos,
        now: Nanos,
    ) {
        if let (Some(kind), Some(peer)) = (reaction.answer, from) {
            self.meter.counts.answers += 1;
            self.make(kind, at, Some(peer), now);
        }
        if let Some(kind) = reaction.request {
            self.meter.counts.requests += 1;
            self.make(kind, at, None, now);
        }
    }

    pub(super) fn lose(&mut self, peer: PeerId, now: Nanos) {
        if self.connections.remove(&peer).is_some() {
            self.links.look(&self.node);
            self.links.broke(peer);
            self.node.on_closed(now, peer);
        }
    }

    pub(super) fn status(&mut self, round: u64) -> Status {
        self.links.look(&self.node);
        Status {
            round,
            queued: self.queued(),
            links: self.links.counts(),
        }
    }

    pub(super) fn tell_links(&mut self, config: &NodeConfig) {
        if self.links.told == self.node.peers_up() {
            return;
        }
        self.links.told = self.node.peers_up();
        self.links.look(&self.node);
        let up = self.node.peers().filter(|peer| peer.version.is_some());
        let mut peers: Vec<u16> = up.filter_map(|peer| number(peer.node_id)).collect();
        peers.sort_unstable();
        peers.dedup();
        peers.retain(|peer| *peer != config.node);
        self.words.say(&Word::Links { peers });
    }
}
