//! Amounts of transactions, in each unit that a chain may be short of.

use std::ops::Add;

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
