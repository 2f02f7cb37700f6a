//! How many own transactions may be at the node without being in a block.

use std::collections::VecDeque;

use pacing::{Nanos, Rate};

use crate::{
    bound::Bound,
    load::{Load, Unit, remember},
    throughput::BlockSeen,
};

/// A window as in congestion control, with blocks as its acknowledgements: one pure function from a
/// state and what was seen between two blocks to the next state.
///
/// **Size**: own transactions in the last block and all transactions in it, in the unit that the
/// chain is short of: two blocks' worth for a proxy that is alone, so that a whole block waits while one is being
/// made; less for one of several proxies, which so come to equal shares. Blocks less than a second apart
/// count together; the largest of the last few such sums counts. The window grows with it; it shrinks
/// to it only if writes waited all the time, because a block is small also when little was asked for.
/// Others change nothing here: what they hold lowers the room, and nothing raises it.
///
/// **What justifies it**: an empty block shows nothing of what a block takes. The first window is a block by the chain's
/// limits, but no more than several proxies may guess at once; a small guess where the limits are unknown; at least what
/// the chain's last blocks held. From then on a block's worth counts for at most twice what a block has shown that left
/// nothing behind. What was shown stays shown: idleness, reconnects and another node of the same chain change nothing.
/// Transactions are of different sizes: a block with room is no evidence against the first window, whatever the size of
/// what was in it, so that is the least until a block has left something behind for which there was room by the limits;
/// and never are there more bytes at the node than two blocks may have.
///
/// **Pace**: what the last block left free is spread over the shortest recent interval, a little
/// faster; faster still while writes that wait do not come to fill it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Window {
    pub(crate) unit: Unit,
    /// What blocks have shown; 0 until they did.
    shown: f64,
    /// The least in transactions, until a block left some behind although it had room by the limits.
    first: f64,
    is_bounded: bool,
    /// It is larger than before the last block.
    has_grown: bool,
    /// What a block may have, if that is known, and what one that waits has, in the mean.
    limits: Option<Load>,
    mean: Load,
    /// Blocks of the last second: when most of each was filled, all of it, the own part.
    second: VecDeque<(Nanos, Load, Load)>,
    /// When the last block came.
    last: Option<Nanos>,
    /// All and own transactions of the last second at each of the last blocks.
    seconds: VecDeque<(Load, Load)>,
    /// Seconds between the last blocks before which own transactions waited.
    intervals: VecDeque<f64>,
    /// What of ours was left after the last block; where there was any, the next one was due.
    left: f64,
    /// The pace is faster than even by this factor, the pacing gain.
    gain: f64,
}

/// What was seen from one block to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    /// The block that ended it.
    pub(crate) block: BlockSeen,
    pub(crate) unit: Unit,
    /// Own transactions in no block after it.
    pub(crate) left: Load,
    /// What the mempool may hold, in the unit; infinite if that is unknown.
    pub(crate) mempool_limit: f64,
    /// Transactions of others in the mempool after it.
    pub(crate) others: f64,
    /// What was free for ours after the block before, in the unit.
    pub(crate) free: f64,
    /// What of it was kept for clients that ask for little, and not taken.
    pub(crate) kept: f64,
    pub(crate) since: SinceBlock,
}

/// What was seen since the last block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SinceBlock {
    pub(crate) began: Nanos,
    pub(crate) sent: usize,
    /// Of these, how many took a place at the node.
    pub(crate) placed: usize,
    /// At some instant nothing waited.
    pub(crate) was_idle: bool,
    /// The pace held writes back, or the mempool was full when they came.
    pub(crate) was_slow: bool,
    /// The node refused a write, or did not answer in time.
    pub(crate) was_refused: bool,
    /// The mempool's depth fell: what made it fall is a block that may still be read.
    pub(crate) has_fallen: bool,
}

/// The window before a block has shown what the chain takes, where its limits are unknown.
const FIRST: f64 = 64.0;
/// The same at most where they are known: four proxies with it fit into CometBFT's default mempool of 5,000.
const MOST_FIRST: f64 = 1_024.0;
/// While writes wait they leave in groups of a tenth of the longest burst, to save wake-ups: at a ceiling of 2,000/s a write
/// took 5.1 system calls in place of 5.9, and over WebSockets that fill the in-flight cap 2.4 in place of 3.1 (`perf stat`).
pub(crate) const GROUP: f64 = 0.002;
/// The window is not below this many transactions.
pub(crate) const LEAST: f64 = 8.0;
/// Blocks within this time count together.
pub(crate) const SECOND: Nanos = Nanos::from_secs(1);
/// Blocks whose worth and intervals count.
pub(crate) const RECENT: usize = 4;
/// The pace is at least so much faster than even, and becomes faster by this factor; with fewer connections answers may
/// be slower by it.
pub(crate) const STEP: f64 = 1.25;
/// The pace is at most so many times the even one.
pub(crate) const PROBE: f64 = 8.0;
/// Part of a room from which on it counts as filled, and by which the gain falls with each block that is; part of
/// the mempool that may be filled.
pub(crate) const NEARLY: f64 = 0.99;

impl SinceBlock {
    pub(crate) fn new(began: Nanos) -> Self {
        Self {
            began,
            ..Self::default()
        }
    }

    /// Writes a second that left, if some waited all the time.
    pub(crate) fn served(&self, now: Nanos) -> Option<Rate> {
        let secs = now.saturating_sub(self.began).as_secs_f64();
        let rate = Rate::from_f64(self.sent as f64 / secs).ok();
        rate.filter(|_| !self.was_idle && self.sent > 0)
    }
}

impl Window {
    pub(crate) fn new() -> Self {
        Self {
            first: FIRST,
            gain: STEP,
            ..Self::default()
        }
    }

    /// The chain's last blocks had at most `history` transactions, one that waits has `mean`, a block may have `limits`, if
    /// they are known, and others have so many at the node. By how much the window is larger than before.
    pub(crate) fn learn(
        &mut self,
        history: u64,
        limits: Option<Load>,
        mean: Load,
        others: f64,
    ) -> f64 {
        let (before, gas) = (self.size(), self.mean.gas);
        self.mean = mean;
        // Gas bounds nothing until a transaction has named some; that is remembered.
        if mean.gas == 0 {
            self.mean.gas = gas;
        }
        let is_known = |limits: &Load| limits.gas == u64::MAX || self.mean.gas > 0;
        self.limits = limits.filter(is_known);
        let guess = self.limits.map_or(FIRST, |_| MOST_FIRST - others);
        self.first = guess.max(FIRST).max(2.0 * history as f64);
        self.size() - before
    }

    /// Whether the first window still counts.
    fn has_first(&self) -> bool {
        self.unit == Unit::Transactions && !self.is_bounded
    }

    /// How much may be at the node.
    pub(crate) fn size(&self) -> f64 {
        if !self.has_first() {
            return self.shown;
        }
        let first = self.first.min(self.most(&self.mean));
        self.shown.max(first).max(LEAST)
    }

    /// How many transactions of this mean a block may have by the limits.
    fn most(&self, mean: &Load) -> f64 {
        let of = |limits: Load| {
            let by = |unit| limits.of(unit) as f64 / mean.mean(unit);
            by(Unit::Bytes).min(by(Unit::Gas))
        };
        self.limits.map_or(f64::INFINITY, of)
    }

    /// What is free of a part of the window beside `own` that are at the node, and the bound that says so.
    pub(crate) fn free(&self, own: &Load, part: f64) -> (f64, Bound) {
        // The gas that clients name bounds a guess, and closes no window that blocks have shown.
        let shown = self.free_of(part * self.shown, 2.0 * part, own, &[Unit::Bytes]);
        if !self.has_first() {
            return shown;
        }
        let first = self.free_of(part * self.first, part, own, &[Unit::Bytes, Unit::Gas]);
        if first.0 > shown.0 { first } else { shown }
    }

    /// The same of so much that is no more than so many blocks by the limits, of these units.
    fn free_of(&self, size: f64, blocks: f64, own: &Load, units: &[Unit]) -> (f64, Bound) {
        let bound = |unit, limit| Bound::Window {
            own: own.of(unit) as usize,
            limit: limit as usize,
            unit,
        };
        let of_size = (size - own.of(self.unit) as f64, bound(self.unit, size));
        let limits = self.limits.filter(|_| self.unit == Unit::Transactions);
        limits.into_iter().fold(of_size, |mut least, limits| {
            for &unit in units {
                let limit = blocks * limits.of(unit) as f64;
                let txs = (limit - own.of(unit) as f64) / self.mean.mean(unit);
                let txs = txs.max(LEAST - own.txs as f64);
                if txs < least.0 {
                    least = (txs, bound(unit, limit));
                }
            }
            least
        })
    }

    /// What left in it since the last block shows what will leave: it is neither a guess nor growing.
    pub(crate) const fn is_settled(&self) -> bool {
        self.shown > 0.0 && !self.has_grown
    }

    /// Another node of the chain takes the writes; nothing of ours is there.
    pub(crate) fn node_changed(self) -> Self {
        Self {
            left: 0.0,
            gain: STEP,
            ..self
        }
    }

    /// The state after a block.
    pub(crate) fn next(mut self, interval: &Interval) -> Self {
        let unit = interval.unit;
        if unit != std::mem::replace(&mut self.unit, unit) {
            self.shown = self.worth(true);
        }
        let own = (interval.left.of(unit) + interval.block.ours.of(unit)) as f64;
        self.adapt_gain(interval, own);
        self.count(&interval.block);
        self.resize(interval, own);
        self.left = interval.left.of(unit) as f64;
        self.last = Some(interval.block.observed);
        self
    }

    /// The gain grows while writes waited and neither the block nor what was free for ours was filled; it
    /// falls slowly.
    fn adapt_gain(&mut self, interval: &Interval, own: f64) {
        let block = interval.mempool_limit.min(self.size());
        let is_block_full = interval.block.all.of(self.unit) as f64 >= NEARLY * block;
        let used = own + interval.kept;
        let is_room_used = used >= NEARLY * (self.left + interval.free);
        if is_block_full && is_room_used || used >= NEARLY * self.size() {
            self.gain = (self.gain * NEARLY).max(STEP);
        } else if !interval.since.was_idle && interval.since.was_slow {
            self.gain = (self.gain * STEP).min(PROBE);
        }
    }

    fn count(&mut self, block: &BlockSeen) {
        let at = block.observed;
        let took = self.last.map_or(SECOND, |last| at.saturating_sub(last));
        if self.left > 0.0 && took > Nanos::ZERO {
            remember(&mut self.intervals, RECENT, took.as_secs_f64());
        }
        // By when three quarters of it were filled: of two blocks 0.99 s apart one counts, and of two 0.7 s apart both.
        let filled = at.saturating_sub(Nanos::new(took.as_nanos() / 4));
        self.second.push_back((filled, block.all, block.ours));
        while let Some((first, _, _)) = self.second.front()
            && at.saturating_sub(*first) >= SECOND
            && self.second.len() > 1
        {
            self.second.pop_front();
        }
        let add = |(all, ours), &(_, more, more_ours): &_| (all + more, ours + more_ours);
        let sums = self.second.iter().fold(<(Load, Load)>::default(), add);
        remember(&mut self.seconds, RECENT, sums);
    }

    /// `own` were in no block until this one. What is too many leaves over some blocks, in which half as
    /// many come as go (as in proportional rate reduction, RFC 6937).
    fn resize(&mut self, interval: &Interval, own: f64) {
        let BlockSeen { all, ours, .. } = interval.block;
        let (ours, mean) = (ours.of(self.unit) as f64, all.mean(self.unit));
        let waiting = interval.left.of(self.unit) as f64 + interval.others * mean;
        let took_all = waiting <= all.of(self.unit) as f64 / 2.0;
        let worth = self.worth(took_all);
        let size = self.size();
        // Beyond what a block can hold, that it took all shows nothing.
        let by_limits = self.most(&all).min(self.most(&interval.block.ours));
        let had_room = all.txs as f64 + 1.0 <= by_limits;
        if self.has_first() && !took_all && had_room {
            (self.is_bounded, self.shown) = (true, size);
        }
        let most = ours + by_limits * mean;
        let wanted = if took_all {
            worth.max(most.min(2.0 * worth))
        } else {
            worth
        };
        let is_short = !interval.since.was_idle && own > 0.0 && self.seconds.len() == RECENT;
        // What others got does not show how much of it would be ours.
        self.has_grown = wanted > size && own > 0.0;
        if self.has_grown || is_short {
            self.shown = wanted;
        }
        if own - ours / 2.0 > self.size() {
            self.shown = own - ours / 2.0;
        }
    }

    /// The largest of the last sums of all and own transactions, at least that of the least transactions. Of blocks
    /// that leave some behind the mean of the own parts counts: with the largest, several proxies whose writes come in
    /// turns would hold more than a block each.
    fn worth(&self, took_all: bool) -> f64 {
        let in_unit = |load: &Load| load.of(self.unit) as f64;
        let ours: f64 = self.seconds.iter().map(|(_, ours)| in_unit(ours)).sum();
        let part = ours / self.seconds.len().max(1) as f64;
        let sums = self.seconds.iter().map(|(all, ours)| {
            let part = if took_all { in_unit(ours) } else { part };
            in_unit(all) + part
        });
        let mean = (self.seconds.back()).map_or(1.0, |(all, _)| all.mean(self.unit));
        sums.fold(mean * LEAST, f64::max)
    }

    /// The shortest or the longest of the recent intervals before which own transactions waited, in seconds; the usual
    /// one while none is known. An hour in which a chain without empty blocks had nothing to do is none of them.
    pub(crate) fn interval(&self, which: fn(f64, f64) -> f64) -> f64 {
        let found = self.intervals.iter().copied().reduce(which);
        found.unwrap_or(SECOND.as_secs_f64())
    }

    /// The mean of the recent intervals before which own transactions waited.
    pub(crate) fn loaded_interval(&self) -> f64 {
        let sum: f64 = self.intervals.iter().sum();
        sum / self.intervals.len().max(1) as f64
    }

    /// What may leave a second, in the unit, until the next block; `ours` is what the last one took.
    pub(crate) fn pace(&self, room: f64, ours: f64) -> f64 {
        self.gain * room.max(ours) / self.interval(f64::min)
    }
}

/// One client that always has writes waiting takes each place that a block frees. So a part of the room is kept for the
/// others: as much as those that ask for little are expected to send until the next block, and what chance adds to
/// that; more of the window, for clients that come for the first time, and while a block is late (`Pacer::kept`). It shrinks
/// with the time that is left, so that few places are kept that stay empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reserve {
    /// What they sent before each of the last blocks, and in how many seconds.
    sent: VecDeque<(Load, f64)>,
    since_block: Load,
    /// When the last block was observed, and when its places were counted as free: once it was read.
    began: Nanos,
    freed: Nanos,
}

/// What may leave whatever the rate is.
pub(crate) struct Room {
    /// Writes, and those of them for which no place is kept.
    pub(crate) all: usize,
    pub(crate) shared: usize,
    /// The same in the window's unit.
    pub(crate) amount: f64,
    pub(crate) shared_amount: f64,
    /// What bounds those that no place is kept for.
    pub(crate) bound: Bound,
}

/// Standard deviations of a random number of arrivals for which there is room beyond the mean (square-root staffing:
/// Halfin and Whitt 1981): 98 of 100 times it is enough.
const DEVIATIONS: f64 = 2.0;

impl Reserve {
    pub(crate) fn new(now: Nanos) -> Self {
        Self {
            began: now,
            freed: now,
            ..Self::default()
        }
    }

    /// Clients that ask for little sent so much.
    pub(crate) fn sent(&mut self, load: Load) {
        self.since_block = self.since_block + load;
    }

    /// A block that was observed earlier than it was read.
    pub(crate) fn block(&mut self, now: Nanos, observed: Nanos) {
        let secs = observed.saturating_sub(self.began).as_secs_f64();
        let sent = std::mem::take(&mut self.since_block);
        remember(&mut self.sent, RECENT, (sent, secs));
        (self.began, self.freed) = (observed, now);
    }

    /// Seconds since the last block freed places of the window.
    pub(crate) fn elapsed(&self, now: Nanos) -> f64 {
        now.saturating_sub(self.freed).as_secs_f64()
    }

    /// What a transaction of these has in the unit; `mean` while there is none.
    pub(crate) fn mean(&self, unit: Unit, mean: f64) -> f64 {
        let sent = self.so_far(Nanos::ZERO).0;
        if sent.txs == 0 { mean } else { sent.mean(unit) }
    }

    /// How many writes clients that ask for little are expected to send, one at least: until the next block's places are
    /// free in the mempool, and in the window, and in as long as a block takes. Blocks come `longest` seconds after each
    /// other; one in five is later than the four before it, by no known time.
    pub(crate) fn expected(&self, now: Nanos, longest: f64) -> [f64; 3] {
        let (sent, secs) = self.so_far(now);
        let per_second = sent.txs as f64 / secs.max(f64::MIN_POSITIVE);
        let left = |since| longest - now.saturating_sub(since).as_secs_f64();
        [left(self.began), left(self.freed), longest].map(|left| {
            let coming = per_second * left.max(0.0);
            (coming + DEVIATIONS * coming.sqrt()).max(1.0)
        })
    }

    /// What they sent, and in how many seconds.
    fn so_far(&self, now: Nanos) -> (Load, f64) {
        let since = now.saturating_sub(self.began).as_secs_f64();
        let add = |sum: (Load, f64), one: &(Load, f64)| (sum.0 + one.0, sum.1 + one.1);
        self.sent.iter().fold((self.since_block, since), add)
    }
}
