//! A node as CometBFT 0.38 was measured to behave, on a simulated clock, and proxies
//! in front of it.

use std::collections::VecDeque;

use control::{BlockSeen, Demand, PaceMode, PaceSettings, Pacer, Refused};
use pacing::{Nanos, Rate};

/// One step of the simulation.
pub(crate) const STEP: Nanos = Nanos::from_millis(1);
const STEP_SECS: f64 = 0.001;

/// What kind of node it is. The defaults are CometBFT 0.38.17's with the kvstore on two cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeKind {
    /// Transactions the mempool holds.
    pub(crate) mempool: usize,
    /// Transactions a block holds.
    pub(crate) block: usize,
    /// From a commit to the next proposal (`timeout_commit`).
    pub(crate) timeout_secs: f64,
    /// Time for a transaction on a fresh node: blocks of 5,000 come 0.88 times a second.
    pub(crate) fresh_us: f64,
    /// What a million committed transactions add to it permanently, and what pending compaction adds:
    /// together the measured decline (`docs/experiments.md`).
    pub(crate) wear_us: f64,
    pub(crate) debt_us: f64,
    /// Requests a second that halve the speed of execution: 17,500/s cost 0.3 s a block.
    pub(crate) readers: f64,
    /// Random part of the time between blocks.
    pub(crate) jitter: f64,
}

impl Default for NodeKind {
    fn default() -> Self {
        Self {
            mempool: 5_000,
            block: usize::MAX,
            timeout_secs: 1.0,
            fresh_us: 27.0,
            wear_us: 120.0,
            debt_us: 60.0,
            readers: 8_000.0,
            jitter: 0.0,
        }
    }
}

impl NodeKind {
    /// The same without decline.
    pub(crate) fn steady() -> Self {
        Self {
            wear_us: 0.0,
            debt_us: 0.0,
            ..Self::default()
        }
    }
}

/// A block as the simulation makes it.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) at: Nanos,
    pub(crate) height: u64,
    /// Transactions of each source.
    pub(crate) by_source: Vec<usize>,
}

impl Made {
    pub(crate) fn txs(&self) -> usize {
        self.by_source.iter().sum()
    }
}

#[derive(Clone, Debug)]
enum Phase {
    Waiting {
        until: Nanos,
    },
    /// Seconds of work left.
    Executing {
        work: f64,
        whole: f64,
    },
}

/// The node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    /// Source and number, the oldest first.
    mempool: VecDeque<(usize, usize)>,
    depth: usize,
    /// Of the depth, what the block being executed takes.
    reaped: usize,
    phase: Phase,
    pub(crate) blocks: Vec<Made>,
    committed: f64,
    debt: f64,
    /// Requests a second, smoothed over a second.
    reads: f64,
    read_now: usize,
    pub(crate) refused: u64,
    pub(crate) halted: bool,
    random: u64,
}

/// Transactions after which the debt has 63 % of its effect, and the seconds in which an idle node
/// pays 63 % of it back.
const DEBT_TXS: f64 = 60_000.0;
const DEBT_SECS: f64 = 10.0;
/// The mempool is locked, and answers nothing, in this last share of the work on a block.
const LOCKED: f64 = 0.2;

impl Node {
    pub(crate) fn new(kind: NodeKind) -> Self {
        Self {
            kind,
            mempool: VecDeque::new(),
            depth: 0,
            reaped: 0,
            phase: Phase::Waiting {
                until: Nanos::from_secs(1),
            },
            blocks: Vec::new(),
            committed: 0.0,
            debt: 0.0,
            reads: 0.0,
            read_now: 0,
            refused: 0,
            halted: false,
            random: 7,
        }
    }

    /// Offers transactions; how many were taken.
    pub(crate) fn offer(&mut self, source: usize, count: usize) -> usize {
        self.read_now += count;
        let taken = count.min(self.kind.mempool - self.depth);
        self.refused += (count - taken) as u64;
        self.depth += taken;
        match self.mempool.back_mut() {
            Some((last, number)) if *last == source => *number += taken,
            _ if taken > 0 => self.mempool.push_back((source, taken)),
            _ => {}
        }
        taken
    }

    /// Time passes. Returns whether a block was made.
    pub(crate) fn step(&mut self, now: Nanos) -> bool {
        self.reads += (self.read_now as f64 / STEP_SECS - self.reads) * STEP_SECS;
        self.read_now = 0;
        match &mut self.phase {
            Phase::Waiting { until } => {
                if now >= *until && !self.halted {
                    self.reap();
                }
                false
            }
            Phase::Executing { work, .. } => {
                *work -= STEP_SECS / (1.0 + self.reads / self.kind.readers);
                if *work > 0.0 {
                    return false;
                }
                self.commit(now);
                true
            }
        }
    }

    fn reap(&mut self) {
        self.reaped = self.depth.min(self.kind.block);
        let wear = self.kind.wear_us * self.committed / 1e6;
        let tx_us = self.kind.fresh_us + wear + self.kind.debt_us * self.debt;
        let work = 0.01 + self.reaped as f64 * tx_us / 1e6;
        self.phase = Phase::Executing { work, whole: work };
    }

    fn commit(&mut self, now: Nanos) {
        let mut left = self.reaped;
        let mut by_source = vec![0; 8];
        while left > 0
            && let Some((source, number)) = self.mempool.front_mut()
        {
            let taken = left.min(*number);
            by_source[*source] += taken;
            *number -= taken;
            left -= taken;
            if *number == 0 {
                self.mempool.pop_front();
            }
        }
        self.depth -= self.reaped;
        let txs = self.reaped as f64;
        self.committed += txs;
        let since = now.saturating_sub(self.blocks.last().map_or(Nanos::ZERO, |last| last.at));
        self.debt = if self.reaped == 0 {
            self.debt * (-since.as_secs_f64() / DEBT_SECS).exp()
        } else {
            1.0 - (1.0 - self.debt) * (-txs / DEBT_TXS).exp()
        };
        let wait = self.kind.timeout_secs * (1.0 + self.kind.jitter * (2.0 * self.unit() - 1.0));
        let until = now.saturating_add(Nanos::new((wait * 1e9) as u64));
        self.phase = Phase::Waiting { until };
        let height = self.blocks.len() as u64 + 1;
        self.blocks.push(Made {
            at: now,
            height,
            by_source,
        });
    }

    fn unit(&mut self) -> f64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether answers are kept back for a moment.
    fn is_locked(&self) -> bool {
        matches!(self.phase, Phase::Executing { work, whole } if work < whole * LOCKED)
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Committed between two instants.
    pub(crate) fn committed_between(&self, from: Nanos, to: Nanos) -> usize {
        self.blocks
            .iter()
            .filter(|made| (from..to).contains(&made.at))
            .map(Made::txs)
            .sum()
    }
}

/// What the node reports to a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visible {
    pub(crate) blocks: bool,
    pub(crate) depth: bool,
}

/// A proxy: the pacer and as much of the lane as it needs.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    source: usize,
    pub(crate) pacer: Pacer,
    pub(crate) visible: Visible,
    /// Writes that wait.
    pub(crate) queue: f64,
    /// Answers on their way: when they come, how many were taken and refused.
    answers: VecDeque<(Nanos, usize, usize)>,
    under_way: usize,
    seen: usize,
    pub(crate) sent: u64,
    pub(crate) refused: u64,
    /// The rate after each block.
    pub(crate) rates: Vec<(Nanos, f64)>,
    /// What left in each step in which something did.
    pub(crate) departures: Vec<(Nanos, usize)>,
}

/// Writes under way at most: the configuration's default.
const WINDOW: usize = 512;
/// Writes that wait at most; the lane's own bounds are of no interest here.
const QUEUE: f64 = 20_000.0;
/// An answer takes so long, an announcement, reading a block, and asking for the depth.
const ANSWER: Nanos = Nanos::from_millis(2);
const ANNOUNCED: Nanos = Nanos::from_millis(5);
const READ: Nanos = Nanos::from_millis(40);
const ASKED: Nanos = Nanos::from_millis(2);
const ASK_EVERY_MS: u64 = 500;

impl Proxy {
    pub(crate) fn new(source: usize, max_req: u64, pace: &PaceSettings) -> Self {
        let max_req = Rate::per_second(max_req).unwrap();
        Self {
            source,
            pacer: Pacer::new(Nanos::ZERO, max_req, pace),
            visible: Visible {
                blocks: true,
                depth: true,
            },
            queue: 0.0,
            answers: VecDeque::new(),
            under_way: 0,
            seen: 0,
            sent: 0,
            refused: 0,
            rates: Vec::new(),
            departures: Vec::new(),
        }
    }

    /// One step in which `demand` writes a second arrive.
    pub(crate) fn step(&mut self, now: Nanos, node: &mut Node, demand: f64) {
        self.queue = (self.queue + demand * STEP_SECS).min(QUEUE);
        self.look(now, node);
        self.answers(now, node);
        let demand = Demand {
            waiting: self.queue as usize,
            under_way: self.under_way,
            room: WINDOW - self.under_way,
        };
        let grant = self.pacer.grant(now, demand);
        if grant.now > 0 {
            self.queue -= grant.now as f64;
            self.under_way += grant.now;
            self.sent += grant.now as u64;
            let taken = node.offer(self.source, grant.now);
            let at = now.saturating_add(ANSWER);
            self.answers.push_back((at, taken, grant.now - taken));
            self.departures.push((now, grant.now));
        }
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
                ours: Some(made.by_source[self.source]),
                observed: made.at.saturating_add(ANNOUNCED),
            };
            self.pacer.block(now, &block);
            self.rates.push((now, self.pacer.rate().as_f64()));
        }
        if self.visible.depth && now.as_millis().is_multiple_of(ASK_EVERY_MS) {
            self.pacer.mempool(now.saturating_sub(ASKED), node.depth());
        }
    }

    fn answers(&mut self, now: Nanos, node: &Node) {
        if node.is_locked() {
            return;
        }
        while let Some((at, taken, refused)) = self.answers.front().copied()
            && at <= now
        {
            self.answers.pop_front();
            self.under_way -= taken + refused;
            self.pacer.accepted(now, taken);
            for _ in 0..refused {
                let max = Some(node.kind.mempool);
                self.pacer.refused(now, Refused::Full { max });
            }
            self.queue += refused as f64;
            self.refused += refused as u64;
        }
    }

    /// The rates from an instant on.
    pub(crate) fn rates_from(&self, from: Nanos) -> impl Iterator<Item = f64> + '_ {
        self.rates
            .iter()
            .filter(move |(at, _)| *at >= from)
            .map(|(_, rate)| *rate)
    }
}

/// The default configuration with the mempool filled to 95 %.
pub(crate) fn pace(mode: PaceMode) -> PaceSettings {
    PaceSettings {
        mode,
        mempool_fill: 0.97,
        ..PaceSettings::default()
    }
}

/// Runs one proxy in front of a node, with a demand as a function of time.
pub(crate) fn run(
    kind: NodeKind,
    mut proxy: Proxy,
    seconds: u64,
    demand: impl Fn(f64) -> f64,
) -> (Node, Proxy) {
    let mut node = Node::new(kind);
    let mut now = Nanos::ZERO;
    while now < Nanos::from_secs(seconds) {
        node.step(now);
        proxy.step(now, &mut node, demand(now.as_secs_f64()));
        now = now.saturating_add(STEP);
    }
    (node, proxy)
}

/// Offers so many a second to a bare node.
pub(crate) fn flood(kind: NodeKind, a_second: f64, seconds: u64) -> Node {
    let mut node = Node::new(kind);
    let mut now = Nanos::ZERO;
    let mut owed = 0.0;
    while now < Nanos::from_secs(seconds) {
        node.step(now);
        owed += a_second * STEP_SECS;
        node.offer(0, owed as usize);
        owed -= owed.floor();
        now = now.saturating_add(STEP);
    }
    node
}
