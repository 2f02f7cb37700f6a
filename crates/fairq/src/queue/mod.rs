//! The fair queue: deficit round robin between clients, and between the connections of a client.
//!
//! Deficit round robin is Shreedhar and Varghese's (1995); the two lists, of flows that were idle
//! and of flows that take turns, are fq_codel's (RFC 8290, section 4.1). Different here: a flow that
//! runs empty keeps its place until it has sat out the turn that it took, from either list, so going
//! off and on gains nothing; nothing is dropped for having waited; keys are exact. A flow that is in
//! neither list owes nothing and is owed nothing, so its state is forgotten without a trace, and the
//! table of flows needs no eviction.

mod account;
mod estimate;
mod flow;
mod homes;
mod item;
mod limits;
mod rank;
mod removal;
mod room;
mod slab;
mod turns;

use self::{
    flow::{ByBytes, ByEntries, Entry, Flow, Lane, LaneNode, Turn},
    homes::{Home, Homes},
    rank::Rank,
    slab::{List, NIL, Slab},
};
pub use self::{
    item::{Backlog, Item, Popped, PushError, Pushed, Refusal},
    limits::{Order, QueueLimits, Weight},
};
use crate::{error::Error, key::ClientKey};

/// A queue that shares what is popped between clients: max-min fair, in proportion to their weights.
///
/// Each operation takes the same time however many clients there are: constant, or amortised
/// constant where items have a cost above the quantum or where several small ones make room for a
/// large one. Nothing in it grows beyond its [`QueueLimits`].
pub struct FairQueue<T> {
    limits: QueueLimits,
    order: Order,
    homes: Homes,
    entries: Slab<Entry<T>>,
    lanes: Slab<LaneNode>,
    /// The overflow flows are the first of them.
    flows: Slab<Flow>,
    /// All entries, the oldest first.
    ages: List<flow::InAll>,
    new: List<Turn>,
    old: List<Turn>,
    /// Visits to new flows since the last to an old one.
    streak: u32,
    ready_flows: usize,
    by_bytes: Rank<ByBytes>,
    by_entries: Rank<ByEntries>,
    total: Backlog,
    backlogged_clients: usize,
    backlogged_shares: u64,
    overflow_clients: usize,
}

impl<T> FairQueue<T> {
    /// An empty queue. `seed` has to be secret and different in each process: with it a client can
    /// choose keys that collide.
    ///
    /// # Errors
    /// A limit out of its range.
    pub fn new(limits: QueueLimits, order: Order, seed: [u64; 2]) -> Result<Self, Error> {
        limits.check()?;
        let mut flows = Slab::new();
        for _ in 0..limits.overflow_flows {
            flows.insert(Flow::new(None, Weight::ONE));
        }
        Ok(Self {
            homes: Homes::new(&limits, seed),
            limits,
            order,
            entries: Slab::new(),
            lanes: Slab::new(),
            flows,
            ages: List::default(),
            new: List::default(),
            old: List::default(),
            streak: 0,
            ready_flows: 0,
            by_bytes: Rank::new(),
            by_entries: Rank::new(),
            total: Backlog::default(),
            backlogged_clients: 0,
            backlogged_shares: 0,
            overflow_clients: 0,
        })
    }

    /// Queues an item behind those of its connection or client. The weight counts from now on.
    ///
    /// When the queue as a whole is full, the newest items of the longest flow make room, unless
    /// this client's own would then be the longest.
    ///
    /// # Errors
    /// The item, and which bound refused it.
    pub fn push(
        &mut self,
        client: ClientKey,
        connection: u64,
        weight: Weight,
        item: Item<T>,
    ) -> Result<Pushed<T>, PushError<T>> {
        let home = self.homes.find(&client);
        if self.load(home).entries >= self.limits.per_client {
            let reason = Refusal::QueueFull;
            return Err(PushError { reason, item });
        }
        let seat = self.seat(&client, home);
        let displaced = match self.make_room(seat, item.bytes) {
            Ok(displaced) => displaced,
            Err(reason) => return Err(PushError { reason, item }),
        };
        let lane = self.lane_for((client, connection), home, seat);
        self.weigh(self.lanes[lane].flow, weight);
        let number = self.entries.insert(Entry::new(item, connection, lane));
        self.lanes[lane].fifo.push_back(&mut self.entries, number);
        let flow = self.lanes[lane].flow;
        self.flows[flow]
            .arrivals
            .push_back(&mut self.entries, number);
        self.ages.push_back(&mut self.entries, number);
        self.count_in(number);
        Ok(Pushed { displaced })
    }

    /// The item whose turn it is, at its own cost.
    pub fn pop(&mut self) -> Option<Popped<T>> {
        self.pop_at(Item::counted_cost)
    }

    /// The item whose turn it is, at the cost that it has now, 1 or more: what is scarce may have changed
    /// since it was pushed.
    pub fn pop_at(&mut self, price: impl Fn(&Item<T>) -> u32) -> Option<Popped<T>> {
        self.next_turn(price)
    }

    /// How many items wait.
    pub const fn len(&self) -> usize {
        self.total.entries
    }

    /// Whether none waits.
    pub const fn is_empty(&self) -> bool {
        self.total.entries == 0
    }

    /// The bytes of all items, as they say.
    pub const fn bytes(&self) -> u64 {
        self.total.bytes
    }

    /// How many clients have items waiting.
    pub const fn backlogged_clients(&self) -> usize {
        self.backlogged_clients
    }

    /// How many clients share the overflow flows at the moment.
    pub const fn overflow_clients(&self) -> usize {
        self.overflow_clients
    }

    /// How many clients have a flow of their own, those included that sit out a turn.
    pub const fn flows(&self) -> usize {
        self.homes.own_flows()
    }

    /// What waits of one client.
    pub fn backlog(&self, client: &ClientKey) -> Backlog {
        self.load(self.homes.find(client))
    }

    /// The bounds it was made with.
    pub const fn limits(&self) -> &QueueLimits {
        &self.limits
    }

    fn load(&self, home: Option<Home>) -> Backlog {
        match home {
            Some(Home::Flow(flow)) => self.flows[flow].load,
            Some(Home::Lane(lane)) => self.lanes[lane].load,
            None => Backlog::default(),
        }
    }

    /// The flow that a client's items are in or will be in; none if it is still to be made.
    fn seat(&self, client: &ClientKey, home: Option<Home>) -> Option<u32> {
        match home {
            Some(Home::Flow(flow)) => Some(flow),
            Some(Home::Lane(lane)) => Some(self.lanes[lane].flow),
            None => self
                .homes
                .hand(client)?
                .min_by_key(|&flow| self.flows[flow].load.cost),
        }
    }

    /// The lane for a client's connection, made if there is none.
    fn lane_for(
        &mut self,
        (client, connection): (ClientKey, u64),
        home: Option<Home>,
        seat: Option<u32>,
    ) -> u32 {
        let flow = match (home, seat) {
            (Some(Home::Lane(lane)), _) => return lane,
            (Some(Home::Flow(flow)), _) => flow,
            (None, Some(shared)) => return self.add_lane(shared, Lane::Client(client)),
            (None, None) => self.add_flow(client),
        };
        let lane = match self.order {
            Order::Connection => Lane::Connection(connection),
            Order::Client => Lane::Whole,
        };
        let recent = self.flows[flow].recent;
        if recent != NIL && self.lanes[recent].lane == lane {
            return recent;
        }
        let known = match lane {
            Lane::Connection(connection) => self.homes.find_lane(flow, connection),
            // There is only one, and so it is the recent one.
            Lane::Whole | Lane::Client(_) => None,
        };
        let number = known.unwrap_or_else(|| self.add_lane(flow, lane));
        self.flows[flow].recent = number;
        number
    }

    fn add_flow(&mut self, client: ClientKey) -> u32 {
        let flow = self.flows.insert(Flow::new(Some(client), Weight::ONE));
        self.homes.insert(client, Home::Flow(flow));
        flow
    }

    fn add_lane(&mut self, flow: u32, lane: Lane) -> u32 {
        let number = self.lanes.insert(LaneNode::new(flow, lane));
        self.flows[flow].lanes += 1;
        match lane {
            Lane::Connection(connection) => self.homes.insert_lane(flow, connection, number),
            Lane::Whole => {}
            Lane::Client(client) => {
                self.homes.insert(client, Home::Lane(number));
                self.overflow_clients += 1;
            }
        }
        number
    }

    fn drop_lane(&mut self, number: u32) {
        let LaneNode { flow, lane, .. } = self.lanes.remove(number);
        let node = &mut self.flows[flow];
        node.lanes -= 1;
        if node.recent == number {
            node.recent = NIL;
        }
        match lane {
            Lane::Connection(connection) => self.homes.remove_lane(flow, connection),
            Lane::Whole => {}
            Lane::Client(client) => {
                self.homes.remove(&client);
                self.overflow_clients -= 1;
            }
        }
    }

    /// Sets the weight of a client's flow. Clients in overflow flows share one of weight 1.
    fn weigh(&mut self, flow: u32, weight: Weight) {
        let node = &mut self.flows[flow];
        if node.owner.is_none() || node.weight == weight {
            return;
        }
        if node.load.entries > 0 {
            self.backlogged_shares += u64::from(weight.shares());
            self.backlogged_shares -= u64::from(node.weight.shares());
        }
        node.weight = weight;
    }
}
