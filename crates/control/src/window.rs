//! How many own transactions may be at the node without being in a block.

use std::collections::VecDeque;

use pacing::Nanos;

use crate::account::Account;
use crate::settings::PaceSettings;
use crate::throughput::BlockSeen;

/// A window as in congestion control, with blocks as its acknowledgements.
///
/// **Size**: own transactions in the last block and all transactions in it: two blocks' worth for who
/// is alone, so that a whole block waits while one is being made; less for one of several proxies,
/// which so come to equal shares. Blocks less than a second apart count together. The largest of the
/// last few such sums counts. The window grows with it, at most twofold a block; it shrinks to it only
/// if writes waited all the time, because a block is small also when little was asked for.
///
/// **Refusals** because the mempool is full or being rechecked, and a node that does not answer, halve
/// it until the next block.
///
/// **Room**: a mempool smaller than the window is filled to the configured share, less what others
/// have in it as far as the node reported. What they may send until the next block is not set aside.
///
/// **Others** who fill the node whatever is done here gain all that is held back here. So when they
/// hold more than two blocks after a block, or a good part of a mempool that refuses, neither window
/// nor pace nor the node's time hold anything back until the next block; the room and the ceiling do.
///
/// **Pace**: what the last block left free is spread over the shortest recent interval, a little
/// faster. It becomes faster while it keeps the window, or the mempool, from being filled by the next
/// block, and slower again bit by bit: the node may check nothing for any part of the interval. The last
/// of the room leaves at a rate in proportion to what is left, so that there is nearly always a place for
/// a client that asks for little.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    size: f64,
    /// Writes a second at least, and at most.
    least_rate: f64,
    ceiling: f64,
    /// Transactions that the mempool holds, as configured or as stated in a refusal, and the share of
    /// it that may be filled.
    mempool: Option<usize>,
    fill: f64,
    /// Blocks of the last second: when they came, all transactions, own ones.
    second: VecDeque<(Nanos, f64, f64)>,
    /// Two blocks' worth at each of the last blocks, and the intervals before them, in seconds.
    worths: VecDeque<f64>,
    intervals: VecDeque<f64>,
    /// Whether own transactions were left after the last block, so that the next one was due.
    loaded: bool,
    /// At some instant since the last block nothing waited; the pace held writes back.
    idle: bool,
    paced: bool,
    /// A refusal since the last block has halved the window.
    halved: bool,
    /// Others filled a mempool that refused since the last block; before it.
    raced: bool,
    unheld: bool,
    /// The pace is faster than even by this factor.
    lead: f64,
    /// Writes a second.
    pace: f64,
}

/// Why the node did not take a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its mempool is full; `max` is how many it holds, if the error contains it.
    Full {
        /// Transactions the mempool holds.
        max: Option<usize>,
    },
    /// Its mempool is being rechecked after a block and counts as full for a moment.
    Rechecking,
    /// It did not answer in time.
    TimedOut,
}

/// The window before the first block: CometBFT's default mempool.
const FIRST: f64 = 5_000.0;
/// The window is not below this: as many as keep a node busy that checks one after the other.
pub(crate) const LEAST: f64 = 8.0;
/// Blocks of others after which they fill the node whatever is done here.
const CROWD: f64 = 2.0;
/// Blocks within this time count together.
pub(crate) const SECOND: Nanos = Nanos::from_secs(1);
/// Blocks whose worth and intervals count.
const RECENT: usize = 4;
/// One step: the pace is at least so much faster than even and becomes faster by this factor; a mempool
/// that holds this factor more than ours is filled by others; more connections must gain as much.
pub(crate) const STEP: f64 = 1.25;
/// The pace becomes slower by this factor.
const EASE: f64 = 0.99;
/// What could be sent in this part of an interval leaves ever more slowly.
const TAIL: f64 = 16.0;

impl Window {
    pub(crate) fn new(ceiling: f64, pace: &PaceSettings) -> Self {
        Self {
            size: FIRST,
            least_rate: pace.min_req.as_f64().min(ceiling),
            ceiling,
            mempool: pace.mempool_size,
            fill: pace.mempool_fill.clamp(0.01, 1.0),
            second: VecDeque::new(),
            worths: VecDeque::with_capacity(RECENT + 1),
            intervals: VecDeque::with_capacity(RECENT + 1),
            loaded: false,
            idle: true,
            paced: false,
            halved: false,
            raced: false,
            unheld: false,
            lead: STEP,
            pace: (STEP * FIRST / SECOND.as_secs_f64()).min(ceiling),
        }
    }

    /// The node has lost its mempool, and may have been started with another size of it.
    pub(crate) const fn mempool_lost(&mut self, configured: Option<usize>) {
        self.mempool = configured;
    }

    /// Nothing waits at this moment.
    pub(crate) const fn note_idle(&mut self) {
        self.idle = true;
    }

    /// The pace holds writes back.
    pub(crate) const fn note_paced(&mut self) {
        self.paced = true;
    }

    /// The node did not take one.
    pub(crate) fn refused(&mut self, why: Refused, account: &mut Account) {
        if let Refused::Full { max: Some(max) } = why {
            let own = (max as f64) - account.full(max) as f64;
            let is_news = self.mempool.replace(max) != Some(max);
            self.raced |= STEP * own < max as f64;
            if self.raced || is_news {
                return;
            }
        }
        if !self.halved {
            self.halved = true;
            self.size = (self.size / 2.0).max(LEAST);
        }
    }

    /// A block; `ours` of its transactions were sent from here, and the account knows it already. Whether
    /// writes waited all the time since the last one.
    pub(crate) fn block(
        &mut self,
        now: Nanos,
        block: &BlockSeen,
        ours: u64,
        account: &Account,
    ) -> bool {
        let (txs, ours) = (block.txs as f64, ours as f64);
        let (own, others) = (account.own(now) as f64, account.others(now) as f64);
        let saturated = !std::mem::replace(&mut self.idle, false);
        if std::mem::take(&mut self.paced) && saturated && !self.unheld {
            self.lead(txs, own + ours);
        }
        let all = self.count(block.observed, txs, ours);
        self.resize(saturated, own + ours, ours);
        self.unheld = std::mem::take(&mut self.raced) || others > CROWD * all;
        self.halved = false;
        self.loaded = own > 0.0;
        let room = (self.size - own).min(self.level() - own - others);
        let rate = self.lead * room.max(ours) / self.interval();
        self.pace = rate.max(self.least_rate).min(self.ceiling);
        saturated
    }

    /// The shortest recent interval in seconds; the usual one while none is known.
    pub(crate) fn interval(&self) -> f64 {
        let shortest = self.intervals.iter().copied().reduce(f64::min);
        shortest.unwrap_or(SECOND.as_secs_f64())
    }

    /// A block of `txs` came while writes waited for the pace; `own` of ours were in none until then.
    fn lead(&mut self, txs: f64, own: f64) {
        let is_filled = if self.level() <= self.size {
            txs >= self.fill * self.level()
        } else {
            own >= self.fill * self.size
        };
        if is_filled {
            self.lead = (self.lead * EASE).max(STEP);
        } else if self.pace < self.ceiling {
            self.lead *= STEP;
        }
    }

    /// Counts a block; all transactions of the last second.
    fn count(&mut self, at: Nanos, txs: f64, ours: f64) -> f64 {
        if let Some((last, _, _)) = self.second.back() {
            let interval = at.saturating_sub(*last).as_secs_f64();
            if self.loaded && interval > 0.0 {
                remember(&mut self.intervals, interval);
            }
        }
        self.second.push_back((at, txs, ours));
        while let Some((first, _, _)) = self.second.front()
            && at.saturating_sub(*first) >= SECOND
            && self.second.len() > 1
        {
            self.second.pop_front();
        }
        let all: f64 = self.second.iter().map(|(_, txs, _)| txs).sum();
        let own: f64 = self.second.iter().map(|(_, _, ours)| ours).sum();
        remember(&mut self.worths, all + own);
        all
    }

    /// `own` were in no block until this one took `ours`. What is too many leaves over some blocks, in
    /// which half as many come as go (as in proportional rate reduction, RFC 6937).
    fn resize(&mut self, saturated: bool, own: f64, ours: f64) {
        let worth = self.worths.iter().copied().fold(LEAST, f64::max);
        if worth > self.size {
            self.size = worth.min(2.0 * self.size);
        } else if saturated && self.worths.len() == RECENT {
            self.size = worth;
        }
        self.size = self.size.max(own - ours / 2.0);
    }

    /// How many the mempool may hold; infinite if that is unknown. What is left for others they take
    /// anyway while they fill it.
    pub(crate) fn level(&self) -> f64 {
        let size = self.mempool.map_or(f64::INFINITY, |size| size as f64);
        let fill = if self.unheld { 1.0 } else { self.fill };
        (fill * size).floor()
    }

    /// Whether others fill the mempool whatever is done here.
    pub(crate) const fn is_raced(&self) -> bool {
        self.raced || self.unheld
    }

    /// How many own transactions may be in no block.
    pub(crate) const fn size(&self) -> f64 {
        if self.unheld {
            f64::INFINITY
        } else {
            self.size
        }
    }

    /// Writes a second while so many more may be sent.
    pub(crate) fn pace(&self, room: usize) -> f64 {
        if self.unheld {
            self.ceiling
        } else if self.idle {
            self.pace
        } else {
            self.pace.min(TAIL * room as f64 / self.interval())
        }
    }

    /// What the mempool holds at most, as far as is known.
    pub(crate) const fn mempool(&self) -> Option<usize> {
        self.mempool
    }
}

pub(crate) fn remember(recent: &mut VecDeque<f64>, value: f64) {
    if recent.len() == RECENT {
        recent.pop_front();
    }
    recent.push_back(value);
}
