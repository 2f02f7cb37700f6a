//! How many writes may leave now.

use std::time::Duration;

use fairq::Gcra;
use pacing::{Nanos, Rate};

use crate::account::Account;
use crate::answers::{AHEAD, Answers};
use crate::bound::Bound;
use crate::settings::{PaceMode, PaceSettings};
use crate::throughput::{BlockSeen, Counted, Throughput};
use crate::window::{LEAST, Refused, Window};

/// Hands out permissions to send: an exact emitter behind the bounds of the window and of the answers
/// (adaptive only), at the share of the rate that a break leaves.
///
/// In any window of w seconds at most `max_req` × w and one burst (20 ms at most) leave, unless the
/// mode is off.
#[derive(Clone, Debug)]
pub struct Pacer {
    mode: PaceMode,
    max: Rate,
    settings: PaceSettings,
    account: Account,
    window: Window,
    answers: Answers,
    throughput: Throughput,
    emitter: Gcra,
    /// The rate the emitter was set to.
    set: f64,
    /// Share of the rate that a break leaves, 0 to 1.
    factor: f64,
    /// What the window and the mempool had room for when writes were last asked for.
    room: usize,
    /// Writes sent since the last block, and a second before it while some waited all the time.
    sent: usize,
    since: Nanos,
    served: Option<f64>,
    /// Writes that ask for the room that others race for, and since when none was refused.
    asking: usize,
    asking_since: Nanos,
    bound: Bound,
}

/// What waits, and what there is room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Writes that wait.
    pub waiting: usize,
    /// Writes sent and not answered.
    pub under_way: usize,
    /// Writes that may be under way in any case; 0 while nothing can be sent.
    pub most: usize,
    /// Connections in use.
    pub connections: usize,
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

/// A node that refused is asked again after so long: a quarter of the block interval of most chains.
const REFUSED: Nanos = Nanos::from_millis(250);
/// While writes wait they leave in groups of this length, to save wake-ups.
const GROUP: f64 = 0.002;

impl Pacer {
    /// Feeds a node with at most `max_req`.
    pub fn new(now: Nanos, max_req: Rate, pace: &PaceSettings) -> Self {
        let burst = Nanos::from(pace.burst).min(AHEAD);
        Self {
            mode: pace.mode,
            max: max_req,
            settings: *pace,
            account: Account::new(now),
            window: Window::new(max_req.as_f64(), pace),
            answers: Answers::new(now, pace),
            throughput: Throughput::new(),
            emitter: Gcra::new(max_req, burst),
            set: max_req.as_f64(),
            factor: 1.0,
            room: usize::MAX,
            sent: 0,
            since: now,
            served: None,
            asking: LEAST as usize,
            asking_since: now,
            bound: Bound::Nothing,
        }
    }

    /// What may leave now. To be called whenever something has changed, also while nothing waits or
    /// nothing can be sent: whether writes waited decides how the window changes.
    pub fn grant(&mut self, now: Nanos, demand: Demand) -> Grant {
        self.account.under_way(demand.under_way);
        self.answers.note_connections(demand.connections);
        self.ask(now, demand.most);
        let (room, bound) = self.room(now, demand);
        self.follow(now);
        let taken = self.take(now, demand.waiting.min(room));
        if taken > 0 {
            self.account.sent(now, taken);
            self.answers.sent(now, taken, demand.under_way);
            self.sent += taken;
        }
        let waiting = demand.waiting - taken;
        let left = waiting.min(room - taken);
        self.bound = match (waiting, left) {
            (0, _) => Bound::Nothing,
            (_, 0) => bound,
            _ => self.rate_bound(),
        };
        match self.bound {
            Bound::Nothing => self.window.note_idle(),
            Bound::NodeTime { .. } => self.answers.note_held(),
            Bound::Pace { .. } => self.window.note_paced(),
            _ => {}
        }
        let next = match self.bound {
            Bound::MempoolRoom { .. } if self.window.is_raced() => {
                Some(self.asking_since.saturating_add(AHEAD))
            }
            _ => (left > 0).then(|| self.next(now, left)),
        };
        Grant { now: taken, next }
    }

    /// How many may ask for the room that others race for. While nothing is refused they double every
    /// 20 ms, so that many stand in the node's sockets when a block has made room: while it commits a
    /// block it answers nothing. The first refusal says that the room is gone, and few ask from then on.
    fn ask(&mut self, now: Nanos, most: usize) {
        if !self.window.is_raced() || most == 0 {
            self.asking = LEAST as usize;
            self.asking_since = now;
        } else if now.saturating_sub(self.asking_since) >= AHEAD {
            self.asking = (2 * self.asking).min(most);
            self.asking_since = now;
        }
    }

    /// How many more may leave whatever the rate is, and what bounds them.
    fn room(&mut self, now: Nanos, demand: Demand) -> (usize, Bound) {
        let answers = self.answers_room(&demand);
        if self.mode != PaceMode::Adaptive {
            return answers;
        }
        let closest =
            |one: (usize, Bound), other: (usize, Bound)| if other.0 < one.0 { other } else { one };
        let mempool = self.mempool_room(now, demand.under_way);
        let chain = closest(self.window_room(now), mempool);
        self.room = chain.0;
        closest(answers, chain)
    }

    fn answers_room(&self, demand: &Demand) -> (usize, Bound) {
        let most = if self.factor > 0.0 { demand.most } else { 0 };
        let limit = match self.mode {
            PaceMode::Adaptive if !self.window.is_raced() => most.min(self.answers.limit()),
            _ => most,
        };
        let bound = Bound::NodeTime {
            under_way: demand.under_way,
            limit,
            answers_take: self.answers.take(),
            unloaded: self.answers.unloaded(),
        };
        let room = limit.saturating_sub(demand.under_way);
        // What answers make room for leaves in groups, too.
        let group = if limit < most {
            limit.min((self.answers.best() * GROUP) as usize)
        } else {
            0
        };
        let is_enough = room >= group.min(demand.waiting);
        (if is_enough { room } else { 0 }, bound)
    }

    fn window_room(&self, now: Nanos) -> (usize, Bound) {
        let (own, limit) = (self.account.own(now) as usize, self.window.size() as usize);
        (limit.saturating_sub(own), Bound::Window { own, limit })
    }

    fn mempool_room(&self, now: Nanos, under_way: usize) -> (usize, Bound) {
        let own = self.account.own(now) as usize;
        let others = self.account.others(now) as usize;
        let limit = self.window.level() as usize;
        // Others take the room that is not asked for.
        let asking = if self.window.is_raced() {
            self.asking
        } else {
            0
        };
        let room = limit.saturating_sub(own + others);
        (
            room.max(asking.saturating_sub(under_way)),
            Bound::MempoolRoom { own, others, limit },
        )
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
        self.account.unsent(count);
    }

    /// The node answered a write that was sent at `sent`, whatever the answer is.
    pub fn answered(&mut self, now: Nanos, sent: Nanos) {
        self.answers.answered(now, sent);
    }

    /// The node took so many.
    pub fn accepted(&mut self, count: usize) {
        self.account.accepted(count);
    }

    /// The node did not take one.
    pub fn refused(&mut self, why: Refused) {
        self.account.refused();
        self.window.refused(why, &mut self.account);
    }

    /// The node's mempool held so many transactions when it was asked at `asked`.
    pub fn mempool(&mut self, asked: Nanos, txs: usize) {
        self.account.depth(asked, txs);
    }

    /// A block.
    pub fn block(&mut self, now: Nanos, block: &BlockSeen) {
        let counted = self.throughput.block(block);
        if counted == Counted::Duplicate {
            return;
        }
        let ours = self.account.block(block);
        if counted == Counted::New {
            let saturated = self.window.block(now, block, ours, &self.account);
            let secs = now.saturating_sub(self.since).as_secs_f64();
            let sent = std::mem::take(&mut self.sent) as f64;
            self.served = (saturated && sent > 0.0 && secs > 0.0).then(|| sent / secs);
            self.since = now;
            self.answers.block(now, self.window.is_raced());
            self.follow(now);
        }
    }

    /// A break leaves this share of the rate, 0 to 1.
    pub fn throttle(&mut self, now: Nanos, factor: f64) {
        self.factor = factor.clamp(0.0, 1.0);
        self.follow(now);
    }

    /// Another node takes the writes: its mempool may be of another size.
    pub fn node_changed(&mut self, now: Nanos) {
        self.window = Window::new(self.max.as_f64(), &self.settings);
        self.answers = Answers::new(now, &self.settings);
        self.mempool_lost(now);
        self.follow(now);
    }

    /// The node's chain was replaced by another: heights begin anew.
    pub fn chain_replaced(&mut self, now: Nanos) {
        self.throughput.restart();
        self.mempool_lost(now);
    }

    /// The connections are up again.
    pub fn connection_up(&mut self, now: Nanos) {
        self.answers.reset(now);
        self.emitter.drain(now);
    }

    /// The connections are gone, and with them the answers to what was under way.
    pub const fn connection_lost(&mut self) {
        self.account.under_way(0);
    }

    /// The node has lost its mempool.
    pub fn mempool_lost(&mut self, now: Nanos) {
        self.account = Account::new(now);
        self.window.mempool_lost(self.settings.mempool_size);
    }

    /// What held writes back when they were last asked for.
    pub const fn bound(&self) -> Bound {
        self.bound
    }

    /// Writes a second that may leave outside of breaks, while there is room.
    pub fn rate(&self) -> Rate {
        self.rate_of(self.window.pace(usize::MAX))
    }

    fn rate_of(&self, pace: f64) -> Rate {
        match self.mode {
            PaceMode::Adaptive => Rate::from_f64(pace).map_or(self.max, |rate| rate.min(self.max)),
            PaceMode::Fixed | PaceMode::Off => self.max,
        }
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

    /// Mean time between blocks; zero until two were seen.
    pub fn block_interval(&self) -> Nanos {
        Duration::from_secs_f64(self.throughput.interval()).into()
    }

    /// Whether neither blocks nor the mempool's depth are known: only refusals and answers count then.
    pub fn is_blind(&self, now: Nanos) -> bool {
        self.account.is_blind(now)
    }

    /// How long a node that refused is left alone, unless a block comes before. While others fill its
    /// mempool they take the room that is not asked for.
    pub const fn ask_again_after(&self) -> Nanos {
        if self.window.is_raced() {
            AHEAD
        } else {
            REFUSED
        }
    }

    /// What the mempool holds at most, as far as is known.
    pub const fn mempool_size(&self) -> Option<usize> {
        self.window.mempool()
    }

    /// Connections over which writes should go.
    pub const fn connections(&self) -> usize {
        match self.mode {
            PaceMode::Adaptive => self.answers.connections(),
            PaceMode::Fixed | PaceMode::Off => self.settings.connections,
        }
    }

    fn follow(&mut self, now: Nanos) {
        let wanted = self.rate_of(self.window.pace(self.room)).as_f64() * self.factor;
        if wanted != self.set {
            let rate = Rate::from_f64(wanted).unwrap_or(Rate::ZERO);
            self.emitter.set_rate(now, rate.min(self.max));
            self.set = wanted;
        }
    }
}
