//! The fair queue: deficit round robin between clients, and between the connections of a client.
//!
//! Deficit round robin is Shreedhar and Varghese's (1995); that flows which were idle come before those that take
//! turns is fq_codel's (RFC 8290, section 4.1). Different here: a flow that runs empty keeps its place until it has sat
//! out the turn that it took, so going off and on gains nothing; a debt is repaid by counting laps, not by turning
//! through them; nothing is dropped for having waited; keys are exact. A flow that has sat out its turn owes nothing
//! and is owed nothing, so its state is forgotten without a trace. While all flows are taken, further clients are
//! refused.

mod clients;
mod limits;
mod removal;
mod slab;
mod turns;

use pacing::{Nanos, Rate};

use self::clients::{Clients, Entry, Flow, Holds, InAll, Lane, Rank};
pub use self::limits::{
    Age, Backlog, Item, Popped, PushError, Pushed, QueueLimits, Refusal, Weight,
};
use self::limits::{PARTS, counted};
use self::slab::{List, Slab};
use self::turns::{Turns, Wait};
use crate::Error;
use crate::key::ClientKey;

/// A queue that shares what is popped between clients: max-min fair, in proportion to their weights.
///
/// Each operation takes constant time and grows with the logarithm of the clients alone, whatever the prices; amortised
/// where several small items make room for a large one. Nothing in it grows beyond its [`QueueLimits`].
pub struct FairQueue<T> {
    limits: QueueLimits,
    clients: Clients,
    entries: Slab<Entry<T>>,
    lanes: Slab<Lane>,
    flows: Slab<Flow>,
    turns: Turns,
    holds: Holds,
    /// All entries, the oldest first.
    ages: List<InAll>,
    by_bytes: Rank,
    by_entries: Rank,
    total: Backlog,
    backlogged_parts: u64,
}

impl<T> FairQueue<T> {
    /// An empty queue. `seed` has to be secret and different in each process: with it a client can
    /// choose keys that collide.
    ///
    /// # Errors
    /// A limit out of its range.
    pub fn new(limits: QueueLimits, seed: [u64; 2]) -> Result<Self, Error> {
        limits.check()?;
        Ok(Self {
            clients: Clients::new(&limits, seed),
            holds: Holds::new(seed),
            limits,
            entries: Slab::new(),
            lanes: Slab::new(),
            flows: Slab::new(),
            turns: Turns::default(),
            ages: List::default(),
            by_bytes: Rank::default(),
            by_entries: Rank::default(),
            total: Backlog::default(),
            backlogged_parts: 0,
        })
    }

    /// Queues an item behind those of its connection. The weight counts from the next turn on.
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
        let known = self.clients.find(&client);
        let waiting = known.map_or(0, |flow| self.flows[flow].load.entries);
        let room = if waiting >= self.limits.per_client {
            Err(Refusal::QueueFull)
        } else if known.is_none() && !self.has_place(&client) {
            Err(Refusal::Clients)
        } else {
            self.make_room(known, item.bytes)
        };
        let displaced = match room {
            Ok(displaced) => displaced,
            Err(reason) => return Err(PushError { reason, item }),
        };
        let flow = known.unwrap_or_else(|| {
            let is_held = self.holds.has(client, None);
            let flow = self.flows.insert(Flow::new(client, weight, is_held));
            self.clients.insert(client, flow);
            flow
        });
        self.weigh(flow, weight);
        let (bytes, cost) = (item.bytes, counted(item.cost));
        let lane = self.lane_for(flow, connection);
        let number = self.entries.insert(Entry::new(item, lane));
        self.lanes[lane].fifo.push_back(&mut self.entries, number);
        let arrivals = &mut self.flows[flow].arrivals;
        arrivals.push_back(&mut self.entries, number);
        self.ages.push_back(&mut self.entries, number);
        self.count_in(flow, bytes, cost);
        Ok(Pushed { displaced })
    }

    /// From now on this many items of one client may wait; those beyond it that wait already stay.
    ///
    /// # Errors
    /// Out of range, as in [`QueueLimits`].
    pub fn set_per_client(&mut self, per_client: usize) -> Result<(), Error> {
        let limits = QueueLimits {
            per_client,
            ..self.limits
        };
        limits.check()?;
        self.limits = limits;
        Ok(())
    }

    /// The item whose turn it is, at its own cost.
    pub fn pop(&mut self) -> Option<Popped<T>> {
        self.pop_at(|item| item.cost)
    }

    /// How many items wait.
    pub const fn len(&self) -> usize {
        self.total.entries
    }

    /// Whether none waits.
    pub const fn is_empty(&self) -> bool {
        self.total.entries == 0
    }

    /// The bytes of all items, as they count them.
    pub const fn bytes(&self) -> u64 {
        self.total.bytes
    }

    /// How many clients have items waiting.
    pub fn backlogged_clients(&self) -> usize {
        self.turns.backlogged()
    }

    /// How many connections have items waiting.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// How many clients have a flow, those included that sit out a turn.
    pub fn flows(&self) -> usize {
        self.clients.len()
    }

    /// What waits of one client.
    pub fn backlog(&self, client: &ClientKey) -> Backlog {
        let flow = self.clients.find(client);
        flow.map_or(Backlog::default(), |flow| self.flows[flow].load)
    }

    /// The bounds it was made with.
    pub const fn limits(&self) -> &QueueLimits {
        &self.limits
    }

    /// The lane for a connection, made if there is none.
    fn lane_for(&mut self, flow: u32, connection: u64) -> u32 {
        if let Some(lane) = self.clients.find_lane(flow, connection) {
            return lane;
        }
        let is_held = self.holds.has(self.flows[flow].owner, Some(connection));
        let lane = self.lanes.insert(Lane::new(flow, connection, is_held));
        self.clients.insert_lane(flow, connection, lane);
        if !is_held {
            self.flows[flow].ring.push_back(&mut self.lanes, lane);
        }
        lane
    }

    fn weigh(&mut self, flow: u32, weight: Weight) {
        let node = &mut self.flows[flow];
        if node.load.entries > 0 {
            self.backlogged_parts += u64::from(weight.parts());
            self.backlogged_parts -= u64::from(node.weight.parts());
        }
        node.weight = weight;
    }
}

impl<T> FairQueue<T> {
    /// The item whose turn it is, at the cost that it has now, 1 to 16,384 (outside of that the nearer end counts): what
    /// is scarce may have changed since it was pushed.
    pub fn pop_at(&mut self, price: impl Fn(&Item<T>) -> u32) -> Option<Popped<T>> {
        for _ in 0..FORGOTTEN {
            self.forget_rested(false);
        }
        let flow = self.turns.next()?;
        Some(self.pop_of(flow, price))
    }

    /// The same of the first client in turn that `may` send, by what it has waiting. Looks at no more than 64 clients.
    pub fn pop_if(
        &mut self,
        price: impl Fn(&Item<T>) -> u32,
        may: impl Fn(&ClientKey, &Backlog) -> bool,
    ) -> Option<Popped<T>> {
        let may = |flow: &u32| may(&self.flows[*flow].owner, &self.flows[*flow].load);
        let flow = self.turns.waiting().take(LOOKS).find(may)?;
        Some(self.pop_of(flow, price))
    }

    fn pop_of(&mut self, flow: u32, price: impl Fn(&Item<T>) -> u32) -> Popped<T> {
        let ring = &mut self.flows[flow].ring;
        let lane = ring.head().expect("a flow with a turn has a lane");
        ring.rotate(&mut self.lanes);
        let entry = self.lanes[lane].fifo.head();
        let popped = self.take_out(entry.expect("a lane holds an entry"));
        let cost = i64::from(counted(price(&popped.item))) * i64::from(PARTS);
        let terms = self.terms(flow);
        self.turns
            .send(flow, &mut self.flows[flow].turn, cost, terms);
        self.settle(flow);
        popped
    }

    /// What a flow waits for follows from what it has.
    fn settle(&mut self, flow: u32) {
        let terms = self.terms(flow);
        self.turns.settle(flow, &mut self.flows[flow].turn, terms);
    }

    /// What a flow waits for while nothing of it may leave, and what it may send in a turn.
    fn terms(&self, flow: u32) -> (Option<Wait>, i64) {
        let flow = &self.flows[flow];
        let quantum = i64::from(self.limits.quantum) * i64::from(flow.weight.parts());
        (flow.without_turn(), quantum)
    }

    /// Whether there is a flow for another client. If none is free, clients without waiting writes and debts are dropped.
    /// While the queue is empty, debts delay no client, and laps pass until a client has no debt.
    fn has_place(&mut self, client: &ClientKey) -> bool {
        while self.clients.is_full() || self.clients.is_full_site(client) {
            if self.is_empty() {
                self.turns.skip_debts();
            }
            if !self.forget_rested(self.clients.is_full()) {
                return false;
            }
        }
        true
    }

    /// Forgets a flow that has rested, if there is one.
    fn forget_rested(&mut self, wanted: bool) -> bool {
        let Some(flow) = self.turns.rested(wanted) else {
            return false;
        };
        let Flow { owner, turn, .. } = self.flows.remove(flow);
        self.turns.leave(&turn);
        self.clients.remove(&owner);
        true
    }
}

impl<T> FairQueue<T> {
    /// From now on nothing leaves by its turn that is of this connection, or of this client if none is given, until it is
    /// [released](Self::release) as often. What waits keeps its place and its deadline, and the turn goes to the next.
    /// The caller bounds what it holds.
    pub fn hold(&mut self, client: ClientKey, connection: Option<u64>) {
        self.change_hold(client, connection, true);
    }

    /// Takes one hold back.
    pub fn release(&mut self, client: ClientKey, connection: Option<u64>) {
        self.change_hold(client, connection, false);
    }

    fn change_hold(&mut self, client: ClientKey, connection: Option<u64>, more: bool) {
        let [was_held, is_held] = self.holds.count((client, connection), more);
        let Some(flow) = (self.clients.find(&client)).filter(|_| was_held != is_held) else {
            return;
        };
        let Some(connection) = connection else {
            self.flows[flow].is_held = is_held;
            return self.settle(flow);
        };
        if let Some(lane) = self.clients.find_lane(flow, connection) {
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

impl<T> FairQueue<T> {
    /// Counts an entry that has just been put on its lists.
    fn count_in(&mut self, flow: u32, bytes: u32, cost: u32) {
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
    fn take_out(&mut self, number: u32) -> Popped<T> {
        let number_of_lane = self.entries[number].lane;
        let lane = &mut self.lanes[number_of_lane];
        lane.fifo.remove(&mut self.entries, number);
        let (flow, connection, is_last) = (lane.flow, lane.connection, lane.fifo.is_empty());
        let is_in_ring = !lane.is_held;
        let node = &mut self.flows[flow];
        node.arrivals.remove(&mut self.entries, number);
        self.ages.remove(&mut self.entries, number);
        if is_last {
            if is_in_ring {
                node.ring.remove(&mut self.lanes, number_of_lane);
            }
            self.lanes.remove(number_of_lane);
            self.clients.remove_lane(flow, connection);
        }
        let Entry { item, .. } = self.entries.remove(number);
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

impl<T> FairQueue<T> {
    /// What a client would get of `total` a second if all backlogged clients stayed so: its weight's
    /// part of the weights of those, its own included. It gets more when others need less. `weight`
    /// counts for a client that has nothing waiting.
    pub fn fair_share(&self, client: &ClientKey, weight: Weight, total: Rate) -> f64 {
        total.as_f64() * self.part(client, weight).1
    }

    /// What a client has waiting, and its part of the rate.
    fn part(&self, client: &ClientKey, weight: Weight) -> (Backlog, f64) {
        let flow = self.clients.find(client).map(|flow| &self.flows[flow]);
        let backlogged = self.backlogged_parts as f64;
        match flow.filter(|flow| flow.load.entries > 0) {
            Some(flow) => (flow.load, f64::from(flow.weight.parts()) / backlogged),
            None => {
                let absent = f64::from(weight.parts());
                (Backlog::default(), absent / (backlogged + absent))
            }
        }
    }

    /// How long an item would wait that the client pushed now: what it has waiting, at its fair share,
    /// or all that waits, at the whole rate, if that is sooner. `of` gives how much of what the rate is of
    /// a backlog takes: its entries, or its cost. Both are longest waits as long as no more clients
    /// come; [`Nanos::MAX`] when the rate is zero.
    pub fn wait_estimate(
        &self,
        client: &ClientKey,
        weight: Weight,
        total: Rate,
        of: impl Fn(&Backlog) -> f64,
    ) -> Nanos {
        if total.is_zero() {
            return Nanos::MAX;
        }
        let (own, part) = self.part(client, weight);
        let wait = (of(&own) / part).min(of(&self.total)) / total.as_f64();
        // Saturates: a wait beyond 584 years is the longest there is.
        Nanos::new((wait * 1e9) as u64)
    }

    /// Whether a client with a short queue waits, of at most 7 entries, beside one with a longer queue.
    pub fn is_uneven(&self) -> bool {
        self.by_entries.is_uneven()
    }

    /// The clients with most entries waiting, the longest first. Looks at those that are taken, not at all.
    pub fn longest(&self) -> impl Iterator<Item = (ClientKey, Backlog)> {
        let flows = (self.by_entries.descending()).map(|flow| &self.flows[flow]);
        flows.map(|flow| (flow.owner, flow.load))
    }
}

/// How many flows that have rested are forgotten at each pop: each pop makes one rest at most.
const FORGOTTEN: usize = 2;
/// Flows that are looked at for one that may send.
const LOOKS: usize = 64;
