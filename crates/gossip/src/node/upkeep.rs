//! What a node does each second: dialling, asking for endpoints, pings, deadlines.

use bytes::Bytes;
use pacing::Nanos;

use super::{
    CloseReason, Node, Output,
    link::{Link, Stage, payload_of},
};
use crate::{
    codec::encode_share,
    endpoint::Endpoint,
    parcel::ParcelKind,
    topology::{below, shuffle},
};

impl Node {
    pub(super) fn tick(&mut self) {
        self.close_overdue();
        self.mix();
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

    /// factom-p2p, controller_cat.go: each round drops random links, so that clusters dissolve.
    fn mix(&mut self) {
        if self.now < self.next_round {
            return;
        }
        self.next_round = self.now.saturating_add(self.settings.peering.round);
        let up = self.links.up();
        let surplus = up.len().saturating_sub(self.settings.peering.drop_to);
        let is_special = |slot: &usize| self.links.get(*slot).is_some_and(|link| link.special);
        let mut regular: Vec<usize> = up
            .iter()
            .copied()
            .filter(|slot| !is_special(slot))
            .collect();
        shuffle(&mut regular, &mut self.random);
        for slot in regular.into_iter().take(surplus) {
            self.close(slot, CloseReason::Mixed);
        }
    }

    fn dial(&mut self) {
        for endpoint in self.settings.peering.special.clone() {
            self.connect(endpoint);
        }
        let peering = &self.settings.peering;
        let (target, seeds) = (peering.target, peering.seeds.clone());
        let up = self.links.up().len();
        if up >= target {
            return;
        }
        if up <= peering.few {
            for endpoint in seeds {
                self.connect(endpoint);
            }
        }
        self.ask_for_endpoints();
        for _ in up..target {
            let Some(candidate) = self.directory.next_candidate() else {
                break;
            };
            self.connect(candidate);
        }
    }

    fn connect(&mut self, endpoint: Endpoint) {
        let is_linked = self.links.iter().any(|(_, link)| {
            link.endpoint.as_ref() == Some(&endpoint)
                || link.origin == super::Origin::Dialled(endpoint.clone())
        });
        if !is_linked && (self.directory).may_dial(self.now, &endpoint, &self.settings.peering) {
            self.outputs.push_back(Output::Connect { endpoint });
        }
    }

    /// Asks one random peer that was not asked lately.
    fn ask_for_endpoints(&mut self) {
        let every = self.settings.peering.request_every;
        let may_ask = |slot: &usize| {
            self.links.get(*slot).is_some_and(|link| {
                let since = |asked| self.now.saturating_sub(asked) >= every;
                link.request_sent.is_none_or(since)
            })
        };
        let askable: Vec<usize> = self.links.up().iter().copied().filter(may_ask).collect();
        let Some(&slot) = askable.get(below(askable.len(), &mut self.random)) else {
            return;
        };
        if let Some(link) = self.links.get_mut(slot) {
            link.request_sent = Some(self.now);
            link.asked = true;
        }
        let kind = ParcelKind::PeerRequest;
        self.queue_control(slot, kind, Bytes::from_static(payload_of(kind)));
    }

    /// One random endpoint of a peer response is dialled.
    pub(super) fn learn(&mut self, endpoints: Vec<Endpoint>) {
        let chosen = below(endpoints.len(), &mut self.random);
        if let Some(endpoint) = endpoints.into_iter().nth(chosen) {
            self.directory.hear_of(endpoint);
        }
    }

    pub(super) fn serve_peer_request(&mut self, slot: usize) {
        let every = self.settings.peering.request_every;
        let Some(link) = self.links.get_mut(slot) else {
            return;
        };
        if (link.request_served).is_some_and(|last| self.now.saturating_sub(last) < every) {
            self.counts.early_requests += 1;
            return;
        }
        link.request_served = Some(self.now);
        let (version, endpoint) = (link.encoder.version(), link.endpoint.clone());
        let endpoints = self.some_endpoints(endpoint.as_ref());
        let share = encode_share(version, self.settings.identity.network, &endpoints);
        if !share.is_empty() {
            self.queue_control(slot, ParcelKind::PeerResponse, share.into());
        }
    }

    fn ping(&mut self) {
        let silent: Vec<usize> = (self.links.iter())
            .filter(|(_, link)| link.is_up() && !link.writing)
            .filter(|(_, link)| {
                self.now.saturating_sub(link.last_write) >= self.settings.ping_after
            })
            .map(|(slot, _)| slot)
            .collect();
        let kind = ParcelKind::Ping;
        for slot in silent {
            self.queue_control(slot, kind, Bytes::from_static(payload_of(kind)));
        }
    }
}
