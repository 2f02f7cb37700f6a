//! Coins from blocks that the node mines for the wallet, split until there are enough.

use crate::workload::{
    Coin, CoinState, KEYS, Keys, LEAST_OUTPUT, Network, Spend, Wallet, hash_text, size,
};
use base::mix;
use bitcoin::{OutPoint, ScriptBuf, Transaction};
use rpc::ClientError;

use super::CoinError;
use super::client::Node;
use super::tree::Tree;

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
