//! What a client can expect, and who has most waiting.

use pacing::{Nanos, Rate};

use super::{FairQueue, item::Backlog, limits::Weight};
use crate::key::ClientKey;

impl<T> FairQueue<T> {
    /// What a client would get of `total` a second if all who are backlogged stayed so: its weight's
    /// part of the weights of those, its own included. It gets more when others need less. `weight`
    /// counts for a client that has nothing waiting.
    pub fn fair_share(&self, client: &ClientKey, weight: Weight, total: Rate) -> f64 {
        total.as_f64() * self.part(client, weight).1
    }

    /// What a client has waiting, and its part of the rate.
    fn part(&self, client: &ClientKey, weight: Weight) -> (Backlog, f64) {
        let flow = self.clients.find(client).map(|flow| &self.flows[flow]);
        let backlogged = self.backlogged_parts as f64;
        match flow.filter(|flow| flow.load.entries > 0) {
            Some(flow) => (flow.load, f64::from(flow.weight.parts()) / backlogged),
            None => {
                let absent = f64::from(weight.parts());
                (Backlog::default(), absent / (backlogged + absent))
            }
        }
    }

    /// How long an item would wait that the client pushed now: what it has waiting, at its fair share,
    /// or all that waits, at the whole rate, if that is sooner. `of` says how much of what the rate is of
    /// a backlog takes: its entries, or its cost. Both are longest waits as long as no more clients
    /// come; [`Nanos::MAX`] when the rate is zero.
    pub fn wait_estimate(
        &self,
        client: &ClientKey,
        weight: Weight,
        total: Rate,
        of: impl Fn(&Backlog) -> f64,
    ) -> Nanos {
        if total.is_zero() {
            return Nanos::MAX;
        }
        let (own, part) = self.part(client, weight);
        let wait = (of(&own) / part).min(of(&self.total)) / total.as_f64();
        // Saturates: a wait beyond 584 years is the longest there is.
        Nanos::new((wait * 1e9) as u64)
    }

    /// Whether a client with a short queue waits, of at most 7 entries, beside one with a longer queue.
    pub fn is_uneven(&self) -> bool {
        self.by_entries.is_uneven()
    }

    /// The clients with most entries waiting, the longest first. Looks at those that are taken, not at all.
    pub fn longest(&self) -> impl Iterator<Item = (ClientKey, Backlog)> {
        let flows = (self.by_entries.descending()).map(|flow| &self.flows[flow]);
        flows.map(|flow| (flow.owner, flow.load))
    }
}
