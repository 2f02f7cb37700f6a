//! What waits where, counted as entries come and go.

use super::{
    FairQueue,
    flow::Entry,
    item::{Backlog, Popped, counted},
};

impl<T> FairQueue<T> {
    /// Counts an entry that has just been put on its lists.
    pub(super) fn count_in(&mut self, flow: u32, bytes: u32, cost: u32) {
        self.total.add(bytes, cost);
        let node = &mut self.flows[flow];
        let before = node.load;
        node.load.add(bytes, cost);
        self.rank(flow, before);
        if before.entries == 0 {
            self.backlogged_parts += u64::from(self.flows[flow].weight.parts());
        }
        self.settle(flow);
    }

    /// Takes an entry off its lists and out of the counts. The caller settles the flow.
    pub(super) fn take_out(&mut self, number: u32) -> Popped<T> {
        let number_of_lane = self.entries[number].lane;
        let lane = &mut self.lanes[number_of_lane];
        lane.fifo.remove(&mut self.entries, number);
        let (flow, line, is_last) = (lane.flow, lane.line, lane.fifo.is_empty());
        let is_in_ring = !lane.is_held;
        let node = &mut self.flows[flow];
        node.arrivals.remove(&mut self.entries, number);
        self.ages.remove(&mut self.entries, number);
        if is_last {
            if is_in_ring {
                node.ring.remove(&mut self.lanes, number_of_lane);
            }
            self.lanes.remove(number_of_lane);
            self.clients.remove_lane(flow, line);
        }
        let Entry {
            item, connection, ..
        } = self.entries.remove(number);
        let (bytes, cost) = (item.bytes, counted(item.cost));
        self.total.subtract(bytes, cost);
        let before = node.load;
        node.load.subtract(bytes, cost);
        if node.load.entries == 0 {
            self.backlogged_parts -= u64::from(node.weight.parts());
        }
        let client = node.owner;
        self.rank(flow, before);
        Popped {
            client,
            connection,
            item,
        }
    }

    /// Moves a flow in the rankings after its load has changed.
    fn rank(&mut self, flow: u32, before: Backlog) {
        let after = self.flows[flow].load;
        self.by_bytes.update(flow, (before.bytes, after.bytes));
        let entries = (before.entries as u64, after.entries as u64);
        self.by_entries.update(flow, entries);
    }
}
