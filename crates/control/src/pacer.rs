//! How many writes may leave now.

use std::time::Duration;

use fairq::Gcra;
use pacing::{Nanos, Rate};

use crate::bound::Bound;
use crate::demand::{Demand, Grant, Refused};
use crate::in_flight::{AHEAD, InFlight};
use crate::load::{Load, Unit};
use crate::mempool::{Mempool, SILENCE};
use crate::probe::Probe;
use crate::settings::{PaceMode, PaceSettings};
use crate::throughput::{BlockSeen, Counted, Throughput};
use crate::window::{Interval, Window};

/// Hands out permissions to send: an exact emitter behind the window, the mempool's room and the
/// in-flight cap (adaptive only), at the share of the rate that a break leaves.
///
/// In any window of w seconds at most `max_req` × w and one burst (20 ms at most) leave, unless the
/// mode is off.
#[derive(Clone, Debug)]
pub struct Pacer {
    mode: PaceMode,
    max: Rate,
    settings: PaceSettings,
    window: Window,
    mempool: Mempool,
    in_flight: InFlight,
    throughput: Throughput,
    emitter: Gcra,
    /// The rate the emitter was set to.
    set: f64,
    /// Share of the rate that a break leaves, 0 to 1.
    factor: f64,
    demand: Demand,
    since_block: SinceBlock,
    probe: Probe,
    /// What was free after the last block, and what it took of ours, in the window's unit.
    free: f64,
    taken: f64,
    /// Writes a second that left before the last block, if some waited all the time.
    served: Option<f64>,
    bound: Bound,
}

/// What was seen since the last block.
#[derive(Clone, Copy, Debug, Default)]
struct SinceBlock {
    began: Nanos,
    sent: usize,
    /// At some instant nothing waited.
    was_idle: bool,
    /// The pace held writes back.
    was_paced: bool,
    /// The node refused a write, or did not answer in time.
    was_refused: bool,
    /// Its mempool was full.
    was_full: bool,
}

/// Where no probe asks (*fixed*, *off*), a node that refused is asked again after so long.
const REFUSED: Nanos = Nanos::from_millis(250);
/// While writes wait they leave in groups of a tenth of the longest burst, to save wake-ups.
const GROUP: f64 = 0.002;
/// The last of the room leaves at this many times the rate that would use it up in a block interval, so that
/// there is nearly always a place for a client that asks for little.
const TAIL: f64 = 16.0;

impl Pacer {
    /// Feeds a node with at most `max_req`.
    pub fn new(now: Nanos, max_req: Rate, pace: &PaceSettings) -> Self {
        let burst = Nanos::from(pace.burst).min(AHEAD);
        Self {
            mode: pace.mode,
            max: max_req,
            settings: *pace,
            window: Window::new(),
            mempool: Mempool::new(now, pace.mempool_size),
            in_flight: InFlight::new(now, pace),
            throughput: Throughput::new(),
            emitter: Gcra::new(max_req, burst),
            set: max_req.as_f64(),
            factor: 1.0,
            demand: Demand::default(),
            since_block: SinceBlock::from(now),
            probe: Probe::None,
            free: f64::INFINITY,
            taken: 0.0,
            served: None,
            bound: Bound::Nothing,
        }
    }

    /// What may leave now. To be called whenever something has changed, also while nothing waits or
    /// nothing can be sent: whether writes waited decides how the window changes.
    pub fn grant(&mut self, now: Nanos, demand: Demand) -> Grant {
        self.demand = demand;
        self.in_flight.note(demand.lines, demand.connections);
        self.mempool.under_way(now, demand.under_way);
        self.probe = self.probe.at(now, demand.most);
        let (most, amount, bound) = self.room(now);
        // The tail of the room is not what a probe is after.
        let is_asking = matches!(self.probe, Probe::Asking { .. });
        self.follow(now, if is_asking { f64::INFINITY } else { amount });
        let taken = self.take(now, demand.waiting.min(most));
        if taken > 0 {
            self.mempool.sent(taken);
            self.in_flight.sent(now, taken, demand.under_way);
            self.since_block.sent += taken;
        }
        let waiting = demand.waiting - taken;
        let left = waiting.min(most - taken);
        self.bound = match (waiting, left) {
            (0, _) => Bound::Nothing,
            (_, 0) => bound,
            _ => self.rate_bound(),
        };
        match self.bound {
            Bound::Nothing => self.since_block.was_idle = true,
            Bound::NodeTime { .. } => self.in_flight.note_held(),
            Bound::Pace { .. } => self.since_block.was_paced = true,
            _ => {}
        }
        let next = match self.probe {
            Probe::Asking { since, .. } if waiting > 0 => Some(since.saturating_add(AHEAD)),
            _ => (left > 0).then(|| self.next(now, left)),
        };
        Grant {
            now: taken,
            amount: if amount.is_finite() {
                amount as u64
            } else {
                u64::MAX
            },
            next,
        }
    }

    /// How many more writes may leave whatever the rate is, how much of the window's unit, and what
    /// bounds them.
    fn room(&self, now: Nanos) -> (usize, f64, Bound) {
        let (flying, flying_bound) = self.in_flight_room();
        if self.mode != PaceMode::Adaptive {
            return (flying, f64::INFINITY, flying_bound);
        }
        let unit = self.window.unit;
        let mean = self.demand.own.mean(unit);
        let (window, window_bound) = self.window_room(now);
        let (mut mempool, mempool_bound) = self.mempool_room(now);
        if let Probe::Asking { count, .. } = self.probe {
            mempool = count.saturating_sub(self.demand.under_way) as f64;
        }
        let (amount, bound) = if mempool * mean < window {
            (mempool * mean, mempool_bound)
        } else {
            (window, window_bound)
        };
        // A write of unknown size may leave while there is room at all.
        let most = match unit {
            Unit::Transactions => amount as usize,
            _ if amount < 1.0 => 0,
            _ => ((amount / mean) as usize).max(1),
        };
        if flying < most {
            (flying, amount, flying_bound)
        } else {
            (most, amount, bound)
        }
    }

    fn in_flight_room(&self) -> (usize, Bound) {
        let Demand { under_way, .. } = self.demand;
        let most = if self.factor > 0.0 {
            self.demand.most
        } else {
            0
        };
        let limit = match self.mode {
            PaceMode::Adaptive => self.in_flight.limit(most),
            _ => most,
        };
        let bound = Bound::NodeTime {
            under_way,
            limit,
            answers_take: self.in_flight.mean(),
            unloaded: self.in_flight.unloaded(),
        };
        let room = limit.saturating_sub(under_way);
        // What answers make room for leaves in groups, too.
        let group = if limit < most {
            limit.min((self.in_flight.best() * GROUP) as usize)
        } else {
            0
        };
        let is_enough = room >= group.min(self.demand.waiting);
        (if is_enough { room } else { 0 }, bound)
    }

    /// Own transactions at the node, in the window's unit. While neither blocks nor depths are known,
    /// only those that are not answered.
    fn own(&self, now: Nanos) -> f64 {
        let own = self.demand.own;
        let under_way = self.demand.under_way as u64;
        let held = if self.mempool.is_blind(now) {
            under_way
        } else {
            self.mempool.held(own.txs, under_way)
        };
        let mean = own.mean(self.window.unit);
        match self.probe {
            // The block that made room took as much as the last one.
            Probe::Answered => (held as f64 * mean - self.taken).max(under_way as f64 * mean),
            _ => held as f64 * mean,
        }
    }

    fn window_room(&self, now: Nanos) -> (f64, Bound) {
        let (own, limit) = (self.own(now), self.window_size(now));
        let bound = Bound::Window {
            own: own as usize,
            limit: limit as usize,
            unit: self.window.unit,
        };
        ((limit - own).max(0.0), bound)
    }

    /// The window; half of it from a refusal to the next block, and no bound where the node has shown no
    /// block for long.
    fn window_size(&self, now: Nanos) -> f64 {
        let silence = now.saturating_sub(self.since_block.began);
        if self.window.is_untaught() && silence > SILENCE {
            f64::INFINITY
        } else if self.since_block.was_refused {
            self.window.size / 2.0
        } else {
            self.window.size
        }
    }

    fn mempool_room(&self, now: Nanos) -> (f64, Bound) {
        let own = self.own(now) / self.demand.own.mean(self.window.unit);
        let others = self.mempool.others_at_next_block(now);
        let limit = self.mempool_limit();
        let bound = Bound::MempoolRoom {
            own: own as usize,
            others: others as usize,
            limit: limit as usize,
        };
        ((limit - own - others as f64).max(0.0), bound)
    }

    /// How many transactions the mempool may hold; infinite if that is unknown.
    fn mempool_limit(&self) -> f64 {
        let size = self.mempool.size.map_or(f64::INFINITY, |size| size as f64);
        (self.settings.mempool_fill * size).floor()
    }

    fn rate_bound(&self) -> Bound {
        let per_second = self.set;
        if per_second < self.max.as_f64() {
            Bound::Pace { per_second }
        } else {
            Bound::Ceiling { per_second }
        }
    }

    fn take(&mut self, now: Nanos, count: usize) -> usize {
        if self.mode == PaceMode::Off {
            return count;
        }
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.emitter.take_up_to(now, count) as usize
    }

    fn next(&self, now: Nanos, left: usize) -> Nanos {
        let group = (self.set * GROUP).max(1.0) as u32;
        let group = group.min(u32::try_from(left).unwrap_or(u32::MAX));
        self.emitter.next_at(now, group)
    }

    /// So many of the last grant did not leave after all.
    pub fn unused(&mut self, count: usize) {
        self.mempool.unsent(count);
    }

    /// The node answered a write that was sent at `sent`, whatever the answer is.
    pub fn answered(&mut self, now: Nanos, sent: Nanos) {
        self.in_flight.answered(now, sent);
    }

    /// The node took one.
    pub fn accepted(&mut self) {
        if let Probe::Asking { .. } = self.probe {
            self.probe = Probe::Answered;
            self.mempool.room_made();
        }
    }

    /// The node did not take one.
    pub fn refused(&mut self, why: Refused) {
        if why != Refused::TimedOut {
            self.probe = Probe::Asking {
                count: 1,
                since: Nanos::ZERO,
            };
        }
        if let Refused::Full { max: Some(max) } = why {
            self.since_block.was_full = true;
            if self.mempool.full(max as u64, self.demand.own.txs) {
                return;
            }
        }
        self.since_block.was_refused = true;
    }

    /// The node's mempool held so many transactions when it was asked at `asked`.
    pub fn mempool(&mut self, asked: Nanos, txs: usize) {
        self.mempool
            .reported(asked, txs as u64, self.demand.own.txs);
    }

    /// A block, the unit that the chain is short of, and what is own and in no block after it.
    pub fn block(&mut self, now: Nanos, block: &BlockSeen, unit: Unit, left: Load) {
        let counted = self.throughput.block(block);
        if counted == Counted::Duplicate {
            return;
        }
        self.demand.own = left;
        let others = block.all.less(block.ours);
        self.mempool.block(block.observed, others.txs);
        if counted == Counted::Late {
            return;
        }
        let since = std::mem::replace(&mut self.since_block, SinceBlock::from(now));
        let interval = Interval {
            observed: block.observed,
            unit,
            all: block.all,
            ours: block.ours,
            left,
            mempool_limit: self.mempool_limit() * left.mean(unit),
            others: self.mempool.others(now) as f64,
            free: self.free,
            waited: !since.was_idle,
            was_slow: since.was_paced || since.was_full,
        };
        self.window = self.window.clone().next(&interval);
        self.in_flight.block();
        self.probe = Probe::None;
        let secs = now.saturating_sub(since.began).as_secs_f64();
        let is_served = !since.was_idle && since.sent > 0 && secs > 0.0;
        self.served = is_served.then(|| since.sent as f64 / secs);
        self.taken = block.ours.of(unit) as f64;
        let (mempool_room, _) = self.mempool_room(now);
        self.free = (self.window.size - left.of(unit) as f64)
            .min(mempool_room * left.mean(unit))
            .max(0.0);
        self.follow(now, f64::INFINITY);
    }

    /// Whether no block was seen yet, so that the first window can be taught.
    pub fn is_untaught(&self) -> bool {
        self.window.is_untaught()
    }

    /// What the chain's blocks showed, or its limits allow, in transactions: the first window.
    pub fn learn(&mut self, history: u64, limit: Option<u64>) {
        self.window.learn(history, limit);
    }

    /// A break leaves this share of the rate, 0 to 1.
    pub fn throttle(&mut self, now: Nanos, factor: f64) {
        self.factor = factor.clamp(0.0, 1.0);
        self.follow(now, f64::INFINITY);
    }

    /// Another node takes the writes: its mempool may be of another size.
    pub fn node_changed(&mut self, now: Nanos) {
        let mut next = Self::new(now, self.max, &self.settings);
        next.throughput = std::mem::take(&mut self.throughput);
        next.factor = self.factor;
        next.emitter = self.emitter.clone();
        next.set = self.set;
        *self = next;
        self.follow(now, f64::INFINITY);
    }

    /// The node's chain was replaced by another: heights begin anew.
    pub fn chain_replaced(&mut self, now: Nanos) {
        self.node_changed(now);
        self.throughput.restart();
    }

    /// What held writes back when they were last asked for.
    pub const fn bound(&self) -> Bound {
        self.bound
    }

    /// Writes a second that may leave outside of breaks, while there is room.
    pub fn rate(&self) -> Rate {
        self.rate_with(f64::INFINITY)
    }

    /// The same with so much room, in the window's unit.
    fn rate_with(&self, room: f64) -> Rate {
        if self.mode != PaceMode::Adaptive {
            return self.max;
        }
        let mean = self.demand.own.mean(self.window.unit);
        let mut pace = self.window.pace(self.free, self.taken) / mean;
        pace = pace.max(self.settings.min_req.as_f64());
        if !self.since_block.was_idle {
            pace = pace.min(TAIL * room / mean / self.window.interval());
        }
        Rate::from_f64(pace).map_or(self.max, |rate| rate.min(self.max))
    }

    /// Writes a second that left before the last block, if some waited all the time; else those that
    /// may leave. What waits now can be reckoned with it.
    pub fn served(&self) -> Rate {
        let served = self.served.and_then(|rate| Rate::from_f64(rate).ok());
        served.map_or(self.rate(), |rate| rate.min(self.rate()))
    }

    /// Transactions a second that the chain commits, smoothed.
    pub fn committed_rate(&self, now: Nanos) -> f64 {
        self.throughput.rate_at(now)
    }

    /// Mean time between blocks before which own transactions waited; zero until one was seen.
    pub fn loaded_interval(&self) -> Nanos {
        Duration::from_secs_f64(self.window.loaded_interval()).into()
    }

    /// Whether neither blocks nor the mempool's depth are known: only refusals and answers count then.
    pub fn is_blind(&self, now: Nanos) -> bool {
        self.mempool.is_blind(now)
    }

    /// How long a node that refused is left alone, unless a block comes before.
    pub const fn ask_again_after(&self) -> Nanos {
        match self.mode {
            PaceMode::Adaptive => AHEAD,
            PaceMode::Fixed | PaceMode::Off => REFUSED,
        }
    }

    /// What the mempool holds at most, as far as is known.
    pub fn mempool_size(&self) -> Option<usize> {
        self.mempool.size.map(|size| size as usize)
    }

    /// Connections over which writes should go.
    pub const fn connections(&self) -> usize {
        match self.mode {
            PaceMode::Adaptive => self.in_flight.connections(),
            PaceMode::Fixed | PaceMode::Off => self.settings.connections,
        }
    }

    /// The unit of the window and of a grant's amount.
    pub const fn unit(&self) -> Unit {
        self.window.unit
    }

    fn follow(&mut self, now: Nanos, room: f64) {
        let wanted = self.rate_with(room).as_f64() * self.factor;
        if wanted != self.set {
            let rate = Rate::from_f64(wanted).unwrap_or(Rate::ZERO);
            self.emitter.set_rate(now, rate.min(self.max));
            self.set = wanted;
        }
    }
}

impl From<Nanos> for SinceBlock {
    fn from(began: Nanos) -> Self {
        Self {
            began,
            ..Self::default()
        }
    }
}
