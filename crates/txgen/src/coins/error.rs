//! Why coins cannot be had, or were not conserved.

use std::io;
use std::path::PathBuf;

use measure::read::ReadError;
use rpc::ClientError;

use crate::workload::{WalletError, WorkloadError};

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
    /// There is nobody to ask for coins.
    #[error(
        "{endpoint} is a node among peers, which have no coins to give; use the URL of its JSON-RPC, http://user:password@host:port"
    )]
    Peer {
        /// The endpoint.
        endpoint: String,
    },
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
