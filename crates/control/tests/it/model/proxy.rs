//! A proxy: the pacer and as much of the lane as it needs.

use std::collections::VecDeque;

use control::{BlockSeen, Bound, Demand, Load, PaceMode, Pacer, Refused, Unit};
use pacing::{Nanos, Rate};

use super::node::{Made, Node, Request, SOURCES};
use super::{Polite, Source, Wants};

/// What the node reports to a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visible {
    pub(crate) blocks: bool,
    pub(crate) depth: bool,
}

/// The proxy.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    source: Source,
    pub(crate) pacer: Pacer,
    visible: Visible,
    owner: usize,
    /// Connections to the node, how many of them are used, and the one for short queues.
    connections: Vec<usize>,
    past: usize,
    passes: bool,
    used: usize,
    /// When those are open that are wanted beside these.
    open_at: Option<Nanos>,
    /// Requests on each connection; the last is the one for short queues.
    loads: Vec<usize>,
    /// Sent and in no block that was seen.
    own: Load,
    unit: Unit,
    /// The flood's writes that wait, the oldest first, and the polite client's.
    queue: VecDeque<Request>,
    polite_queue: VecDeque<Request>,
    /// The polite client has had its turn.
    is_floods_turn: bool,
    /// Refused ones, which go first once the node is asked again.
    refused_writes: Vec<Request>,
    refused_until: Option<Nanos>,
    pub(crate) is_in_break: bool,
    again: VecDeque<Request>,
    pub(crate) under_way: usize,
    seen: usize,
    /// What the node has lost, as far as it was noticed.
    lost: usize,
    pub(crate) sent: u64,
    pub(crate) refused: u64,
    pub(crate) polite: Polite,
    /// The rate after each block.
    pub(crate) rates: Vec<(Nanos, f64)>,
    /// What left in each step in which something did.
    pub(crate) departures: Vec<(Nanos, usize)>,
    /// Steps in which each kind of bound held writes back.
    pub(crate) bounds: [u64; Bound::NAMES.len()],
}

/// Connections at most.
const CONNECTIONS: usize = 64;
/// Writes under way on a connection and in all: the configuration's defaults.
const ON_A_CONNECTION: usize = 256;
const IN_ALL: usize = 512;
/// Writes that wait at most: ten clients' queues.
const QUEUE: usize = 10_240;
/// How long a write waits at most.
const PATIENCE: Nanos = Nanos::from_secs(30);
/// An announcement takes so long, reading a block, and asking for the depth.
const ANNOUNCED: Nanos = Nanos::from_millis(5);
const READ: Nanos = Nanos::from_millis(40);
const ASKED: Nanos = Nanos::from_millis(2);
const ASK_EVERY_MS: u64 = 500;

impl Proxy {
    pub(crate) fn new(
        number: usize,
        wants: Wants,
        max_req: u64,
        mode: PaceMode,
        node: &mut Node,
    ) -> Self {
        let owner = node.owner();
        let max_req = Rate::per_second(max_req).unwrap();
        Self {
            source: Source::new(number, wants),
            pacer: Pacer::new(Nanos::ZERO, max_req, mode),
            visible: Visible {
                blocks: true,
                depth: true,
            },
            owner,
            connections: (0..CONNECTIONS).map(|_| node.connect(owner)).collect(),
            past: node.connect(owner),
            passes: mode != PaceMode::Off,
            used: 1,
            open_at: None,
            loads: vec![0; CONNECTIONS + 1],
            own: Load::default(),
            unit: Unit::Transactions,
            queue: VecDeque::new(),
            polite_queue: VecDeque::new(),
            is_floods_turn: false,
            refused_writes: Vec::new(),
            refused_until: None,
            is_in_break: false,
            again: VecDeque::new(),
            under_way: 0,
            seen: 0,
            lost: 0,
            sent: 0,
            refused: 0,
            polite: Polite::default(),
            rates: Vec::new(),
            departures: Vec::new(),
            bounds: [0; _],
        }
    }

    pub(crate) fn seeing(self, visible: Visible) -> Self {
        Self { visible, ..self }
    }

    pub(crate) fn step(&mut self, now: Nanos, node: &mut Node) {
        self.read(now, node);
        for _ in 0..self.source.flood(now) {
            if self.queue.len() < QUEUE {
                let request = self.source.request(now, false);
                self.queue.push_back(request);
            }
        }
        self.polite_queue.extend(self.source.polite(now));
        self.look(now, node);
        self.expire(now);
        self.ask_again(now);
        self.open(now, node);
        let is_closed = self.refused_until.is_some() || self.is_in_break || node.catching_up;
        let most = if is_closed {
            0
        } else {
            IN_ALL.min(ON_A_CONNECTION * self.used)
        };
        if let Some(mean) = self.mean() {
            self.pacer.learn(0, node.kind.limits(), mean);
        }
        // The lane looks again after each answer; here, after each step.
        let demand = Demand {
            waiting: self.again.len()
                + self.refused_writes.len()
                + self.polite_queue.len()
                + self.queue.len(),
            first: self.again.front().map_or(Load::default(), load_of),
            under_way: self.under_way,
            own: self.own,
            most,
            connections: self.used,
            lines: self.lines(),
        };
        let grant = self.pacer.grant(now, demand);
        let is_it = |name: &&str| *name == self.pacer.bound().name();
        self.bounds[Bound::NAMES.iter().position(is_it).unwrap()] += 1;
        let (mut amount, mut light) = (0, Load::default());
        for left in (0..grant.now).rev() {
            let next = self.again.pop_front().or_else(|| self.next_turn());
            let size = next
                .as_ref()
                .map_or(0, |next| load_of(next).of(self.pacer.unit()));
            if !grant.takes(grant.amount.saturating_sub(amount), size) {
                if let Some(next) = next {
                    let queue = if next.polite {
                        &mut self.polite_queue
                    } else {
                        &mut self.again
                    };
                    queue.push_front(next);
                }
                self.pacer.unused(left + 1);
                break;
            }
            amount += self.send(next, now, node, &mut light);
            if amount >= grant.amount {
                self.pacer.unused(left);
                break;
            }
        }
        let mut beyond = 0;
        while beyond < grant.light && amount < grant.light_amount && !self.polite_queue.is_empty() {
            let next = self.polite_queue.pop_front();
            amount += self.send(next, now, node, &mut light);
            beyond += 1;
        }
        self.pacer.sent_for_light(now, beyond, light);
        if grant.now + beyond > 0 {
            self.departures.push((now, grant.now + beyond));
        }
    }

    /// The mean of what waits; of a long queue that of its beginning.
    fn mean(&self) -> Option<Load> {
        let waiting = self
            .again
            .iter()
            .chain(&self.polite_queue)
            .chain(&self.queue);
        let sum = waiting.take(8).map(load_of).reduce(|sum, one| sum + one)?;
        Some(Load {
            txs: 1,
            bytes: sum.bytes / sum.txs,
            gas: 1,
        })
    }

    /// Other clients, or the same with other wishes.
    pub(crate) fn want(&mut self, wants: Wants) {
        self.source = Source::new(self.source.number, wants);
    }

    /// Fewer connections are used at once; more when they are open, after two journeys there and back.
    fn open(&mut self, now: Nanos, node: &Node) {
        let wanted = self.pacer.connections().min(CONNECTIONS);
        if wanted <= self.used {
            (self.used, self.open_at) = (wanted, None);
            return;
        }
        let takes = Nanos::new(4 * node.kind.travel.as_nanos());
        let open_at = *self.open_at.get_or_insert(now.saturating_add(takes));
        if open_at <= now {
            (self.used, self.open_at) = (wanted, None);
        }
    }

    /// The flood's connections and the polite client's, as far as they have writes here or under way.
    fn lines(&self) -> usize {
        let is_polite = !self.polite_queue.is_empty() || self.loads[CONNECTIONS] > 0;
        let floods = self.queue.len() + self.again.len() + self.under_way;
        usize::from(is_polite) + floods.min(self.source.connections())
    }

    fn send(
        &mut self,
        next: Option<Request>,
        now: Nanos,
        node: &mut Node,
        light: &mut Load,
    ) -> u64 {
        let Some(mut request) = next else {
            self.pacer.unused(1);
            return 0;
        };
        request.sent = now;
        let usual = (0..self.used).min_by_key(|place| self.loads[*place]);
        request.by = match usual {
            Some(place)
                if !(request.polite
                    && self.passes
                    && self.loads[CONNECTIONS] <= self.loads[place]) =>
            {
                place
            }
            _ => CONNECTIONS,
        };
        let past = self.past;
        let connection = self.connections.get(request.by).copied().unwrap_or(past);
        node.send(connection, request);
        self.loads[request.by] += 1;
        self.under_way += 1;
        self.sent += 1;
        let load = load_of(&request);
        self.own = self.own + load;
        if request.polite {
            *light = *light + load;
        }
        load.of(self.pacer.unit())
    }

    /// Both take turns, as in the fair queue: also the polite client sits out the turn that it took.
    fn next_turn(&mut self) -> Option<Request> {
        let (polite, flood) = (&mut self.polite_queue, &mut self.queue);
        let is_floods = self.is_floods_turn && !flood.is_empty() || polite.is_empty();
        self.is_floods_turn = !is_floods;
        if is_floods { flood } else { polite }.pop_front()
    }

    /// Reads what the node shows.
    pub(crate) fn look(&mut self, now: Nanos, node: &Node) {
        if std::mem::replace(&mut self.lost, node.lost) != node.lost {
            // The lane offers again what was accepted: it is own once more when it is sent. Here it is gone.
            let lost = self.own.txs.saturating_sub(self.under_way as u64);
            let mean = self.own.bytes / self.own.txs.max(1);
            self.own = self.own.less(Load {
                txs: lost,
                bytes: lost * mean,
                gas: lost,
            });
        }
        while let Some(made) = node.blocks.get(self.seen)
            && read_at(made, node) <= now
        {
            self.seen += 1;
            if !self.visible.blocks {
                continue;
            }
            let block = BlockSeen {
                height: made.height,
                all: made.load(0..SOURCES),
                ours: made.load(self.source.number..self.source.number + 1),
                observed: made.at.saturating_add(ANNOUNCED),
            };
            self.own = self.own.less(block.ours);
            self.unit = scarce(node, &block.all, self.unit);
            self.pacer.block(now, &block, self.unit, self.own);
            self.rates.push((now, self.pacer.rate().as_f64()));
            self.refused_until = self.refused_until.map(|until| until.min(now));
        }
        if self.visible.depth && now.as_millis().is_multiple_of(ASK_EVERY_MS) {
            self.pacer
                .mempool(now, now.saturating_sub(ASKED), node.depth());
        }
    }

    fn read(&mut self, now: Nanos, node: &mut Node) {
        while let Some(answer) = node.answer(self.owner, now) {
            self.under_way -= 1;
            self.loads[answer.request.by] -= 1;
            self.pacer.answered(answer.at, answer.request.sent);
            if answer.taken {
                self.pacer.accepted();
                self.source.answered(&answer.request);
                if answer.request.polite {
                    self.polite.accepted(answer.request.due, answer.at);
                }
                continue;
            }
            self.refused += 1;
            self.own = self.own.less(load_of(&answer.request));
            // A mempool that is full of bytes does not say how many it holds.
            let max = (node.depth() >= node.kind.mempool).then_some(node.kind.mempool);
            self.pacer.refused(Refused::Full { max });
            self.refused_until
                .get_or_insert(now.saturating_add(self.pacer.ask_again_after()));
            self.refused_writes.push(answer.request);
        }
    }

    fn expire(&mut self, now: Nanos) {
        for queue in [&mut self.polite_queue, &mut self.queue, &mut self.again] {
            while let Some(first) = queue.front()
                && now.saturating_sub(first.due) > PATIENCE
            {
                if first.polite {
                    self.polite.failed += 1;
                }
                self.source.answered(first);
                queue.pop_front();
            }
        }
    }

    /// Goes on after a refusal, once nothing is under way, so that order holds.
    fn ask_again(&mut self, now: Nanos) {
        if self.under_way == 0 && self.refused_until.is_some_and(|until| until <= now) {
            self.refused_until = None;
            for request in self.refused_writes.drain(..).rev() {
                self.again.push_front(request);
            }
        }
    }

    /// The rates from an instant on.
    pub(crate) fn rates_from(&self, from: Nanos) -> impl Iterator<Item = f64> + '_ {
        self.rates
            .iter()
            .filter(move |(at, _)| *at >= from)
            .map(|(_, rate)| *rate)
    }

    /// The bound that held writes back most of the time.
    pub(crate) fn usual_bound(&self) -> &'static str {
        let most = (1..self.bounds.len()).max_by_key(|place| self.bounds[*place]);
        most.filter(|place| self.bounds[*place] > 0)
            .map_or("nothing", |place| Bound::NAMES[place])
    }
}

fn read_at(block: &Made, node: &Node) -> Nanos {
    let bytes: u64 = block.bytes.iter().sum();
    let more = Nanos::new(bytes * node.kind.read_nanos_a_byte);
    block.at.saturating_add(READ).saturating_add(more)
}

fn load_of(request: &Request) -> Load {
    Load {
        txs: 1,
        bytes: request.bytes.into(),
        gas: 1,
    }
}

/// What the chain is short of, as the lane finds it: what the last block had nearly all of.
fn scarce(node: &Node, block: &Load, before: Unit) -> Unit {
    let is_full = |amount: u64, limit: u64| amount as f64 >= 0.9 * limit as f64;
    if is_full(block.gas, node.kind.block as u64) {
        Unit::Gas
    } else if is_full(block.bytes, node.kind.block_bytes) {
        Unit::Bytes
    } else {
        before
    }
}
