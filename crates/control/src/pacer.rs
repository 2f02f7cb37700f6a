//! How many writes may leave now.

use std::time::Duration;

use fairq::Gcra;
use pacing::{Nanos, Rate};

use crate::adaptive::{AdaptiveRate, Refused, Signals};
use crate::occupancy::Occupancy;
use crate::settings::{PaceMode, PaceSettings};
use crate::throughput::BlockSeen;
use crate::usage::{Usage, UsageState};

/// Hands out permissions to send: an exact emitter at a fixed or steered rate, behind the gate that
/// keeps the mempool from filling up (adaptive only) and the factor of a break.
///
/// In any window of w seconds at most `max_req` × w and one burst (20 ms at most) leave.
#[derive(Clone, Debug)]
pub struct Pacer {
    mode: PaceMode,
    max: Rate,
    adaptive: AdaptiveRate,
    occupancy: Occupancy,
    usage: Usage,
    emitter: Gcra,
    /// The rate the emitter was set to.
    set: f64,
    /// Share of the rate that a break leaves, 0 to 1.
    factor: f64,
    mempool_size: Option<usize>,
}

/// What waits, and what there is room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Writes that wait.
    pub waiting: usize,
    /// Writes sent and not answered.
    pub under_way: usize,
    /// Writes that may be added to them: what the window leaves, 0 while nothing can be sent.
    pub room: usize,
}

/// A permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// So many writes may leave now; they count as sent.
    pub now: usize,
    /// When to ask again, if time alone decides; else ask when something has happened: an answer, a
    /// block, a depth, the end of a break.
    pub next: Option<Nanos>,
}

/// The longest burst.
const BURST: Nanos = Nanos::from_millis(20);
/// While writes wait they leave in groups of this length, to save wake-ups.
const GROUP: f64 = 0.002;

impl Pacer {
    /// Feeds a node with at most `max_req`.
    pub fn new(now: Nanos, max_req: Rate, pace: &PaceSettings) -> Self {
        let adaptive = AdaptiveRate::new(now, max_req, pace);
        let burst = Nanos::from(pace.burst).min(BURST);
        let mut pacer = Self {
            mode: pace.mode,
            max: max_req,
            adaptive,
            occupancy: Occupancy::new(now),
            usage: Usage::new(now),
            emitter: Gcra::new(max_req, burst),
            set: max_req.as_f64(),
            factor: 1.0,
            mempool_size: pace.mempool_size,
        };
        pacer.follow(now);
        pacer
    }

    /// What may leave now. To be called whenever something has changed, also while nothing waits or
    /// nothing can be sent: the time in which writes waited decides whether the rate is raised.
    pub fn grant(&mut self, now: Nanos, demand: Demand) -> Grant {
        self.occupancy.under_way(demand.under_way);
        let gate = self.gate(now);
        let room = if self.factor > 0.0 {
            demand.room.min(gate)
        } else {
            0
        };
        let allowed = demand.waiting.min(room);
        let taken = self.take(now, allowed);
        if taken > 0 {
            self.occupancy.sent(now, taken);
            self.usage.sent(taken);
        }
        let waiting = demand.waiting - taken;
        let state = UsageState {
            waiting: waiting > 0,
            blocked: room == taken,
        };
        self.usage.set(now, state);
        self.adaptive.step(now, &mut self.usage);
        self.follow(now);
        let left = waiting.min(room - taken);
        Grant {
            now: taken,
            next: (left > 0).then(|| self.emitter.next_at(now, self.group(left))),
        }
    }

    fn gate(&self, now: Nanos) -> usize {
        match self.mode {
            PaceMode::Adaptive => self.may_send(now),
            PaceMode::Fixed => usize::MAX,
        }
    }

    /// How many more may be sent before a block comes, so that the mempool does not fill up.
    pub fn may_send(&self, now: Nanos) -> usize {
        (self.adaptive.level() - self.occupancy.at(now)).max(0.0) as usize
    }

    fn take(&mut self, now: Nanos, count: usize) -> usize {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.emitter.take_up_to(now, count) as usize
    }

    fn group(&self, left: usize) -> u32 {
        let group = (self.set * GROUP).max(1.0) as u32;
        group.min(u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// So many of the last grant did not leave after all.
    pub fn unused(&mut self, count: usize) {
        self.occupancy.unsent(count);
        self.usage.unsent(count);
    }

    /// The node took so many.
    pub fn accepted(&mut self, now: Nanos, count: usize) {
        self.occupancy.accepted(now, count);
    }

    /// The node did not take one.
    pub fn refused(&mut self, now: Nanos, why: Refused) {
        self.occupancy.refused();
        if let Refused::Full { max: Some(max) } = why {
            self.occupancy.full(now, max);
        }
        let (sent, occupancy) = (self.usage.sent_so_far(), self.occupancy.at(now));
        self.adaptive.refused(why, sent, occupancy);
        self.follow(now);
    }

    /// The node's mempool held so many transactions when it was asked at `asked`.
    pub fn mempool(&mut self, asked: Nanos, txs: usize) {
        self.occupancy.depth(asked, txs);
        self.adaptive.depth(asked, txs);
    }

    /// A block.
    pub fn block(&mut self, now: Nanos, block: &BlockSeen) {
        self.adaptive
            .block(now, block, &mut self.occupancy, &mut self.usage);
        self.follow(now);
    }

    /// A break leaves this share of the rate, 0 to 1.
    pub fn throttle(&mut self, now: Nanos, factor: f64) {
        self.factor = factor.clamp(0.0, 1.0);
        if self.factor < 1.0 {
            self.usage.disturb();
        }
        self.follow(now);
    }

    /// Another node takes the writes.
    pub fn node_changed(&mut self, now: Nanos) {
        self.mempool_lost(now);
        self.adaptive.node_changed(self.mempool_size);
    }

    /// The node's chain was replaced by another: heights begin anew.
    pub fn chain_replaced(&mut self, now: Nanos) {
        self.mempool_lost(now);
        self.adaptive.chain_replaced(now);
    }

    /// The connections are up again.
    pub fn connection_up(&mut self, now: Nanos) {
        self.usage.disturb();
        self.emitter.drain(now);
    }

    /// The connections are gone, and with them the answers to what was under way.
    pub fn connection_lost(&mut self) {
        self.occupancy.under_way(0);
        self.usage.disturb();
    }

    /// The node has lost its mempool.
    pub fn mempool_lost(&mut self, now: Nanos) {
        self.occupancy = Occupancy::new(now);
        self.usage.disturb();
        self.adaptive.forget_depth();
    }

    /// Writes a second that may leave outside of breaks.
    pub fn rate(&self) -> Rate {
        let rate = match self.mode {
            PaceMode::Adaptive => self.adaptive.rate(),
            PaceMode::Fixed => return self.max,
        };
        Rate::from_f64(rate).map_or(self.max, |rate| rate.min(self.max))
    }

    /// Transactions a second that the chain commits, smoothed.
    pub fn committed_rate(&self, now: Nanos) -> f64 {
        self.adaptive.throughput().rate_at(now)
    }

    /// Mean time between blocks; zero until two were seen.
    pub fn block_interval(&self) -> Nanos {
        Duration::from_secs_f64(self.adaptive.throughput().interval()).into()
    }

    /// What the rate follows.
    pub const fn signals(&self) -> Signals {
        self.adaptive.signals()
    }

    /// The steering and its figures. It is up to date in the fixed mode as well.
    pub const fn adaptive(&self) -> &AdaptiveRate {
        &self.adaptive
    }

    fn follow(&mut self, now: Nanos) {
        let wanted = self.rate().as_f64() * self.factor;
        if wanted != self.set {
            let rate = Rate::from_f64(wanted).unwrap_or(Rate::ZERO);
            self.emitter.set_rate(now, rate.min(self.max));
            self.set = wanted;
        }
    }
}
