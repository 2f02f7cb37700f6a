//! Places to wait for a block, shared between clients.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use fairq::ClientKey;
use parking_lot::Mutex;

/// The places to wait for a block, and who has them. A client may have as many as are free besides, less a
/// sixteenth, so that its share shrinks as others need some; an IPv6 /48 as many as a few clients.
#[derive(Clone, Debug)]
pub(super) struct CommitPlaces(Arc<Mutex<PlaceCounts>>);

#[derive(Debug)]
struct PlaceCounts {
    all: usize,
    free: usize,
    /// Of clients and of the networks around them.
    taken: HashMap<ClientKey, usize>,
}

/// A place to wait for a block, until it is dropped.
#[derive(Debug)]
pub(super) struct CommitPlace {
    places: CommitPlaces,
    client: ClientKey,
}

impl CommitPlaces {
    pub(super) fn new(all: usize) -> Self {
        Self(Arc::new(Mutex::new(PlaceCounts {
            all,
            free: all,
            taken: HashMap::new(),
        })))
    }

    /// A place for this client, if it may have another.
    pub(super) fn take(&self, client: ClientKey) -> Option<CommitPlace> {
        let mut counts = self.0.lock();
        let share = counts.free.saturating_sub(counts.all / 16 + 1);
        let share = share.max(LEAST_PLACES);
        let bounds = [share, share * ClientKey::SITE_CLIENTS];
        let mut tiers = client.tiers().zip(bounds);
        let taken = |tier| counts.taken.get(&tier).copied().unwrap_or(0);
        if counts.free == 0 || tiers.any(|(tier, most)| taken(tier) >= most) {
            return None;
        }
        counts.free -= 1;
        for tier in client.tiers() {
            *counts.taken.entry(tier).or_default() += 1;
        }
        let places = self.clone();
        Some(CommitPlace { places, client })
    }
}

impl Drop for CommitPlace {
    fn drop(&mut self) {
        let mut counts = self.places.0.lock();
        counts.free += 1;
        for tier in self.client.tiers() {
            if let Entry::Occupied(mut taken) = counts.taken.entry(tier) {
                *taken.get_mut() -= 1;
                if *taken.get() == 0 {
                    taken.remove();
                }
            }
        }
    }
}

/// Places that a client may have while there are any.
const LEAST_PLACES: usize = 2;
