//! A node as CometBFT was measured to behave, on a simulated clock.

use std::collections::VecDeque;
use std::ops::Range;

use control::Load;
use pacing::Nanos;

/// One step of the simulation.
pub(crate) const STEP: Nanos = Nanos::from_millis(1);
pub(crate) const STEP_SECS: f64 = 0.001;
/// Sources of transactions, whose numbers are below this; the last is that of other proposers.
pub(crate) const SOURCES: usize = 8;
pub(crate) const ELSEWHERE: usize = SOURCES - 1;

/// What kind of node it is. The defaults are CometBFT 0.38.17's with the kvstore on two cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeKind {
    /// Transactions and bytes that the mempool holds.
    pub(crate) mempool: usize,
    pub(crate) mempool_bytes: u64,
    /// Transactions (all cost the same gas) and bytes that a block holds.
    pub(crate) block: usize,
    pub(crate) block_bytes: u64,
    /// Transactions of a block by what the chain says of its limits; none where it says nothing.
    pub(crate) told: Option<u64>,
    /// From a commit to the next proposal (`timeout_commit`), and its random part.
    pub(crate) timeout_secs: f64,
    pub(crate) jitter: f64,
    /// Whether blocks are made while nothing waits.
    pub(crate) empty_blocks: bool,
    /// Seconds for a check; whether the application checks what comes over several connections at
    /// once; and for checking again what a block has left.
    pub(crate) check_secs: f64,
    pub(crate) concurrent: bool,
    pub(crate) recheck_secs: f64,
    /// Time for a transaction on a fresh node: blocks of 5,000 come 0.88 times a second.
    pub(crate) fresh_us: f64,
    /// What a million committed transactions add to it permanently, and what pending compaction adds:
    /// together the measured decline (`docs/experiments.md`).
    pub(crate) wear_us: f64,
    pub(crate) debt_us: f64,
    /// Checks a second that halve the speed of execution: 17,500/s cost 0.3 s a block.
    pub(crate) readers: f64,
    /// The last share of the work on a block in which nothing is checked.
    pub(crate) locked: f64,
    /// Every so many blocks, the commit takes so many seconds more.
    pub(crate) stall: (usize, f64),
    /// The node runs for the second number of milliseconds of each first number: others have the cores.
    pub(crate) runs: (u64, u64),
    /// How long a transaction travels to the proposers.
    pub(crate) gossip_secs: f64,
    /// From a client to the node and back, beside the node's own time.
    pub(crate) travel: Nanos,
    /// What reading a block takes for each of its bytes: 6 where 22 MB took 0.13 s.
    pub(crate) read_nanos_a_byte: u64,
}

impl Default for NodeKind {
    fn default() -> Self {
        Self {
            mempool: 5_000,
            mempool_bytes: 1 << 30,
            block: usize::MAX,
            block_bytes: u64::MAX,
            told: Some(22_020_096 / 250),
            timeout_secs: 1.0,
            jitter: 0.0,
            empty_blocks: true,
            check_secs: 57e-6,
            concurrent: false,
            recheck_secs: 0.0,
            fresh_us: 27.0,
            wear_us: 120.0,
            debt_us: 60.0,
            readers: 8_000.0,
            locked: 0.2,
            stall: (usize::MAX, 0.0),
            runs: (1, 1),
            gossip_secs: 0.0,
            travel: Nanos::from_millis(1),
            read_nanos_a_byte: 0,
        }
    }
}

impl NodeKind {
    /// What the chain says that a block may have.
    pub(crate) fn limits(&self) -> Option<Load> {
        self.told.map(|told| Load {
            txs: u64::MAX,
            bytes: self.block_bytes,
            gas: told,
        })
    }

    /// The same without decline.
    pub(crate) fn steady() -> Self {
        Self {
            wear_us: 0.0,
            debt_us: 0.0,
            ..Self::default()
        }
    }
}

/// A broadcast.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) source: usize,
    pub(crate) bytes: u32,
    /// Whether it is the polite client's, and when it was due.
    pub(crate) polite: bool,
    pub(crate) due: Nanos,
    /// When it was sent, by the one who waits for the answer, and over which of its connections.
    pub(crate) sent: Nanos,
    pub(crate) by: usize,
}

/// The answer to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) request: Request,
    pub(crate) taken: bool,
    pub(crate) at: Nanos,
}

/// A connection: requests wait in its socket, answers are read by its owner.
#[derive(Clone, Debug)]
struct Connection {
    owner: usize,
    waiting: VecDeque<(Nanos, Request)>,
    /// Until then the node is checking one of it.
    busy: Nanos,
}

/// A block as the simulation makes it.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) at: Nanos,
    pub(crate) height: u64,
    /// Transactions of each source.
    pub(crate) by_source: [usize; SOURCES],
    /// Bytes of each source.
    pub(crate) bytes: [u64; SOURCES],
}

impl Made {
    pub(crate) fn txs(&self) -> usize {
        self.by_source.iter().sum()
    }

    /// Transactions of some sources; all cost the same gas.
    pub(crate) fn load(&self, sources: Range<usize>) -> Load {
        let txs = self.by_source[sources.clone()].iter().sum::<usize>() as u64;
        Load {
            txs,
            bytes: self.bytes[sources].iter().sum(),
            gas: txs,
        }
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

/// A transaction in the mempool.
#[derive(Clone, Copy, Debug)]
struct Held {
    since: Nanos,
    source: usize,
    bytes: u32,
}

/// The node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    connections: Vec<Connection>,
    /// The connection that is served next, and until when the one check at a time is busy.
    turn: usize,
    busy: Nanos,
    /// Answers on their way to each owner, the oldest first.
    answers: Vec<VecDeque<Answer>>,
    mempool: VecDeque<Held>,
    bytes: u64,
    /// How many of the mempool the block being executed takes.
    reaped: usize,
    phase: Phase,
    pub(crate) blocks: Vec<Made>,
    committed: f64,
    debt: f64,
    /// Checks a second, smoothed over a second.
    reads: f64,
    read_now: usize,
    pub(crate) refused: u64,
    /// Transactions that were in its mempool when it was started again.
    pub(crate) lost: usize,
    pub(crate) halted: bool,
    /// It does nothing, like a stopped process.
    pub(crate) is_frozen: bool,
    /// It reads blocks that others made, and takes no part.
    pub(crate) catching_up: bool,
    random: Random,
}

/// Transactions after which the debt has 63 % of its effect, and the seconds in which an idle node
/// pays 63 % of it back.
const DEBT_TXS: f64 = 60_000.0;
const DEBT_SECS: f64 = 10.0;
/// The fixed part of the work on a block.
const BLOCK_SECS: f64 = 0.01;
/// A node that catches up reads a block in this time, of so many transactions.
const CATCH_UP_SECS: f64 = 0.05;
const CATCH_UP_TXS: usize = 800;

impl Node {
    pub(crate) fn new(kind: NodeKind) -> Self {
        Self {
            kind,
            connections: Vec::new(),
            turn: 0,
            busy: Nanos::ZERO,
            answers: Vec::new(),
            mempool: VecDeque::new(),
            bytes: 0,
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
            lost: 0,
            halted: false,
            is_frozen: false,
            catching_up: false,
            random: Random(7),
        }
    }

    /// One who connects.
    pub(crate) fn owner(&mut self) -> usize {
        self.answers.push(VecDeque::new());
        self.answers.len() - 1
    }

    pub(crate) fn connect(&mut self, owner: usize) -> usize {
        self.connections.push(Connection {
            owner,
            waiting: VecDeque::new(),
            busy: Nanos::ZERO,
        });
        self.connections.len() - 1
    }

    /// Writes to a connection's socket.
    pub(crate) fn send(&mut self, connection: usize, request: Request) {
        let at = request.sent.saturating_add(self.kind.travel);
        self.connections[connection]
            .waiting
            .push_back((at, request));
    }

    /// Requests in a connection's socket.
    pub(crate) fn waiting(&self, connection: usize) -> usize {
        self.connections[connection].waiting.len()
    }

    /// The next answer that has come by now.
    pub(crate) fn answer(&mut self, owner: usize, now: Nanos) -> Option<Answer> {
        let answers = &mut self.answers[owner];
        answers.front().filter(|answer| answer.at <= now)?;
        answers.pop_front()
    }

    /// Time passes. Returns whether a block was made.
    pub(crate) fn step(&mut self, now: Nanos) -> bool {
        if self.is_frozen || now.as_millis() % self.kind.runs.0 >= self.kind.runs.1 {
            self.busy = self.busy.max(now.saturating_add(STEP));
            return false;
        }
        if self.is_locked() {
            self.busy = self.busy.max(now.saturating_add(STEP));
        } else {
            self.check_all(now);
        }
        self.reads += (self.read_now as f64 / STEP_SECS - self.reads) * STEP_SECS;
        self.read_now = 0;
        match &mut self.phase {
            Phase::Waiting { until } => {
                if now >= *until && self.catching_up {
                    self.copy_block(now);
                    return true;
                }
                let is_due = self.kind.empty_blocks || !self.mempool.is_empty();
                if now >= *until && !self.halted && is_due {
                    self.reap(now);
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

    fn check_all(&mut self, now: Nanos) {
        let end = now.saturating_add(STEP);
        let mut idle = 0;
        while idle < self.connections.len() {
            let turn = self.turn % self.connections.len();
            self.turn = turn + 1;
            idle = if self.check_next(turn, end) {
                0
            } else {
                idle + 1
            };
        }
    }

    /// Checks the next request of a connection, if it begins before `end`.
    fn check_next(&mut self, place: usize, end: Nanos) -> bool {
        let concurrent = self.kind.concurrent;
        let connection = &mut self.connections[place];
        let free = connection
            .busy
            .max(if concurrent { Nanos::ZERO } else { self.busy });
        let Some((at, request)) = connection.waiting.front().copied() else {
            return false;
        };
        let begins = free.max(at);
        if begins >= end {
            return false;
        }
        connection.waiting.pop_front();
        let done = begins.saturating_add(Nanos::new((self.kind.check_secs * 1e9) as u64));
        connection.busy = done;
        if !concurrent {
            self.busy = done;
        }
        let owner = connection.owner;
        let taken = self.take(request, done);
        let at = done.saturating_add(self.kind.travel);
        self.answers[owner].push_back(Answer { request, taken, at });
        self.read_now += 1;
        true
    }

    fn take(&mut self, request: Request, at: Nanos) -> bool {
        let bytes = u64::from(request.bytes);
        let taken =
            self.mempool.len() < self.kind.mempool && self.bytes + bytes <= self.kind.mempool_bytes;
        if taken {
            self.bytes += bytes;
            self.mempool.push_back(Held {
                since: at,
                source: request.source,
                bytes: request.bytes,
            });
        } else {
            self.refused += 1;
        }
        taken
    }

    fn reap(&mut self, now: Nanos) {
        let oldest = self.kind.gossip_secs;
        let mut bytes = 0;
        let known = |held: &&Held| now.saturating_sub(held.since).as_secs_f64() >= oldest;
        let fits = |held: &&Held| {
            bytes += u64::from(held.bytes);
            bytes <= self.kind.block_bytes
        };
        let reaped = self.mempool.iter().take(self.kind.block);
        self.reaped = reaped.take_while(known).take_while(fits).count();
        let wear = self.kind.wear_us * self.committed / 1e6;
        let tx_us = self.kind.fresh_us + wear + self.kind.debt_us * self.debt;
        let left = self.mempool.len() - self.reaped;
        let mut work =
            BLOCK_SECS + self.reaped as f64 * tx_us / 1e6 + left as f64 * self.kind.recheck_secs;
        if (self.blocks.len() + 1).is_multiple_of(self.kind.stall.0) {
            work += self.kind.stall.1;
        }
        self.phase = Phase::Executing { work, whole: work };
    }

    fn commit(&mut self, now: Nanos) {
        let (mut by_source, mut bytes) = ([0; SOURCES], [0; SOURCES]);
        for held in self.mempool.drain(..self.reaped) {
            by_source[held.source] += 1;
            bytes[held.source] += u64::from(held.bytes);
            self.bytes -= u64::from(held.bytes);
        }
        let txs = self.reaped as f64;
        self.committed += txs;
        let since = now.saturating_sub(self.blocks.last().map_or(Nanos::ZERO, |last| last.at));
        self.debt = if self.reaped == 0 {
            self.debt * (-since.as_secs_f64() / DEBT_SECS).exp()
        } else {
            1.0 - (1.0 - self.debt) * (-txs / DEBT_TXS).exp()
        };
        let part = 1.0 + self.kind.jitter * (2.0 * self.random.unit() - 1.0);
        self.made(now, (by_source, bytes), self.kind.timeout_secs * part);
    }

    /// A block that others made.
    fn copy_block(&mut self, now: Nanos) {
        let mut by_source = [0; SOURCES];
        by_source[ELSEWHERE] = CATCH_UP_TXS;
        self.made(now, (by_source, [0; SOURCES]), CATCH_UP_SECS);
    }

    fn made(&mut self, now: Nanos, txs: ([usize; SOURCES], [u64; SOURCES]), wait_secs: f64) {
        let until = now.saturating_add(Nanos::new((wait_secs * 1e9) as u64));
        self.phase = Phase::Waiting { until };
        let height = self.blocks.len() as u64 + 1;
        self.blocks.push(Made {
            at: now,
            height,
            by_source: txs.0,
            bytes: txs.1,
        });
    }

    /// Whether nothing is checked for a moment.
    fn is_locked(&self) -> bool {
        matches!(self.phase, Phase::Executing { work, whole } if work < whole * self.kind.locked)
    }

    pub(crate) fn depth(&self) -> usize {
        self.mempool.len()
    }

    /// As a restarted process does.
    pub(crate) fn lose_mempool(&mut self) {
        self.lost += self.mempool.len();
        self.mempool.clear();
        (self.bytes, self.reaped) = (0, 0);
    }

    /// Bytes committed of a source.
    pub(crate) fn bytes_of(&self, source: usize) -> u64 {
        self.blocks.iter().map(|made| made.bytes[source]).sum()
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

/// Numbers that are the same in every run.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// From 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}
