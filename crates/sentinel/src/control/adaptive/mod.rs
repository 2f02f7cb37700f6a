//! The rate at which a node is fed, steered by what the node does with it.

mod base;

use pacing::{Nanos, Rate};

use self::base::BaseInterval;
use super::occupancy::Occupancy;
use super::throughput::{BlockSeen, Counted, Throughput};
use super::usage::{Usage, UsageState, Used};
use crate::config::Pace;

/// The rate, steered block by block.
///
/// **Controlled variable**: transactions in a block. The target is a full block, whichever bound
/// makes it full:
/// - the mempool: `fill` × its size, where a small mempool is the ceiling
///   (`overload-measurements.md` 5.1: 4,376/s = 5,000 × 0.88 blocks a second);
/// - waiting: what the chain commits in [`WAITING`] base intervals, where the mempool is large and
///   the node would drift to blocks of many seconds.
///
/// **Law**, once a block, the lowest of three:
/// - *full*: r × f, f = target / block; √f when that is near 1, so that noise is not followed;
/// - *waiting*: r × g(f), f = [`WAITING`] T₀ / T. Near a node's capacity a little more rate makes
///   much longer intervals (T = T₀ + n/C and n = r T give (dT/T)/(dr/r) = T/T₀ − 1), so g is gentle:
///   f^0.3 below 1, 1 + 0.4 (f − 1) above;
/// - *left*: m × [`LEFT`] × recent block / peak, where m is what is committed of ours for each second
///   in which sending was possible, and peak what the mempool held just before the block. It limits
///   growth, and finds chains whose blocks are capped: there what a block leaves behind adds up, so
///   r must settle at m.
///
/// A little is added in any case, for fairness among proxies: see [`SHARING`].
///
/// One step goes down by 0.7 or up by 2 at most. The rate is raised only if writes waited for at
/// least [`BACKLOGGED`] of the interval and [`USED`] of the rate was used while sending was possible
/// (Netflix's concurrency-limits grows only when in flight × 2 ≥ limit). It is lowered only if
/// writes waited, or by two blocks in a row: the first block of a burst may have been proposed
/// before most of it came. Refusals because the mempool is full lower it to 0.7 r at once if they
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
    mempool: MempoolSize,
    /// Blocks in a row that asked for less.
    over: u32,
    /// The rate was lowered since the last block, or step.
    cut: bool,
    /// Refusals since then.
    fulls: u64,
    rechecks: u64,
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

/// What a block shows.
#[derive(Clone, Copy, Debug)]
struct Seen {
    txs: f64,
    ours: f64,
    /// What the mempool held just before it.
    peak: f64,
    /// Seconds since the block before.
    secs: f64,
}

/// What is known about how much the mempool holds.
#[derive(Clone, Copy, Debug, Default)]
struct MempoolSize {
    /// As configured, or in the words of a refusal.
    txs: Option<usize>,
    /// What it held when it refused without a word about its size, relaxed since.
    soft: Option<f64>,
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

/// Why the node did not take a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its mempool is full; `max` is how many it holds, when it said so.
    Full {
        /// Transactions the mempool holds.
        max: Option<usize>,
    },
    /// Its mempool is being rechecked after a block and counts as full for a moment.
    Rechecking,
    /// It did not answer in time.
    TimedOut,
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

/// Base intervals that a transaction may wait for its block. More fill blocks better (the pause
/// between blocks weighs less) and let clients wait longer: with 4, three quarters of the time between
/// blocks go into transactions.
const WAITING: f64 = 4.0;
/// The mempool may hold so many recent blocks just before a block: one that is taken, and as much
/// again, and a little, that came while it was being made.
const LEFT: f64 = 2.2;
/// What is added to the rate each block, as a share of what the chain commits: of several proxies in
/// front of one node those that send little come to send as much as the others, in 1 / (2 × this)
/// blocks if there are two (Chiu and Jain 1989: additive increase makes fair).
const SHARING: f64 = 0.02;
/// Bounds of one step, and the factor of a refusal (`reference/proxies.md` d.4).
const LOWER: f64 = 0.7;
const RAISE: f64 = 2.0;
/// Factors nearer to 1 than this are halved in effect, so that noise is not followed.
const NEAR: f64 = 1.3;
/// Shares of the interval and of the rate from which a raise is allowed.
const BACKLOGGED: f64 = 0.8;
const USED: f64 = 0.9;
/// Share of the interval in which sending must have been possible for its use to say anything.
const POSSIBLE: f64 = 0.1;
/// Sending may be much faster than committing when the gate is closed most of the time; so much.
const MOSTLY_CLOSED: f64 = 0.5;
/// Blocks in a row that must ask for less.
const OVER: u32 = 2;
/// The rate of a fresh start: no node in use is harmed by it for the length of a block, and it
/// doubles with each block.
const START: f64 = 500.0;
/// The gate closes at this share of the room that `fill` leaves.
const GATE: f64 = 0.8;
/// The gate also closes when so many base intervals' worth has been sent and no block comes.
const GATE_INTERVALS: f64 = 6.0;
/// The base interval before the first one was seen: the longest that is common.
const UNKNOWN_BASE: f64 = 10.0;
/// What may be sent in any case.
const GATE_LEAST: f64 = 256.0;
/// Shares of the writes of an interval that may meet a full mempool (it is to be full to the brim,
/// and others fill it too) or a recheck without being a sign of overload, and the writes that count
/// as sent at least.
const FULLS: f64 = 0.02;
const RECHECKS: f64 = 0.1;
const LEAST_SENT: u64 = 16;
/// A bound learnt without a number is relaxed by this factor each block.
const RELAX: f64 = 1.02;
/// Blocks are missed after so long, or after ten intervals if that is longer.
const SILENCE: f64 = 30.0;
const SILENCE_INTERVALS: f64 = 10.0;
/// The word of the node about its depth counts so long.
const DEPTH_TO_LIVE: Nanos = Nanos::from_secs(5);
/// Without blocks the rate is looked at so often, and raised by this share of its ceiling.
const STEP: Nanos = Nanos::from_secs(2);
const STEP_UP: f64 = 0.02;
/// An interval below this share of the usual one is two blocks read at once.
const TOO_SHORT: f64 = 0.25;

impl AdaptiveRate {
    /// Starts low, at most at `max`.
    pub fn new(now: Nanos, max: Rate, pace: &Pace) -> Self {
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
            mempool: MempoolSize {
                txs: pace.mempool_size,
                soft: None,
            },
            over: 0,
            cut: false,
            fulls: 0,
            rechecks: 0,
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
    /// of its size (0.97 at the default), and below six base intervals' worth of the rate, so that
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
        let size = self.mempool.bound() * share;
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
        match why {
            Refused::Full { max: Some(max) } => {
                self.occupancy.full(now, max);
                if self.mempool.txs.replace(max) == Some(max) {
                    self.fulls += 1;
                    self.lower_if_many(self.fulls, FULLS);
                } else {
                    self.learnt();
                }
            }
            Refused::Full { max: None } => {
                self.mempool.refused_at(self.occupancy.at(now));
                self.lower_at_once();
            }
            Refused::Rechecking => {
                self.rechecks += 1;
                self.lower_if_many(self.rechecks, RECHECKS);
            }
            Refused::TimedOut => self.lower_at_once(),
        }
    }

    /// The mempool's size is news: from now on the gate knows it, and so should the rate. What is
    /// under way already may still be refused, which says nothing more.
    fn learnt(&mut self) {
        self.cut = true;
        let interval = self.throughput.interval();
        if interval > 0.0 {
            self.set(self.rate.min(self.full_block() / interval));
        }
    }

    fn lower_if_many(&mut self, count: u64, share: f64) {
        if count as f64 > share * self.usage.sent_so_far().max(LEAST_SENT) as f64 {
            self.lower_at_once();
        }
    }

    fn lower_at_once(&mut self) {
        if !self.cut {
            self.cut = true;
            self.counters.cut += 1;
            self.set(self.rate * LOWER);
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
        if secs <= TOO_SHORT * self.throughput.interval() {
            self.forget_refusals();
            return;
        }
        let used = self.usage.take(now);
        self.base.block(secs);
        let seen = Seen {
            txs: block.txs as f64,
            ours,
            peak,
            secs,
        };
        self.steer(&seen, used);
        if !self.cut {
            self.mempool.relax();
        }
        self.forget_refusals();
    }

    fn forget_refusals(&mut self) {
        self.cut = false;
        self.fulls = 0;
        self.rechecks = 0;
    }

    fn steer(&mut self, seen: &Seen, used: Used) {
        if seen.secs <= self.patience(used) {
            self.base.short_enough();
        } else {
            self.base.too_long(seen.txs, seen.secs);
        }
        let mut wanted = self.wanted(seen, used);
        if self.is_used(used) {
            wanted += SHARING * self.throughput.rate();
        }
        self.over = if wanted < self.rate { self.over + 1 } else { 0 };
        if self.cut {
            return;
        }
        if wanted < self.rate && (used.backlogged >= BACKLOGGED || self.over >= OVER) {
            self.counters.lowered += 1;
            self.set(wanted.max(self.rate * LOWER));
        } else if wanted > self.rate && self.is_used(used) {
            self.counters.raised += 1;
            self.set(wanted.min(self.rate * RAISE));
        }
    }

    /// The rate that what was seen asks for.
    fn wanted(&self, seen: &Seen, used: Used) -> f64 {
        let recent = self.throughput.recent_txs() as f64;
        if recent == 0.0 {
            // Empty blocks: nothing is learnt from them.
            return self.rate;
        }
        let txs = seen.txs.max(1.0);
        let full = self.rate * filling(self.full_block() / txs);
        let waiting = self.rate * gentle(self.patience(used) / seen.secs);
        full.min(waiting).min(self.left(seen, recent, used))
    }

    fn left(&self, seen: &Seen, recent: f64, used: Used) -> f64 {
        let factor = LEFT * recent / seen.peak.max(1.0);
        let open = seen.secs * used.unblocked.max(MOSTLY_CLOSED);
        let wanted = seen.ours / open * factor;
        if factor < 1.0 || self.is_used(used) {
            wanted
        } else {
            // Little is committed because little was sent.
            wanted.max(self.rate)
        }
    }

    /// Transactions in a block that a mempool filled as configured makes.
    fn full_block(&self) -> f64 {
        self.settings.fill * self.mempool.bound()
    }

    /// The longest interval that blocks should have. Without demand it has nothing to do with the
    /// rate.
    fn patience(&self, used: Used) -> f64 {
        match self.base.secs() {
            Some(base) if used.backlogged >= BACKLOGGED => WAITING * base,
            _ => f64::INFINITY,
        }
    }

    /// Transactions that a block should have.
    pub fn target(&self) -> f64 {
        let longest = self
            .base
            .secs()
            .map_or(f64::INFINITY, |base| WAITING * base);
        self.full_block().min(longest * self.throughput.rate())
    }

    fn is_used(&self, used: Used) -> bool {
        !used.disturbed
            && used.backlogged >= BACKLOGGED
            && used.unblocked >= POSSIBLE
            && used.rate >= USED * self.rate
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
        if by_refusals && !self.cut && self.is_used(used) {
            self.counters.raised += 1;
            self.set(self.rate + STEP_UP * self.settings.max);
        }
        if by_refusals {
            self.forget_refusals();
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

    /// Another node takes over: its mempool may be of another size.
    pub fn node_changed(&mut self, now: Nanos, configured: Option<usize>) {
        self.mempool_lost(now);
        self.mempool = MempoolSize {
            txs: configured,
            soft: None,
        };
    }

    fn set(&mut self, rate: f64) {
        self.rate = rate.clamp(self.settings.min, self.settings.max);
    }

    /// What the rate goes by.
    pub const fn signals(&self) -> Signals {
        self.signals
    }

    /// The depth the node told last, and when it was asked.
    pub const fn depth(&self) -> Option<(Nanos, usize)> {
        self.depth
    }

    /// Committed transactions, counted.
    pub const fn throughput(&self) -> &Throughput {
        &self.throughput
    }

    /// What the mempool holds.
    pub const fn occupancy(&self) -> &Occupancy {
        &self.occupancy
    }

    /// What the mempool holds at most, as far as is known.
    pub const fn mempool_size(&self) -> Option<usize> {
        self.mempool.txs
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

impl MempoolSize {
    fn bound(&self) -> f64 {
        let told = self.txs.map_or(f64::INFINITY, |txs| txs as f64);
        told.min(self.soft.unwrap_or(f64::INFINITY))
    }

    fn refused_at(&mut self, occupancy: f64) {
        self.soft = Some(occupancy.max(GATE_LEAST));
    }

    fn relax(&mut self) {
        self.soft = self.soft.map(|soft| soft * RELAX);
    }
}

/// A depth from which a fall means a block.
const FELL_FROM: usize = 16;

/// All the way when it is long, half of it (in the logarithm) when it is short.
fn filling(factor: f64) -> f64 {
    if (NEAR.recip()..NEAR).contains(&factor) {
        factor.sqrt()
    } else {
        factor
    }
}

/// A part of the way.
fn gentle(factor: f64) -> f64 {
    if factor >= 1.0 {
        1.0 + GENTLE_UP * (factor - 1.0)
    } else if factor >= LOWER {
        factor.powf(GENTLE_DOWN)
    } else {
        factor
    }
}

/// With T = 4 T₀ the loop's gain is 1.2 at most, below 2.
const GENTLE_DOWN: f64 = 0.3;
const GENTLE_UP: f64 = 0.4;
