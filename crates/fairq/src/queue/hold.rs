//! Clients and connections of which nothing leaves for a while.

use super::FairQueue;
use crate::key::ClientKey;

impl<T> FairQueue<T> {
    /// From now on nothing leaves by its turn that is of this connection, or of this client if none is given, until it is
    /// [released](Self::release) as often. What waits keeps its place and its deadline, and the turn goes to the next.
    /// Where clients are what stays in order, their connections are held together. The caller bounds what it holds.
    pub fn hold(&mut self, client: ClientKey, connection: Option<u64>) {
        self.change_hold(client, connection, true);
    }

    /// Takes one hold back.
    pub fn release(&mut self, client: ClientKey, connection: Option<u64>) {
        self.change_hold(client, connection, false);
    }

    fn change_hold(&mut self, client: ClientKey, connection: Option<u64>, more: bool) {
        let line = connection.map(|connection| self.line(connection));
        let [was_held, is_held] = self.holds.count((client, line), more);
        let Some(flow) = (self.clients.find(&client)).filter(|_| was_held != is_held) else {
            return;
        };
        let Some(line) = line else {
            self.flows[flow].is_held = is_held;
            return self.settle(flow);
        };
        if let Some(lane) = self.clients.find_lane(flow, line) {
            self.lanes[lane].is_held = is_held;
            let ring = &mut self.flows[flow].ring;
            if is_held {
                ring.remove(&mut self.lanes, lane);
            } else {
                ring.push_back(&mut self.lanes, lane);
            }
            self.settle(flow);
        }
    }
}
