//! Coins of Bitcoin loads: had before a run, accounted for after it.
//!
//! [`supply`] gives a run's workload its wallet, from a file or from blocks that the node mines for it.
//! [`Supplied::settle`] says what the run left of it, and that no satoshi was lost.

mod admission;
mod client;
mod command;
mod fund;
mod miner;
mod tree;

use std::fs::File;
use std::io::{self, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use measure::Evidence;
use measure::read::{ReadError, TxReader};
use rpc::ClientError;
use wire::encoding::decode_hash;

use crate::output::grouped;
use crate::plan::Plan;
use crate::shutdown::Shutdown;
use crate::workload::bitcoin::{Settlement, Settler, Wallet, WalletLock};
use crate::workload::{BitcoinWorkload, WalletError, WorkloadError};
use admission::{AdmissionWatch, Busiest};
use client::Node;
pub(crate) use command::execute;
use fund::Order;
use miner::Miner;

/// Why coins cannot be had, or were not conserved.
#[derive(Debug, thiserror::Error)]
pub enum CoinError {
    /// The node does not answer as it should.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The wallet file cannot be used.
    #[error(transparent)]
    Wallet(#[from] WalletError),
    /// The wallet does not suffice.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The system refuses a runtime.
    #[error("the node cannot be asked")]
    System(#[source] io::Error),
    /// The wallet is another network's.
    #[error(
        "the wallet {} is of the chain that begins with block {wallet}, and the node's begins with {node}; prepare a wallet on this node",
        path.display()
    )]
    OtherChain {
        /// The file.
        path: PathBuf,
        /// The wallet's first block.
        wallet: String,
        /// The node's.
        node: String,
    },
    /// A coin is not on the chain any more.
    #[error(
        "the coin {outpoint} of the wallet {} is not unspent on the node's chain: it was spent elsewhere, or the chain was begun again; prepare a new wallet, or rebuild this one from the folder of the run that spent it",
        path.display()
    )]
    Spent {
        /// The file.
        path: PathBuf,
        /// Which coin.
        outpoint: String,
    },
    /// The node mines nothing for the wallet.
    #[error(
        "the node mines no coins for the wallet ({reason}); start it with --miningaddr={regtest} on the regression-test network, --miningaddr={simnet} on the simulation network, or pay to that address and give --coins"
    )]
    NoMiner {
        /// What the node said.
        reason: String,
        /// The wallet's address on the regression-test network.
        regtest: String,
        /// The same on the simulation network.
        simnet: String,
    },
    /// Mining for the wallet did not bring enough.
    #[error(
        "{found} satoshi were found of the {wanted} that the coins need, after {blocks} blocks were mined; use fewer coins (a larger --chain-depth) or a node whose blocks still pay"
    )]
    Poor {
        /// What was found.
        found: u64,
        /// What is needed.
        wanted: u64,
        /// How many blocks.
        blocks: u64,
    },
    /// The node refused a transaction that splits or gathers coins.
    #[error("the node refused a transaction that {doing} coins: {message} (code {code})")]
    Refused {
        /// `splits` or `gathers`.
        doing: &'static str,
        /// The code.
        code: i64,
        /// What it said.
        message: String,
    },
    /// No block has it.
    #[error(
        "{txid} was accepted and is in no block after {tries} tries: the node mines nothing; start it with an interval or a mining address"
    )]
    Unconfirmed {
        /// Its id.
        txid: String,
        /// How often blocks were asked for.
        tries: u32,
    },
    /// The user stopped it.
    #[error("interrupted while coins were prepared: nothing was offered")]
    Interrupted,
    /// The record of the run cannot be read.
    #[error("the record of the run cannot be read")]
    Record(#[from] ReadError),
    /// A file of the run cannot be opened.
    #[error("{} cannot be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The law is broken.
    #[error("the coins are not conserved, so the node or the record is wrong: {}", .0.join("; "))]
    NotConserved(Vec<String>),
}

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
    guest: Option<SocketAddr>,
    folder: &Path,
    shutdown: &Shutdown,
    mut say: impl FnMut(&str),
) -> Result<Option<Supplied>, CoinError> {
    let Some(workload) = plan.workload.bitcoin() else {
        return Ok(None);
    };
    let endpoints = plan.nodes.endpoints(guest);
    let Some(endpoint) = endpoints.first() else {
        return Ok(None);
    };
    let node = Node::connect(endpoint, &plan.trust)?;
    let file = match &plan.wallet {
        Some(path) => Some((path.clone(), Wallet::lock(path)?)),
        None => None,
    };
    let wallet = match &plan.wallet {
        Some(path) => {
            let wallet = Wallet::read(path)?;
            node.check(path, &wallet)?;
            wallet
        }
        None => {
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
            fund::mine(&node, workload.keys(), spec.wallet_seed, &order, shutdown)?
        }
    };
    wallet.write(&folder.join(WALLET))?;
    workload.give(wallet)?;
    Ok(Some(Supplied {
        workload: workload.clone(),
        file,
        admission: AdmissionWatch::start(node),
        miner: match plan.mine_every {
            Some(every) => Some(Miner::start(
                Node::connect(endpoint, &plan.trust)?,
                every.as_duration(),
            )),
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
            false => Err(CoinError::NotConserved(settlement.broken)),
        }
    }
}

/// Reads what became of the transactions.
fn account(mut settler: Settler<'_>, folder: &Path) -> Result<Settlement, CoinError> {
    let path = folder.join(TXS);
    let file = File::open(&path).map_err(|source| CoinError::File { path, source })?;
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
