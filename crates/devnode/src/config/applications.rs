//! The sections of the applications, and of the admission to their mempools.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::time::Duration;

use bitcoin::address::NetworkUnchecked;
use bitcoin::{Address, Network, ScriptBuf};
use serde::{Deserialize, Serialize};

use super::ConfigError;
use crate::duration;

/// What blocks are executed on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Application {
    /// The key-value example of CometBFT.
    #[default]
    Kvstore,
    /// BigchainDB 2.2.2, with its HTTP API and event stream beside the RPC.
    Bigchaindb,
    /// A node of Bitcoin's regression-test network behind btcd's JSON-RPC, which is served instead of
    /// CometBFT's.
    Bitcoin,
    /// Transfers between accounts as a Cosmos SDK chain makes them.
    Bank,
}

base::settings! {
    /// The section of the transfers of a Cosmos SDK chain.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct BankConfig {
        /// What addresses begin with. Default `cosmos`.
        pub prefix: String = "cosmos".to_owned(),
        /// The only coin. Default `stake`.
        pub denom: String = "stake".to_owned(),
        /// The least price of gas (`minimum-gas-prices`). Default `0stake`.
        pub min_gas_price: String = "0stake".to_owned(),
        /// Who has what at the start, numbered from 0. Default none.
        pub accounts: Vec<BankAccount> = Vec::new(),
    }
}

/// An account of the genesis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BankAccount {
    /// Its address.
    pub address: String,
    /// What it has.
    pub amount: u64,
}

impl BankConfig {
    /// What addresses begin with; [`Config::validate`](super::Config::validate) has refused what cannot be read.
    pub(crate) fn prefix(&self) -> cosmos::Prefix {
        let usual = || cosmos::Prefix::new("cosmos").expect("a prefix");
        cosmos::Prefix::new(&self.prefix).unwrap_or_else(|_| usual())
    }

    /// The least price of gas, as [`BankConfig::prefix`].
    pub(crate) fn price(&self) -> cosmos::GasPrice {
        let free = cosmos::GasPrice {
            atto: 0,
            denom: self.denom.clone(),
        };
        self.min_gas_price.parse().unwrap_or(free)
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let prefix = cosmos::Prefix::new(&self.prefix);
        let prefix = prefix.map_err(|error| ConfigError(format!("bank.prefix: {error}")))?;
        let price: Result<cosmos::GasPrice, _> = self.min_gas_price.parse();
        let price = price.map_err(|error| ConfigError(format!("bank.min_gas_price: {error}")))?;
        if price.denom != self.denom {
            let text = format!(
                "bank.min_gas_price is {price}: give it in {}, the only coin",
                self.denom
            );
            return Err(ConfigError(text));
        }
        for account in &self.accounts {
            let read = prefix.read(&account.address);
            read.map_err(|error| ConfigError(format!("bank.accounts: {error}")))?;
        }
        Ok(())
    }
}

base::settings! {
    /// Bitcoin's section.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct BitcoinConfig {
        /// Name of the RPC's user. Default `txgen`.
        pub rpc_user: String = "txgen".to_owned(),
        /// Password of that user. Default `txgen`.
        pub rpc_password: String = "txgen".to_owned(),
        /// Address of the regression-test network to which blocks pay. None, the default: blocks made on the
        /// interval burn what they are paid, and `generate` is refused, as btcd does without `--miningaddr`.
        pub mining_address: Option<String> = None,
        /// Largest block in bytes. Default 32,000,000, bchd's; btcd's is 1,000,000. Of a node that listens for others
        /// 4,000,000 at most.
        pub max_block_bytes: usize = 32_000_000,
        /// Least fee in satoshi for 1,000 bytes. Default 1,000.
        pub min_relay_fee: u64 = 1_000,
        /// Where it listens for other nodes, and for loads that speak to it as one. None, the default: nowhere.
        pub p2p_listen: Option<SocketAddr> = None,
        /// How long accepted transactions wait to be announced to peers with others. Default `100ms`; btcd's
        /// `--trickleinterval` is 10 s.
        #[serde(with = "duration")]
        pub trickle: Duration = Duration::from_millis(100),
        /// Most unspent outputs that the chain may have, at about 150 bytes each; transactions that would make
        /// more are refused. Default 4,000,000.
        pub max_outputs: usize = 4_000_000,
    }
}

/// Below the bound of messages (`MAX_MSG_SIZE` of the `bitcoin` crate, 5,000,000).
const LARGEST_BLOCK_MESSAGE: usize = 4_000_000;

impl BitcoinConfig {
    /// The script that blocks pay to, if an address of the network is configured.
    pub(crate) fn payout(&self) -> Option<ScriptBuf> {
        let address: Address<NetworkUnchecked> = self.mining_address.as_ref()?.parse().ok()?;
        let address = address.require_network(Network::Regtest).ok()?;
        Some(address.script_pubkey())
    }

    /// The largest block: of a node among peers one that fits into a message.
    pub(crate) fn largest_block(&self) -> usize {
        match self.p2p_listen {
            Some(_) => self.max_block_bytes.min(LARGEST_BLOCK_MESSAGE),
            None => self.max_block_bytes,
        }
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let address = self.mining_address.as_deref();
        match address.filter(|_| self.payout().is_none()) {
            Some(address) => Err(ConfigError(format!(
                "bitcoin.mining_address is {address}: give it an address of the regression-test network"
            ))),
            None => Ok(()),
        }
    }
}

base::settings! {
    /// Admission's section.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct AdmissionConfig {
        /// How transactions are admitted. None, the default, is as the original does: BigchainDB holds
        /// spends against what is committed alone, and Bitcoin admits one transaction after the other.
        pub mode: Option<AdmissionMode> = None,
        /// Threads that check, if that is parallel; 0 for one per core. Default 0.
        pub validators: usize = 0,
        /// Longest time between commits of what was accepted, if that is parallel. Default `500ms`.
        #[serde(with = "duration")]
        pub epoch: Duration = Duration::from_millis(500),
        /// Most transactions under way at once, if that is parallel. Default 100,000.
        pub capacity: usize = 100_000,
    }
}

/// How transactions are admitted to a mempool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AdmissionMode {
    /// One after the other, under one lock.
    Serial,
    /// On several threads, in epochs without conflicts (the crate `admission`).
    Parallel,
}

/// A number of threads, of which 0 stands for one per core.
pub(crate) fn cores(threads: usize) -> usize {
    if threads > 0 {
        return threads;
    }
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

base::settings! {
    /// BigchainDB's section.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct BigchaindbConfig {
        /// Where the HTTP API listens; port 0 takes a free one. Default `127.0.0.1:0` (the original's
        /// port is 9984).
        pub listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        /// Where the event stream listens. Default `127.0.0.1:0` (the original's port is 9985).
        pub events: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        /// How transactions are checked and blocks executed. Default `parallel`.
        pub validation: Validation = Validation::default(),
        /// Threads that check transactions, and as many that execute a block, if that is parallel; 0
        /// for one per core. Default 0.
        pub workers: usize = 0,
        /// Synchronous workers of the HTTP API, as those of the original's server (there 2 × cores + 1):
        /// each serves one connection, one request, at a time, and one that is open and silent blocks it
        /// for 30 s. 0 for none: every connection is served. Default 0.
        pub server_workers: usize = 0,
        /// Transactions whose outputs and ids the ledger keeps, at least 1; the oldest go first, and
        /// what has gone can be spent no more. 500 to 700 bytes each. Default 1,000,000.
        pub retain_transactions: usize = 1_000_000,
        /// Largest body of a request to the HTTP API in bytes. Transactions above 1 MiB are refused in
        /// any case. Default 2 MiB.
        pub max_body_bytes: usize = 2 << 20,
    }
}

/// How BigchainDB checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Validation {
    /// One transaction after the other, one signature after the other.
    Serial,
    /// On several threads, signatures in batches, a block's transactions divided by their asset.
    #[default]
    Parallel,
}
