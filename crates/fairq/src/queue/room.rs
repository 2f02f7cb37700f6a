//! Room for an item when the queue as a whole is full.

use super::{
    FairQueue,
    item::{Popped, Refusal},
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
        let by_entries = self.longest_by_entries(seat)?;
        let by_bytes = self.longest_by_bytes(seat, u64::from(bytes))?;
        let mut displaced = Vec::new();
        if let Some(longest) = by_entries {
            while self.entries_over() > 0 && self.displace(longest, &mut displaced) {}
        }
        if let Some(longest) = by_bytes {
            while self.bytes_over(u64::from(bytes)) > 0 && self.displace(longest, &mut displaced) {}
        }
        Ok(displaced)
    }

    fn entries_over(&self) -> usize {
        (self.total.entries + 1).saturating_sub(self.limits.entries)
    }

    fn bytes_over(&self, bytes: u64) -> u64 {
        (self.total.bytes + bytes).saturating_sub(self.limits.bytes as u64)
    }

    fn longest_by_entries(&self, seat: Option<u32>) -> Result<Option<u32>, Refusal> {
        let over = self.entries_over();
        if over == 0 {
            return Ok(None);
        }
        let own = seat.map_or(0, |flow| self.flows[flow].load.entries);
        self.by_entries
            .longest()
            .filter(|&longest| Some(longest) != seat)
            .filter(|&longest| own + 1 + over <= self.flows[longest].load.entries)
            .map(Some)
            .ok_or(Refusal::Entries)
    }

    fn longest_by_bytes(&self, seat: Option<u32>, bytes: u64) -> Result<Option<u32>, Refusal> {
        let over = self.bytes_over(bytes);
        if over == 0 {
            return Ok(None);
        }
        let own = seat.map_or(0, |flow| self.flows[flow].load.bytes);
        self.by_bytes
            .longest()
            .filter(|&longest| Some(longest) != seat)
            .filter(|&longest| own + bytes + over <= self.flows[longest].load.bytes)
            .map(Some)
            .ok_or(Refusal::Bytes)
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
        self.counters.displaced += 1;
        if self.flows[flow].load.entries > 0 {
            self.settle(flow);
            return true;
        }
        self.settle(flow);
        false
    }
}
