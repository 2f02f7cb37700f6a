//! Clients that have to wait, and connections that are gone.

use super::{
    FairQueue,
    flow::{InFlow, InLane, Lane, Place},
    homes::Home,
    item::Item,
    limits::Order,
    slab::List,
};
use crate::key::ClientKey;

impl<T> FairQueue<T> {
    /// Keeps a client's items, present and future, in the queue until [`FairQueue::release`].
    /// Holding twice is holding once.
    pub fn hold(&mut self, client: ClientKey) {
        let home = self.homes.find(&client);
        match home {
            Some(Home::Flow(flow)) => self.hold_flow(flow),
            Some(Home::Lane(lane)) => self.hold_lane(lane),
            None => match self.seat(&client, home) {
                None => {
                    let flow = self.add_flow(client);
                    self.hold_flow(flow);
                }
                Some(shared) => {
                    let lane = self.add_lane(shared, Lane::Client(client));
                    self.hold_lane(lane);
                }
            },
        }
    }

    fn hold_flow(&mut self, flow: u32) {
        self.flows[flow].held = true;
        self.settle(flow);
    }

    fn hold_lane(&mut self, number: u32) {
        let lane = &mut self.lanes[number];
        lane.held = true;
        let flow = lane.flow;
        if std::mem::take(&mut lane.in_ring) {
            self.flows[flow].ring.remove(&mut self.lanes, number);
        }
        self.settle(flow);
    }

    /// Lets a held client take turns again, behind those that wait already.
    pub fn release(&mut self, client: &ClientKey) {
        match self.homes.find(client) {
            Some(Home::Flow(flow)) if self.flows[flow].held => {
                self.flows[flow].held = false;
                if self.flows[flow].load.entries > 0 {
                    self.line_up(flow);
                }
                self.settle(flow);
            }
            Some(Home::Lane(number)) if self.lanes[number].held => self.release_lane(number),
            _ => {}
        }
    }

    fn release_lane(&mut self, number: u32) {
        let lane = &mut self.lanes[number];
        lane.held = false;
        let flow = lane.flow;
        if lane.load.entries == 0 {
            self.drop_lane(number);
        } else {
            lane.in_ring = true;
            self.flows[flow].ring.push_back(&mut self.lanes, number);
            self.line_up(flow);
        }
        self.settle(flow);
    }

    /// Whether a client is held.
    pub fn is_held(&self, client: &ClientKey) -> bool {
        match self.homes.find(client) {
            Some(Home::Flow(flow)) => self.flows[flow].held,
            Some(Home::Lane(lane)) => self.lanes[lane].held,
            None => false,
        }
    }

    /// Puts a flow that is on no list behind the old ones: having been held is no reason to be first.
    fn line_up(&mut self, flow: u32) {
        if self.flows[flow].place == Place::Off {
            self.enlist(flow, Place::Old);
        }
    }

    /// Removes the items of one connection but those that `keep` says to keep, and hands each to
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

    /// Removes the items of one client but those that `keep` says to keep, and hands each to
    /// `removed`, the oldest first.
    pub fn retain_client(
        &mut self,
        client: &ClientKey,
        mut keep: impl FnMut(&T) -> bool,
        removed: impl FnMut(Item<T>),
    ) {
        if let Some(scope) = self.homes.find(client) {
            self.sweep(scope, |_, value| keep(value), removed);
        }
    }

    /// Removes the oldest items, whosever they are, as long as `over` says so of the oldest, and
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
            self.counters.removed += 1;
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
                self.counters.removed += 1;
                removed(popped.item);
            }
        }
        self.settle(flow);
    }
}
