//! From a connection to a link: handshakes, refusals, duplicates.

use pacing::Nanos;

use super::{CloseReason, Node, Origin, Spread, link::Stage};
use crate::{
    endpoint::Endpoint,
    handshake::{FEATURE_ANNOUNCE, Handshake},
    parcel::{ParcelKind, Version},
    topology::shuffle,
};

impl Node {
    /// Whether a connection may try a handshake.
    pub(super) fn may_connect(&mut self, origin: &Origin) -> Result<(), CloseReason> {
        let Origin::Accepted(host) = origin else {
            return Ok(());
        };
        if self.links.pending() >= self.settings.max_pending {
            return Err(CloseReason::TooManyPending);
        }
        if !self
            .directory
            .may_accept(self.now, host, &self.settings.peering)
        {
            return Err(CloseReason::TooOften);
        }
        Ok(())
    }

    /// Puts this node's handshake on a link.
    pub(super) fn greet(&mut self, slot: usize, version: Version) {
        self.say(slot, version, ParcelKind::Handshake, Vec::new());
    }

    fn say(
        &mut self,
        slot: usize,
        version: Version,
        kind: ParcelKind,
        alternatives: Vec<Endpoint>,
    ) {
        let features = match self.settings.spread {
            Spread::Flood => 0,
            Spread::Announce | Spread::Tree => FEATURE_ANNOUNCE,
        };
        let handshake = Handshake {
            kind,
            identity: self.settings.identity,
            version,
            nonce: self.nonce,
            alternatives,
            features,
        };
        if let Some(link) = self.links.get_mut(slot) {
            link.encoder.speak(version);
            link.encoder.handshake(&handshake, &mut link.greeting);
        }
        self.wake(slot);
    }

    /// The peer's handshake has come: agrees to a version, or refuses.
    pub(super) fn greeted(
        &mut self,
        slot: usize,
        theirs: &Handshake,
        protobuf: bool,
    ) -> Result<Version, CloseReason> {
        let version = self.agreed(theirs, protobuf)?;
        let Some(link) = self.links.get_mut(slot) else {
            return Ok(version);
        };
        link.is_known_as(theirs.identity);
        let (origin, endpoint) = (link.origin.clone(), link.endpoint.clone());
        let accepted = matches!(origin, Origin::Accepted(_));
        if let Origin::Dialled(endpoint) = &origin
            && theirs.nonce == self.nonce
        {
            self.directory.ban(endpoint);
            return Err(CloseReason::SelfDial);
        }
        if theirs.kind == ParcelKind::Refusal {
            for alternative in &theirs.alternatives {
                self.directory.hear_of(alternative.clone());
            }
            return Err(CloseReason::Refused);
        }
        if accepted {
            if self.is_full_for(slot) {
                self.refuse(slot, version, endpoint.as_ref());
                return Ok(version);
            }
            self.greet(slot, version);
            if theirs.nonce == self.nonce {
                // The dialling end, which is this node too, learns it from the answer.
                self.leave(slot, CloseReason::SelfDial);
                return Ok(version);
            }
        }
        self.come_up(slot, theirs, version)
    }

    fn agreed(&self, theirs: &Handshake, protobuf: bool) -> Result<Version, CloseReason> {
        let ours = self.settings.identity.network;
        if theirs.identity.network != ours {
            return Err(CloseReason::WrongNetwork {
                theirs: theirs.identity.network,
                ours,
            });
        }
        if theirs.version < self.settings.oldest_version {
            return Err(CloseReason::OldVersion(theirs.version));
        }
        match (protobuf, theirs.version) {
            (true, _) => Ok(Version::V11),
            (false, Version::V11) => Err(CloseReason::WrongForm),
            (false, version) => Ok(version.min(self.settings.version)),
        }
    }

    fn is_full_for(&self, slot: usize) -> bool {
        let peering = &self.settings.peering;
        self.links.up().len() >= peering.most
            && !self.links.get(slot).is_some_and(|link| {
                let is_the_host = |special: &Endpoint| special.host() == link.host();
                peering.special.iter().any(is_the_host)
            })
    }

    /// Names other nodes in place of a handshake, then closes.
    fn refuse(&mut self, slot: usize, version: Version, endpoint: Option<&Endpoint>) {
        self.counts.refused += 1;
        let alternatives = self.some_endpoints(endpoint);
        self.say(slot, version, ParcelKind::Refusal, alternatives);
        self.leave(slot, CloseReason::Full);
    }

    /// Closes once what is to be said has been written.
    fn leave(&mut self, slot: usize, reason: CloseReason) {
        if let Some(link) = self.links.get_mut(slot) {
            link.stage = Stage::Leaving(reason);
        }
    }

    /// Endpoints of some random links, to be told to somebody.
    pub(super) fn some_endpoints(&mut self, except: Option<&Endpoint>) -> Vec<Endpoint> {
        let mut endpoints: Vec<_> = (self.links.up().iter())
            .filter_map(|slot| self.links.get(*slot)?.endpoint.clone())
            .filter(|endpoint| Some(endpoint) != except)
            .collect();
        shuffle(&mut endpoints, &mut self.random);
        endpoints.truncate(self.settings.peering.shared);
        endpoints
    }

    fn come_up(
        &mut self,
        slot: usize,
        theirs: &Handshake,
        version: Version,
    ) -> Result<Version, CloseReason> {
        if let Some(other) = self.same_node(slot) {
            if self.keeps_the_older(slot, other, theirs.nonce) {
                return Err(CloseReason::Duplicate);
            }
            self.close(other, CloseReason::Duplicate);
        }
        let Some(link) = self.links.get_mut(slot) else {
            return Ok(version);
        };
        link.stage = Stage::Up;
        link.since = self.now;
        link.encoder.speak(version);
        link.announces = self.settings.spread != Spread::Flood
            && version == Version::V11
            && theirs.features & FEATURE_ANNOUNCE != 0;
        link.special = (link.endpoint.as_ref())
            .is_some_and(|endpoint| self.settings.peering.special.contains(endpoint));
        self.links.came_up(slot);
        self.wake(slot);
        if theirs.kind == ParcelKind::PeerRequest {
            self.serve_peer_request(slot);
        }
        Ok(version)
    }

    /// The link that leads to the same node already.
    fn same_node(&self, slot: usize) -> Option<usize> {
        let new = self.links.get(slot)?;
        self.links.up().iter().copied().find(|other| {
            self.links
                .get(*other)
                .is_some_and(|other| other.endpoint == new.endpoint && other.node_id == new.node_id)
        })
    }

    /// Of two links to one node the newer lives, as in factom-p2p: the older may be dead. Only when
    /// both ends have dialled each other at the same time is there a rule that makes both close the
    /// same one: the dialler with the smaller nonce keeps its link.
    fn keeps_the_older(&self, new: usize, older: usize, their_nonce: u64) -> bool {
        let (Some(new), Some(older)) = (self.links.get(new), self.links.get(older)) else {
            return false;
        };
        let dialled = |origin: &Origin| matches!(origin, Origin::Dialled(_));
        let crossed = dialled(&new.origin) != dialled(&older.origin)
            && self.now.saturating_sub(older.since) < CROSSING;
        crossed && dialled(&older.origin) == (self.nonce < their_nonce)
    }
}

/// Two links that came up within this time of each other were dialled at the same time.
const CROSSING: Nanos = Nanos::from_secs(1);
