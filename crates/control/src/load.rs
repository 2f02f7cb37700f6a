//! Amounts of transactions, in each unit that a chain may be short of, and what the node's mempool holds beside what was
//! sent from here.

use std::collections::VecDeque;
use std::ops::Add;

use pacing::Nanos;

base::named! {
    /// What a chain is short of: the window is kept in this unit.
    #[derive(Default)]
    pub enum Unit {
        /// A block takes so many transactions, or the mempool holds so many.
        #[default]
        Transactions => "transactions",
        /// A block takes so many bytes of transactions.
        Bytes => "bytes",
        /// A block takes so much gas.
        Gas => "gas",
    }
}

/// An amount of transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How many.
    pub txs: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Gas that they may use; 0 where that is unknown.
    pub gas: u64,
}

impl Load {
    /// The amount in a unit.
    pub const fn of(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Transactions => self.txs,
            Unit::Bytes => self.bytes,
            Unit::Gas => self.gas,
        }
    }

    /// What is left after `other` is taken away, at least 0 of each.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    /// The larger amount of each.
    pub(crate) fn most(self, other: Self) -> Self {
        self.each(other, u64::max)
    }

    /// As much as `txs` mean transactions of these.
    pub(crate) fn part(&self, txs: u64) -> Self {
        let of = |amount: u64| (amount as f64 * txs as f64 / self.txs.max(1) as f64) as u64;
        Self {
            txs,
            bytes: of(self.bytes),
            gas: of(self.gas),
        }
    }

    fn each(self, other: Self, operation: fn(u64, u64) -> u64) -> Self {
        Self {
            txs: operation(self.txs, other.txs),
            bytes: operation(self.bytes, other.bytes),
            gas: operation(self.gas, other.gas),
        }
    }

    /// The mean of a transaction in a unit, at least 1; 1 where there is none.
    pub(crate) fn mean(&self, unit: Unit) -> f64 {
        (self.of(unit) as f64 / self.txs.max(1) as f64).max(1.0)
    }
}

impl Add for Load {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }
}

/// What waits, and what is at the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Writes that wait.
    pub waiting: usize,
    /// The one that goes first, where it is known.
    pub first: Load,
    /// Writes sent and not answered.
    pub under_way: usize,
    /// Everything sent and in no block yet, by hash: under way, accepted, or of unknown fate.
    pub own: Load,
    /// Writes that may be under way in any case; 0 while nothing can be sent.
    pub most: usize,
    /// Connections that are up.
    pub connections: usize,
    /// Lines of writes in order that wait or are under way: without a proxy each would have one under way.
    pub lines: usize,
}

/// Transactions of others at the node, and how many of the own ones the node may have dropped.
///
/// What is own is known by hash to the caller. The node reports how many transactions it holds: what
/// is above the own ones is others'. What is below shows that it dropped own ones (a failed recheck, a
/// restart), so that the report bounds the own ones until a block or a hash shows more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mempool {
    /// How many it holds at most, as configured or as stated in a refusal.
    pub(crate) size: Option<u64>,
    /// Transactions of others, as last reported and less those that blocks have taken since.
    pub(crate) others: u64,
    /// What others held after the last block.
    others_after_block: u64,
    /// Own transactions ever sent.
    sent: u64,
    report: Option<Report>,
    last_block: Nanos,
    /// When anything was heard of the chain.
    heard: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Report {
    txs: u64,
    /// Own transactions of which it surely knows all that is to be known: those sent later count beside it.
    sent: u64,
}

impl Mempool {
    pub(crate) fn new(now: Nanos) -> Self {
        Self {
            heard: now,
            ..Self::default()
        }
    }

    /// So many were sent.
    pub(crate) const fn sent(&mut self, count: usize) {
        self.sent += count as u64;
    }

    /// So many of those that `sent` counted were not sent after all.
    pub(crate) const fn unsent(&mut self, count: usize) {
        self.sent = self.sent.saturating_sub(count as u64);
    }

    /// The node held so many when it was asked at `asked`; `own` are own, and of `unknown` of these the report may not
    /// know. One that was asked before the last block does not show what the block left.
    pub(crate) fn reported(&mut self, asked: Nanos, txs: u64, own: u64, unknown: u64) {
        self.heard = self.heard.max(asked);
        if asked > self.last_block {
            self.others = txs.saturating_sub(own);
            let sent = self.sent.saturating_sub(unknown);
            self.report = Some(Report { txs, sent });
        }
    }

    /// The node refused a transaction because it holds `max`; `own` are own. Whether that is news.
    pub(crate) fn full(&mut self, max: u64, own: u64) -> bool {
        self.others = max.saturating_sub(own);
        self.size.replace(max) != Some(max)
    }

    /// A full mempool takes something again: a block was made that was not seen yet.
    pub(crate) const fn room_made(&mut self) {
        self.others = self.others_after_block;
    }

    /// A block with so many transactions of others.
    pub(crate) fn block(&mut self, observed: Nanos, others: u64) {
        self.others = self.others.saturating_sub(others);
        self.others_after_block = self.others;
        self.last_block = self.last_block.max(observed);
        self.heard = self.heard.max(observed);
    }

    /// Of `own` transactions, `under_way` of them not answered, how many the node can still have.
    pub(crate) fn held(&self, own: u64, under_way: u64) -> u64 {
        let most = self.report.map_or(u64::MAX, |report| {
            let since = self.sent.saturating_sub(report.sent);
            report.txs.saturating_add(since)
        });
        own.min(most).max(under_way)
    }

    /// Transactions of others that leave no room before the next block; 0 while nothing is known of them.
    pub(crate) fn others_until_block(&self, now: Nanos) -> u64 {
        if self.is_blind(now) {
            return 0;
        }
        self.others.max(self.others_after_block)
    }

    /// Whether neither a block nor a report was seen for long.
    pub(crate) fn is_blind(&self, now: Nanos) -> bool {
        now.saturating_sub(self.heard) > SILENCE
    }
}

/// Whether a full mempool is asked for room.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Probe {
    None,
    /// By one write at a time.
    Asking,
    /// It took one: a block has made room, which was not seen yet.
    Answered,
}

/// Adds a value to the last `most`.
pub(crate) fn remember<T>(recent: &mut VecDeque<T>, most: usize, value: T) {
    if recent.len() == most {
        recent.pop_front();
    }
    recent.push_back(value);
}

/// After so long without a block or a report neither can be relied on.
pub(crate) const SILENCE: Nanos = Nanos::from_secs(10);
