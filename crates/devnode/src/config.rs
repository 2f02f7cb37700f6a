//! How a node is set up, with the sections of single kinds of nodes. Defaults are those of `cometbft init` (0.38.17)
//! where it has the value.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use pacing::Nanos;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

use crate::capacity::CapacityModel;
use crate::duration;

base::settings! {
    /// Everything about a node; `Config::default()` is an unlimited node on a free port.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct Config {
        /// Where the RPC listens; port 0 takes a free one. Default `127.0.0.1:0`.
        pub listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        /// Name of the chain, 1 to 50 characters. The validator's key follows from it. Default `devnode`.
        pub chain_id: String = "devnode".to_owned(),
        /// Name of the node in `status`. Default `devnode`.
        pub moniker: String = "devnode".to_owned(),
        /// Time from one block to the making of the next (`timeout_commit`). Default `1s`.
        #[serde(with = "duration")]
        pub block_interval: Duration = Duration::from_secs(1),
        /// Whether blocks are made without transactions. Default true. If false, a block that changed
        /// the application is still followed by one empty block that proves it, as in CometBFT.
        pub create_empty_blocks: bool = true,
        /// Limits of the mempool.
        pub mempool: MempoolConfig = MempoolConfig::default(),
        /// Limits of the RPC.
        pub rpc: RpcConfig = RpcConfig::default(),
        /// Most transactions in a block; none: as many as fit. CometBFT has no such limit.
        pub max_block_txs: Option<usize> = None,
        /// Largest block in bytes (`block.max_bytes` of the consensus parameters), from 1,024 to
        /// 104,857,600. Default 22,020,096.
        pub max_block_bytes: u64 = 22_020_096,
        /// Most gas that the transactions of a block may want (`block.max_gas` of the consensus parameters); none:
        /// as much as they want. Only those of `bank` want any.
        pub max_block_gas: Option<u64> = None,
        /// Time the application needs to check a transaction. It checks one at a time, whatever the
        /// number of connections. The time is waited, not computed, so it costs no CPU. Default `0s`.
        #[serde(with = "duration")]
        pub check_cost: Duration = Duration::ZERO,
        /// Time the application needs to check one transaction again after a block, during which the
        /// mempool takes nothing in. Waited too. Default `0s`.
        #[serde(with = "duration")]
        pub recheck_cost: Duration = Duration::ZERO,
        /// Time the application needs to execute one transaction of a block, between the votes for it and its
        /// announcement. Waited too. Default `0s`.
        #[serde(with = "duration")]
        pub execute_cost: Duration = Duration::ZERO,
        /// What the node commits at most; none: as much as it can. Default none.
        pub capacity: Option<CapacityModel> = None,
        /// Where the control endpoint listens, if anywhere. Default none.
        pub control: Option<SocketAddr> = None,
        /// Whether `tx` works (`tx_index.indexer`). Default true.
        pub tx_index: bool = true,
        /// Blocks that are kept; older heights are answered as a pruned node does. At least 2. Default 1,000.
        pub retain_blocks: usize = 1_000,
        /// Bytes of blocks that are kept, if that is fewer. Default 256 MiB.
        pub retain_bytes: usize = 256 << 20,
        /// Keys that the key-value application keeps; those written longest ago go first. Default
        /// 500,000.
        pub retain_keys: usize = 500_000,
        /// How transactions are admitted to the mempool.
        pub admission: AdmissionConfig = AdmissionConfig::default(),
        /// The sections of single kinds.
        #[serde(skip)]
        pub sections: Sections = Sections::default(),
    }
}

impl Config {
    /// The same with another section of a kind.
    #[must_use]
    pub fn with<S: Section>(mut self, section: S) -> Self {
        self.sections.set(section);
        self
    }
}

impl Config {
    /// What the node commits at most, and the setting that bounds it, in words: a rate found on it
    /// is a property of these settings, not of a CometBFT.
    pub fn ceiling(&self) -> String {
        let most = self.max_block_txs.unwrap_or(usize::MAX);
        let (txs, of) = match self.mempool.size {
            size if size <= most => (size, "mempool size"),
            _ => (most, "block size"),
        };
        let interval = Nanos::from(self.block_interval);
        let mut ceilings = vec![(
            txs as f64 / interval.as_secs_f64(),
            format!("{of} {txs} / block interval {interval}"),
        )];
        if let Some(model) = &self.capacity {
            ceilings.push((model.initial, "its capacity model, at first".to_owned()));
        }
        let costs = [
            ("check_cost", self.check_cost),
            ("execute_cost", self.execute_cost),
        ];
        for (name, cost) in costs.into_iter().filter(|(_, cost)| !cost.is_zero()) {
            let cost = Nanos::from(cost);
            ceilings.push((1.0 / cost.as_secs_f64(), format!("{name} {cost}")));
        }
        ceilings.sort_by(|(one, _), (two, _)| one.total_cmp(two));
        let (rate, why) = &ceilings[0];
        format!("the built-in node commits at most {rate:.0}/s: {why}")
    }
}

base::settings! {
    /// The mempool's section.
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct MempoolConfig {
        /// Most transactions. Default 5,000.
        pub size: usize = 5_000,
        /// Most bytes of transactions. Default 1 GiB.
        pub max_txs_bytes: u64 = 1 << 30,
        /// Transactions remembered to refuse them a second time; 0 remembers none. Default 10,000.
        pub cache_size: usize = 10_000,
        /// Largest transaction in bytes. Default 1 MiB.
        pub max_tx_bytes: usize = 1 << 20,
        /// Whether what is left after a block is checked again. Default true.
        pub recheck: bool = true,
        /// Whether a transaction that failed its check is refused as seen from then on. Default false.
        pub keep_invalid_txs_in_cache: bool = false,
    }
}

base::settings! {
    /// The RPC's section.
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct RpcConfig {
        /// Most connections; more wait in the listener's backlog. Default 900.
        pub max_open_connections: usize = 900,
        /// Most clients with subscriptions. Default 100.
        pub max_subscription_clients: usize = 100,
        /// Most subscriptions of one client. Default 5.
        pub max_subscriptions_per_client: usize = 5,
        /// Events that wait for a slow subscriber before its subscription ends
        /// (`experimental_subscription_buffer_size`). Default 200.
        pub subscription_buffer_size: usize = 200,
        /// Answers that wait for a slow WebSocket client before nothing more is read from it
        /// (`experimental_websocket_write_buffer_size`). Default 200.
        pub websocket_write_buffer_size: usize = 200,
        /// How long `broadcast_tx_commit` waits for a block. Default `10s`.
        #[serde(with = "duration")]
        pub timeout_broadcast_tx_commit: Duration = Duration::from_secs(10),
        /// Most requests in a batch; 0 for no limit. Default 10.
        pub max_request_batch_size: usize = 10,
        /// Largest request body and WebSocket message in bytes. Default 1,000,000.
        pub max_body_bytes: usize = 1_000_000,
        /// How long an HTTP connection may be idle or slow before it is closed. Default `10s`.
        #[serde(with = "duration")]
        pub idle_timeout: Duration = Duration::from_secs(10),
    }
}

/// What is wrong with a configuration: the key, its value, and what it takes.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// Characters of a chain's name (`MaxChainIDLen`).
const MAX_CHAIN_ID: usize = 50;
/// Bytes of a block: room for header and commit, and at most `MaxBlockSizeBytes`.
pub const BLOCK_BYTES: RangeInclusive<usize> = 1_024..=104_857_600;
/// Most threads that check transactions.
pub const MAX_WORKERS: usize = 256;
/// A limit of nothing is none.
pub const POSITIVE: RangeInclusive<usize> = 1..=usize::MAX;

impl Config {
    /// Refuses what cannot work.
    ///
    /// # Errors
    /// [`ConfigError`] for the first value that is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let mempool = &self.mempool;
        let rpc = &self.rpc;
        let (buffer, answers) = (
            rpc.subscription_buffer_size,
            rpc.websocket_write_buffer_size,
        );
        let characters = self.chain_id.chars().count();
        let interval_ms = self.block_interval.as_millis();
        let max_block_bytes = usize::try_from(self.max_block_bytes).unwrap_or(usize::MAX);
        for (name, value, range) in [
            ("max_block_bytes", max_block_bytes, BLOCK_BYTES),
            ("max_block_txs", self.max_block_txs.unwrap_or(1), POSITIVE),
            ("mempool.size", mempool.size, POSITIVE),
            (
                "rpc.max_open_connections",
                rpc.max_open_connections,
                POSITIVE,
            ),
            ("rpc.subscription_buffer_size", buffer, POSITIVE),
            ("rpc.websocket_write_buffer_size", answers, POSITIVE),
            ("rpc.max_body_bytes", rpc.max_body_bytes, POSITIVE),
            (
                "admission.validators",
                self.admission.validators,
                0..=MAX_WORKERS,
            ),
            ("admission.capacity", self.admission.capacity, POSITIVE),
        ] {
            refuse_outside(name, value, &range)?;
        }
        if !(1..=MAX_CHAIN_ID).contains(&characters) {
            let text = format!("chain_id has {characters} characters: give it 1 to {MAX_CHAIN_ID}");
            return Err(ConfigError(text));
        }
        if interval_ms == 0 {
            let text = "block_interval is below 1ms: give it at least 1ms";
            return Err(ConfigError(text.to_owned()));
        }
        let Some(model) = &self.capacity else {
            return Ok(());
        };
        let wrong = |problem| ConfigError(format!("capacity: {problem}"));
        model.validate().map_err(wrong)
    }
}

/// Refuses a value outside a range.
///
/// # Errors
/// [`ConfigError`] with the name and what it takes.
pub fn refuse_outside(
    name: &str,
    value: usize,
    range: &RangeInclusive<usize>,
) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = (range.start(), range.end());
    Err(ConfigError(match *most {
        usize::MAX => format!("{name} is {value}: give it at least {least}"),
        most => format!("{name} is {value}: give it {least} to {most}"),
    }))
}

/// A section, whatever its type.
pub trait Section: Any + fmt::Debug + Send + Sync {
    /// Whether another section is the same.
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<S: Any + fmt::Debug + PartialEq + Send + Sync> Section for S {
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }
}

/// The sections that were given, one of each type.
#[derive(Debug, Clone, Default)]
pub struct Sections(BTreeMap<TypeId, Arc<dyn Section>>);

impl Sections {
    /// The section of a type; its default if it was not given.
    pub fn of<S: Section + Clone + Default>(&self) -> S {
        let section = self.0.get(&TypeId::of::<S>());
        let given = section.and_then(|section| (&**section as &dyn Any).downcast_ref::<S>());
        given.cloned().unwrap_or_default()
    }

    /// Changes a section.
    pub fn change<S: Section + Clone + Default>(&mut self, change: impl FnOnce(&mut S)) {
        let mut section = self.of::<S>();
        change(&mut section);
        self.set(section);
    }

    /// Takes the place of a section of the same type.
    pub fn set<S: Section>(&mut self, section: S) {
        self.0.insert(TypeId::of::<S>(), Arc::new(section));
    }

    /// Reads a section.
    ///
    /// # Errors
    /// When a key is unknown or a value has the wrong type.
    pub fn read<S: Section + DeserializeOwned>(
        &mut self,
        section: Value,
    ) -> Result<(), serde_json::Error> {
        self.set(serde_json::from_value::<S>(section)?);
        Ok(())
    }
}

impl PartialEq for Sections {
    fn eq(&self, other: &Self) -> bool {
        let same = |(of, section): (&TypeId, &Arc<dyn Section>)| {
            let other = other.0.get(of);
            other.is_some_and(|other| (**section).equals(&**other as &dyn Any))
        };
        self.0.len() == other.0.len() && self.0.iter().all(same)
    }
}

base::settings! {
    /// Admission's section.
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AdmissionMode {
    /// One after the other, under one lock.
    Serial,
    /// On several threads, in epochs without conflicts (the crate `admission`).
    Parallel,
}

/// A number of threads, of which 0 stands for one per core.
pub fn cores(threads: usize) -> usize {
    if threads > 0 {
        return threads;
    }
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid() {
        Config::default().validate().unwrap();
    }

    #[test]
    fn the_ceiling_names_the_setting_that_is_reached_first() {
        let mut config = Config::default();
        let told = |config: &Config, text: &str| {
            let ceiling = config.ceiling();
            assert_eq!(ceiling, format!("the built-in node commits at most {text}"));
        };
        told(&config, "5000/s: mempool size 5000 / block interval 1s");
        config.block_interval = Duration::from_millis(250);
        config.max_block_txs = Some(500);
        told(&config, "2000/s: block size 500 / block interval 0.25s");
        config.capacity = Some(CapacityModel::constant(400.0));
        told(&config, "400/s: its capacity model, at first");
        config.check_cost = Duration::from_millis(10);
        told(&config, "100/s: check_cost 10ms");
        config.execute_cost = Duration::from_millis(20);
        told(&config, "50/s: execute_cost 20ms");
    }

    #[test]
    fn values_out_of_range_are_named() {
        let wrong = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.validate().unwrap_err().to_string()
        };
        assert!(wrong(|c| c.chain_id.clear()).contains("chain_id"));
        assert!(wrong(|c| c.block_interval = Duration::ZERO).contains("block_interval"));
        assert!(wrong(|c| c.max_block_bytes = 1).contains("max_block_bytes"));
        assert!(wrong(|c| c.mempool.size = 0).contains("mempool.size"));
        assert!(wrong(|c| c.max_block_txs = Some(0)).contains("max_block_txs"));
    }
}
