//! Room for an item when the queue as a whole is full.

use super::{
    FairQueue,
    item::{Backlog, Popped, Refusal},
};

impl<T> FairQueue<T> {
    /// Displaces the newest items of the longest flow until one more of so many bytes fits.
    ///
    /// Decided before anything is displaced: the item is refused unless its flow stays shorter, with
    /// it, than the longest one without what has to go.
    pub(super) fn make_room(
        &mut self,
        seat: Option<u32>,
        bytes: u32,
    ) -> Result<Vec<Popped<T>>, Refusal> {
        let bytes = u64::from(bytes);
        let (entries, over) = (self.by_entries.longest(), (1, self.entries_over()));
        let by_entries = self.victim(entries, seat, over, |load| load.entries as u64);
        let by_entries = by_entries.ok_or(Refusal::Entries)?;
        let (longest, over) = (self.by_bytes.longest(), (bytes, self.bytes_over(bytes)));
        let by_bytes = self.victim(longest, seat, over, |load| load.bytes);
        let by_bytes = by_bytes.ok_or(Refusal::Bytes)?;
        let mut displaced = Vec::new();
        if let Some(longest) = by_entries {
            while self.entries_over() > 0 && self.displace(longest, &mut displaced) {}
        }
        if let Some(longest) = by_bytes {
            while self.bytes_over(bytes) > 0 && self.displace(longest, &mut displaced) {}
        }
        Ok(displaced)
    }

    fn entries_over(&self) -> u64 {
        (self.total.entries + 1).saturating_sub(self.limits.entries) as u64
    }

    fn bytes_over(&self, bytes: u64) -> u64 {
        (self.total.bytes + bytes).saturating_sub(self.limits.bytes as u64)
    }

    /// The flow that has to make room for `more`, of which `over` exceed the limit; none when nothing
    /// does.
    fn victim(
        &self,
        longest: Option<u32>,
        seat: Option<u32>,
        (more, over): (u64, u64),
        length: fn(&Backlog) -> u64,
    ) -> Option<Option<u32>> {
        if over == 0 {
            return Some(None);
        }
        let own = seat.map_or(0, |flow| length(&self.flows[flow].load));
        longest
            .filter(|&longest| Some(longest) != seat)
            .filter(|&longest| own + more + over <= length(&self.flows[longest].load))
            .map(Some)
    }

    /// Takes the newest item out of a flow: the last of the lane that the newest arrival is in, so
    /// that no lane gets a gap. False when there is none.
    fn displace(&mut self, flow: u32, displaced: &mut Vec<Popped<T>>) -> bool {
        let Some(newest) = self.flows[flow].arrivals.tail() else {
            return false;
        };
        let lane = self.entries[newest].lane;
        let last = self.lanes[lane].fifo.tail().unwrap_or(newest);
        displaced.push(self.take_out(last));
        let has_more = self.flows[flow].load.entries > 0;
        self.settle(flow);
        has_more
    }
}
