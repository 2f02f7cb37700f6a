//! Bitcoin nodes (btcd, bchd, Bitcoin Core), loaded through their JSON-RPC and observed over that or as a peer.
//!
//! Read first: [`BitcoinNode`], which writes the requests of a load, then [`BITCOIN`], which is what `txgen` lists, and
//! [`workload`], the transactions and their wallet.

mod command;
#[cfg(feature = "fixture")]
pub mod fixture;
mod node;
mod peer;
mod protocol;
mod supply;
pub mod workload;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
#[cfg(feature = "fixture")]
use chain::{Admission, Fixture, Settings};
use chain::{
    Asking, Chain, ChainDepth, ChainError, Facts, Families, FollowWith, Followed, LoadOptions,
    Loader, NodeClient, NodeOptions, Probe, SettingsTable, Share, Supplied, Supply, Table, Target,
    TxStream, Wanted, Workload, WorkloadError, at_most, refuse,
};
use clap::CommandFactory as _;
use measure::{IdText, TxHash};
use rpc::{ClientError, ClientOptions, Endpoint, Mempool, Transport};

pub use self::command::BitcoinSettings;
use self::command::SETTINGS;
pub use self::node::{
    BitcoinAdmission, BitcoinBlock, BitcoinClient, BitcoinInfo, BitcoinOutput, BitcoinRefusal,
    BitcoinScript, PeerInfo, follow_bitcoin, follow_bitcoin_peer, probe_peer,
};
pub use self::peer::{PEER_NETWORKS, PeerNetwork};
pub use self::protocol::BitcoinNode;
use self::supply::supply;
use self::workload::{
    BITCOIN_WORKLOAD, BitcoinWorkload, DEFAULT_WALLET_SEED, Keys, Network, Spec, Wallet, hash_text,
};

/// Bitcoin.
pub static BITCOIN: BitcoinChain = BitcoinChain;

/// The chain of Bitcoin nodes.
#[derive(Debug)]
pub struct BitcoinChain;

impl Chain for BitcoinChain {
    fn name(&self) -> &'static str {
        "Bitcoin"
    }

    fn target(&self) -> Option<&'static dyn Target> {
        Some(&BitcoinTarget)
    }

    fn is_exclusive(&self) -> bool {
        true
    }

    fn workloads(&self) -> &'static [&'static str] {
        &[BITCOIN_WORKLOAD]
    }

    fn workload(&self, wanted: &Wanted<'_>) -> Result<Arc<dyn Workload>, WorkloadError> {
        Ok(Arc::new(resolve(wanted)?))
    }

    fn settings(&self) -> Option<&'static dyn SettingsTable> {
        Some(&SETTINGS)
    }

    fn node_options(&self, settings: &Table) -> Result<NodeOptions, WorkloadError> {
        let given = SETTINGS.read(settings)?;
        Ok(NodeOptions {
            batch: given.batch.unwrap_or(NonZeroU32::MIN),
            confirmations: given.confirmations.unwrap_or(NonZeroU32::MIN),
            blocks: None,
        })
    }

    #[cfg(feature = "fixture")]
    fn fixture(&self) -> Option<Fixture> {
        static FLAGS: Settings<fixture::NodeFlags> = Settings::named("bitcoin");
        Some(Fixture {
            kind: &fixture::BitcoinKind,
            flags: Some(&FLAGS),
        })
    }

    #[cfg(feature = "fixture")]
    fn built_in(
        &self,
        mut node: devnode::Blueprint,
        settings: &Table,
    ) -> Result<devnode::Blueprint, WorkloadError> {
        let given = SETTINGS.read(settings)?;
        if given.validators.is_some() && given.admission != Some(Admission::Parallel) {
            let problem = "needs parallel admission: add --admission parallel";
            return Err(refuse("--validators", problem));
        }
        let address = self.mining_address(settings)?;
        let pay = |own: &mut fixture::BitcoinConfig| {
            own.mining_address = own.mining_address.take().or(address);
        };
        let config = &mut node.config;
        config.sections.change(pay);
        config.admission.mode = given.admission.map(Into::into).or(config.admission.mode);
        if let Some(validators) = given.validators {
            config.admission.validators = validators.get() as usize;
        }
        Ok(node.for_kind(&fixture::BitcoinKind))
    }

    fn mining_address(&self, settings: &Table) -> Result<Option<String>, WorkloadError> {
        let given = SETTINGS.read(settings)?;
        let seed = given.wallet_seed.unwrap_or(DEFAULT_WALLET_SEED);
        let keys = Keys::new(seed, given.digest.unwrap_or_default());
        Ok(Some(keys.address(Network::Regtest.version())))
    }

    fn command(&self) -> Option<clap::Command> {
        Some(command::BitcoinArgs::command())
    }

    fn execute(
        &self,
        matches: &clap::ArgMatches,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<String, ChainError> {
        command::execute(matches, is_cancelled)
    }
}

/// A load without end gets as many transactions as ids are kept for without asking.
fn resolve(wanted: &Wanted<'_>) -> Result<BitcoinWorkload, WorkloadError> {
    let given = SETTINGS.read(wanted.settings)?;
    for (name, clashing) in [
        ("--wallet-seed", given.wallet_seed.is_some()),
        ("--digest", given.digest.is_some()),
    ] {
        if clashing && given.wallet.is_some() {
            return Err(refuse(name, "is said by the --wallet file; leave it out"));
        }
    }
    if (given.admission.is_some() || given.validators.is_some()) && !wanted.built_in {
        let problem = "applies to the built-in node with --workload bitcoin; leave out --endpoints";
        return Err(refuse("--admission", problem));
    }
    let transactions = wanted.planned.unwrap_or(ENDLESS);
    let info = match &given.wallet {
        Some(path) => {
            let wallet = Wallet::read(path).map_err(|error| WorkloadError::Chain(error.into()))?;
            Some(wallet.info)
        }
        None => None,
    };
    let usual_depth = transactions.div_ceil(USUAL_CHAINS) as u32;
    let usual_depth = NonZeroU32::new(usual_depth).unwrap_or(NonZeroU32::MIN);
    let depth = wanted.chain_depth.unwrap_or(ChainDepth::all(usual_depth));
    at_most("--chain-depth", depth.links.get(), MAX_CHAIN_DEPTH)?;
    let usual = Spec::default();
    let spec = Spec {
        seed: wanted.seed,
        shape: given.shape.unwrap_or_default(),
        depth,
        conflicts: wanted.conflicts,
        orphans: given.orphan_ratio.map_or(0.0, Share::as_f64),
        generators: wanted.generators.get(),
        fee_rate: given.fee_rate.map_or(usual.fee_rate, Into::into),
        wallet_seed: match &info {
            Some(info) => info.seed,
            None => given.wallet_seed.unwrap_or(usual.wallet_seed),
        },
        digest: match &info {
            Some(info) => info.digest,
            None => given.digest.unwrap_or_default(),
        },
    };
    let workload = BitcoinWorkload::new(spec, transactions)?;
    Ok(workload.supplied_by(given.wallet, given.mine_every))
}

/// Of a load without end, in about a minute and 50 MB.
const ENDLESS: u64 = 1_000_000;
/// 200,000 coins of 2-in-2-out are mined and split in seconds.
const USUAL_CHAINS: u64 = 100_000;
/// The links of a chain are walked for each of its transactions.
const MAX_CHAIN_DEPTH: u64 = 10_000;

/// A node, loaded through its JSON-RPC.
#[derive(Debug)]
pub struct BitcoinTarget;

static FACTS: Facts = Facts {
    ids: IdText::LowerHex,
    has_coinbase: true,
    accounts_from_rows: true,
    no_kvstore: Some("means nothing to a Bitcoin node; use --workload bitcoin"),
    no_websocket: Some("takes transactions over http or https, not over ws"),
    no_sentinel: Some(
        "sentinel stands in front of a CometBFT's RPC; leave out target = \"bitcoin\"",
    ),
    no_managed_cometbft: Some(
        "Bitcoin runs on the built-in node; use --node builtin, or --endpoints of one",
    ),
    // btcd serves 10 clients by default (`--rpcmaxclients`), and followers are some of them.
    most_connections: NonZeroU32::new(8).expect("not zero"),
    method_prefix: "sendrawtransaction, ",
    ..Facts::new("bitcoin", BITCOIN_WORKLOAD)
};

impl Target for BitcoinTarget {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn connect(
        &self,
        endpoint: &Endpoint,
        options: ClientOptions,
    ) -> Result<Arc<dyn NodeClient>, ClientError> {
        if endpoint.transport() == Transport::P2p {
            return Ok(Arc::new(Peer {
                endpoint: endpoint.clone(),
                timeout: options.timeout,
            }));
        }
        Ok(Arc::new(BitcoinClient::new(endpoint, options)?))
    }

    fn follow(&self, probe: &Probe, with: FollowWith<'_>) -> Result<Followed, ClientError> {
        let clock = move || with.clock.now();
        if with.endpoint.transport() == Transport::P2p {
            let mut known = PEER_NETWORKS.into_iter();
            let network = known.find(|network| probe.network.as_deref() == Some(network.name));
            let network = network.unwrap_or(PEER_NETWORKS[0]);
            let (options, shutdown) = (with.options, with.shutdown);
            let (follower, task) =
                follow_bitcoin_peer(with.endpoint, network, options, clock, shutdown);
            return Ok((follower, Box::pin(task)));
        }
        let (follower, task) = follow_bitcoin(with.endpoint, with.options, clock, with.shutdown)?;
        Ok((follower, Box::pin(task)))
    }

    fn loader(&self, options: &LoadOptions) -> Arc<dyn Loader> {
        Arc::new(BitcoinNode {
            batch: options.batch,
            workload: BitcoinWorkload::of(options.workload.as_ref()).cloned(),
            refusals: Arc::default(),
        })
    }

    #[cfg(feature = "fixture")]
    fn built_in_endpoint(&self, endpoint: Endpoint, config: &devnode::Config) -> Endpoint {
        let own: fixture::BitcoinConfig = config.sections.of();
        endpoint.with_credentials(&own.rpc_user, &own.rpc_password)
    }

    fn peers_hint(&self) -> &'static str {
        "; a Bitcoin node does not say where its peers take requests, so the same port is asked: name those with another one by --observe"
    }
}

impl NodeClient for BitcoinClient {
    fn probe<'a>(&'a self, load: &'a LoadOptions) -> Asking<'a, anyhow::Result<Probe>> {
        Box::pin(async move {
            let info = self.info().await?;
            if let Some(workload) = BitcoinWorkload::of(load.workload.as_ref()) {
                let offered = workload.spec().fee_rate * 1_000;
                if offered < info.relay_fee {
                    bail!(
                        "--fee-rate pays {offered} satoshi for 1,000 bytes, and the node relays from {} on; use --fee-rate {}",
                        info.relay_fee,
                        info.relay_fee.div_ceil(1_000)
                    );
                }
            }
            Ok(Probe {
                chain_id: Some(hash_text(&info.genesis)),
                version: format!("Bitcoin node {}", info.version),
                ..Probe::default()
            })
        })
    }

    fn pending<'a>(&'a self, _: &'a [String]) -> Asking<'a, Result<Option<Mempool>, ClientError>> {
        Box::pin(async move { self.mempool().await.map(Some) })
    }

    /// The first output is unspent in the mempool's view as long as nothing in the mempool, or in a block, spends it.
    fn holds<'a>(
        &'a self,
        ids: &'a [TxHash],
    ) -> Asking<'a, Result<Option<Vec<bool>>, ClientError>> {
        Box::pin(async move {
            let first: Vec<(TxHash, u32)> = ids.iter().map(|id| (*id, 0)).collect();
            let outputs = self.outputs(&first).await?;
            Ok(Some(outputs.iter().map(Option::is_some).collect()))
        })
    }

    fn listed(&self) -> Asking<'_, Result<Option<Vec<TxHash>>, ClientError>> {
        Box::pin(async move { self.mempool_ids().await.map(Some) })
    }

    /// Peers give the port of their peer protocol, not that of their RPC: the RPC port is assumed to be the same as here.
    fn peers(&self) -> Asking<'_, Result<Vec<Endpoint>, ClientError>> {
        Box::pin(async move {
            let asked = self.endpoint();
            let peers = Self::peers(self).await?;
            let address = |peer: &String| peer.parse::<SocketAddr>().ok();
            let endpoint =
                |address: SocketAddr| asked.on(SocketAddr::new(address.ip(), asked.port()));
            Ok(peers.iter().filter_map(address).map(endpoint).collect())
        })
    }
}

/// A node that is observed as one of its peers.
struct Peer {
    endpoint: Endpoint,
    timeout: Duration,
}

impl NodeClient for Peer {
    fn probe<'a>(&'a self, _: &'a LoadOptions) -> Asking<'a, anyhow::Result<Probe>> {
        Box::pin(async move {
            bail!("a load needs the node's JSON-RPC, http://user:password@host:port")
        })
    }

    /// A node does not show a peer how many transactions wait.
    fn pending<'a>(&'a self, _: &'a [String]) -> Asking<'a, Result<Option<Mempool>, ClientError>> {
        Box::pin(async move { Ok(None) })
    }

    fn observable(&self) -> Asking<'_, anyhow::Result<Probe>> {
        Box::pin(async move {
            let info = probe_peer(&self.endpoint, self.timeout).await?;
            Ok(Probe {
                network: Some(info.network.name.to_owned()),
                ..Probe::default()
            })
        })
    }
}

impl Workload for BitcoinWorkload {
    fn count(&self) -> Option<u64> {
        Some(self.transactions())
    }

    fn largest(&self) -> usize {
        self.size()
    }

    fn open(&self) -> Result<Box<dyn TxStream>, WorkloadError> {
        Ok(Box::new(self.stream()))
    }

    fn is_signed(&self) -> bool {
        true
    }

    fn has_chains(&self) -> bool {
        true
    }

    fn families(&self) -> Option<Families> {
        let load = self.clone();
        let of = move |index| load.family(index);
        Some(Families::new(self.families_count(), of))
    }

    fn supply(&self, with: Supply<'_>) -> Result<Option<Box<dyn Supplied>>, ChainError> {
        supply(self, with).map(Some)
    }

    fn document(&self) -> Option<serde_json::Value> {
        let spec = self.spec();
        Some(serde_json::json!({
            "transactions": self.transactions(),
            "shape": spec.shape.to_string(),
            "depth": spec.depth.links,
            "spending": spec.depth.spending,
            "conflicts": spec.conflicts,
            "orphans": spec.orphans,
            "fee_rate": spec.fee_rate,
        }))
    }
}
