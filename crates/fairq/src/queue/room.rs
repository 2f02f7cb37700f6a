//! Room for an item when the queue as a whole is full.

use super::{
    FairQueue,
    item::{Backlog, Popped, Refusal},
};

impl<T> FairQueue<T> {
    /// Displaces the newest items of the longest flow until one more of so many bytes fits.
    ///
    /// Decided before anything is displaced: the item is refused unless its own flow stays shorter, with
    /// it, than the longest one without what has to go.
    pub(super) fn make_room(
        &mut self,
        own: Option<u32>,
        bytes: u32,
    ) -> Result<Vec<Popped<T>>, Refusal> {
        let bytes = u64::from(bytes);
        let (longest, over) = (self.by_entries.longest(), self.entries_over());
        if over > 0 && !self.gives_way(longest, own, 1 + over, |load| load.entries as u64) {
            return Err(Refusal::Entries);
        }
        let (largest, over) = (self.by_bytes.longest(), self.bytes_over(bytes));
        if over > 0 && !self.gives_way(largest, own, bytes + over, |load| load.bytes) {
            return Err(Refusal::Bytes);
        }
        let mut displaced = Vec::new();
        while self.entries_over() > 0 && self.displace(longest, &mut displaced) {}
        while self.bytes_over(bytes) > 0 && self.displace(largest, &mut displaced) {}
        Ok(displaced)
    }

    fn entries_over(&self) -> u64 {
        (self.total.entries + 1).saturating_sub(self.limits.entries) as u64
    }

    fn bytes_over(&self, bytes: u64) -> u64 {
        (self.total.bytes + bytes).saturating_sub(self.limits.bytes as u64)
    }

    /// Whether the longest flow is longer than the own one by `more`.
    fn gives_way(
        &self,
        longest: Option<u32>,
        own: Option<u32>,
        more: u64,
        length: fn(&Backlog) -> u64,
    ) -> bool {
        let [longest, own] =
            [longest, own].map(|flow| flow.map_or(0, |flow| length(&self.flows[flow].load)));
        own + more <= longest
    }

    /// Takes the newest item out of a flow, the last of its lane. False when there is none.
    fn displace(&mut self, flow: Option<u32>, displaced: &mut Vec<Popped<T>>) -> bool {
        let newest = flow.and_then(|flow| Some((flow, self.flows[flow].arrivals.tail()?)));
        let Some((flow, newest)) = newest else {
            return false;
        };
        displaced.push(self.take_out(newest));
        self.settle(flow);
        true
    }
}
