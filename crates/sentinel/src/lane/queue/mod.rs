//! The fair queue of writes, its bounds, and the sessions that wait for room in it.

mod clients;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use control::Unit;
use fairq::{
    Age, Backlog, ClientKey, ClientTable, FairQueue, Item, NetworkMap, Popped, QueueLimits,
    Refusal as Bound, TableLimits, Weight,
};
use pacing::{Nanos, Rate};
use tokio::sync::Notify;

pub use self::clients::ClientDemand;
use self::clients::{CommonLimit, Had, Places};
use super::job::{Job, Recipient};
use super::scarcity::{Content, QUANTUM, Scarcity, Shortage, units};
use super::status::{Accounts, Explained, Status, Tally};
use super::writes::Hold;
use crate::config::Config;
use crate::refusal::{Reason, Refusal};
use crate::upstream::BlockLimits;

/// Writes that wait, guarded by the lane's lock. Sections under it are short: a push, or a round of
/// pops.
pub(super) struct WriteQueue {
    queue: FairQueue<Job>,
    scarcity: Scarcity,
    weights: NetworkMap<Weight>,
    /// Where several sentinels share the limit.
    common: Option<Box<CommonLimit>>,
    /// Most writes a second.
    ceiling: Rate,
    /// What each client has had, for the operator.
    had: ClientTable<Had>,
    places: Places,
    /// Clients whose sessions wait for room.
    rooms: HashMap<ClientKey, Arc<Notify>>,
    /// Writes a second that are sent at the moment.
    rate: Rate,
    /// Until when nothing is sent, as far as that is known.
    closed_until: Nanos,
    stopping: bool,
    accounts: Accounts,
    timeout: Nanos,
}

impl WriteQueue {
    pub(super) fn new(config: &Config, seed: [u64; 2]) -> Result<Self, fairq::Error> {
        let fair = &config.fair;
        // Less than the account of all bytes, so that the longest queue gives way before a newcomer
        // finds that account full.
        let limits = QueueLimits {
            clients: config.fixed.clients_max,
            per_client: fair.queue_per_client,
            entries: MOST_ENTRIES,
            bytes: config.buffer.bytes / 4 * 3,
            quantum: QUANTUM,
            ..QueueLimits::default()
        };
        let weights = weights_of(config)?;
        Ok(Self {
            queue: FairQueue::new(limits, seed)?,
            scarcity: Scarcity::default(),
            weights,
            common: None,
            ceiling: fair.max_req,
            had: ClientTable::new(
                TableLimits {
                    clients: config.fixed.clients_max,
                    ..TableLimits::default()
                },
                seed,
            )?,
            places: Places::default(),
            rooms: HashMap::new(),
            rate: fair.max_req,
            closed_until: Nanos::ZERO,
            stopping: false,
            accounts: Accounts::default(),
            timeout: fair.queue_timeout.into(),
        })
    }

    /// Goes by another configuration from now on; what waits keeps its deadline. What cannot be, which the
    /// configuration refuses, changes nothing.
    pub(super) fn follow(&mut self, config: &Config) {
        let fair = &config.fair;
        if let Ok(weights) = weights_of(config) {
            self.weights = weights;
        }
        let _ = self.queue.set_per_client(fair.queue_per_client);
        // Else it is the cluster's.
        if self.common.is_none() {
            self.ceiling = fair.max_req;
        }
        self.timeout = fair.queue_timeout.into();
    }

    /// Takes a job into its client's queue.
    pub(super) fn admit(&mut self, job: Job, now: Nanos) -> Result<(), Refusal> {
        let client = job.client;
        let result = self.try_admit(job, now);
        if let Some(common) = &mut self.common {
            common.note_arrival(client, result.is_ok());
        }
        match &result {
            Ok(()) => self.accounts.admitted += 1,
            Err(_) => {
                self.accounts.refused += 1;
                self.had.entry(client, now).state.tally.refused += 1;
            }
        }
        result
    }

    fn try_admit(&mut self, job: Job, now: Nanos) -> Result<(), Refusal> {
        if self.stopping {
            return Err(Refusal::going_down());
        }
        let client = job.client;
        let wait = self.wait(client, now);
        if wait > self.timeout {
            let text = "the queue of this client would not be served in time";
            return Err(Refusal::new(Reason::QueueTimeout, text)
                .retry_after(wait.saturating_sub(self.timeout).into()));
        }
        let line = job.line;
        let weight = self.weight(client);
        let reserved = job.reservation.bytes();
        let item = Item {
            bytes: u32::try_from(reserved).unwrap_or(u32::MAX),
            cost: units(job.tx.len()),
            value: job,
        };
        match self.queue.push(client, line, weight, item) {
            Ok(pushed) => {
                for displaced in pushed.displaced {
                    self.accounts.displaced += 1;
                    let share = self.drain_time(displaced.client);
                    let text = "the buffer is full and this client's backlog is the longest";
                    let job = displaced.item.value;
                    self.offer_room(job.client);
                    job.refuse(Refusal::new(Reason::Bytes, text).retry_after(share));
                }
                Ok(())
            }
            Err(error) => Err(self.refusal(client, error.reason)),
        }
    }

    fn refusal(&self, client: ClientKey, bound: Bound) -> Refusal {
        let refusal = match bound {
            Bound::QueueFull => Refusal::new(Reason::QueueFull, "the queue of this client is full"),
            Bound::Clients => Refusal::new(Reason::Clients, "too many clients wait"),
            Bound::Entries | Bound::Bytes => Refusal::new(Reason::Bytes, "the buffer is full"),
        };
        refusal.retry_after(self.drain_time(client))
    }

    /// How long a write of this client would wait now.
    fn wait(&self, client: ClientKey, now: Nanos) -> Nanos {
        let queued = self.queued_wait(client);
        queued.saturating_add(self.closed_until.saturating_sub(now))
    }

    /// How long what waits of a client takes at its share. While nothing is sent that is unknown, as in a sentinel that
    /// joins a cluster: then the deadlines decide.
    fn queued_wait(&self, client: ClientKey) -> Nanos {
        if self.rate.is_zero() {
            return Nanos::ZERO;
        }
        let (weight, shortage) = (self.weight(client), self.scarcity.shortage());
        let of = |backlog: &Backlog| shortage.transactions(backlog.entries, backlog.cost);
        self.queue.wait_estimate(&client, weight, self.rate, of)
    }

    /// How long half of a client's backlog takes.
    fn drain_time(&self, client: ClientKey) -> Duration {
        let all: Duration = self.queued_wait(client).into();
        (all / 2).max(SHORTEST_RETRY)
    }

    /// A client's weight here: that of the configuration, or what this sentinel has of it.
    fn weight(&self, client: ClientKey) -> Weight {
        let weight = self.configured_weight(client);
        let part = self.common.as_ref().and_then(|it| it.part(&client));
        part.map_or(weight, |part| weight.part(part))
    }

    fn configured_weight(&self, client: ClientKey) -> Weight {
        weight_of(&self.weights, &client)
    }

    /// Most writes a second.
    pub(super) const fn ceiling(&self) -> Rate {
        self.ceiling
    }

    /// From now on nothing is taken.
    pub(super) const fn stop(&mut self) {
        self.stopping = true;
    }

    /// Writes are sent at this rate, and none before `closed_until`.
    pub(super) const fn set_pace(&mut self, rate: Rate, closed_until: Nanos) {
        self.rate = rate;
        self.closed_until = closed_until;
    }

    /// A block of the node that takes the writes, which shows what the chain is short of: the unit of the window, which
    /// is that one if all of the block is known in it.
    pub(super) fn note_block(&mut self, block: &Content, limits: Option<BlockLimits>) -> Unit {
        self.scarcity.block(block, limits);
        self.places.block();
        match self.scarcity.shortage().unit {
            Unit::Gas if block.gas_txs != block.load.txs => Unit::Transactions,
            unit => unit,
        }
    }

    /// The mean bytes of a write that waits; none while none does.
    pub(super) fn mean_bytes(&self) -> Option<u64> {
        self.queue.bytes().checked_div(self.queue.len() as u64)
    }

    /// The depth of that node's mempool.
    pub(super) fn note_mempool(&mut self, txs: usize) {
        self.scarcity.mempool(txs as u64);
    }

    /// Writes that wait for nothing but their turn.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether few writes of a client wait.
    pub(super) fn is_short(&self, client: ClientKey) -> bool {
        self.queue.backlog(&client).is_short()
    }

    /// Lines of which any waits.
    pub(super) fn lines(&self) -> usize {
        self.queue.lanes()
    }

    /// How admitted writes ended, to be counted where they end.
    pub(super) const fn accounts(&mut self) -> &mut Accounts {
        &mut self.accounts
    }

    /// The clients with the longest backlogs, longest first.
    pub(super) fn top(&self, count: usize) -> Vec<(ClientKey, Backlog)> {
        self.queue.longest().take(count).collect()
    }

    /// A client's backlog, its share of the rate and the wait of its next write.
    pub(super) fn explain(&self, client: ClientKey, now: Nanos) -> Explained {
        let weight = self.weight(client);
        Explained {
            tally: (self.had.peek(&client)).map_or(Tally::default(), |had| had.tally),
            backlog: self.queue.backlog(&client),
            weight: self.configured_weight(client).shares(),
            share: self.queue.fair_share(&client, weight, self.rate),
            wait: self.wait(client, now).into(),
        }
    }

    /// Adds the figures of the queue to the state of the lane.
    pub(super) fn fill(&self, status: &mut Status) {
        status.queued = self.len();
        status.queued_bytes = self.queue.bytes() as usize;
        status.backlogged_clients = self.queue.backlogged_clients();
        status.shortage = self.scarcity.shortage();
        status.known_clients = self.had.entries();
        status.evictions = self.had.evictions();
        status.accounts = self.accounts;
    }

    /// Of what is held nothing leaves by its turn, because what left before it cannot be sent.
    pub(super) fn hold(&mut self, hold: Hold) {
        let Hold { client, line, .. } = hold;
        if hold.is_held {
            self.queue.hold(client, line);
        } else {
            self.queue.release(client, line);
        }
    }

    /// The next job; expired and cancelled ones end here.
    pub(super) fn next(&mut self, now: Nanos) -> Option<Popped<Job>> {
        let price = price_of(self.scarcity.shortage());
        self.find(now, |queue| queue.queue.pop_at(&price))
    }

    /// The same of the clients that ask for little.
    pub(super) fn next_of_little(&mut self, now: Nanos) -> Option<Popped<Job>> {
        let shortage = self.scarcity.shortage();
        let price = price_of(shortage);
        self.find(now, |queue| {
            let (had, places, weights) = (&queue.had, &queue.places, &queue.weights);
            let may = |client: &ClientKey, backlog: &Backlog| {
                let weight = weight_of(weights, client);
                places.is_little(had.peek(client), weight, shortage.is_short(backlog))
            };
            queue.queue.pop_if(&price, may)
        })
    }

    fn find(
        &mut self,
        now: Nanos,
        pop: impl Fn(&mut Self) -> Option<Popped<Job>>,
    ) -> Option<Popped<Job>> {
        loop {
            let is_uneven = self.queue.is_uneven();
            let mut popped = pop(self)?;
            self.offer_room(popped.client);
            if popped.item.value.is_cancelled() {
                self.accounts.cancelled += 1;
            } else if popped.item.value.is_over(now) {
                self.accounts.expired += 1;
                popped.item.value.refuse(expired());
            } else {
                self.note(&mut popped, is_uneven, now);
                return Some(popped);
            }
        }
    }

    /// What leaves counts for its client.
    fn note(&mut self, popped: &mut Popped<Job>, is_uneven: bool, now: Nanos) {
        let shortage = self.scarcity.shortage();
        let price = price_of(shortage)(&popped.item);
        let weight = self.configured_weight(popped.client);
        let backlog = self.queue.backlog(&popped.client);
        let had = self.had.entry(popped.client, now).state;
        let notes = &mut popped.item.value.notes;
        notes.is_from_short_queue = is_uneven && backlog.is_short();
        let is_short = shortage.is_short(&backlog);
        notes.is_of_little = self.places.is_little(Some(had), weight, is_short);
        self.places.take(had, weight, price);
    }

    /// Answers what has waited too long. What was acknowledged goes on waiting.
    pub(super) fn expire(&mut self, now: Nanos) {
        let (mut over, again) = (Vec::new(), now.saturating_add(self.timeout));
        let age = |job: &mut Job| {
            if job.is_over(now) {
                Age::Over
            } else if job.deadline <= now {
                job.deadline = again;
                Age::Renewed
            } else {
                Age::Young
            }
        };
        self.queue
            .remove_oldest(age, |_, item| over.push(item.value));
        for job in over {
            self.offer_room(job.client);
            self.accounts.expired += 1;
            job.refuse(expired());
        }
    }

    /// Takes out everything that waits.
    pub(super) fn take_all(&mut self) -> Vec<Job> {
        let queued = std::iter::from_fn(|| self.queue.pop());
        let all: Vec<Job> = queued.map(|popped| popped.item.value).collect();
        for job in &all {
            self.offer_room(job.client);
        }
        all
    }

    /// A connection is gone: its writes are dropped, but for those that were acknowledged. Those that are in order with
    /// others of their account end at their turn.
    pub(super) fn disconnect(&mut self, client: ClientKey, connection: u64) {
        let mut dropped = Vec::new();
        self.queue.remove_connection(
            &client,
            connection,
            |job| !matches!(job.recipient, Recipient::Client { .. }),
            |item| dropped.push(item.value),
        );
        self.accounts.cancelled += dropped.len() as u64;
        self.offer_room(client);
    }
}

pub(super) fn expired() -> Refusal {
    Refusal::new(
        Reason::QueueTimeout,
        "the deadline passed while the transaction waited for its turn",
    )
    .retry_after(SHORTEST_RETRY)
}

/// Bounds the queue's memory whatever a write's size; the ledger bounds the bytes.
const MOST_ENTRIES: usize = 1 << 22;
/// `Retry-After` has whole seconds.
const SHORTEST_RETRY: Duration = Duration::from_secs(1);

fn weight_of(weights: &NetworkMap<Weight>, client: &ClientKey) -> Weight {
    let weight = weights.get(client.network().address());
    weight.copied().unwrap_or_default()
}

/// What a write costs its client now.
fn price_of(shortage: Shortage) -> impl Fn(&Item<Job>) -> u32 {
    move |item| shortage.price(item.cost, || item.value.gas())
}

fn weights_of(config: &Config) -> Result<NetworkMap<Weight>, fairq::Error> {
    let mut weights = NetworkMap::new();
    let of_networks = config.fair.weights.iter().copied();
    for (network, weight) in of_networks.chain(config.known.weights()) {
        weights.insert(network, weight)?;
    }
    Ok(weights)
}

#[cfg(test)]
mod tests;
