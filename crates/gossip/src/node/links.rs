//! The table of links.

use std::collections::BTreeMap;

use super::{link::Link, output::PeerId};

/// Links by the driver's number, each in a slot of its own as long as it lasts.
#[derive(Debug, Default)]
pub(super) struct Links {
    slots: Vec<Option<Link>>,
    free: Vec<usize>,
    by_id: BTreeMap<PeerId, usize>,
    /// The slots of the links that are up, in the order in which they came up.
    up: Vec<usize>,
}

impl Links {
    pub(super) fn insert(&mut self, link: Link) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.by_id.insert(link.id, slot);
        self.slots[slot] = Some(link);
        slot
    }

    pub(super) fn remove(&mut self, slot: usize) -> Option<Link> {
        let link = self.slots.get_mut(slot)?.take()?;
        self.by_id.remove(&link.id);
        self.up.retain(|up| *up != slot);
        self.free.push(slot);
        Some(link)
    }

    pub(super) fn slot(&self, id: PeerId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    pub(super) fn get(&self, slot: usize) -> Option<&Link> {
        self.slots.get(slot)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Link> {
        self.slots.get_mut(slot)?.as_mut()
    }

    pub(super) fn came_up(&mut self, slot: usize) {
        self.up.push(slot);
    }

    /// The links that parcels can be queued for.
    pub(super) fn up(&self) -> &[usize] {
        &self.up
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Link)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(slot, link)| Some((slot, link.as_ref()?)))
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// How many links have had no handshake.
    pub(super) fn pending(&self) -> usize {
        self.len() - self.up.len()
    }
}
