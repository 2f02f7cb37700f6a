//! Coins from blocks that the node mines for the wallet, split until there are enough; and blocks during a load on
//! nodes that mine on request only.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use base::{Random, mix};
use bitcoin::{OutPoint, ScriptBuf, Transaction};
use rpc::ClientError;

use super::{CoinError, Node};
use crate::workload::{
    Coin, CoinState, KEYS, Keys, LEAST_OUTPUT, Mining, Network, Spend, Wallet, hash_text, size,
};

/// How many coins, and what each is worth.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub(crate) coins: usize,
    /// In satoshi.
    pub(crate) value: u64,
    /// In satoshi for each byte.
    pub(crate) fee_rate: u64,
}

impl Order {
    fn tree(&self) -> Tree {
        Tree::new(self.coins, self.value, self.fee_rate)
    }

    /// Satoshi that are needed when they come from so many coins.
    fn needs(&self, tree: &Tree, sources: usize) -> u64 {
        // One more output for what is left over.
        let bytes = size(sources, tree.levels[0][0].len() + 1);
        tree.root() + self.fee_rate * bytes as u64
    }
}

/// Makes the coins from outputs of blocks that pay to the wallet; blocks are mined until there are enough.
pub(crate) fn mine(
    node: &Node,
    keys: &Keys,
    seed: u64,
    order: &Order,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Wallet, CoinError> {
    let tree = order.tree();
    let mut sources: Vec<Spend> = Vec::new();
    let mut next_height = 1;
    let mut mined = 0;
    loop {
        let worth = value(&sources);
        if worth >= order.needs(&tree, sources.len()) {
            return split(node, keys, seed, order, &sources, is_cancelled);
        }
        if is_cancelled() {
            return Err(CoinError::Interrupted);
        }
        let tip = node.ask(|client| client.info())?.blocks;
        if next_height + MATURITY <= tip + 1 {
            sources.extend(coinbase(node, keys, next_height)?);
            next_height += 1;
            continue;
        }
        if mined >= MOST_MINED {
            return Err(poor(worth, order.needs(&tree, sources.len()), mined));
        }
        // The first one to be spent has to be mature.
        let blocks = match mined {
            0 => MATURITY + 1,
            _ => MINED_AT_ONCE,
        };
        node.ask(|client| client.generate(blocks))
            .map_err(|error| no_miner(error, keys))?;
        mined += blocks;
    }
}

/// What the block at a height pays to the wallet, if it is unspent.
fn coinbase(node: &Node, keys: &Keys, height: u64) -> Result<Option<Spend>, CoinError> {
    let hash = node.ask(|client| client.block_hash(height))?;
    let block = node.ask(|client| client.block(&hash))?;
    let Some(txid) = block.txs.first() else {
        return Ok(None);
    };
    let Some(output) = node.ask(|client| client.output(txid, 0))? else {
        return Ok(None);
    };
    let script = ScriptBuf::from_hex(&output.script.hex).unwrap_or_default();
    let spend = |key| {
        Some(Spend {
            outpoint: OutPoint {
                txid: hash_text(txid).parse().ok()?,
                vout: 0,
            },
            key,
            value: output.satoshi(),
        })
    };
    Ok(keys.find(&script).and_then(spend))
}

/// Splits coins level by level, each in blocks before the next one, and gives the wallet of the last level
/// and of what was left over.
pub(crate) fn split(
    node: &Node,
    keys: &Keys,
    seed: u64,
    order: &Order,
    sources: &[Spend],
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Wallet, CoinError> {
    let tree = order.tree();
    let needs = order.needs(&tree, sources.len());
    let worth = value(sources);
    if worth < needs {
        return Err(poor(worth, needs, 0));
    }
    let genesis = node.chain()?;
    let mut left_over = None;
    let mut funds: Vec<Spend> = Vec::new();
    for (depth, level) in tree.levels.iter().enumerate() {
        let pay = |(place, values): (usize, &Vec<u64>)| {
            let mut outputs: Vec<(u16, u64)> = (0..)
                .zip(values)
                .map(|(output, value)| (key(seed, depth, place, output), *value))
                .collect();
            if depth > 0 {
                return keys.pay(&funds[place..=place], &outputs);
            }
            if worth - needs >= LEAST_OUTPUT {
                outputs.push((0, worth - needs));
            }
            keys.pay(sources, &outputs)
        };
        let txs: Vec<Transaction> = level.iter().enumerate().map(pay).collect();
        node.send(&txs, "splits")?;
        node.confirm(&txs, is_cancelled)?;
        funds = txs.iter().flat_map(|tx| outputs(tx, keys)).collect();
        if depth == 0 && funds.len() > level[0].len() {
            left_over = funds.pop();
        }
    }
    let coins = funds.into_iter().chain(left_over).map(|spend| Coin {
        spend,
        state: CoinState::Confirmed,
    });
    Ok(Wallet::new(&genesis, seed, keys.digest(), coins.collect()))
}

/// The outputs of a transaction that pays to the wallet alone.
pub(crate) fn outputs(tx: &Transaction, keys: &Keys) -> Vec<Spend> {
    let txid = tx.compute_txid();
    let outputs = (0..).zip(&tx.output);
    let spend = |(vout, output): (u32, &bitcoin::TxOut)| {
        Some(Spend {
            outpoint: OutPoint { txid, vout },
            key: keys.find(&output.script_pubkey)?,
            value: output.value.to_sat(),
        })
    };
    outputs.filter_map(spend).collect()
}

pub(crate) fn value(coins: &[Spend]) -> u64 {
    coins.iter().map(|coin| coin.value).sum()
}

/// The key of an output of the tree.
fn key(seed: u64, depth: usize, place: usize, output: u64) -> u16 {
    let place = (depth as u64) << 48 | (place as u64) << 16 | output;
    (mix(mix(seed).wrapping_add(place)) % u64::from(KEYS)) as u16
}

/// What mining for the wallet did not bring.
fn poor(found: u64, wanted: u64, blocks: u64) -> CoinError {
    CoinError::Failed(format!(
        "{found} satoshi were found of the {wanted} that the coins need, after {blocks} blocks were mined; use fewer \
         coins (a larger --chain-depth) or a node whose blocks still pay"
    ))
}

fn no_miner(error: ClientError, keys: &Keys) -> CoinError {
    let ClientError::Rpc { message, .. } = error else {
        return error.into();
    };
    let [regtest, simnet] =
        [Network::Regtest, Network::Simnet].map(|network| keys.address(network.version()));
    CoinError::NoMiner(format!(
        "the node mines no coins for the wallet ({message}); start it with --miningaddr={regtest} on the \
         regression-test network, --miningaddr={simnet} on the simulation network, or pay to that address and give \
         --coins"
    ))
}

/// Blocks until a coinbase may be spent.
const MATURITY: u64 = 100;
const MINED_AT_ONCE: u64 = 20;
/// The regression-test network halves what a block pays every 150 blocks: later ones bring nothing.
const MOST_MINED: u64 = 600;

/// The values of the outputs of each transaction, level by level from the root on: transaction `i` of a
/// level spends output `i` of the level before it.
#[derive(Debug, PartialEq, Eq)]
struct Tree {
    levels: Vec<Vec<Vec<u64>>>,
}

impl Tree {
    /// So many coins of one value, with so many satoshi of fee for each byte.
    fn new(coins: usize, value: u64, fee_rate: u64) -> Self {
        let mut levels: Vec<Vec<Vec<u64>>> = Vec::new();
        let mut values = vec![value; coins.max(1)];
        loop {
            let level: Vec<Vec<u64>> = values.chunks(FAN_OUT).map(<[u64]>::to_vec).collect();
            let needs = |outputs: &Vec<u64>| {
                let fee = fee_rate * size(1, outputs.len()) as u64;
                outputs.iter().sum::<u64>() + fee
            };
            values = level.iter().map(needs).collect();
            levels.push(level);
            if values.len() == 1 {
                levels.reverse();
                return Self { levels };
            }
        }
    }

    /// Satoshi of the root's outputs.
    fn root(&self) -> u64 {
        self.levels[0].iter().flatten().sum()
    }
}

/// Outputs of a transaction: 17 kB, of the 100 kB that are standard.
const FAN_OUT: usize = 500;

/// Requests blocks from nodes until it is dropped.
#[derive(Debug)]
pub(super) struct Miner {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Miner {
    /// What a block takes longer than until the next one is due is not made up for. There is a node at least.
    pub(super) fn start(nodes: Vec<Node>, mining: Mining, seed: u64) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let mine = move || {
            let mut random = Random::new(seed);
            let mut due = Instant::now();
            loop {
                let (interval, place) = mining.next(&mut random, nodes.len());
                due = (due + interval).max(Instant::now());
                let left = due.saturating_duration_since(Instant::now());
                if stopped.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                // A node that does not answer now is asked again; the missing block shows in the record.
                let _ = nodes[place].ask(|client| client.generate(1));
            }
        };
        let thread = thread::Builder::new().name("miner".into()).spawn(mine);
        Self {
            stop: Some(stop),
            thread: thread.ok(),
        }
    }
}

impl Drop for Miner {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic in it was reported by its thread.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_pays_for_the_next_one() {
        for coins in [1, 499, 500, 501, 250_000, 300_001] {
            let tree = Tree::new(coins, 10_000, 2);
            let leaves: usize = tree.levels[tree.levels.len() - 1]
                .iter()
                .map(Vec::len)
                .sum();
            assert_eq!(leaves, coins);
            assert_eq!(tree.levels[0].len(), 1, "one root");
            for pair in tree.levels.windows(2) {
                let funds: Vec<u64> = pair[0].iter().flatten().copied().collect();
                assert_eq!(
                    funds.len(),
                    pair[1].len(),
                    "each output is spent by one transaction"
                );
                for (fund, outputs) in funds.iter().zip(&pair[1]) {
                    assert!(outputs.len() <= FAN_OUT);
                    let fee = fund - outputs.iter().sum::<u64>();
                    assert_eq!(fee, 2 * size(1, outputs.len()) as u64);
                }
            }
        }
    }
}
