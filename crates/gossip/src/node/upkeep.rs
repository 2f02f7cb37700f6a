//! What a node does each second: dialling, pings, deadlines.

use pacing::Nanos;

use super::{
    CloseReason, Node, Origin, Output,
    link::{Link, Stage},
};
use crate::{endpoint::Endpoint, parcel::ParcelKind};

/// An endpoint that the node keeps a link to.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) endpoint: Endpoint,
    /// When it was dialled last.
    attempt: Option<Nanos>,
    /// It is this node itself, and never dialled again.
    pub(super) is_self: bool,
}

impl Dial {
    pub(super) const fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            attempt: None,
            is_self: false,
        }
    }
}

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
