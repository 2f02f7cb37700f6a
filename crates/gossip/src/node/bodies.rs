//! Messages that others may request, and messages that this node waits for.

use std::collections::{BTreeSet, VecDeque};

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
    due: BTreeSet<(Nanos, u128)>,
    patience: Patience,
}

#[derive(Debug)]
struct Wanted {
    /// When it was announced first.
    since: Nanos,
    /// Who announced it and has not been asked, at most [`MOST_HOLDERS`].
    holders: VecDeque<PeerId>,
    /// Who was asked last.
    asked: Option<PeerId>,
    requests: u32,
}

/// How long a message may come along the tree after its announcement before it is requested: what
/// messages took, as TCP reckons how long to wait for an acknowledgement (RFC 6298, section 2).
#[derive(Debug, Default)]
struct Patience {
    mean_ns: Option<u64>,
    deviation_ns: u64,
}

impl Patience {
    fn learn(&mut self, took: Nanos) {
        let took = took.as_nanos();
        let Some(mean) = self.mean_ns else {
            (self.mean_ns, self.deviation_ns) = (Some(took), took / 2);
            return;
        };
        self.deviation_ns = (3 * self.deviation_ns + mean.abs_diff(took)) / 4;
        self.mean_ns = Some((7 * mean + took) / 8);
    }

    /// After so many requests: each waits twice as long as the last.
    fn after(&self, requests: u32) -> Nanos {
        let Some(mean) = self.mean_ns else {
            return MOST_PATIENCE;
        };
        let once = Nanos::from_nanos(mean + 4 * self.deviation_ns).max(LEAST_PATIENCE);
        Nanos::from_nanos(once.as_nanos() << requests.min(16)).min(MOST_PATIENCE)
    }
}

/// Bodies kept for requests: those of some seconds at the highest rates.
const MOST_BYTES: usize = 32 << 20;
const MOST_WANTED: usize = 1 << 16;
const MOST_HOLDERS: usize = 8;
/// Before anything is known of the tree, and at most: longer than a loaded network takes.
const MOST_PATIENCE: Nanos = Nanos::from_millis(500);
/// A process that waits for a CPU is not a broken tree.
const LEAST_PATIENCE: Nanos = Nanos::from_millis(10);

impl Bodies {
    pub(super) fn new(key: u64) -> Self {
        Self {
            held: HashMap::with_hasher(Keyed(key)),
            order: VecDeque::new(),
            bytes: 0,
            wanted: HashMap::with_hasher(Keyed(key)),
            due: BTreeSet::new(),
            patience: Patience::default(),
        }
    }

    /// Keeps a message for requests; it is not wanted any more.
    pub(super) fn hold(&mut self, now: Nanos, id: u128, from: Option<PeerId>, body: Bytes) {
        if let Some(wanted) = self.wanted.remove(&id)
            && wanted.asked != from
        {
            // Along the tree; an answer to a request says nothing of it.
            self.patience.learn(now.saturating_sub(wanted.since));
        }
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
        let at_once = spread == Spread::Announce;
        let wanted = Wanted {
            since: now,
            holders: (!at_once).then_some(from).into_iter().collect(),
            asked: at_once.then_some(from),
            requests: u32::from(at_once),
        };
        let patience = self.patience.after(wanted.requests);
        self.wanted.insert(id, wanted);
        self.due.insert((now.saturating_add(patience), id));
        Some(at_once)
    }

    /// When [`Bodies::overdue`] has something to say.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next message that is due to be requested, and from whom.
    pub(super) fn overdue(&mut self, now: Nanos) -> Option<(u128, PeerId)> {
        while let Some(&(at, id)) = self.due.first()
            && at <= now
        {
            self.due.pop_first();
            let Some(wanted) = self.wanted.get_mut(&id) else {
                continue; // it has come
            };
            if let Some(holder) = wanted.holders.pop_front() {
                (wanted.asked, wanted.requests) = (Some(holder), wanted.requests + 1);
                let patience = self.patience.after(wanted.requests);
                self.due.insert((now.saturating_add(patience), id));
                return Some((id, holder));
            }
            // Whoever announces it next is asked.
            self.wanted.remove(&id);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: PeerId = PeerId(1);
    const HOLDER: PeerId = PeerId(2);

    /// A message is announced at this instant, and comes from this peer so much later.
    fn announced(bodies: &mut Bodies, id: u128, at: Nanos, took: Nanos, from: PeerId) {
        bodies.want(at, id, HOLDER, Spread::Tree);
        let now = at.saturating_add(took);
        while bodies.overdue(now).is_some() {}
        bodies.hold(now, id, Some(from), Bytes::from_static(b"message"));
    }

    /// How long after its announcement the next message would be requested.
    fn patience(bodies: &mut Bodies, at: Nanos) -> Nanos {
        bodies.want(at, u128::MAX, HOLDER, Spread::Tree);
        let due = bodies.due.iter().find(|(_, id)| *id == u128::MAX);
        due.map(|(due, _)| due.saturating_sub(at)).unwrap()
    }

    #[test]
    fn a_message_is_requested_when_the_tree_takes_longer_than_it_does() {
        let mut bodies = Bodies::new(1);
        for id in 0..100 {
            let at = Nanos::from_secs(u64::try_from(id).unwrap());
            announced(&mut bodies, id, at, Nanos::from_millis(20), TREE);
        }
        let patience = patience(&mut bodies, Nanos::from_secs(200));
        let (low, high) = (Nanos::from_millis(20), Nanos::from_millis(25));
        assert!((low..high).contains(&patience), "{patience}");
    }

    #[test]
    fn a_fast_tree_is_still_given_the_time_that_a_process_may_wait_for_a_cpu() {
        let mut bodies = Bodies::new(1);
        for id in 0..100 {
            let at = Nanos::from_secs(u64::try_from(id).unwrap());
            announced(&mut bodies, id, at, Nanos::from_micros(50), TREE);
        }
        assert_eq!(patience(&mut bodies, Nanos::from_secs(200)), LEAST_PATIENCE);
    }

    #[test]
    fn answers_to_requests_say_nothing_of_the_tree() {
        let mut bodies = Bodies::new(1);
        for id in 0..10 {
            let at = Nanos::from_secs(u64::try_from(id).unwrap());
            let took = MOST_PATIENCE.saturating_add(Nanos::from_millis(1));
            announced(&mut bodies, id, at, took, HOLDER);
        }
        assert_eq!(patience(&mut bodies, Nanos::from_secs(200)), MOST_PATIENCE);
        assert_eq!(bodies.patience.mean_ns, None);
    }

    #[test]
    fn a_message_that_comes_along_the_tree_after_it_was_requested_makes_the_node_wait_longer() {
        let mut bodies = Bodies::new(1);
        announced(
            &mut bodies,
            1,
            Nanos::from_secs(1),
            Nanos::from_millis(1),
            TREE,
        );
        assert_eq!(patience(&mut bodies, Nanos::from_secs(2)), LEAST_PATIENCE);
        announced(
            &mut bodies,
            2,
            Nanos::from_secs(3),
            Nanos::from_millis(200),
            TREE,
        );
        assert!(bodies.patience.after(0) > Nanos::from_millis(100));
    }

    #[test]
    fn each_further_request_waits_twice_as_long() {
        let patience = Patience {
            mean_ns: Some(40_000_000),
            deviation_ns: 0,
        };
        let waits = [0, 1, 2, 3, 4].map(|requests| patience.after(requests));
        assert_eq!(waits, [40, 80, 160, 320, 500].map(Nanos::from_millis));
    }
}
