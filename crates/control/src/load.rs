//! Amounts of transactions, in each unit that a chain may be short of.

use std::ops::Add;

/// What a chain is short of: the window is kept in this unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// A block takes so many transactions, or the mempool holds so many.
    #[default]
    Transactions,
    /// A block takes so many bytes of transactions.
    Bytes,
    /// A block takes so much gas.
    Gas,
}

impl Unit {
    /// What is counted in this unit, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transactions => "transactions",
            Self::Bytes => "bytes",
            Self::Gas => "gas",
        }
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
    /// Nothing.
    pub const ZERO: Self = Self::of_txs(0);

    /// So many transactions whose bytes and gas do not matter.
    pub const fn of_txs(txs: u64) -> Self {
        Self {
            txs,
            bytes: 0,
            gas: 0,
        }
    }

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
    pub const fn less(self, other: Self) -> Self {
        Self {
            txs: self.txs.saturating_sub(other.txs),
            bytes: self.bytes.saturating_sub(other.bytes),
            gas: self.gas.saturating_sub(other.gas),
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
        Self {
            txs: self.txs.saturating_add(other.txs),
            bytes: self.bytes.saturating_add(other.bytes),
            gas: self.gas.saturating_add(other.gas),
        }
    }
}
