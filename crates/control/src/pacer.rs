//! How many writes may leave now.

use std::time::Duration;

use pacing::{Nanos, Rate};

use crate::bound::{Bound, Grant, Refused};
use crate::emitter::Emitter;
use crate::in_flight::{AHEAD, InFlight};
use crate::load::{Demand, Load, Mempool, Probe, SILENCE, Unit};
use crate::settings::PaceMode;
use crate::throughput::{BlockSeen, Throughput};
use crate::window::{Interval, NEARLY, Reserve, Room, SinceBlock, Window};

/// Hands out permissions to send: an exact emitter behind the window, the mempool's room and the
/// in-flight cap (adaptive only).
///
/// In any window of w seconds at most `max_req` × w and one burst (20 ms at most) leave, unless the
/// mode is off.
#[derive(Clone, Debug)]
pub struct Pacer {
    mode: PaceMode,
    window: Window,
    mempool: Mempool,
    in_flight: InFlight,
    committed: Throughput,
    reserve: Reserve,
    /// No more than `max_req` leave, whatever else holds.
    emitter: Emitter,
    demand: Demand,
    since_block: SinceBlock,
    /// When nothing of ours was at the node last.
    idle: Nanos,
    probe: Probe,
    /// What was free after the last block, in the window's unit, and what it took of ours.
    free: f64,
    taken: Load,
    /// Writes a second that left before the last block, if some waited all the time.
    served: Option<Rate>,
    bound: Bound,
}

/// Writes a second: the adaptive pace is not below this, so that a chain that has committed little is tried.
const LEAST_RATE: f64 = 50.0;

/// Where no probe asks (*fixed*, *off*), a node that refused is asked again after so long.
const REFUSED: Nanos = Nanos::from_millis(250);

impl Pacer {
    /// Feeds a node with at most `max_req`.
    pub fn new(now: Nanos, max_req: Rate, mode: PaceMode) -> Self {
        Self {
            mode,
            window: Window::new(),
            mempool: Mempool::new(now),
            in_flight: InFlight::new(now, mode),
            committed: Throughput::default(),
            reserve: Reserve::new(now),
            emitter: Emitter::new(max_req),
            demand: Demand::default(),
            since_block: SinceBlock::new(now),
            idle: now,
            probe: Probe::None,
            free: f64::INFINITY,
            taken: Load::default(),
            served: None,
            bound: Bound::Nothing,
        }
    }

    /// What may leave now. To be called whenever something has changed, also while nothing waits or
    /// nothing can be sent: whether writes waited decides how the window changes.
    pub fn grant(&mut self, now: Nanos, demand: Demand) -> Grant {
        self.demand = demand;
        if demand.own.txs == 0 {
            self.idle = now;
        }
        self.in_flight.follow_lines(now, demand.lines);
        let room = self.room(now);
        self.follow(now);
        let count = demand.waiting.min(room.shared);
        let taken = match self.mode {
            PaceMode::Off => count,
            PaceMode::Adaptive | PaceMode::Fixed => self.emitter.take(now, count),
        };
        self.mempool.sent(taken);
        let whole = self.since_block.placed == 0;
        self.since_block.sent += taken;
        self.since_block.placed += taken;
        let waiting = demand.waiting - taken;
        let left = waiting.min(room.shared - taken);
        let (rate, most) = (self.rate(), self.emitter.most());
        self.bound = match (waiting, left) {
            (0, _) => Bound::Nothing,
            (_, 0) => room.bound,
            _ if rate < most => Bound::Pace(rate),
            _ => Bound::Ceiling(rate),
        };
        self.since_block.was_idle |= self.bound == Bound::Nothing;
        self.since_block.was_slow |= matches!(self.bound, Bound::Pace(_));
        let is_held = matches!(self.bound, Bound::InFlightCap { .. });
        self.in_flight.sent(now, &demand, taken, is_held);
        let light = waiting.min(room.all - taken);
        // What is kept shrinks until the next block is due.
        let is_due = self.reserve.elapsed(now) >= self.window.interval(f64::max);
        let shrinks = waiting > 0 && room.all > room.shared + 1 && !is_due;
        let next = match left {
            0 => shrinks.then(|| now.saturating_add(AHEAD)),
            _ => Some(self.emitter.next(now, left)),
        };
        Grant {
            now: taken,
            amount: room.shared_amount as u64,
            whole,
            light: light.min(self.emitter.light(now)),
            light_amount: room.amount as u64,
            next,
        }
    }

    /// Clients that ask for little had so much of what left, `beyond` of it beside the last grant.
    pub fn sent_for_light(&mut self, now: Nanos, beyond: usize, load: Load) {
        self.emitter.took_light(now, beyond);
        self.mempool.sent(beyond);
        if beyond > 0 {
            self.in_flight.lend();
        }
        // What left beyond the grant shows nothing of how long the clients wait that have no place kept.
        self.reserve.sent(load);
    }

    fn room(&self, now: Nanos) -> Room {
        let ([all, cap], cap_bound) = self.in_flight.room(&self.demand);
        let (free, bound) = self.node_room(now);
        let (amount, shared_amount) = (free[0].min(free[1]), self.shared(now, free));
        let fits = self.since_block.placed == 0
            || self.demand.first.of(self.window.unit) as f64 <= shared_amount;
        let writes = if fits { self.writes(shared_amount) } else { 0 };
        Room {
            all: all.min(self.writes(amount)),
            shared: cap.min(writes),
            amount,
            shared_amount,
            bound: if cap < writes { cap_bound } else { bound },
        }
    }

    /// The room without what is kept for clients that ask for little.
    fn shared(&self, now: Nanos, [window, mempool]: [f64; 2]) -> f64 {
        if self.probe != Probe::None || self.mode != PaceMode::Adaptive {
            return window.min(mempool);
        }
        let [of_window, of_mempool] = self.kept(now);
        (window - of_window).min(mempool - of_mempool).max(0.0)
    }

    /// What is kept for clients that ask for little: of window and mempool what those known are expected to send, and of
    /// the window half of what the last block freed, the part of a newcomer beside one other, less and less until the next
    /// block is due. However late that is, places for as long as a block takes stay kept, in a sixteenth of the window at
    /// most: no block lacks them, as the window holds two. A kept place in the mempool that stays empty is one that a
    /// block lacks.
    fn kept(&self, now: Nanos) -> [f64; 2] {
        let (unit, longest) = (self.window.unit, self.window.interval(f64::max));
        let [in_mempool, in_window, late] = self.reserve.expected(now, longest);
        let mean = self.reserve.mean(unit, self.mean());
        let half = self.free.min(self.window.size()) / 2.0;
        let newcomers = half * (1.0 - self.reserve.elapsed(now) / self.window.interval(f64::min));
        let late = (late * mean).min(self.window.size() / 16.0);
        [
            newcomers.max(in_window * mean).max(late),
            in_mempool * self.mean(),
        ]
    }

    /// So much of the window's unit in writes: one of unknown size may leave while there is room at all.
    fn writes(&self, amount: f64) -> usize {
        match amount {
            ..1.0 => 0,
            _ => ((amount / self.mean()) as usize).max(1),
        }
    }

    /// What the window and the mempool leave, in the window's unit, and the bound that is the less of them.
    fn node_room(&self, now: Nanos) -> ([f64; 2], Bound) {
        if self.mode != PaceMode::Adaptive {
            return ([f64::INFINITY; 2], Bound::Nothing);
        }
        let own = self.own(now);
        // Half of the window from a refusal to the next block.
        let part = 1.0 - 0.5 * f64::from(u8::from(self.since_block.was_refused));
        let (free, bound) = self.window.free(&own, part);
        let is_blind = self.is_blind(now);
        let window = if is_blind { f64::INFINITY } else { free };
        let (window, mean) = (window.max(0.0), self.mean());
        let others = self.mempool.others_until_block(now);
        let mempool_limit = self.mempool_limit();
        let mempool = match self.probe {
            Probe::Asking => 1_usize.saturating_sub(self.demand.under_way) as f64,
            _ => (mempool_limit - own.txs as f64 - others as f64).max(0.0),
        };
        let bound = if mempool * mean < window {
            Bound::Mempool {
                own: own.txs as usize,
                others: others as usize,
                limit: mempool_limit as usize,
            }
        } else {
            bound
        };
        ([window, mempool * mean], bound)
    }

    /// The mean of an own transaction at the node, in the window's unit.
    fn mean(&self) -> f64 {
        self.demand.own.mean(self.window.unit)
    }

    /// Own transactions at the node. While neither blocks nor depths are known, only those that are not answered.
    fn own(&self, now: Nanos) -> Load {
        let under_way = self.demand.under_way as u64;
        let held = if self.is_blind(now) {
            under_way
        } else {
            self.mempool.held(self.demand.own.txs, under_way)
        };
        let own = self.demand.own.part(held);
        // The block that made room took as much as the last one.
        match self.probe {
            Probe::Answered => own.less(self.taken).most(self.demand.own.part(under_way)),
            _ => own,
        }
    }

    /// How many transactions the mempool may hold; infinite if that is unknown.
    fn mempool_limit(&self) -> f64 {
        let size = self.mempool.size.map_or(f64::INFINITY, |size| size as f64);
        (NEARLY * size).floor()
    }

    /// So many of the last grant did not leave after all.
    pub fn unused(&mut self, count: usize) {
        self.mempool.unsent(count);
        self.since_block.placed = self.since_block.placed.saturating_sub(count);
    }

    /// The node answered a write that was sent at `sent`, whatever the answer is.
    pub fn answered(&mut self, now: Nanos, sent: Nanos) {
        self.in_flight.answered(now, sent);
    }

    /// The node took one.
    pub fn accepted(&mut self) {
        if self.probe == Probe::Asking {
            self.probe = Probe::Answered;
            self.mempool.room_made();
        }
    }

    /// The node did not take one.
    pub fn refused(&mut self, why: Refused) {
        if why != Refused::TimedOut {
            self.probe = Probe::Asking;
        }
        if let Refused::Full { max: Some(max) } = why {
            self.since_block.was_slow = true;
            if self.mempool.full(max as u64, self.demand.own.txs) {
                return;
            }
        }
        self.since_block.was_refused = true;
    }

    /// The node's mempool held so many transactions when it was asked at `asked`.
    pub fn mempool(&mut self, now: Nanos, asked: Nanos, txs: usize) {
        // What may have been sent or answered since then is not in it.
        let since = now.saturating_sub(asked).as_secs_f64() * self.rate().as_f64();
        let unknown = self.demand.under_way as u64 + since.ceil() as u64;
        let own = self.demand.own.txs;
        let held = |pacer: &Self| pacer.mempool.held(own, pacer.demand.under_way as u64);
        let before = held(self);
        self.mempool.reported(asked, txs as u64, own, unknown);
        let left = held(self);
        let fell = before.saturating_sub(left);
        // Of two falls without a block between them the second one shows that blocks are not read.
        if fell > 0 && std::mem::replace(&mut self.since_block.has_fallen, true) {
            let [taken, left] = [fell, left].map(|txs| self.demand.own.part(txs));
            let unread = BlockSeen {
                height: 0,
                all: taken,
                ours: taken,
                observed: asked,
            };
            self.ended(now, &unread, self.window.unit, left);
            self.since_block.has_fallen = true;
        }
    }

    /// A block, the unit that the chain is short of, and what is own and in no block after it.
    pub fn block(&mut self, now: Nanos, block: &BlockSeen, unit: Unit, left: Load) {
        if !self.committed.block(block) {
            return;
        }
        self.demand.own = left;
        let others = block.all.less(block.ours);
        self.mempool.block(block.observed, others.txs);
        self.probe = Probe::None;
        self.ended(now, block, unit, left);
    }

    /// The time between two blocks ended with one that left `left` of ours.
    fn ended(&mut self, now: Nanos, block: &BlockSeen, unit: Unit, left: Load) {
        let since = std::mem::replace(&mut self.since_block, SinceBlock::new(now));
        let interval = Interval {
            block: *block,
            unit,
            left,
            mempool_limit: self.mempool_limit() * left.mean(unit),
            others: self.mempool.others as f64,
            free: self.free,
            kept: self.kept(now)[0],
            since,
        };
        self.window = self.window.clone().next(&interval);
        self.in_flight.block(now);
        self.reserve.block(now, block.observed);
        self.served = (since.served(now)).filter(|_| self.window.is_settled());
        self.taken = block.ours;
        let ([window, mempool], _) = self.node_room(now);
        self.free = window.min(mempool);
        self.follow(now);
    }

    /// What the window is by what is known of the chain: its last blocks had at most `history` transactions, a block may have `limits` if those
    /// are known (`u64::MAX` of what is not bounded), and a transaction that waits has `mean`.
    pub fn learn(&mut self, history: u64, limits: Option<Load>, mean: Load) {
        let others = self.mempool.others as f64;
        self.free += self.window.learn(history, limits, mean, others);
    }

    /// At most so many writes a second from now on.
    pub fn set_ceiling(&mut self, now: Nanos, max_req: Rate) {
        self.emitter.set_most(now, max_req);
        self.follow(now);
    }

    /// Another node takes the writes: its mempool may be of another size. It is the same chain.
    pub fn node_changed(&mut self, now: Nanos) {
        *self = Self {
            window: std::mem::take(&mut self.window).node_changed(),
            committed: std::mem::take(&mut self.committed),
            emitter: self.emitter.clone(),
            ..Self::new(now, self.emitter.most(), self.mode)
        };
        self.follow(now);
    }

    /// The node's chain was replaced by another: heights begin anew.
    pub fn chain_replaced(&mut self, now: Nanos) {
        self.node_changed(now);
        self.window = Window::new();
        self.committed = Throughput::default();
    }

    /// What held writes back when they were last asked for.
    pub const fn bound(&self) -> Bound {
        self.bound
    }

    /// Writes a second that may leave while there is room.
    pub fn rate(&self) -> Rate {
        if self.mode != PaceMode::Adaptive {
            return self.emitter.most();
        }
        let taken = self.taken.of(self.window.unit) as f64;
        let pace = self.window.pace(self.free, taken) / self.mean();
        let pace = pace.max(LEAST_RATE);
        let most = self.emitter.most();
        Rate::from_f64(pace).map_or(most, |rate| rate.min(most))
    }

    /// Writes a second that left before the last block, if some waited all the time; else those that
    /// may leave. What waits now can be reckoned with it.
    pub fn served(&self) -> Rate {
        self.served
            .map_or(self.rate(), |rate| rate.min(self.rate()))
    }

    /// Transactions a second that the chain commits, smoothed.
    pub fn committed_rate(&self, now: Nanos) -> f64 {
        self.committed.rate_at(now)
    }

    /// Mean time between blocks before which own transactions waited; zero until one was seen.
    pub fn loaded_interval(&self) -> Nanos {
        Duration::from_secs_f64(self.window.loaded_interval()).into()
    }

    /// Whether neither blocks nor the mempool's depth are known, although something of ours is at the node: only
    /// refusals and answers count then.
    pub fn is_blind(&self, now: Nanos) -> bool {
        self.mempool.is_blind(now) && now.saturating_sub(self.idle) > SILENCE
    }

    /// How long a node that refused is left alone, unless a block comes before.
    pub const fn ask_again_after(&self) -> Nanos {
        match self.mode {
            PaceMode::Adaptive => AHEAD,
            PaceMode::Fixed | PaceMode::Off => REFUSED,
        }
    }

    /// Connections over which writes should go.
    pub const fn connections(&self) -> usize {
        self.in_flight.connections()
    }

    /// The unit of the window and of a grant's amount.
    pub const fn unit(&self) -> Unit {
        self.window.unit
    }

    fn follow(&mut self, now: Nanos) {
        self.emitter.set_rate(now, self.rate());
    }
}
