//! A node that is asked for coins, from a thread that may wait, and why there are none, with the exit code.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::workload::{Spend, Wallet, WalletError, hash_text, shown};
use crate::{BitcoinClient, BitcoinOutput, BitcoinRefusal};
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Transaction, Txid};
use chain::{ChainError, WorkloadError};
use measure::read::ReadError;
use rpc::{ClientError, ClientOptions, Endpoint, Trust};
use tokio::runtime::Runtime;

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

/// Why coins cannot be had, or were not conserved. What no caller tells apart is a message: what happened, and what
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
        /// What the system said.
        source: io::Error,
    },
}

impl CoinError {
    /// What is said of coins that are not conserved: which laws are broken.
    pub(super) fn not_conserved(broken: &[String]) -> Self {
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
