//! Coins of loads: had before a run, accounted for after it.
//!
//! [`supply`] gives a workload its wallet, from a file or from blocks that the node mines for it. [`Supplied::settle`]
//! says what the run left of it.

mod admission;
mod client;
mod fund;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use chain::{ChainError, Settled, Supplied, Supply};
use measure::read::TxReader;
use report::text::grouped;
use rpc::Endpoint;
use wire::encoding::decode_hash;

pub(crate) use self::client::{CoinError, Node};
pub(crate) use self::fund::{Order, mine, split};

use self::admission::{AdmissionWatch, Busiest};
use self::client::check_chain;
use self::fund::Miner;
use crate::workload::{BitcoinWorkload, Settlement, Settler, Wallet, WalletLock};

/// The coins of a run under way.
#[derive(Debug)]
struct Coins {
    workload: BitcoinWorkload,
    /// The file that the run writes again, kept from other processes.
    file: Option<(PathBuf, WalletLock)>,
    /// Of a built-in node.
    admission: Option<AdmissionWatch>,
    /// Where nodes mine only on request.
    miner: Option<Miner>,
}

/// Gives the workload its wallet, and puts that into the run folder.
pub(crate) fn supply(
    workload: &BitcoinWorkload,
    mut with: Supply<'_>,
) -> Result<Box<dyn Supplied>, ChainError> {
    coins(workload, &mut with)
        .map(|coins| Box::new(coins) as _)
        .map_err(Into::into)
}

fn coins(workload: &BitcoinWorkload, with: &mut Supply<'_>) -> Result<Coins, CoinError> {
    let trust = with.trust;
    let connect = |endpoint: &Endpoint| Node::connect(endpoint, trust);
    let node = with.endpoint.map(connect).transpose()?;
    let given = workload.wallet_file();
    let file = match given {
        Some(path) => Some((path.to_owned(), Wallet::lock(path)?)),
        None => None,
    };
    let wallet = match (given, &node) {
        (Some(path), node) => {
            let wallet = Wallet::read(path)?;
            match node {
                Some(node) => node.check(path, &wallet)?,
                None => check_chain(path, &wallet, with.chain_id.unwrap_or_default())?,
            }
            wallet
        }
        (None, Some(node)) => {
            let spec = workload.spec();
            let order = Order {
                coins: workload.needs(),
                value: spec.coin_value(),
                fee_rate: spec.fee_rate,
            };
            (with.say)(&format!(
                "prepare  {} coins of {} satoshi are mined and split first",
                grouped(order.coins as u64),
                grouped(order.value)
            ));
            mine(
                node,
                workload.keys(),
                spec.wallet_seed,
                &order,
                with.is_cancelled,
            )?
        }
        (None, None) => {
            let needed = "the load needs coins: give --wallet, or a node that mines them";
            return Err(CoinError::Unfit(needed.into()));
        }
    };
    wallet.write(&with.folder.join(WALLET))?;
    workload.give(wallet)?;
    let miner = match workload.mining().zip(with.endpoint) {
        Some((mining, endpoint)) => {
            let others = with.others.iter().filter(|_| mining.is_random);
            let nodes = std::iter::once(endpoint).chain(others).map(connect);
            let nodes: Result<Vec<Node>, _> = nodes.collect();
            Some(Miner::start(nodes?, mining, workload.spec().seed))
        }
        None => None,
    };
    Ok(Coins {
        workload: workload.clone(),
        file,
        admission: node.and_then(AdmissionWatch::start),
        miner,
    })
}

impl Supplied for Coins {
    /// Writes what is left: into the folder, and over the wallet file.
    fn settle(self: Box<Self>, folder: &Path) -> Result<Settled, ChainError> {
        Ok((*self).account(folder)?)
    }
}

impl Coins {
    fn account(self, folder: &Path) -> Result<Settled, CoinError> {
        drop(self.miner);
        let busiest = self.admission.and_then(AdmissionWatch::finish);
        let mut settled = Settled {
            lines: busiest.as_ref().map_or_else(String::new, Busiest::line),
            evidence: busiest.as_ref().and_then(Busiest::evidence),
        };
        let Some(settler) = Settler::new(&self.workload) else {
            return Ok(settled);
        };
        let settlement = account(settler, folder)?;
        settlement.wallet.write(&folder.join(WALLET_AFTER))?;
        if let Some((path, _)) = &self.file {
            settlement.wallet.write(path)?;
        }
        settled.lines.push_str(&describe(&settlement));
        if settlement.broken.is_empty() {
            Ok(settled)
        } else {
            Err(CoinError::not_conserved(&settlement.broken))
        }
    }
}

/// Reads what became of the transactions.
fn account(mut settler: Settler<'_>, folder: &Path) -> Result<Settlement, CoinError> {
    let path = folder.join(TXS);
    let file = File::open(&path).map_err(|source| CoinError::Io {
        what: format!("{} cannot be read", path.display()),
        source,
    })?;
    let mut txs = TxReader::new(BufReader::new(file))?;
    while let Some(tx) = txs.next_row()? {
        if let Some(id) = decode_hash(tx.txid.as_bytes()) {
            settler.note(&id, tx.fate());
        }
    }
    Ok(settler.settle())
}

fn describe(settlement: &Settlement) -> String {
    let Settlement {
        wallet,
        funded,
        fees,
        dead,
        broken,
    } = settlement;
    let dead = match dead {
        0 => String::new(),
        dead => format!("; {} spent what had been refused", grouped(*dead)),
    };
    format!(
        "wallet       {} satoshi in {} coins + fees {} = funded {}{}{dead}\n",
        grouped(wallet.value()),
        grouped(wallet.coins.len() as u64),
        grouped(*fees),
        grouped(*funded),
        if broken.is_empty() {
            ""
        } else {
            ": NOT conserved"
        },
    )
}

/// The wallet before the run, in its folder.
const WALLET: &str = "wallet.csv";
/// The wallet after it.
const WALLET_AFTER: &str = "wallet-after.csv";
const TXS: &str = "txs.csv";
