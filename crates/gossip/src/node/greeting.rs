//! From a connection to a link: handshakes, versions, duplicates; and each second dials, pings and deadlines.

use pacing::Nanos;

use super::Node;
use super::link::{Link, Stage};
use super::output::{CloseReason, Origin, Output};
use crate::parcel::{FEATURE_ANNOUNCE, Handshake, ParcelKind, Version};
use crate::topology::Endpoint;

impl Node {
    /// Puts this node's handshake on a link.
    pub(super) fn greet(&mut self, slot: usize, version: Version) {
        let handshake = Handshake {
            kind: ParcelKind::Handshake,
            identity: self.settings.identity,
            version,
            nonce: self.nonce,
            features: if self.settings.announce {
                FEATURE_ANNOUNCE
            } else {
                0
            },
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
        let origin = link.origin.clone();
        if let Origin::Dialled(endpoint) = &origin
            && theirs.nonce == self.nonce
        {
            let dials = self
                .dials
                .iter_mut()
                .filter(|dial| dial.endpoint == *endpoint);
            dials.for_each(|dial| dial.is_self = true);
            return Err(CloseReason::SelfDial);
        }
        if theirs.kind == ParcelKind::Refusal {
            return Err(CloseReason::Refused);
        }
        if matches!(origin, Origin::Accepted(_)) {
            self.greet(slot, version);
            if theirs.nonce == self.nonce {
                // The dialling end, which is this node too, learns it from the answer.
                if let Some(link) = self.links.get_mut(slot) {
                    link.stage = Stage::Leaving(CloseReason::SelfDial);
                }
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
        link.announces = self.settings.announce
            && version == Version::V11
            && theirs.features & FEATURE_ANNOUNCE != 0;
        link.is_dialled = (link.endpoint.as_ref())
            .is_some_and(|endpoint| self.settings.dialled.contains(endpoint));
        self.links.came_up(slot);
        self.wake(slot);
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

impl Node {
    pub(super) fn tick(&mut self) {
        self.close_overdue();
        self.dial();
        self.ping();
    }

    fn close_overdue(&mut self) {
        let overdue: Vec<_> = (self.links.iter())
            .filter_map(|(slot, link)| Some((slot, self.overdue(link)?)))
            .collect();
        for (slot, reason) in overdue {
            self.close(slot, reason);
        }
    }

    fn overdue(&self, link: &Link) -> Option<CloseReason> {
        let passed = |since: Nanos, limit: Nanos| self.now.saturating_sub(since) >= limit;
        let settings = &self.settings;
        match &link.stage {
            Stage::Pending if passed(link.since, settings.handshake_timeout) => {
                Some(CloseReason::NoHandshake)
            }
            Stage::Leaving(reason) if passed(link.since, settings.handshake_timeout) => {
                Some(reason.clone())
            }
            Stage::Up
                if passed(link.last_read, settings.deadline)
                    || (link.writing && passed(link.last_write, settings.deadline)) =>
            {
                Some(CloseReason::Stalled)
            }
            _ => None,
        }
    }

    fn dial(&mut self) {
        for place in 0..self.dials.len() {
            let dial = &self.dials[place];
            let is_early = dial
                .attempt
                .is_some_and(|last| self.now.saturating_sub(last) < self.settings.redial);
            if dial.is_self || is_early || self.is_linked(&dial.endpoint) {
                continue;
            }
            self.dials[place].attempt = Some(self.now);
            let endpoint = self.dials[place].endpoint.clone();
            self.outputs.push_back(Output::Connect { endpoint });
        }
    }

    fn is_linked(&self, endpoint: &Endpoint) -> bool {
        self.links.iter().any(|(_, link)| {
            let is_dialled = matches!(&link.origin, Origin::Dialled(to) if to == endpoint);
            is_dialled || link.endpoint.as_ref() == Some(endpoint)
        })
    }

    fn ping(&mut self) {
        let silent: Vec<usize> = (self.links.iter())
            .filter(|(_, link)| link.is_up() && !link.writing)
            .filter(|(_, link)| {
                self.now.saturating_sub(link.last_write) >= self.settings.ping_after
            })
            .map(|(slot, _)| slot)
            .collect();
        for slot in silent {
            self.queue_control(slot, ParcelKind::Ping, b"Ping");
        }
    }
}
