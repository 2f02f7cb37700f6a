//! Coins and the mempool: what transactions are held against.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use bitcoin::{Amount, Block, OutPoint, Transaction, TxOut, Txid};

/// An unspent output of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Coin {
    output: TxOut,
    height: u32,
    is_coinbase: bool,
}

/// An output that may be spent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spendable<'a> {
    pub(super) output: &'a TxOut,
    /// None in the mempool.
    pub(super) height: Option<u32>,
    pub(super) is_coinbase: bool,
}

/// What the mempool holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Depth {
    pub(crate) txs: usize,
    pub(crate) bytes: u64,
}

/// A transaction of the mempool.
#[derive(Debug, Clone)]
pub(super) struct Pooled {
    pub(super) tx: Transaction,
    pub(super) txid: Txid,
    pub(super) bytes: usize,
    pub(super) fee: Amount,
}

/// Transactions in the order in which they were accepted, parents before children.
#[derive(Debug, Default)]
pub(super) struct Pool {
    txs: BTreeMap<u64, Pooled>,
    arrivals: HashMap<Txid, u64>,
    spent: HashMap<OutPoint, Txid>,
    next: u64,
    bytes: u64,
}

/// The coins that a block spent.
pub(super) type Undo = Vec<(OutPoint, Coin)>;

/// The view of admission.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    coins: HashMap<OutPoint, Coin>,
    height: u32,
    pool: Pool,
}

impl Pool {
    pub(super) fn depth(&self) -> Depth {
        Depth {
            txs: self.txs.len(),
            bytes: self.bytes,
        }
    }

    pub(super) fn get(&self, txid: &Txid) -> Option<&Pooled> {
        self.txs.get(self.arrivals.get(txid)?)
    }

    /// The transaction that spends an output.
    pub(super) fn spender(&self, output: &OutPoint) -> Option<&Txid> {
        self.spent.get(output)
    }

    /// In the order in which they were accepted.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Pooled> {
        self.txs.values()
    }

    fn push(&mut self, pooled: Pooled) {
        let spends = pooled.tx.input.iter().map(|input| input.previous_output);
        self.spent
            .extend(spends.map(|output| (output, pooled.txid)));
        self.arrivals.insert(pooled.txid, self.next);
        self.bytes += pooled.bytes as u64;
        self.txs.insert(self.next, pooled);
        self.next += 1;
    }

    fn pop(&mut self) -> Option<Pooled> {
        let (_, pooled) = self.txs.pop_first()?;
        self.arrivals.remove(&pooled.txid);
        self.bytes -= pooled.bytes as u64;
        for input in &pooled.tx.input {
            self.spent.remove(&input.previous_output);
        }
        Some(pooled)
    }
}

impl Ledger {
    pub(super) const fn height(&self) -> u32 {
        self.height
    }

    pub(super) const fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) fn coins(&self) -> usize {
        self.coins.len()
    }

    /// An output of the chain, unless the chain spends it, or of the mempool.
    pub(super) fn find(&self, output: &OutPoint) -> Option<Spendable<'_>> {
        if let Some(coin) = self.coins.get(output) {
            return Some(Spendable {
                output: &coin.output,
                height: Some(coin.height),
                is_coinbase: coin.is_coinbase,
            });
        }
        let parent = self.pool.get(&output.txid)?;
        let output = parent.tx.output.get(output.vout as usize)?;
        Some(Spendable {
            output,
            height: None,
            is_coinbase: false,
        })
    }

    /// Whether the chain has a transaction of which an output is unspent.
    pub(super) fn is_in_chain(&self, txid: Txid, outputs: usize) -> bool {
        let outputs = u32::try_from(outputs).unwrap_or(u32::MAX);
        (0..outputs).any(|vout| self.coins.contains_key(&OutPoint { txid, vout }))
    }

    /// Adds a transaction to the mempool.
    pub(super) fn add(&mut self, pooled: Pooled) {
        self.pool.push(pooled);
    }

    pub(super) fn clear_pool(&mut self) {
        self.pool = Pool::default();
    }

    /// Takes the oldest transactions out that fit into a block.
    pub(super) fn take_for_block(&mut self, max_bytes: usize) -> Vec<Pooled> {
        let mut left = max_bytes.saturating_sub(OVERHEAD);
        let mut taken = Vec::new();
        while let Some(first) = self.pool.txs.first_entry() {
            let Some(rest) = left.checked_sub(first.get().bytes) else {
                break;
            };
            left = rest;
            taken.extend(self.pool.pop());
        }
        taken
    }

    /// Spends and makes what a block does.
    pub(super) fn connect(&mut self, block: &Block, height: u32) -> Undo {
        let mut undo = Undo::new();
        for tx in &block.txdata {
            let txid = tx.compute_txid();
            for input in &tx.input {
                let spent = self.coins.remove_entry(&input.previous_output);
                undo.extend(spent);
            }
            for (vout, output) in (0..).zip(&tx.output) {
                if output.script_pubkey.is_op_return() {
                    continue;
                }
                let coin = Coin {
                    output: output.clone(),
                    height,
                    is_coinbase: tx.is_coinbase(),
                };
                self.coins.insert(OutPoint { txid, vout }, coin);
            }
        }
        self.height = height;
        undo
    }

    /// Takes back the newest block. Its transactions return to the mempool, before those that are there;
    /// what spends outputs that exist no more leaves it.
    pub(super) fn disconnect(&mut self, block: Block, undo: Undo, height: u32) {
        self.height = height;
        let mut returning = Vec::new();
        for tx in block.txdata {
            let txid = tx.compute_txid();
            for (vout, _) in (0..).zip(&tx.output) {
                self.coins.remove(&OutPoint { txid, vout });
            }
            if !tx.is_coinbase() {
                returning.push((txid, tx));
            }
        }
        // What the block itself made and spent is not there before it.
        let made: HashSet<Txid> = returning.iter().map(|(txid, _)| *txid).collect();
        let undo = undo.into_iter();
        self.coins
            .extend(undo.filter(|(output, _)| !made.contains(&output.txid)));
        let waiting = std::mem::take(&mut self.pool);
        for (txid, tx) in returning {
            let pooled = Pooled {
                bytes: tx.total_size(),
                fee: self.fee(&tx).unwrap_or(Amount::ZERO),
                txid,
                tx,
            };
            self.add_again(pooled);
        }
        for pooled in waiting.txs.into_values() {
            self.add_again(pooled);
        }
    }

    fn add_again(&mut self, pooled: Pooled) {
        let next = self.height + 1;
        let spendable = |output: &OutPoint| {
            self.pool.spender(output).is_none()
                && self
                    .find(output)
                    .is_some_and(|coin| coin.is_mature_at(next))
        };
        if pooled
            .tx
            .input
            .iter()
            .all(|input| spendable(&input.previous_output))
        {
            self.pool.push(pooled);
        }
    }

    /// Inputs less outputs; none if an input is unknown.
    fn fee(&self, tx: &Transaction) -> Option<Amount> {
        let inputs = tx
            .input
            .iter()
            .map(|input| self.find(&input.previous_output));
        let inputs = inputs.map(|found| found.map(|found| found.output.value));
        let inputs: Amount = inputs.collect::<Option<Vec<_>>>()?.into_iter().sum();
        inputs.checked_sub(tx.output.iter().map(|output| output.value).sum())
    }
}

/// Blocks until a coinbase may be spent.
pub(super) const MATURITY: u32 = 100;

impl Spendable<'_> {
    /// Whether a block of this height may spend it.
    pub(super) fn is_mature_at(&self, height: u32) -> bool {
        let age = self
            .height
            .map_or(0, |origin| height.saturating_sub(origin));
        !self.is_coinbase || age >= MATURITY
    }
}

/// Seconds since the Unix epoch.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// Bytes of a block that are not transactions: header, count, coinbase.
const OVERHEAD: usize = 400;
