//! Whose turn it is.
//!
//! A turn gives a flow its quantum times its weight; it sends while it has some left, and may end a
//! turn in debt. A flow whose turn comes while it has nothing to send, and that owes nothing, leaves
//! the lists.

use super::{
    FairQueue,
    flow::{Flow, Place},
    item::{Item, Popped},
};

/// After so many visits to new flows an old one has its turn. Without that, a client with ever new
/// addresses would keep all others waiting.
const STREAK_MAX: u32 = 16;

/// How many flows that have sat out their turn leave at each pop: each pop makes one at most.
const LEAVERS: usize = 2;

impl<T> FairQueue<T> {
    pub(super) fn next_turn(&mut self, price: impl Fn(&Item<T>) -> u32) -> Option<Popped<T>> {
        self.let_leave();
        // Each visit serves, repays a quantum of debt, or takes a flow off the lists for good.
        while self.ready_flows > 0 {
            let old_is_due = self.streak >= STREAK_MAX;
            let new = self
                .new
                .head()
                .filter(|_| !old_is_due || self.old.is_empty());
            self.streak = if new.is_some() { self.streak + 1 } else { 0 };
            let flow = new.or(self.old.head())?;
            if let Some(popped) = self.visit(flow, &price) {
                return Some(popped);
            }
        }
        None
    }

    fn visit(&mut self, flow: u32, price: impl Fn(&Item<T>) -> u32) -> Option<Popped<T>> {
        let quantum = self.quantum(flow);
        let node = &mut self.flows[flow];
        if !node.in_turn {
            node.in_turn = true;
            node.deficit += quantum;
        }
        if node.deficit <= 0 {
            self.end_turn(flow);
            return None;
        }
        if !node.ready {
            self.leave(flow);
            return None;
        }
        Some(self.serve(flow, price))
    }

    fn serve(&mut self, flow: u32, price: impl Fn(&Item<T>) -> u32) -> Popped<T> {
        let ring = &mut self.flows[flow].ring;
        let lane = ring.head().expect("a ready flow has a lane that may send");
        ring.rotate(&mut self.lanes);
        let entry = self.lanes[lane].fifo.head();
        let popped = self.take_out(entry.expect("a lane that may send has an entry"));
        let node = &mut self.flows[flow];
        node.deficit -= i64::from(price(&popped.item));
        if node.deficit <= 0 {
            self.end_turn(flow);
        }
        self.settle(flow);
        popped
    }

    /// Sends a flow to the end of the old ones.
    fn end_turn(&mut self, flow: u32) {
        self.unlist(flow);
        self.enlist(flow, Place::Old);
    }

    /// Takes a flow off the lists, which owes nothing and has nothing to send.
    fn leave(&mut self, flow: u32) {
        self.unlist(flow);
        self.flows[flow].deficit = 0;
        self.settle(flow);
    }

    /// Lets flows go that are next among the old ones and would only leave.
    fn let_leave(&mut self) {
        for _ in 0..LEAVERS {
            let Some(flow) = self.old.head() else { return };
            let node = &self.flows[flow];
            if node.ready || node.deficit + self.quantum(flow) <= 0 {
                return;
            }
            self.leave(flow);
        }
    }

    pub(super) fn enlist(&mut self, flow: u32, place: Place) {
        self.flows[flow].place = place;
        match place {
            Place::Off => {}
            Place::New => self.new.push_back(&mut self.flows, flow),
            Place::Old => self.old.push_back(&mut self.flows, flow),
        }
    }

    fn unlist(&mut self, flow: u32) {
        let node = &mut self.flows[flow];
        node.in_turn = false;
        match std::mem::replace(&mut node.place, Place::Off) {
            Place::Off => {}
            Place::New => self.new.remove(&mut self.flows, flow),
            Place::Old => self.old.remove(&mut self.flows, flow),
        }
    }

    /// Draws the consequences of a flow having got or lost what it may send.
    pub(super) fn settle(&mut self, flow: u32) {
        let node = &mut self.flows[flow];
        let ready = !node.ring.is_empty();
        match (std::mem::replace(&mut node.ready, ready), ready) {
            (false, true) => {
                self.ready_flows += 1;
                if node.place == Place::Off {
                    self.enlist(flow, Place::New);
                }
            }
            (true, false) => {
                self.ready_flows -= 1;
                // No credit while idle.
                node.deficit = node.deficit.min(0);
                if node.in_turn || node.place == Place::New {
                    self.end_turn(flow);
                }
            }
            _ => {}
        }
        self.forget_if_idle(flow);
    }

    fn forget_if_idle(&mut self, flow: u32) {
        let node = &self.flows[flow];
        let idle = node.place == Place::Off && node.load.entries == 0;
        if let (true, Some(owner)) = (idle, node.owner) {
            self.flows.remove(flow);
            self.homes.remove(&owner);
        }
    }

    fn quantum(&self, flow: u32) -> i64 {
        let Flow { weight, .. } = &self.flows[flow];
        i64::from(self.limits.quantum) * i64::from(weight.shares())
    }
}
