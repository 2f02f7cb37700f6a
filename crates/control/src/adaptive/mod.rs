//! The rate at which a node is fed, steered by what the node does with it.

mod base;
mod law;
mod refusals;

use pacing::{Nanos, Rate};

use self::base::BaseInterval;
use self::law::{LOWER, Seen};
pub use self::refusals::Refused;
use self::refusals::{Consequence, Refusals};
use crate::occupancy::Occupancy;
use crate::settings::PaceSettings;
use crate::throughput::{BlockSeen, Counted, Throughput};
use crate::usage::{Usage, UsageState, Used};

/// The rate, steered block by block.
///
/// **Controlled variable**: transactions in a block. The target is a full block, whichever bound
/// makes it full:
/// - the mempool: `fill` × its size, where a small mempool is the ceiling
///   (`overload-measurements.md` 5.1: 4,376/s = 5,000 × 0.88 blocks a second);
/// - waiting: what the chain commits in four base intervals, where the mempool is large and the node
///   would drift to blocks of many seconds.
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
/// by two blocks in a row: the first block of a burst may have been proposed before most of it came. Refusals because the mempool is full lower it to 0.7 r at once if they
/// are more than a few, at most once a block; the first one to tell the size sets it to what fills
/// that size instead.
///
/// **Gate**: whatever the rate, no more is sent than fits: see [`AdaptiveRate::may_send`]. So the
/// node refuses hardly anything, and a rate above what a long block allows does no harm: a mempool
/// that stays full while a block is executed is refilled quickly when it is done.
///
/// Latency is no signal: it has the period of the blocks. When there are no blocks, see [`Signals`].
#[derive(Clone, Debug)]
pub struct AdaptiveRate {
    settings: Settings,
    rate: f64,
    throughput: Throughput,
    occupancy: Occupancy,
    usage: Usage,
    base: BaseInterval,
    refusals: Refusals,
    /// Blocks in a row that asked for less.
    over: u32,
    signals: Signals,
    started: Nanos,
    /// When the next step without blocks is due.
    next_step: Nanos,
    /// The depth told last and when it was asked for, and whether it has fallen although no block
    /// was seen.
    depth: Option<(Nanos, usize)>,
    fell: bool,
    counters: PaceCounters,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    min: f64,
    max: f64,
    fill: f64,
}

/// What the rate goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signals {
    /// Blocks come, or came until a moment ago.
    Blocks,
    /// No blocks for long, but the mempool's depth is known: the chain has halted, the rate is held
    /// and the gate keeps the mempool from filling. If the depth falls nevertheless, blocks are made
    /// that cannot be seen, and the rate goes by refusals.
    Mempool,
    /// Neither: the rate goes by refusals alone (additive increase, multiplicative decrease).
    Blind,
}

/// What happened to the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PaceCounters {
    /// Times it was raised.
    pub raised: u64,
    /// Times it was lowered by what blocks and mempool showed.
    pub lowered: u64,
    /// Times it was lowered because the node refused.
    pub cut: u64,
    /// Refusals.
    pub refused: u64,
}

/// The mempool is filled in less than an interval: while a block is made there is no room.
const REFILL: f64 = 1.25;
/// Blocks in a row that must ask for less.
const OVER: u32 = 2;
/// The rate of a fresh start, which doubles with each block: both versions that were measured take
/// 2,000/s without a refusal (`overload-measurements.md` 4.1, 5.1), and a node that does not says so
/// within a block.
const START: f64 = 2_000.0;
/// What may be tried on a node whose blocks were seen while nobody wrote: that many transactions a
/// base interval, the mempool that every CometBFT comes with. The first block is full then, and a
/// mempool of that size says so; without the base interval a heavy first block would be taken for
/// how long blocks take.
const START_BLOCK: f64 = 5_000.0;
/// The gate closes at this share of the room that `fill` leaves.
const GATE: f64 = 0.8;
/// The gate also closes when so many base intervals' worth has been sent and no block comes.
const GATE_INTERVALS: f64 = 6.0;
/// The base interval before the first one was seen: the longest that is common.
const UNKNOWN_BASE: f64 = 10.0;
/// What may be sent in any case.
const GATE_LEAST: f64 = 256.0;
/// Blocks are missed after so long, or after ten intervals if that is longer.
const SILENCE: f64 = 30.0;
const SILENCE_INTERVALS: f64 = 10.0;
/// The word of the node about its depth counts so long.
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
    pub fn new(now: Nanos, max: Rate, pace: &PaceSettings) -> Self {
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
            occupancy: Occupancy::new(now),
            usage: Usage::new(now),
            base: BaseInterval::default(),
            refusals: Refusals::new(pace.mempool_size),
            over: 0,
            signals: Signals::Blocks,
            started: now,
            next_step: now.saturating_add(STEP),
            depth: None,
            fell: false,
            counters: PaceCounters::default(),
        }
    }

    /// Writes a second.
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// How many more may be sent before a block comes, so that the mempool does not fill up.
    ///
    /// What the mempool holds, what is under way included, is kept below `fill` + 0.8 (1 − `fill`)
    /// of its size (0.994 at the default), and below six base intervals' worth of the rate, so that
    /// a halted chain with a large mempool keeps its transactions here, where they are shared
    /// fairly.
    pub fn may_send(&self, now: Nanos) -> usize {
        if self.signals == Signals::Blind {
            return usize::MAX;
        }
        (self.level() - self.occupancy.at(now)).max(0.0) as usize
    }

    fn level(&self) -> f64 {
        let base = self.base.secs().unwrap_or(UNKNOWN_BASE);
        let recent = self.throughput.recent_txs() as f64;
        let intervals = GATE_INTERVALS * (self.rate * base).max(recent);
        let share = self.settings.fill + GATE * (1.0 - self.settings.fill);
        let size = self.refusals.bound() * share;
        intervals.max(GATE_LEAST).min(size)
    }

    /// From now on this holds.
    pub(super) fn usage(&mut self, now: Nanos, state: UsageState) {
        self.usage.set(now, state);
        self.step(now);
    }

    /// Something else than the rate holds writes back.
    pub(super) const fn disturb(&mut self) {
        self.usage.disturb();
    }

    /// So many are under way.
    pub fn under_way(&mut self, count: usize) {
        self.occupancy.under_way(count);
    }

    /// So many leave now.
    pub fn sent(&mut self, now: Nanos, count: usize) {
        self.occupancy.sent(now, count);
        self.usage.sent(count);
    }

    /// So many of them did not leave after all.
    pub fn unsent(&mut self, count: usize) {
        self.occupancy.unsent(count);
        self.usage.unsent(count);
    }

    /// The node took so many.
    pub fn accepted(&mut self, now: Nanos, count: usize) {
        self.occupancy.accepted(now, count);
    }

    /// The node did not take one.
    pub fn refused(&mut self, now: Nanos, why: Refused) {
        self.counters.refused += 1;
        self.occupancy.refused();
        if let Refused::Full { max: Some(max) } = why {
            self.occupancy.full(now, max);
        }
        let sent = self.usage.sent_so_far();
        match self.refusals.add(why, sent, self.occupancy.at(now)) {
            Consequence::None => {}
            Consequence::Lower => {
                self.counters.cut += 1;
                self.set(self.rate * LOWER);
            }
            Consequence::Learnt => {
                // From now on the gate knows it, and so should the rate.
                let interval = self.throughput.interval();
                if interval > 0.0 {
                    self.set(self.rate.min(REFILL * self.full_block() / interval));
                }
            }
        }
    }

    /// The node held so many transactions when it was asked at `asked`.
    pub fn mempool(&mut self, asked: Nanos, txs: usize) {
        self.occupancy.told(asked, txs);
        let before = self.depth.map_or(0, |(_, before)| before);
        self.fell |= before >= FELL_FROM && txs < before / 2;
        self.depth = Some((asked, txs));
    }

    /// A block.
    pub fn block(&mut self, now: Nanos, block: &BlockSeen) {
        let counted = self.throughput.block(block);
        if counted == Counted::Duplicate {
            return;
        }
        let (peak, ours) = self.occupancy.block(block);
        if counted == Counted::Late {
            return;
        }
        self.signals = Signals::Blocks;
        self.fell = false;
        let secs = self.throughput.last_interval();
        if secs > TOO_SHORT * self.throughput.interval() {
            let used = self.usage.take(now);
            self.base.block(block.txs as f64, secs);
            self.begin_well(&used);
            self.steer(&Seen {
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
            self.usage.take(now);
        }
        self.refusals.begin_anew();
    }

    /// As long as nobody wrote, the chain's idle blocks say how fast the first ones may come.
    fn begin_well(&mut self, used: &Used) {
        let untouched = self.counters == PaceCounters::default();
        if let Some(base) = self.base.secs()
            && untouched
            && used.backlogged == 0.0
        {
            self.set(START.max(START_BLOCK / base));
        }
    }

    fn steer(&mut self, seen: &Seen) {
        if seen.secs <= seen.patience_secs() {
            self.base.short_enough();
        } else {
            self.base.too_long(seen.txs, seen.secs);
        }
        let wanted = seen.wanted();
        self.over = if wanted < self.rate { self.over + 1 } else { 0 };
        if self.refusals.settled() {
            return;
        }
        if wanted < self.rate && (seen.waited() || self.over >= OVER) {
            self.counters.lowered += 1;
            self.set(wanted);
        } else if wanted > self.rate && seen.used.is_of(self.rate) {
            self.counters.raised += 1;
            self.set(wanted);
        }
    }

    /// Transactions in a block that a mempool filled as configured makes.
    fn full_block(&self) -> f64 {
        self.settings.fill * self.refusals.bound()
    }

    /// Looks whether blocks have stopped, and steers without them.
    fn step(&mut self, now: Nanos) {
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
        let used = self.usage.take(now);
        if by_refusals && !self.refusals.settled() && used.is_of(self.rate) {
            self.counters.raised += 1;
            self.set(self.rate + STEP_UP * self.settings.max);
        }
        if by_refusals {
            self.refusals.begin_anew();
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

    /// The mempool was lost, or another node takes over.
    pub fn mempool_lost(&mut self, now: Nanos) {
        self.occupancy.reset(now);
        self.usage.disturb();
        self.depth = None;
    }

    /// The node's chain was replaced by another: heights begin anew, and the mempool is empty.
    pub fn chain_replaced(&mut self, now: Nanos) {
        self.mempool_lost(now);
        self.throughput.restart();
        self.base = BaseInterval::default();
        self.started = now;
    }

    /// Another node takes over: its mempool may be of another size.
    pub fn node_changed(&mut self, now: Nanos, configured: Option<usize>) {
        self.mempool_lost(now);
        self.refusals = Refusals::new(configured);
    }

    fn set(&mut self, rate: f64) {
        self.rate = rate.clamp(self.settings.min, self.settings.max);
    }

    /// What the rate goes by.
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

    /// What happened to the rate.
    pub const fn counters(&self) -> PaceCounters {
        self.counters
    }
}
