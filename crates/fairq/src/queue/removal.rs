//! Items that leave without a turn: their connection is gone, or their deadline has passed.

use super::{
    FairQueue,
    flow::{InFlow, InLane},
    homes::Home,
    item::Item,
    limits::Order,
    slab::List,
};
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
        removed: impl FnMut(Item<T>),
    ) {
        let home = self.homes.find(client);
        let lane = match (home, self.order) {
            (Some(Home::Flow(flow)), Order::Connection) => {
                match self.homes.find_lane(flow, connection) {
                    Some(lane) => Some(Home::Lane(lane)),
                    None => return,
                }
            }
            _ => home,
        };
        let Some(scope) = lane else { return };
        let keep = |of: u64, value: &T| of != connection || keep(value);
        self.sweep(scope, keep, removed);
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

    /// Goes through a lane, or a flow with all its lanes.
    fn sweep(
        &mut self,
        scope: Home,
        mut keep: impl FnMut(u64, &T) -> bool,
        mut removed: impl FnMut(Item<T>),
    ) {
        let (flow, mut at) = match scope {
            Home::Flow(flow) => (flow, self.flows[flow].arrivals.head()),
            Home::Lane(lane) => (self.lanes[lane].flow, self.lanes[lane].fifo.head()),
        };
        while let Some(number) = at {
            at = match scope {
                Home::Flow(_) => List::<InFlow>::next(&self.entries, number),
                Home::Lane(_) => List::<InLane>::next(&self.entries, number),
            };
            let entry = &self.entries[number];
            if !keep(entry.connection, &entry.item.value) {
                let popped = self.take_out(number);
                removed(popped.item);
            }
        }
        self.settle(flow);
    }
}
