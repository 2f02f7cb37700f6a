//! What waits where, counted as entries come and go.

use super::{
    FairQueue,
    flow::{Entry, Lane},
    item::{Backlog, Popped},
};

impl<T> FairQueue<T> {
    /// Counts an entry that has just been put on its lists.
    pub(super) fn count_in(&mut self, number: u32) {
        let Entry { item, lane, .. } = &self.entries[number];
        let (bytes, cost, lane) = (item.bytes, item.counted_cost(), *lane);
        self.total.add(bytes, cost);
        let lane_node = &mut self.lanes[lane];
        lane_node.load.add(bytes, cost);
        let flow = lane_node.flow;
        let first_of_lane = lane_node.load.entries == 1;
        if first_of_lane {
            self.flows[flow].ring.push_back(&mut self.lanes, lane);
        }
        let node = &mut self.flows[flow];
        let before = node.load;
        node.load.add(bytes, cost);
        let first_of_flow = node.load.entries == 1;
        if first_of_flow {
            self.backlogged_shares += u64::from(node.weight.shares());
        }
        if (node.owner.is_some() && first_of_flow) || (node.owner.is_none() && first_of_lane) {
            self.backlogged_clients += 1;
        }
        self.rank(flow, before);
        self.settle(flow);
    }

    /// Takes an entry off its lists and out of the counts. The caller settles the flow.
    pub(super) fn take_out(&mut self, number: u32) -> Popped<T> {
        let lane = self.entries[number].lane;
        let flow = self.lanes[lane].flow;
        self.lanes[lane].fifo.remove(&mut self.entries, number);
        self.flows[flow].arrivals.remove(&mut self.entries, number);
        self.ages.remove(&mut self.entries, number);
        let Entry {
            item, connection, ..
        } = self.entries.remove(number);
        let (bytes, cost) = (item.bytes, item.counted_cost());
        self.total.subtract(bytes, cost);
        let node = &mut self.flows[flow];
        let before = node.load;
        node.load.subtract(bytes, cost);
        let last_of_flow = node.load.entries == 0;
        if last_of_flow {
            self.backlogged_shares -= u64::from(node.weight.shares());
        }
        let owner = node.owner;
        let lane_node = &mut self.lanes[lane];
        lane_node.load.subtract(bytes, cost);
        let last_of_lane = lane_node.load.entries == 0;
        let ((Some(client), _) | (None, Lane::Client(client))) = (owner, lane_node.lane) else {
            unreachable!("the lanes of an overflow flow are clients'");
        };
        if (owner.is_some() && last_of_flow) || (owner.is_none() && last_of_lane) {
            self.backlogged_clients -= 1;
        }
        if last_of_lane {
            self.flows[flow].ring.remove(&mut self.lanes, lane);
            self.drop_lane(lane);
        }
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
        let (flows, bytes) = (&mut self.flows, (before.bytes, after.bytes));
        self.by_bytes.update(flows, flow, bytes);
        let entries = (before.entries as u64, after.entries as u64);
        self.by_entries.update(flows, flow, entries);
    }
}
