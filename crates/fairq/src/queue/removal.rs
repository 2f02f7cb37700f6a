//! Items that leave without a turn: their connection is gone, their deadline has passed, or the longest flow makes room
//! when the queue as a whole is full.

use super::FairQueue;
use super::clients::InLane;
use super::limits::{Age, Backlog, Item, Popped, Refusal};
use super::slab::List;
use crate::key::ClientKey;

impl<T> FairQueue<T> {
    /// Removes the items of one connection except those for which `keep` returns true, and hands each to
    /// `removed`, the oldest first. Looks at the items of the connection.
    pub fn remove_connection(
        &mut self,
        client: &ClientKey,
        connection: u64,
        mut keep: impl FnMut(&T) -> bool,
        mut removed: impl FnMut(Item<T>),
    ) {
        let flow = self.clients.find(client);
        let Some((flow, lane)) =
            flow.and_then(|flow| Some((flow, self.clients.find_lane(flow, connection)?)))
        else {
            return;
        };
        let mut at = self.lanes[lane].fifo.head();
        while let Some(number) = at {
            at = List::<InLane>::next(&self.entries, number);
            if !keep(&self.entries[number].item.value) {
                removed(self.take_out(number).item);
            }
        }
        self.settle(flow);
    }

    /// Removes the oldest items, of all clients, as long as `age` finds the oldest expired, and hands each to
    /// `removed`: for deadlines, where all items may wait equally long. Looks at an item once.
    pub fn remove_oldest(
        &mut self,
        mut age: impl FnMut(&mut T) -> Age,
        mut removed: impl FnMut(ClientKey, Item<T>),
    ) {
        let mut looks = 0..self.len();
        while looks.next().is_some()
            && let Some(number) = self.ages.head()
        {
            match age(&mut self.entries[number].item.value) {
                Age::Young => return,
                Age::Renewed => self.ages.rotate(&mut self.entries),
                Age::Over => {
                    let flow = self.lanes[self.entries[number].lane].flow;
                    let popped = self.take_out(number);
                    self.settle(flow);
                    removed(popped.client, popped.item);
                }
            }
        }
    }
}

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
