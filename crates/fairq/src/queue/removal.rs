//! Items that leave without a turn: their connection is gone, or their deadline has passed.

use super::{FairQueue, flow::InLane, item::Item, slab::List};
use crate::key::ClientKey;

impl<T> FairQueue<T> {
    /// Removes the items of one connection except those for which `keep` returns true, and hands each to
    /// `removed`, the oldest first. Looks at the items of the connection; of all its client's, where
    /// these are in one line.
    pub fn remove_connection(
        &mut self,
        client: &ClientKey,
        connection: u64,
        mut keep: impl FnMut(&T) -> bool,
        mut removed: impl FnMut(Item<T>),
    ) {
        let line = self.line(connection);
        let Some(flow) = self.clients.find(client) else {
            return;
        };
        let Some(lane) = self.clients.find_lane(flow, line) else {
            return;
        };
        let mut at = self.lanes[lane].fifo.head();
        while let Some(number) = at {
            at = List::<InLane>::next(&self.entries, number);
            let entry = &self.entries[number];
            if entry.connection == connection && !keep(&entry.item.value) {
                removed(self.take_out(number).item);
            }
        }
        self.settle(flow);
    }

    /// Removes the oldest items, of all clients, as long as `over` returns true for the oldest, and
    /// hands each to `removed`: for deadlines, where all items may wait equally long.
    pub fn remove_oldest_while(
        &mut self,
        mut over: impl FnMut(&T) -> bool,
        mut removed: impl FnMut(ClientKey, Item<T>),
    ) {
        while let Some(number) = self.ages.head()
            && over(&self.entries[number].item.value)
        {
            let flow = self.lanes[self.entries[number].lane].flow;
            let popped = self.take_out(number);
            self.settle(flow);
            removed(popped.client, popped.item);
        }
    }
}
