//! A proxy: the pacer and as much of the lane as it needs.

use std::collections::VecDeque;

use control::{BlockSeen, Bound, Demand, PaceMode, PaceSettings, Pacer, Refused};
use pacing::{Nanos, Rate};

use crate::model::clients::{Polite, Source, Wants};
use crate::model::node::{Node, Request};

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
    turn: usize,
    /// The flood's writes that wait, the oldest first, and the polite client's.
    queue: VecDeque<Request>,
    polite_queue: VecDeque<Request>,
    /// The polite client has had its turn.
    is_floods_turn: bool,
    /// Refused ones, which go first once the node is asked again.
    refused_writes: Vec<Request>,
    refused_until: Option<Nanos>,
    again: VecDeque<Request>,
    pub(crate) under_way: usize,
    seen: usize,
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
        pace: &PaceSettings,
        node: &mut Node,
    ) -> Self {
        let owner = node.owner();
        let max_req = Rate::per_second(max_req).unwrap();
        Self {
            source: Source::new(number, wants),
            pacer: Pacer::new(Nanos::ZERO, max_req, pace),
            visible: Visible {
                blocks: true,
                depth: true,
            },
            owner,
            connections: (0..16).map(|_| node.connect(owner)).collect(),
            past: node.connect(owner),
            passes: pace.mode != PaceMode::Off,
            used: 1,
            turn: 0,
            queue: VecDeque::new(),
            polite_queue: VecDeque::new(),
            is_floods_turn: false,
            refused_writes: Vec::new(),
            refused_until: None,
            again: VecDeque::new(),
            under_way: 0,
            seen: 0,
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
        for _ in 0..self.source.flood(now) {
            if self.queue.len() < QUEUE {
                let request = self.source.request(now, false);
                self.queue.push_back(request);
            }
        }
        self.polite_queue.extend(self.source.polite(now));
        self.look(now, node);
        self.read(now, node);
        self.expire(now);
        self.ask_again(now);
        if self.under_way == 0 {
            self.used = self.pacer.connections().min(self.connections.len());
        }
        let is_closed = self.refused_until.is_some()
            || node.catching_up
            || self.used != self.pacer.connections();
        let most = if is_closed {
            0
        } else {
            IN_ALL.min(ON_A_CONNECTION * self.used)
        };
        // The lane looks again after each answer; here, after each step.
        let demand = Demand {
            waiting: self.again.len()
                + self.refused_writes.len()
                + self.polite_queue.len()
                + self.queue.len(),
            under_way: self.under_way,
            most,
            connections: self.used,
        };
        let grant = self.pacer.grant(now, demand);
        self.bounds[self.pacer.bound().place()] += 1;
        for _ in 0..grant.now {
            self.send(now, node);
        }
        if grant.now > 0 {
            self.departures.push((now, grant.now));
        }
    }

    fn send(&mut self, now: Nanos, node: &mut Node) {
        let next = self.again.pop_front().or_else(|| self.next_turn());
        let Some(mut request) = next else {
            return self.pacer.unused(1);
        };
        request.sent = now;
        self.turn = (self.turn + 1) % self.used;
        let usual = self.connections[self.turn];
        let passes = request.polite && self.passes;
        node.send(if passes { self.past } else { usual }, request);
        self.under_way += 1;
        self.sent += 1;
    }

    /// Both take turns, as in the fair queue: also the polite client sits out the turn that it took.
    fn next_turn(&mut self) -> Option<Request> {
        let (polite, flood) = (&mut self.polite_queue, &mut self.queue);
        let is_floods = self.is_floods_turn && !flood.is_empty() || polite.is_empty();
        self.is_floods_turn = !is_floods;
        if is_floods { flood } else { polite }.pop_front()
    }

    fn look(&mut self, now: Nanos, node: &Node) {
        while let Some(made) = node.blocks.get(self.seen)
            && made.at.saturating_add(READ) <= now
        {
            self.seen += 1;
            if !self.visible.blocks {
                continue;
            }
            let block = BlockSeen {
                height: made.height,
                txs: made.txs(),
                ours: Some(made.by_source[self.source.number]),
                observed: made.at.saturating_add(ANNOUNCED),
            };
            self.pacer.block(now, &block);
            self.rates.push((now, self.pacer.rate().as_f64()));
            self.refused_until = self.refused_until.map(|until| until.min(now));
        }
        if self.visible.depth && now.as_millis().is_multiple_of(ASK_EVERY_MS) {
            self.pacer.mempool(now.saturating_sub(ASKED), node.depth());
        }
    }

    fn read(&mut self, now: Nanos, node: &mut Node) {
        while let Some(answer) = node.answer(self.owner, now) {
            self.under_way -= 1;
            self.pacer.answered(answer.at, answer.request.sent);
            if answer.taken {
                self.pacer.accepted(1);
                if answer.request.polite {
                    self.polite.accepted(answer.request.due, answer.at);
                }
                continue;
            }
            self.refused += 1;
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

/// The default configuration in a mode.
pub(crate) fn pace(mode: PaceMode) -> PaceSettings {
    PaceSettings {
        mode,
        ..PaceSettings::default()
    }
}
