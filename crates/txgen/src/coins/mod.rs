//! Coins of Bitcoin loads: had before a run, accounted for after it.
//!
//! [`supply`] gives a run's workload its wallet, from a file or from blocks that the node mines for it.
//! [`Supplied::settle`] says what the run left of it, and that no satoshi was lost.

mod admission;
mod client;
mod command;
mod error;
mod fund;
mod miner;
mod tree;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use chain_bitcoin::workload::BitcoinWorkload;
use chain_bitcoin::workload::{Settlement, Settler, Wallet, WalletLock};
use measure::Evidence;
use measure::read::TxReader;
use rpc::Endpoint;
use wire::encoding::decode_hash;

use crate::output::grouped;
use crate::plan::{Guest, Plan};
use crate::shutdown::Shutdown;
use admission::{AdmissionWatch, Busiest};
use client::{Node, check_chain};
pub(crate) use command::execute;
pub(crate) use error::CoinError;
use fund::Order;
use miner::Miner;

/// The coins of a run under way.
#[derive(Debug)]
pub(crate) struct Supplied {
    workload: BitcoinWorkload,
    /// The file that the run writes again, kept from other processes.
    file: Option<(PathBuf, WalletLock)>,
    /// Of a built-in node.
    admission: Option<AdmissionWatch>,
    /// Where the node mines only when it is told to.
    miner: Option<Miner>,
}

/// What is said of the coins after a run.
#[derive(Debug)]
pub(crate) struct Settled {
    /// For people.
    pub(crate) lines: String,
    /// What the node's admission speaks for.
    pub(crate) evidence: Option<Evidence>,
}

/// Gives the plan's workload its wallet, if it spends one, and puts that into the run folder.
pub(crate) fn supply(
    plan: &Plan,
    guest: Option<Guest>,
    chain: Option<String>,
    folder: &Path,
    shutdown: &Shutdown,
    say: &mut dyn FnMut(&str),
) -> Result<Option<Supplied>, CoinError> {
    let Some(workload) = BitcoinWorkload::of(plan.workload.as_ref()) else {
        return Ok(None);
    };
    let endpoint = plan.nodes.rpc(guest);
    let connect = |endpoint: &Endpoint| Node::connect(endpoint, &plan.trust);
    let node = endpoint.as_ref().map(connect).transpose()?;
    let file = match &plan.wallet {
        Some(path) => Some((path.clone(), Wallet::lock(path)?)),
        None => None,
    };
    let wallet = match &plan.wallet {
        Some(path) => {
            let wallet = Wallet::read(path)?;
            match &node {
                Some(node) => node.check(path, &wallet)?,
                None => check_chain(path, &wallet, &chain.unwrap_or_default())?,
            }
            wallet
        }
        None => {
            // The plan has seen to it.
            let Some(node) = &node else {
                return Ok(None);
            };
            let spec = workload.spec();
            let order = Order {
                coins: workload.needs(),
                value: spec.coin_value(),
                fee_rate: spec.fee_rate,
            };
            say(&format!(
                "prepare  {} coins of {} satoshi are mined and split first",
                grouped(order.coins as u64),
                grouped(order.value)
            ));
            fund::mine(node, workload.keys(), spec.wallet_seed, &order, shutdown)?
        }
    };
    wallet.write(&folder.join(WALLET))?;
    workload.give(wallet)?;
    Ok(Some(Supplied {
        workload: workload.clone(),
        file,
        admission: node.and_then(AdmissionWatch::start),
        miner: match plan.mine_every.zip(endpoint) {
            Some((every, endpoint)) => Some(Miner::start(connect(&endpoint)?, every.as_duration())),
            None => None,
        },
    }))
}

impl Supplied {
    /// Accounts for the coins from the run's record, and writes what is left: into the folder, and over the
    /// wallet file.
    pub(crate) fn settle(self, folder: &Path) -> Result<Settled, CoinError> {
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
        match settlement.broken.is_empty() {
            true => Ok(settled),
            false => Err(CoinError::not_conserved(&settlement.broken)),
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
