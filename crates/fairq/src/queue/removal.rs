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
        let flow = self.clients.find(client);
        let Some((flow, lane)) =
            flow.and_then(|flow| Some((flow, self.clients.find_lane(flow, line)?)))
        else {
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

    /// Removes the oldest items, of all clients, as long as `age` says that the oldest is over, and hands each to
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

/// What becomes of an item that is the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// It stays, and so do all younger ones.
    Young,
    /// It stays, as the youngest of all.
    Renewed,
    /// It is removed.
    Over,
}
