//! Coins of loads: had before a run, accounted for after it.
//!
//! [`supply`] gives a workload its wallet, from a file or from blocks that the node mines for it. [`Supplied::settle`]
//! records what the run left of it.

mod admission;
mod fund;

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Transaction, Txid};
use chain::{ChainError, Settled, Supplied, Supply, WorkloadError};
use measure::read::{ReadError, TxReader};
use report::text::grouped;
use rpc::{ClientError, ClientOptions, Endpoint, Trust};
use tokio::runtime::Runtime;
use wire::encoding::decode_hash;

use self::admission::{AdmissionWatch, Busiest};
use self::fund::Miner;
pub(crate) use self::fund::{Order, mine, split};
use crate::workload::{
    BitcoinWorkload, Settlement, Settler, Spend, Wallet, WalletError, WalletLock, hash_text, shown,
};
use crate::{BitcoinClient, BitcoinOutput, BitcoinRefusal};

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

/// A node that is asked for coins.
#[derive(Debug)]
pub(crate) struct Node {
    client: BitcoinClient,
    runtime: Runtime,
}

impl Node {
    pub(crate) fn connect(endpoint: &Endpoint, trust: &Trust) -> Result<Self, CoinError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| CoinError::Io {
                what: "the node cannot be asked".into(),
                source,
            });
        Ok(Self {
            runtime: runtime?,
            client: BitcoinClient::new(endpoint, ClientOptions::new(TIMEOUT, trust))?,
        })
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask<'a, T, F>(
        &'a self,
        question: impl FnOnce(&'a BitcoinClient) -> F,
    ) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>> + 'a,
    {
        self.runtime.block_on(question(&self.client))
    }

    /// An output that the chain has unspent.
    pub(crate) fn output(&self, coin: &Spend) -> Result<Option<BitcoinOutput>, CoinError> {
        let txid = shown(coin.outpoint.txid);
        Ok(self.ask(|client| client.output(&txid, coin.outpoint.vout))?)
    }

    /// The hash of the chain's first block.
    pub(crate) fn chain(&self) -> Result<String, CoinError> {
        Ok(hash_text(&self.ask(|client| client.block_hash(0))?))
    }

    /// Refuses a wallet of another chain, and one of whose coins some are spent.
    pub(crate) fn check(&self, path: &Path, wallet: &Wallet) -> Result<(), CoinError> {
        check_chain(path, wallet, &self.chain()?)?;
        let coins: Vec<Spend> = wallet.spendable().collect();
        let stride = coins.len().div_ceil(SAMPLES).max(1);
        for coin in coins.iter().step_by(stride) {
            if self.output(coin)?.is_none() {
                return Err(CoinError::Failed(format!(
                    "the coin {} of the wallet {} is not unspent on the node's chain: it was spent elsewhere, or \
                     the chain was begun again; prepare a new wallet, or take wallet-after.csv of the run that \
                     spent it",
                    coin.outpoint,
                    path.display()
                )));
            }
        }
        Ok(())
    }

    /// Offers transactions in requests of bounded size; all have to be accepted.
    pub(crate) fn send(&self, txs: &[Transaction], doing: &'static str) -> Result<(), CoinError> {
        let mut request: Vec<String> = Vec::new();
        let mut bytes = 0;
        for (place, tx) in txs.iter().enumerate() {
            let text = serialize_hex(tx);
            bytes += text.len();
            request.push(text);
            if bytes < REQUEST_BYTES && place + 1 < txs.len() {
                continue;
            }
            for answer in self.ask(|client| client.send(&request))? {
                answer.map_err(|BitcoinRefusal { code, message }| {
                    let refused = "the node refused a transaction that";
                    CoinError::Failed(format!("{refused} {doing} coins: {message} (code {code})"))
                })?;
            }
            request.clear();
            bytes = 0;
        }
        Ok(())
    }

    /// Waits until blocks have these transactions: they are mined, or come on the node's interval.
    pub(crate) fn confirm(
        &self,
        txs: &[Transaction],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), CoinError> {
        let mut open: Vec<Txid> = txs.iter().map(Transaction::compute_txid).collect();
        let mut tries = 0;
        while let Some(txid) = open.last() {
            let id = shown(*txid);
            let output = self.ask(|client| client.output(&id, 0))?;
            if output.is_some_and(|output| output.confirmations > 0) {
                open.pop();
                continue;
            }
            if is_cancelled() {
                return Err(CoinError::Interrupted);
            }
            tries += 1;
            if tries > MOST_TRIES {
                return Err(CoinError::Failed(format!(
                    "{txid} was accepted and is in no block after {tries} tries: the node mines nothing; start it \
                     with an interval or a mining address"
                )));
            }
            if self.ask(|client| client.generate(1)).is_err() {
                std::thread::sleep(BETWEEN_TRIES);
            }
        }
        Ok(())
    }
}

/// Refuses a wallet of another chain than the one with this first block.
pub(crate) fn check_chain(path: &Path, wallet: &Wallet, genesis: &str) -> Result<(), CoinError> {
    if genesis == wallet.info.chain {
        return Ok(());
    }
    Err(CoinError::Unfit(format!(
        "the wallet {} is of the chain that begins with block {}, and the node's begins with {genesis}; prepare a \
         wallet on this node",
        path.display(),
        wallet.info.chain
    )))
}

/// A node that connects a large block answers nothing else meanwhile.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Of a wallet's coins, to see whether they are still there.
const SAMPLES: usize = 16;
/// Below the 16 MiB that the built-in node takes, and what takes a btcd under a second.
const REQUEST_BYTES: usize = 500_000;
const MOST_TRIES: u32 = 1_200;
const BETWEEN_TRIES: Duration = Duration::from_millis(500);

/// Why coins are unavailable, or were not conserved. A case that no caller distinguishes is a message: what happened, and what
/// to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CoinError {
    /// The node does not answer as it should.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The wallet file cannot be used.
    #[error(transparent)]
    Wallet(#[from] WalletError),
    /// The wallet does not suffice.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The endpoint has no coins to give, or the wallet is another network's.
    #[error("{0}")]
    Unfit(String),
    /// The node mines nothing for the wallet.
    #[error("{0}")]
    NoMiner(String),
    /// Coins are too few, spent, refused, in no block, or were not conserved.
    #[error("{0}")]
    Failed(String),
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
    /// The record of the run cannot be read.
    #[error("the record of the run cannot be read")]
    Record(#[from] ReadError),
    /// The system refuses a runtime or a file of the run.
    #[error("{what}")]
    Io {
        /// What was refused.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

impl CoinError {
    /// The message for coins that are not conserved: which laws are broken.
    fn not_conserved(broken: &[String]) -> Self {
        let laws = broken.join("; ");
        Self::Failed(format!(
            "the coins are not conserved, so the node or the record is wrong: {laws}"
        ))
    }
}

impl From<CoinError> for ChainError {
    fn from(error: CoinError) -> Self {
        match error {
            CoinError::Interrupted => {
                Self::Interrupted("coins were being prepared, and nothing was offered")
            }
            CoinError::Wallet(_)
            | CoinError::Workload(_)
            | CoinError::Unfit(_)
            | CoinError::NoMiner(_) => Self::Unusable(error.into()),
            error => Self::Failed(error.into()),
        }
    }
}

/// The wallet before the run, in its folder.
const WALLET: &str = "wallet.csv";
/// The wallet after it.
const WALLET_AFTER: &str = "wallet-after.csv";
const TXS: &str = "txs.csv";
