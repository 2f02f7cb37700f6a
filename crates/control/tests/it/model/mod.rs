//! A node on a simulated clock, what its clients want, clients that talk to it directly, and proxies in front of it.

pub(crate) mod node;
pub(crate) mod proxy;

use control::PaceMode;
use pacing::Nanos;

use self::node::{Node, NodeKind, Random, Request, STEP, STEP_SECS};
use self::proxy::Proxy;

/// Runs one adaptive proxy in front of a node, with a flood as a function of time.
pub(crate) fn run(
    kind: NodeKind,
    max_req: u64,
    seconds: u64,
    flood: fn(f64) -> f64,
) -> (Node, Proxy) {
    run_from(
        Node::new(kind),
        |node| adaptive(max_req, flood, node),
        seconds,
    )
}

pub(crate) fn adaptive(max_req: u64, flood: fn(f64) -> f64, node: &mut Node) -> Proxy {
    let wants = Wants {
        flood,
        ..Wants::default()
    };
    Proxy::new(0, wants, max_req, PaceMode::Adaptive, node)
}

pub(crate) fn run_from(
    mut node: Node,
    proxy: impl FnOnce(&mut Node) -> Proxy,
    seconds: u64,
) -> (Node, Proxy) {
    let mut proxy = proxy(&mut node);
    go_on(&mut node, &mut proxy, 0, seconds);
    (node, proxy)
}

pub(crate) fn go_on(node: &mut Node, proxy: &mut Proxy, from: u64, to: u64) {
    let mut now = Nanos::from_secs(from);
    while now < Nanos::from_secs(to) {
        node.step(now);
        proxy.step(now, node);
        now = now.saturating_add(STEP);
    }
}

/// What clients want: a flood, and one that asks for little.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wants {
    /// Writes a second of the flood at a second.
    pub(crate) flood: fn(f64) -> f64,
    /// Connections of the flood.
    pub(crate) connections: usize,
    /// The flood is so many clients that send the next write when the last is answered; 0: at its rate.
    pub(crate) closed: usize,
    /// Bytes of a transaction: from, to, evenly in the logarithm.
    pub(crate) bytes: (u32, u32),
    /// Those of the polite client's, if that is less.
    pub(crate) polite_bytes: u32,
    /// Writes of the polite client that are due at a millisecond.
    pub(crate) polite: fn(u64) -> usize,
}

impl Default for Wants {
    fn default() -> Self {
        Self {
            flood: |_| 0.0,
            connections: 10,
            closed: 0,
            bytes: (250, 250),
            polite_bytes: 250,
            polite: ten_a_second,
        }
    }
}

pub(crate) fn ten_a_second(ms: u64) -> usize {
    usize::from(ms.is_multiple_of(100))
}

/// Makes the writes that are due.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) number: usize,
    wants: Wants,
    owed: f64,
    /// Clients of a closed loop that wait for nothing.
    idle: usize,
    random: Random,
}

impl Source {
    pub(crate) fn new(number: usize, wants: Wants) -> Self {
        Self {
            number,
            wants,
            owed: 0.0,
            idle: wants.closed,
            random: Random(number as u64 + 1),
        }
    }

    /// How many of the flood come in this step.
    pub(crate) fn flood(&mut self, now: Nanos) -> usize {
        if self.wants.closed > 0 {
            return std::mem::take(&mut self.idle);
        }
        self.owed += (self.wants.flood)(now.as_secs_f64()) * STEP_SECS;
        let come = self.owed as usize;
        self.owed -= come as f64;
        come
    }

    /// A write has had its answer.
    pub(crate) fn answered(&mut self, request: &Request) {
        if !request.polite && self.wants.closed > 0 {
            self.idle += 1;
        }
    }

    pub(crate) const fn is_closed(&self) -> bool {
        self.wants.closed > 0
    }

    /// Connections of the flood.
    pub(crate) fn connections(&self) -> usize {
        self.wants.connections.max(self.wants.closed)
    }

    /// The polite client's writes that are due.
    pub(crate) fn polite(&mut self, now: Nanos) -> Vec<Request> {
        let due = (self.wants.polite)(now.as_millis());
        (0..due).map(|_| self.request(now, true)).collect()
    }

    pub(crate) fn request(&mut self, now: Nanos, polite: bool) -> Request {
        let (least, most) = self.wants.bytes;
        let bytes = if polite {
            least.min(self.wants.polite_bytes)
        } else {
            let (low, high) = (f64::from(least).ln(), f64::from(most).ln());
            (low + (high - low) * self.random.unit()).exp() as u32
        };
        Request {
            source: self.number,
            bytes,
            polite,
            due: now,
            sent: now,
            by: 0,
        }
    }
}

/// How the polite client fared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Polite {
    /// Milliseconds from due to accepted.
    pub(crate) waits: Vec<u64>,
    /// Answered with a refusal, or not in time.
    pub(crate) failed: usize,
}

impl Polite {
    pub(crate) fn accepted(&mut self, due: Nanos, at: Nanos) {
        self.waits.push(at.saturating_sub(due).as_millis());
    }

    pub(crate) fn quantile(&self, part: f64) -> u64 {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        let at = (waits.len() as f64 * part) as usize;
        waits
            .get(at.min(waits.len().saturating_sub(1)))
            .copied()
            .unwrap_or(u64::MAX)
    }
}

/// A flood on its connections, and the polite client on its own, straight at the node.
#[derive(Clone, Debug)]
pub(crate) struct Direct {
    source: Source,
    owner: usize,
    flood: Vec<usize>,
    /// Requests on each of them.
    loads: Vec<usize>,
    polite_connections: Vec<usize>,
    turn: usize,
    pub(crate) polite: Polite,
}

/// Requests that a socket takes before it blocks: 250 KB of them. What comes then is not sent.
const SOCKET: usize = 1_000;

impl Direct {
    pub(crate) fn new(number: usize, wants: Wants, node: &mut Node) -> Self {
        let owner = node.owner();
        let mut connections = |count| (0..count).map(|_| node.connect(owner)).collect();
        let source = Source::new(number, wants);
        Self {
            owner,
            flood: connections(source.connections()),
            loads: vec![0; source.connections()],
            source,
            polite_connections: connections(64),
            turn: 0,
            polite: Polite::default(),
        }
    }

    pub(crate) fn step(&mut self, now: Nanos, node: &mut Node) {
        while let Some(answer) = node.answer(self.owner, now) {
            match (answer.request.polite, answer.taken) {
                (true, true) => self.polite.accepted(answer.request.due, answer.at),
                (true, false) => self.polite.failed += 1,
                (false, _) => {
                    self.loads[answer.request.by] -= 1;
                    self.source.answered(&answer.request);
                }
            }
        }
        for _ in 0..self.source.flood(now) {
            self.turn = (self.turn + 1) % self.flood.len();
            let mut request = self.source.request(now, false);
            // Each client of a closed loop has a connection of its own.
            let idle = self.loads.iter().position(|load| *load == 0);
            request.by = idle
                .filter(|_| self.source.is_closed())
                .unwrap_or(self.turn);
            if node.waiting(self.flood[request.by]) < SOCKET {
                self.loads[request.by] += 1;
                node.send(self.flood[request.by], request);
            }
        }
        for request in self.source.polite(now) {
            let at = now.as_millis() as usize / 100 % self.polite_connections.len();
            node.send(self.polite_connections[at], request);
        }
    }
}
