//! Messages that others may request, and messages that this node waits for.

use std::collections::VecDeque;

use bytes::Bytes;
use hashbrown::HashMap;
use pacing::Nanos;

use super::{output::PeerId, settings::Spread, sightings::Keyed};

/// What announcements need: bodies for requests, and who has what has been announced.
#[derive(Debug)]
pub(super) struct Bodies {
    held: HashMap<u128, Bytes, Keyed>,
    order: VecDeque<u128>,
    bytes: usize,
    wanted: HashMap<u128, Wanted, Keyed>,
    /// When a wanted message is requested, or requested again.
    due: VecDeque<(Nanos, u128)>,
}

#[derive(Debug, Default)]
struct Wanted {
    /// Who announced it and has not been asked, at most [`MOST_HOLDERS`].
    holders: VecDeque<PeerId>,
}

/// Bodies kept for requests: those of some seconds at the highest rates.
const MOST_BYTES: usize = 32 << 20;
const MOST_WANTED: usize = 1 << 16;
const MOST_HOLDERS: usize = 8;
/// How long a message may come along the tree before it is requested, and how long a request may
/// take before the next holder is asked. Longer than a loaded network takes: it would be asked twice.
const PATIENCE: Nanos = Nanos::from_millis(500);

impl Bodies {
    pub(super) fn new(key: u64) -> Self {
        Self {
            held: HashMap::with_hasher(Keyed(key)),
            order: VecDeque::new(),
            bytes: 0,
            wanted: HashMap::with_hasher(Keyed(key)),
            due: VecDeque::new(),
        }
    }

    /// Keeps a message for requests; it is not wanted any more.
    pub(super) fn hold(&mut self, id: u128, body: Bytes) {
        self.wanted.remove(&id);
        self.bytes += body.len();
        match self.held.insert(id, body) {
            Some(same) => self.bytes -= same.len(),
            None => self.order.push_back(id),
        }
        while self.bytes > MOST_BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.held.remove(&oldest).map_or(0, |body| body.len());
        }
    }

    pub(super) fn get(&self, id: u128) -> Option<&Bytes> {
        self.held.get(&id)
    }

    /// A peer has announced a message that this node does not have. Says whether to request it now;
    /// none when there is no room to remember it.
    pub(super) fn want(
        &mut self,
        now: Nanos,
        id: u128,
        from: PeerId,
        spread: Spread,
    ) -> Option<bool> {
        if let Some(wanted) = self.wanted.get_mut(&id) {
            if wanted.holders.len() < MOST_HOLDERS {
                wanted.holders.push_back(from);
            }
            return Some(false);
        }
        if self.wanted.len() >= MOST_WANTED {
            return None;
        }
        let mut wanted = Wanted::default();
        let at_once = spread == Spread::Announce;
        if !at_once {
            wanted.holders.push_back(from);
        }
        self.wanted.insert(id, wanted);
        self.due.push_back((now.saturating_add(PATIENCE), id));
        Some(at_once)
    }

    /// When [`Bodies::overdue`] has something to say.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        self.due.front().map(|(at, _)| *at)
    }

    /// The next message that is due to be requested, and from whom.
    pub(super) fn overdue(&mut self, now: Nanos) -> Option<(u128, PeerId)> {
        while let Some(&(at, id)) = self.due.front()
            && at <= now
        {
            self.due.pop_front();
            let Some(wanted) = self.wanted.get_mut(&id) else {
                continue; // it has come
            };
            if let Some(holder) = wanted.holders.pop_front() {
                self.due.push_back((now.saturating_add(PATIENCE), id));
                return Some((id, holder));
            }
            // Whoever announces it next is asked.
            self.wanted.remove(&id);
        }
        None
    }
}
