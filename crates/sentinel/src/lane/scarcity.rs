//! What the chain is short of, and so what a write costs its client.
//!
//! While blocks have room, the chain is short of transactions: each costs the same. When they are full
//! by bytes, each costs its bytes. When they are full by gas, each of a Cosmos SDK's costs the gas limit of
//! its fee, by which the node fills blocks; that of another application's transactions is known to it
//! alone and is taken for proportional to the bytes.

use std::fmt;

use control::{Load, Unit};
use fairq::Backlog;

use crate::upstream::BlockLimits;

/// What the chain is short of: of transactions while blocks have room, of bytes where no further transaction fits into the
/// blocks, of gas where these have room for bytes and leave transactions behind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shortage {
    /// What it is.
    pub unit: Unit,
    /// Bytes of a transaction in recent blocks, in the mean.
    mean_bytes: f64,
    /// Bytes, or gas, that a block may have.
    of_block: u64,
}

/// What a block holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Content {
    /// All of it; its gas is the sum of the limits that are known.
    pub(super) load: Load,
    /// Transactions whose gas limits are known: of a Cosmos SDK, and sent by this proxy.
    pub(super) gas_txs: u64,
}

impl Content {
    /// The gas of those whose gas is known, and of one more.
    fn gas_with_another(&self) -> f64 {
        let gas = self.load.gas as f64;
        gas + gas / self.gas_txs.max(1) as f64
    }
}

/// Follows the blocks of the node that takes the writes.
#[derive(Debug, Default)]
pub(super) struct Scarcity {
    /// How often of late blocks were full by bytes, and by gas.
    by_bytes: Score,
    by_gas: Score,
    mean_bytes: f64,
    /// Transactions of the last block, until the mempool after it is known.
    last_txs: Option<u64>,
    /// Whether the mempool still held as many after the block.
    left_behind: bool,
    shortage: Shortage,
}

/// Blocks for and against, with hysteresis: it holds from two in favour of it until none is left.
#[derive(Debug, Default)]
struct Score {
    count: u8,
    holds: bool,
}

impl Score {
    /// A block that is full counts for one in favour, or for `least` if there were fewer.
    fn note(&mut self, full: bool, least: u8) {
        self.count = if full {
            (self.count + 1).clamp(least, 2 * SCORE)
        } else {
            self.count.saturating_sub(1)
        };
        self.holds = self.count >= if self.holds { 1 } else { SCORE };
    }
}

impl Scarcity {
    /// Takes a block in. Empty ones show nothing.
    pub(super) fn block(&mut self, block: &Content, limits: Option<BlockLimits>) {
        let Load { txs, bytes, .. } = block.load;
        if txs == 0 {
            return;
        }
        let mean = bytes as f64 / txs as f64;
        self.mean_bytes = match self.mean_bytes {
            0.0 => mean,
            known => known + (mean - known) * SMOOTHING,
        };
        let limits = limits.unwrap_or(BlockLimits::NONE);
        // Another one of the same size would not fit: one such block is enough, as the number of its transactions shows
        // nothing of how many a block takes.
        let is_full = bytes as f64 + mean > limits.bytes as f64 * USABLE;
        self.by_bytes.note(is_full, SCORE);
        let is_out_of_gas = limits
            .gas
            .is_some_and(|limit| self.left_behind || block.gas_with_another() > limit as f64);
        self.by_gas.note(!is_full && is_out_of_gas, 1);
        self.last_txs = Some(txs);
        self.left_behind = false;
        let (unit, of_block) = match (self.by_bytes.holds, self.by_gas.holds, limits.gas) {
            (true, ..) => (Unit::Bytes, limits.bytes),
            (false, true, Some(gas)) => (Unit::Gas, gas),
            _ => (Unit::Transactions, 0),
        };
        self.shortage = Shortage {
            unit,
            mean_bytes: self.mean_bytes.max(LEAST_BYTES),
            of_block,
        };
    }

    /// The mempool holds so many transactions.
    pub(super) fn mempool(&mut self, txs: u64) {
        if let Some(last) = self.last_txs.take() {
            self.left_behind = txs >= last;
        }
    }

    pub(super) const fn shortage(&self) -> Shortage {
        self.shortage
    }
}

impl Shortage {
    /// What a write costs, 1 or more, in the units of [`QUANTUM`], of which a transaction has so many while
    /// transactions are scarce. `bytes` are its own, in units of [`BYTES_PER_UNIT`]. `gas` is the limit that it names,
    /// which is unverified: more than a block has counts as all of it, and none as unknown.
    pub(super) fn price(self, bytes: u32, gas: impl FnOnce() -> Option<u64>) -> u32 {
        let price = match self.unit {
            Unit::Transactions => QUANTUM,
            Unit::Bytes => bytes,
            Unit::Gas => match gas() {
                None | Some(0) => bytes,
                Some(gas) => saturating(gas.min(self.of_block).div_ceil(GAS_PER_UNIT)),
            },
        };
        price.max(1)
    }

    /// Whether what waits of a client is as little as a short queue: by its bytes where these, or gas, are scarce. While
    /// only its writes counted, one with small ones beside one with large ones lost its places as soon as eight waited.
    pub(super) fn is_short(self, backlog: &Backlog) -> bool {
        self.transactions(backlog.entries, backlog.cost) <= SHORT
    }

    /// How many transactions of common size a backlog of so many entries and units comes to.
    pub(super) fn transactions(self, entries: usize, units: u64) -> f64 {
        match self.unit {
            Unit::Transactions => entries as f64,
            Unit::Bytes | Unit::Gas => units as f64 * f64::from(BYTES_PER_UNIT) / self.mean_bytes,
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_block = self.of_block;
        match self.unit {
            Unit::Transactions => f.write_str("transactions: blocks have room for bytes and gas"),
            Unit::Bytes => write!(f, "bytes: blocks are full (block.max_bytes is {of_block})"),
            Unit::Gas => write!(
                f,
                "gas: blocks are full (block.max_gas is {of_block}); by bytes where a transaction does not \
                 say its gas"
            ),
        }
    }
}

/// The bytes of a transaction in the units of the fair queue, 1 or more.
pub(super) fn units(bytes: usize) -> u32 {
    saturating(bytes as u64).div_ceil(BYTES_PER_UNIT).max(1)
}

fn saturating(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Fine enough to distinguish small transactions; a megabyte is 16,384.
const BYTES_PER_UNIT: u32 = 64;
/// A transfer has some ten: 100,000.
const GAS_PER_UNIT: u64 = 10_000;
/// What a client may send in a turn: a transaction, a kilobyte, or the gas of one or two transfers.
pub(super) const QUANTUM: u32 = 16;
/// The part of `block.max_bytes` that transactions may have: header, evidence and the last commit take
/// some (110 bytes for each validator, `MaxDataBytes` in CometBFT's `types/block.go`).
const USABLE: f64 = 0.97;
/// Transactions of a short queue, as `fairq` has it.
const SHORT: f64 = 7.0;
/// Weight of a block in the mean size of transactions.
const SMOOTHING: f64 = 0.2;
/// A mean below this is taken for it: signatures alone have 64 bytes.
const LEAST_BYTES: f64 = 64.0;
/// Blocks short of gas after which it counts; twice as many are remembered.
const SCORE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Option<BlockLimits> = Some(BlockLimits {
        bytes: 4_000_000,
        gas: Some(10_000_000),
    });

    fn content(txs: u64, bytes: u64) -> Content {
        with_gas(txs, bytes, (0, 0))
    }

    fn with_gas(txs: u64, bytes: u64, (gas_txs, gas): (u64, u64)) -> Content {
        let load = Load { txs, bytes, gas };
        Content { load, gas_txs }
    }

    #[test]
    fn sharing_73_blocks_without_room_for_another_transaction_are_short_of_bytes() {
        let mut scarcity = Scarcity::default();
        scarcity.block(&content(5_000, 1_250_000), LIMITS);
        assert_eq!(scarcity.shortage().unit, Unit::Transactions);
        // Five of 750 kB leave room for no sixth. While two such blocks were waited for, the window was as many small
        // transactions as there were large ones in a block: 1,000 small ones a second waited for the next one, 0.8 s.
        scarcity.block(&content(5, 3_750_000), LIMITS);
        assert_eq!(scarcity.shortage().unit, Unit::Bytes);
        // Blocks that are not filled show nothing, and one that has room is not enough.
        scarcity.block(&content(0, 0), LIMITS);
        scarcity.block(&content(2, 1_500), LIMITS);
        assert_eq!(scarcity.shortage().unit, Unit::Bytes);
        scarcity.block(&content(2, 1_500), LIMITS);
        assert_eq!(scarcity.shortage().unit, Unit::Transactions);
        // Without parameters of the node nothing is assumed but the largest block there is.
        for _ in 0..9 {
            scarcity.block(&content(5, 3_750_000), None);
        }
        assert_eq!(scarcity.shortage().unit, Unit::Transactions);
    }

    #[test]
    fn sharing_73_blocks_that_leave_transactions_behind_are_short_of_gas() {
        let run = |left: u64, limits: Option<BlockLimits>| {
            let mut scarcity = Scarcity::default();
            for _ in 0..4 {
                scarcity.block(&content(100, 30_000), limits);
                scarcity.mempool(left);
                scarcity.mempool(0);
            }
            scarcity.shortage().unit
        };
        assert_eq!(run(400, LIMITS), Unit::Gas);
        assert_eq!(run(20, LIMITS), Unit::Transactions);
        let without_gas = LIMITS.map(|limits| BlockLimits {
            gas: None,
            ..limits
        });
        assert_eq!(run(400, without_gas), Unit::Transactions);
    }

    /// A window of two blocks' worth leaves less than a block behind in the mempool.
    #[test]
    fn account_82_blocks_full_of_known_gas_are_short_of_it_though_nothing_is_left_behind() {
        let run = |gas: u64| {
            let mut scarcity = Scarcity::default();
            let block = with_gas(100, 30_000, (80, gas));
            for _ in 0..4 {
                scarcity.block(&block, LIMITS);
                scarcity.mempool(40);
            }
            scarcity.shortage()
        };
        assert_eq!(run(9_900_000).unit, Unit::Gas);
        assert_eq!(run(9_000_000).unit, Unit::Transactions);
        // A transaction costs what it may use, and its bytes where it names none.
        let gas = run(9_900_000);
        assert_eq!(gas.price(5, || Some(100_000)), 10);
        assert_eq!(gas.price(5, || None), 5);
        assert_eq!(Shortage::default().price(5, || Some(1)), QUANTUM);
    }

    /// At 2b52556 a gas limit of 2^63 was a price of 2^32, and the queue was busy with it for seconds.
    #[test]
    fn account_83_no_transaction_costs_more_than_a_block() {
        let of_block = |of_block| Shortage {
            unit: Unit::Gas,
            mean_bytes: 200.0,
            of_block,
        };
        let gas = of_block(10_000_000);
        for named in [10_000_000, 10_000_001, 1 << 63, u64::MAX] {
            assert_eq!(gas.price(5, || Some(named)), 1_000, "{named}");
        }
        assert_eq!(gas.price(5, || Some(9_999_999)), 1_000);
        assert_eq!(gas.price(5, || Some(9_990_000)), 999);
        assert_eq!(of_block(u64::MAX).price(5, || Some(u64::MAX)), u32::MAX);
        assert_eq!(of_block(1).price(5, || Some(u64::MAX)), 1);
        // Without a bound on the gas of a block (-1, or 0) nothing is short of it, whatever a block holds.
        let mut scarcity = Scarcity::default();
        let block = with_gas(100, 30_000, (100, u64::MAX));
        for _ in 0..4 {
            let limits = BlockLimits {
                gas: None,
                ..LIMITS.unwrap()
            };
            scarcity.block(&block, Some(limits));
            scarcity.mempool(400);
        }
        assert_eq!(scarcity.shortage().unit, Unit::Transactions);
    }

    /// At 2b52556 what had no bytes, or named no gas, cost nothing: its flow's turn did not end.
    #[test]
    fn account_84_nothing_is_free() {
        let shortages = Unit::ALL.map(|unit| Shortage {
            unit,
            mean_bytes: 200.0,
            of_block: 10_000_000,
        });
        for shortage in shortages {
            for named in [None, Some(0), Some(1)] {
                assert!(shortage.price(0, || named) >= 1, "{shortage:?} {named:?}");
            }
        }
        let [_, _, gas] = shortages;
        // A gas of 0 counts as unknown, and costs the bytes.
        assert_eq!((gas.price(9, || Some(0)), gas.price(9, || Some(1))), (9, 1));
        assert_eq!([0, 1, 64, 65].map(units), [1, 1, 1, 2]);
        assert_eq!(units(usize::MAX), (u32::MAX).div_ceil(BYTES_PER_UNIT));
    }
}
