//! A node as a state machine: connections, bytes and instants in, bytes and orders out.

mod greeting;
mod link;
mod messages;
mod output;
mod routing;

use std::collections::VecDeque;

use base::{Random, mix};
use pacing::Nanos;

use self::link::{Dial, Link, Links, Stage};
use self::messages::{Bodies, Naming, Sightings};
pub use self::output::{
    CloseReason, Counts, Origin, Output, PeerId, QueueLimits, Relayed, Routing, Settings,
};
use crate::codec::{Decoder, Event};
use crate::parcel::Version;
use crate::topology::Endpoint;

/// A node of a gossip network.
///
/// Its driver calls the `on_` functions as things happen, then takes every [`Output`]; and calls
/// [`Node::on_timeout`] when [`Node::next_timeout`] has passed. All instants come from one clock and
/// never go back. Its links, what it sends to which peer, and every random choice follow from its
/// settings, its seed and what it receives.
#[derive(Debug)]
pub struct Node {
    settings: Settings,
    /// Random, to recognise itself at the other end of a link.
    nonce: u64,
    random: Random,
    /// The latest instant that the driver has given.
    now: Nanos,
    next_tick: Nanos,
    links: Links,
    dials: Vec<Dial>,
    sightings: Sightings,
    bodies: Bodies,
    naming: Naming,
    outputs: VecDeque<Output>,
    /// The slots of links that have something to write.
    ready: VecDeque<usize>,
    counts: Counts,
    /// Scratch space for payloads with our own first byte.
    scratch: Vec<u8>,
}

/// A link as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The driver's number.
    pub id: PeerId,
    /// Where the peer accepts connections; none before its handshake.
    pub endpoint: Option<Endpoint>,
    /// From its handshake.
    pub node_id: u32,
    /// The version of the link; none before the handshake.
    pub version: Option<Version>,
    /// Parcels that wait.
    pub queued: usize,
    /// Parcels handed out in writes.
    pub parcels_written: u64,
    /// Parcels read.
    pub parcels_read: u64,
}

impl Node {
    /// A node without links. The same seed makes the same choices; two nodes of a network need
    /// different ones.
    pub fn new(settings: Settings, seed: u64) -> Self {
        Self {
            nonce: mix(seed),
            random: Random::new(seed),
            now: Nanos::ZERO,
            next_tick: Nanos::ZERO,
            links: Links::default(),
            dials: settings.dialled.iter().cloned().map(Dial::new).collect(),
            sightings: Sightings::new(settings.remembered, mix(seed ^ 1)),
            bodies: Bodies::new(mix(seed ^ 2)),
            naming: Naming::new(settings.announce, seed),
            outputs: VecDeque::new(),
            ready: VecDeque::new(),
            counts: Counts::default(),
            scratch: Vec::new(),
            settings,
        }
    }

    /// A connection is there: one that was ordered, or one that the driver has accepted.
    pub fn on_connected(&mut self, now: Nanos, peer: PeerId, origin: Origin) {
        self.now = now;
        let is_accepted = matches!(origin, Origin::Accepted(_));
        if is_accepted && self.links.pending() >= self.settings.max_pending {
            self.counts.refused += 1;
            let reason = CloseReason::TooManyPending;
            self.outputs.push_back(Output::Close { peer, reason });
            return;
        }
        let slot = self
            .links
            .insert(Link::new(now, peer, origin, &self.settings));
        if !is_accepted {
            self.greet(slot, self.settings.version);
        }
    }

    /// Bytes have arrived on a connection, in the order of the connection.
    pub fn on_bytes(&mut self, now: Nanos, peer: PeerId, bytes: &[u8]) {
        self.now = now;
        let Some(slot) = self.links.slot(peer) else {
            return; // closed in the meantime
        };
        let Some(link) = self.links.get_mut(slot) else {
            return;
        };
        link.last_read = now;
        self.counts.bytes_read += bytes.len() as u64;
        let mut decoder = std::mem::replace(&mut link.decoder, Decoder::new(0));
        decoder.push(bytes);
        match self.read(slot, &mut decoder) {
            Err(reason) => self.close(slot, reason),
            Ok(()) => {
                if let Some(link) = self.links.get_mut(slot) {
                    link.decoder = decoder;
                }
            }
        }
    }

    /// The last [`Output::Write`] of a connection has been written wholly.
    pub fn on_writable(&mut self, now: Nanos, peer: PeerId) {
        self.now = now;
        let Some(slot) = self.links.slot(peer) else {
            return;
        };
        let Some(link) = self.links.get_mut(slot) else {
            return;
        };
        link.writing = false;
        link.last_write = now;
        match &link.stage {
            Stage::Leaving(reason) if link.greeting.is_empty() => {
                let reason = reason.clone();
                self.close(slot, reason);
            }
            _ => self.wake(slot),
        }
    }

    /// A connection has ended, or a write has failed. What waited for the peer is lost.
    pub fn on_closed(&mut self, now: Nanos, peer: PeerId) {
        self.now = now;
        if let Some(slot) = self.links.slot(peer) {
            self.forget(slot);
        }
    }

    /// Time has passed.
    pub fn on_timeout(&mut self, now: Nanos) {
        self.now = now;
        self.retry_requests();
        if now >= self.next_tick {
            self.tick();
            self.next_tick = now.saturating_add(Nanos::from_secs(1));
        }
    }

    /// When to call [`Node::on_timeout`] next.
    pub fn next_timeout(&self) -> Nanos {
        let due = self.bodies.next_due().unwrap_or(Nanos::MAX);
        due.min(self.next_tick)
    }

    /// The next thing to do, or none for now.
    pub fn poll_output(&mut self) -> Option<Output> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        while let Some(slot) = self.ready.pop_front() {
            if let Some(write) = self.write(slot) {
                return Some(write);
            }
        }
        None
    }

    /// What the node has done so far.
    pub fn counts(&self) -> Counts {
        Counts {
            forgotten: self.sightings.forgotten(),
            given_up: self.bodies.given_up(),
            ..self.counts
        }
    }

    /// The links, those without a handshake included.
    pub fn peers(&self) -> impl Iterator<Item = Peer> {
        self.links.iter().map(|(_, link)| Peer {
            id: link.id,
            endpoint: link.endpoint.clone(),
            node_id: link.node_id,
            version: link.is_up().then(|| link.encoder.version()),
            queued: link.queue.len(),
            parcels_written: link.parcels_written,
            parcels_read: link.parcels_read,
        })
    }

    /// How many links are up.
    pub fn peers_up(&self) -> usize {
        self.links.up().len()
    }

    fn read(&mut self, slot: usize, decoder: &mut Decoder) -> Result<(), CloseReason> {
        while let Some(event) = decoder.next()? {
            match event {
                Event::Handshake(handshake) => {
                    let protobuf = decoder.is_protobuf() == Some(true);
                    let version = self.greeted(slot, &handshake, protobuf)?;
                    decoder.speak(version);
                }
                Event::Parcel(parcel) => self.received(slot, &parcel)?,
            }
            // It may have been refused, or be another connection's duplicate.
            if !self.links.get(slot).is_some_and(Link::is_up) {
                break;
            }
        }
        Ok(())
    }

    /// Puts a link into the list of those that have something to write.
    fn wake(&mut self, slot: usize) {
        let Some(link) = self.links.get_mut(slot) else {
            return;
        };
        if !link.writing && !link.ready && link.has_something_to_write() {
            link.ready = true;
            self.ready.push_back(slot);
        }
    }

    fn close(&mut self, slot: usize, reason: CloseReason) {
        if let Some(peer) = self.forget(slot) {
            self.outputs.push_back(Output::Close { peer, reason });
        }
    }

    fn forget(&mut self, slot: usize) -> Option<PeerId> {
        let link = self.links.remove(slot)?;
        self.ready.retain(|ready| *ready != slot);
        self.counts.lost += link.queue.messages();
        Some(link.id)
    }
}
