//! The rate at which a node is fed, steered by what the node does with it.

mod base;
mod law;
mod refusals;

use pacing::{Nanos, Rate};

use self::base::BaseInterval;
use self::law::{BlockFacts, LOWER};
pub use self::refusals::Refused;
use self::refusals::{Consequence, Refusals};
use crate::occupancy::Occupancy;
use crate::settings::PaceSettings;
use crate::throughput::{BlockSeen, Counted, Throughput};
use crate::usage::{Usage, Used};

/// The rate, steered block by block.
///
/// **Controlled variable**: transactions in a block. The target is a full block, whichever bound
/// makes it full:
/// - the mempool: `fill` × its size, where a small mempool is the bottleneck (CometBFT 0.38 with
///   5,000 slots was measured to commit 4,376/s in 0.88 blocks a second);
/// - waiting: what the chain commits in four base intervals, where the mempool is large and blocks
///   would become many seconds long.
///
/// **Law**, once a block, the lowest of three:
/// - *full*: r × f, f = target / block; √f when that is near 1, so that noise is not followed;
/// - *waiting*: r × g(f), f = 4 T₀ / T. Near a node's capacity a little more rate makes
///   much longer intervals (T = T₀ + n/C and n = r T give (dT/T)/(dr/r) = T/T₀ − 1), so g is gentle:
///   f^0.3 below 1, 1 + 0.4 (f − 1) above;
/// - *left*: m × 2.2 × recent block / peak, where m is what is committed of ours for each second in
///   which sending was possible, and peak what the mempool held just before the block. It limits
///   growth, and finds chains whose blocks are capped: there what a block leaves behind adds up, so
///   r must settle at m.
///
/// A little (2 % of what the chain commits) is added in any case, so that several proxies in front
/// of one node come to equal shares. The constants of the law are in `law.rs`, each with its reason.
///
/// One step goes down by 0.7 or up by 2 at most. The rate is raised only if writes waited for at
/// least 80 % of the interval and 90 % of the rate was used while sending was possible (Netflix's
/// concurrency-limits grows only when in flight × 2 ≥ limit). It is lowered only if writes waited, or
/// by two blocks in a row: the first block of a burst may have been proposed before most of it came.
/// Refusals because the mempool is full lower it to 0.7 r at once if they are more than 2 % of what
/// was sent since the last block, at most once a block; the first one that contains the size of the
/// mempool sets the rate to what fills that size instead.
///
/// **Gate**: whatever the rate, no more is sent than fits into the mempool (`Pacer::may_send`). So
/// the node refuses very few, and a rate above what a long block allows does no harm: a mempool that
/// stays full while a block is executed is refilled quickly afterwards.
///
/// Latency is no signal: it has the period of the blocks. When there are no blocks, see [`Signals`].
#[derive(Clone, Debug)]
pub struct AdaptiveRate {
    settings: Settings,
    rate: f64,
    throughput: Throughput,
    base: BaseInterval,
    refusals: Refusals,
    /// Blocks in a row that asked for less.
    over: u32,
    signals: Signals,
    started: Nanos,
    /// When the next step without blocks is due.
    next_step: Nanos,
    /// The depth reported last and when it was asked for, and whether it has fallen although no block
    /// was seen.
    depth: Option<(Nanos, usize)>,
    fell: bool,
    /// Times the rate was raised.
    raised: u64,
    /// Whether a refusal came, or anything has changed the rate.
    touched: bool,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    min: f64,
    max: f64,
    fill: f64,
}

/// What the rate follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signals {
    /// Blocks come, or came until a moment ago.
    Blocks,
    /// No blocks for long, but the mempool's depth is known: the chain has halted, the rate is held
    /// and the gate keeps the mempool from filling. If the depth falls nevertheless, blocks are made
    /// that are not reported, and the rate follows refusals.
    Mempool,
    /// Neither: the rate follows refusals alone (additive increase, multiplicative decrease).
    Blind,
}

/// The mempool is filled in less than an interval: while a block is made there is no room.
const REFILL: f64 = 1.25;
/// Blocks in a row that must ask for less.
const OVER: u32 = 2;
/// The rate of a fresh start, which doubles with each block: CometBFT 0.38 and Tendermint 0.20 with
/// default settings were measured to take 2,000/s without a refusal, and a node that does not refuses
/// within a block.
const START: f64 = 2_000.0;
/// What may be tried on a node whose blocks were seen before the first write: that many transactions a
/// base interval, CometBFT's default mempool. The first block is full then, and a mempool of that
/// size refuses the rest; without the base interval the time of a heavy first block would be taken
/// for the usual one.
const START_BLOCK: f64 = 5_000.0;
/// The gate closes at this share of the room that `fill` leaves.
const GATE: f64 = 0.8;
/// The gate also closes when so many base intervals' worth has been sent and no block comes.
const GATE_INTERVALS: f64 = 6.0;
/// The base interval before the first one was seen: the longest that is common.
const UNKNOWN_BASE: f64 = 10.0;
/// What may be sent in any case.
const GATE_LEAST: f64 = 256.0;
/// Blocks count as missing after so long, or after ten intervals if that is longer.
const SILENCE: f64 = 30.0;
const SILENCE_INTERVALS: f64 = 10.0;
/// A depth that the node reported counts so long.
const DEPTH_TO_LIVE: Nanos = Nanos::from_secs(5);
/// A depth from which a fall means a block.
const FELL_FROM: usize = 16;
/// Without blocks the rate is looked at so often, and raised by this share of its ceiling.
const STEP: Nanos = Nanos::from_secs(2);
const STEP_UP: f64 = 0.02;
/// An interval below this share of the usual one is two blocks read at once.
const TOO_SHORT: f64 = 0.25;

impl AdaptiveRate {
    /// Starts low, at most at `max`.
    pub(crate) fn new(now: Nanos, max: Rate, pace: &PaceSettings) -> Self {
        let max = max.as_f64();
        let min = pace.min_req.as_f64().min(max);
        Self {
            settings: Settings {
                min,
                max,
                fill: pace.mempool_fill.clamp(0.01, 1.0),
            },
            rate: START.clamp(min, max),
            throughput: Throughput::new(),
            base: BaseInterval::default(),
            refusals: Refusals::new(pace.mempool_size),
            over: 0,
            signals: Signals::Blocks,
            started: now,
            next_step: now.saturating_add(STEP),
            depth: None,
            fell: false,
            raised: 0,
            touched: false,
        }
    }

    /// Writes a second.
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// Up to how many transactions the mempool may be filled until a block comes.
    ///
    /// What it holds, what is under way included, is kept below `fill` + 0.8 (1 − `fill`) of its
    /// size (0.994 at the default), and below six base intervals' worth of the rate, so that a
    /// halted chain with a large mempool keeps its transactions here, where they are shared fairly.
    pub(crate) fn level(&self) -> f64 {
        if self.signals == Signals::Blind {
            return f64::INFINITY;
        }
        let base = self.base.secs().unwrap_or(UNKNOWN_BASE);
        let recent = self.throughput.recent_txs() as f64;
        let intervals = GATE_INTERVALS * (self.rate * base).max(recent);
        let share = self.settings.fill + GATE * (1.0 - self.settings.fill);
        let size = self.refusals.bound() * share;
        intervals.max(GATE_LEAST).min(size)
    }

    /// The node did not take one; `sent` were sent since the last block and it held `occupancy`.
    pub(crate) fn refused(&mut self, why: Refused, sent: u64, occupancy: f64) {
        self.touched = true;
        match self.refusals.add(why, sent, occupancy) {
            Consequence::None => {}
            Consequence::Lower => self.set(self.rate * LOWER),
            Consequence::Learnt => {
                // The gate uses the size from now on; the rate is set to match.
                let interval = self.throughput.interval();
                if interval > 0.0 {
                    self.set(self.rate.min(REFILL * self.full_block() / interval));
                }
            }
        }
    }

    /// The node held so many transactions when it was asked at `asked`.
    pub(crate) fn depth(&mut self, asked: Nanos, txs: usize) {
        let before = self.depth.map_or(0, |(_, before)| before);
        self.fell |= before >= FELL_FROM && txs < before / 2;
        self.depth = Some((asked, txs));
    }

    /// A block.
    pub(crate) fn block(
        &mut self,
        now: Nanos,
        block: &BlockSeen,
        occupancy: &mut Occupancy,
        usage: &mut Usage,
    ) {
        let counted = self.throughput.block(block);
        if counted == Counted::Duplicate {
            return;
        }
        let (peak, ours) = occupancy.block(block);
        if counted == Counted::Late {
            return;
        }
        self.signals = Signals::Blocks;
        self.fell = false;
        let secs = self.throughput.last_interval();
        if secs > TOO_SHORT * self.throughput.interval() {
            let used = usage.take(now);
            self.base.block(block.txs as f64, secs);
            self.begin_well(&used);
            self.steer(&BlockFacts {
                rate: self.rate,
                txs: block.txs as f64,
                ours,
                peak,
                secs,
                recent: self.throughput.recent_txs() as f64,
                committed_rate: self.throughput.rate(),
                full: self.full_block(),
                base_secs: self.base.secs().unwrap_or(f64::INFINITY),
                used,
            });
        }
        if self.throughput.interval() == 0.0 {
            // The first block that is seen: what came before it was no interval.
            usage.take(now);
        }
        self.refusals.begin_interval();
    }

    /// Before the first write: idle blocks show the base interval, and so the rate to start with.
    fn begin_well(&mut self, used: &Used) {
        if let Some(base) = self.base.secs()
            && !self.touched
            && used.backlogged == 0.0
        {
            self.set(START.max(START_BLOCK / base));
        }
    }

    fn steer(&mut self, facts: &BlockFacts) {
        if facts.secs <= facts.patience_secs() {
            self.base.short_enough();
        } else {
            self.base.too_long(facts.txs, facts.secs);
        }
        let wanted = facts.wanted();
        self.over = if wanted < self.rate { self.over + 1 } else { 0 };
        if self.refusals.settled() {
            return;
        }
        if wanted < self.rate && (facts.waited() || self.over >= OVER) {
            self.touched = true;
            self.set(wanted);
        } else if wanted > self.rate && facts.used.is_of(self.rate) {
            self.raise(wanted);
        }
    }

    /// Transactions in a block that a mempool filled as configured makes.
    fn full_block(&self) -> f64 {
        self.settings.fill * self.refusals.bound()
    }

    /// Checks whether blocks have stopped, and steers without them if so.
    pub(crate) fn step(&mut self, now: Nanos, usage: &mut Usage) {
        if now < self.next_step {
            return;
        }
        self.next_step = now.saturating_add(STEP);
        self.signals = self.signals_at(now);
        let by_refusals = match self.signals {
            Signals::Blocks => return,
            Signals::Mempool => self.fell,
            Signals::Blind => true,
        };
        let used = usage.take(now);
        if by_refusals && !self.refusals.settled() && used.is_of(self.rate) {
            self.raise(self.rate + STEP_UP * self.settings.max);
        }
        if by_refusals {
            self.refusals.begin_interval();
        }
    }

    fn signals_at(&self, now: Nanos) -> Signals {
        let last = self.throughput.last_block().unwrap_or(self.started);
        let silence = SILENCE.max(SILENCE_INTERVALS * self.throughput.interval());
        if now.saturating_sub(last).as_secs_f64() <= silence {
            return Signals::Blocks;
        }
        match self.depth {
            Some((at, _)) if now.saturating_sub(at) <= DEPTH_TO_LIVE => Signals::Mempool,
            _ => Signals::Blind,
        }
    }

    /// The depth that was reported is no longer true.
    pub(crate) const fn forget_depth(&mut self) {
        self.depth = None;
    }

    /// The node's chain was replaced by another: heights begin anew.
    pub(crate) fn chain_replaced(&mut self, now: Nanos) {
        self.throughput.restart();
        self.base = BaseInterval::default();
        self.started = now;
    }

    /// Another node takes over: its mempool may be of another size.
    pub(crate) const fn node_changed(&mut self, configured: Option<usize>) {
        self.refusals = Refusals::new(configured);
    }

    fn raise(&mut self, rate: f64) {
        self.raised += 1;
        self.touched = true;
        self.set(rate);
    }

    fn set(&mut self, rate: f64) {
        self.rate = rate.clamp(self.settings.min, self.settings.max);
    }

    /// What the rate follows.
    pub const fn signals(&self) -> Signals {
        self.signals
    }

    /// Committed transactions, counted.
    pub const fn throughput(&self) -> &Throughput {
        &self.throughput
    }

    /// What the mempool holds at most, as far as is known.
    pub const fn mempool_size(&self) -> Option<usize> {
        self.refusals.size()
    }

    /// Seconds between small blocks.
    pub const fn base_interval(&self) -> Option<f64> {
        self.base.secs()
    }

    /// How often the rate was raised.
    pub const fn raised(&self) -> u64 {
        self.raised
    }
}
