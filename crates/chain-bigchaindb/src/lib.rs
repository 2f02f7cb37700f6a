//! BigchainDB servers, loaded through their HTTP API and followed by their event stream.
//!
//! Read first: [`Bigchaindb`], which writes the requests of a load, then [`BIGCHAINDB`], which is what `txgen` lists.

#[cfg(feature = "fixture")]
pub mod fixture;
mod node;
mod workload;

use std::borrow::Cow;
use std::fmt;
#[cfg(feature = "fixture")]
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use anyhow::{Context as _, bail};
#[cfg(feature = "fixture")]
use chain::Fixture;
use chain::{
    Asking, Chain, ChainDepth, Chaining, Chains, Facts, FollowWith, Followed, Limits, LoadOptions,
    Loader, NodeClient, NodeOptions, Probe, Protocol, ReplyTo, Settings, SettingsTable, Table,
    Target, TxName, Wanted, Workload, WorkloadError, refuse,
};
use chain_cometbft::{ByHash, Naming, follow_named};
use clap::Args;
use measure::{Failure, IdText, RefusalTexts, Reply, TxHash};
use parking_lot::Mutex;
use rpc::{ClientError, ClientOptions, Endpoint, Mempool, Message, Transport};
use serde::{Deserialize, Serialize};
use wire::encoding::decode_hash;

pub use self::node::{
    BigchaindbAbout, BigchaindbClient, EventSource, bigchaindb_transactions_path, follow_bigchaindb,
};
pub use self::workload::{BigchainWorkload, CREATE, Content, Metadata, TRANSFER, bigchain_id};

/// BigchainDB.
pub static BIGCHAINDB: BigchaindbChain = BigchaindbChain;

/// The chain of BigchainDB servers.
#[derive(Debug)]
pub struct BigchaindbChain;

impl Chain for BigchaindbChain {
    fn name(&self) -> &'static str {
        "BigchainDB"
    }

    fn target(&self) -> Option<&'static dyn Target> {
        Some(&BigchaindbTarget)
    }

    fn workloads(&self) -> &'static [&'static str] {
        &[CREATE, TRANSFER]
    }

    fn workload(&self, wanted: &Wanted<'_>) -> Result<Arc<dyn Workload>, WorkloadError> {
        let settings = SETTINGS.read(wanted.settings)?;
        let metadata = settings.metadata.as_deref().map(Metadata::read);
        let content = Content {
            seed: wanted.seed,
            signers: settings.signers.unwrap_or(NonZeroU32::MIN),
            asset_size: wanted.size.unwrap_or(0),
            metadata: metadata.transpose()?.unwrap_or_default(),
        };
        if wanted.name == CREATE {
            return Ok(Arc::new(BigchainWorkload::creates(content)?));
        }
        let planned = wanted.planned.filter(|planned| *planned > 0).ok_or_else(|| {
            refuse(
                TRANSFER,
                "needs to know how many transactions there will be, to make their outputs before; give the load an \
                 end (--duration, --to or --count)",
            )
        })?;
        let chaining = Chaining {
            seed: wanted.seed,
            depth: wanted
                .chain_depth
                .unwrap_or(ChainDepth::all(NonZeroU32::MIN)),
            conflicts: wanted.conflicts,
            orphans: 0.0,
            generators: wanted.generators.get(),
        };
        let chains = Chains::new(planned, chaining)?;
        Ok(Arc::new(BigchainWorkload::transfers(content, chains)?))
    }

    fn settings(&self) -> Option<&'static dyn SettingsTable> {
        Some(&SETTINGS)
    }

    fn node_options(&self, settings: &Table) -> Result<NodeOptions, WorkloadError> {
        let tendermint = SETTINGS.read(settings)?.tendermint;
        Ok(NodeOptions {
            blocks: tendermint.as_deref().map(tendermint_at).transpose()?,
            ..NodeOptions::default()
        })
    }

    #[cfg(feature = "fixture")]
    fn fixture(&self) -> Option<Fixture> {
        static FLAGS: Settings<fixture::NodeFlags> = Settings::named("bigchaindb");
        Some(Fixture {
            kind: &fixture::BigchaindbKind,
            flags: Some(&FLAGS),
        })
    }

    #[cfg(feature = "fixture")]
    fn built_in(
        &self,
        node: devnode::Blueprint,
        _: &Table,
    ) -> Result<devnode::Blueprint, WorkloadError> {
        Ok(node.for_kind(&fixture::BigchaindbKind))
    }
}

/// What only BigchainDB's transactions have.
#[derive(Debug, Default, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = "BigchainDB (--workload bigchaindb-create, bigchaindb-transfer)")]
pub struct BigchaindbSettings {
    /// Who signs a transaction, together, and owns its output: 1 to 100 [default: 1].
    #[arg(long, value_name = "N")]
    pub signers: Option<NonZeroU32>,

    /// A JSON object whose members join the unique one in the metadata of each transaction; @PATH for one in a
    /// file.
    #[arg(long, value_name = "JSON")]
    pub metadata: Option<String>,

    /// The RPC of the server's Tendermint, for loads on its HTTP API: its blocks show refused transactions too.
    #[arg(long, value_name = "URL")]
    pub tendermint: Option<String>,
}

static SETTINGS: Settings<BigchaindbSettings> =
    Settings::named("bigchaindb").of_target(&["tendermint"]);

/// The HTTP API of a server.
#[derive(Debug)]
pub struct BigchaindbTarget;

/// A BigchainDB server, given transactions by `POST /api/v1/transactions`.
#[derive(Debug, Clone, Default)]
pub struct Bigchaindb {
    /// Shared by the clones of all threads, and touched by what is no answer only.
    texts: Arc<Mutex<RefusalTexts>>,
}

impl Protocol for Bigchaindb {
    /// The body is the transaction's own text, and the chain calls it by the id in it.
    fn encode(
        &self,
        index: u64,
        tx: &[u8],
        name: TxName,
        out: &mut Vec<u8>,
    ) -> Result<TxHash, WorkloadError> {
        out.extend_from_slice(tx);
        match name {
            TxName::Known(id) => Ok(id),
            TxName::Hash | TxName::Sequenced(_) => bigchain_id(index, tx),
        }
    }

    /// The status is 202 with the transaction when it was taken, 400 when the server refuses it, each with a JSON
    /// object. 500 means three things, which its message distinguishes: Tendermint refused it, it is in no block yet, or
    /// the server lost Tendermint while it asked (`_process_post_response` in `bigchaindb/tendermint/lib.py` of 2.2.2).
    /// After the latter two a block may contain the transaction. Anything else comes from another server.
    fn read(&self, message: &Message<'_>, replies: &mut impl FnMut(ReplyTo, Reply)) {
        let is_object = message.body.trim_ascii_start().starts_with(b"{");
        let reply = match message.status {
            202 if is_object => Reply::Accepted,
            202 => Reply::Failed(Failure::Malformed),
            status @ (400 | 500) if is_object => self.refusal(status, message.body),
            _ => Reply::Failed(Failure::HttpStatus),
        };
        replies(ReplyTo::OldestRequest, reply);
    }

    fn texts(&self) -> Option<&Mutex<RefusalTexts>> {
        Some(&self.texts)
    }

    /// A BigchainDB 2.2 is served by gunicorn with 2 x cores + 1 synchronous workers: each takes one
    /// connection and waits there for a request, and it ends the connection after its answer.
    fn limits(&self) -> Limits {
        Limits {
            on_demand: true,
            ..Limits::default()
        }
    }
}

impl Bigchaindb {
    fn refusal(&self, status: u16, body: &[u8]) -> Reply {
        #[derive(Deserialize)]
        struct Told<'a> {
            #[serde(borrow, default)]
            message: Cow<'a, str>,
        }
        let told: Result<Told<'_>, _> = serde_json::from_slice(body);
        let told = told.map_or(Cow::Borrowed(""), |told| told.message);
        let says = |words: &&str| told.contains(*words);
        if status == 500 && told.contains(NOT_YET) {
            return Reply::Failed(Failure::CommitTimeout);
        }
        if status == 500 && !REFUSED.iter().any(says) {
            return Reply::Failed(Failure::HttpStatus);
        }
        let text = if told.contains(DUPLICATE) {
            "DuplicateTransaction: the chain has it, so this seed was used before; choose another --seed"
        } else {
            &told
        };
        self.texts.lock().count(&status.to_string(), text);
        Reply::rejected(u32::from(status))
    }
}

/// Tendermint's messages when it surely did not take a transaction.
const REFUSED: [&str; 3] = ["validation failed", "empool is full", "too large"];
const NOT_YET: &str = "imed out waiting for tx to be included in a block";
const DUPLICATE: &str = "DuplicateTransaction";

static FACTS: Facts = Facts {
    ids: IdText::LowerHex,
    observed_as: Some("cometbft"),
    no_kvstore: Some("means nothing to a BigchainDB; use bigchaindb-create or bigchaindb-transfer"),
    no_websocket: Some(
        "takes transactions over http or https, not over ws; its events are found from there",
    ),
    no_sentinel: Some(
        "sentinel stands in front of a node's RPC; leave out target = \"bigchaindb\"",
    ),
    no_managed_cometbft: Some(
        "BigchainDB runs on the built-in node; use --node builtin, or --endpoints of one",
    ),
    // Its server has a few workers, each of them busy with one connection.
    most_connections: NonZeroU32::new(16).expect("not zero"),
    method_prefix: "mode=",
    interface: Some("its HTTP API"),
    ..Facts::new("bigchaindb", CREATE)
};

impl Target for BigchaindbTarget {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn connect(
        &self,
        endpoint: &Endpoint,
        options: ClientOptions,
    ) -> Result<Arc<dyn NodeClient>, ClientError> {
        Ok(Arc::new(BigchaindbClient::new(endpoint, &options)?))
    }

    fn follow(&self, probe: &Probe, with: FollowWith<'_>) -> Result<Followed, ClientError> {
        let clock = move || with.clock.now();
        if let Some(tendermint) = probe.events.as_ref().filter(|it| !is_stream(it)) {
            let (options, shutdown) = (with.options, with.shutdown);
            let (follower, worker) = follow_named::<ById, _>(tendermint, options, clock, shutdown)?;
            return Ok((follower, Box::pin(worker.run())));
        }
        // A probe of a node that is followed has found its events.
        let events = probe.events.as_ref().unwrap_or(with.endpoint);
        let (follower, worker) =
            follow_bigchaindb(with.endpoint, events, with.options, clock, with.shutdown)?;
        Ok((follower, Box::pin(worker.run())))
    }

    fn loader(&self, _: &LoadOptions) -> Arc<dyn Loader> {
        Arc::new(Bigchaindb::default())
    }

    #[cfg(feature = "fixture")]
    fn built_in_address(&self, node: &devnode::DevNode) -> SocketAddr {
        node.address(fixture::API)
            .unwrap_or_else(|| node.rpc_address())
    }
}

/// The address of a Tendermint's RPC.
fn tendermint_at(url: &str) -> Result<Endpoint, WorkloadError> {
    let refused =
        |problem: &dyn fmt::Display| WorkloadError::Unusable(format!("--tendermint: {problem}"));
    let endpoint: Endpoint = url.parse().map_err(|error| refused(&error))?;
    if is_stream(&endpoint) {
        return Err(refused(&format!(
            "{endpoint} is a WebSocket; give its http:// address"
        )));
    }
    if endpoint.authorization().is_some() {
        let problem = "a user and a password would be written into the manifest; give an address without them";
        return Err(refused(&problem));
    }
    Ok(endpoint)
}

/// Whether this is a server's stream of events, and not its Tendermint.
fn is_stream(events: &Endpoint) -> bool {
    events.transport() == Transport::Ws
}

/// A transaction in a Tendermint's block by the id in it, by which the API and the load call it.
#[derive(Debug)]
struct ById;

impl Naming for ById {
    fn name(tx: &[u8]) -> [u8; 32] {
        #[derive(Deserialize)]
        struct Named<'a> {
            #[serde(borrow)]
            id: Cow<'a, str>,
        }
        let named = serde_json::from_slice::<Named<'_>>(tx).ok();
        let id = named.and_then(|named| decode_hash(named.id.as_bytes()));
        // A refusal without an id belongs to no transaction of the load.
        id.unwrap_or_else(|| ByHash::name(tx))
    }
}

impl NodeClient for BigchaindbClient {
    fn probe<'a>(&'a self, load: &'a LoadOptions) -> Asking<'a, anyhow::Result<Probe>> {
        Box::pin(async move {
            let endpoint = self.endpoint();
            let about = self.about().await?;
            if let Some(tendermint) = &load.blocks {
                let client =
                    chain_cometbft::Client::with_options(tendermint, self.options().clone())?;
                chain_cometbft::caught_up(&client)
                    .await
                    .context("--tendermint")?;
            }
            let tendermint = load.blocks.clone();
            let events = tendermint.or_else(|| about.events_of(endpoint));
            if events.is_none() && load.follow {
                bail!(
                    "{endpoint} says that its events are at {:?}, which is not a WebSocket; correct `wsserver` in its \
                     configuration, or use --no-follow",
                    about.streams
                );
            }
            // Behind a gateway the API has a path before its own.
            let base = endpoint.path();
            let path = bigchaindb_transactions_path(load.method);
            Ok(Probe {
                version: format!("BigchainDB {}", about.version),
                path: Some(format!("{}{path}", base.trim_end_matches('/'))),
                events,
                ..Probe::default()
            })
        })
    }

    /// The API does not show how many transactions wait, only whether one has been committed.
    fn pending<'a>(
        &'a self,
        own: &'a [String],
    ) -> Asking<'a, Result<Option<Mempool>, ClientError>> {
        Box::pin(async move {
            let mut waiting = 0;
            for id in own {
                waiting += u64::from(!self.is_committed(id).await?);
            }
            Ok((!own.is_empty()).then_some(Mempool {
                txs: waiting,
                bytes: 0,
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What BigchainDB 2.2.2 answers, and what became of the transaction.
    #[test]
    fn a_500_is_a_refusal_only_where_tendermint_refused() {
        let protocol = Bigchaindb::default();
        let reply = |status: u16, told: &str| {
            let body = format!("{{\"message\": \"{told}\", \"status\": {status}}}");
            let mut replies = Vec::new();
            let message = Message {
                body: body.as_bytes(),
                status,
                arrived_unix_ns: None,
            };
            protocol.read(&message, &mut |_, reply| replies.push(reply));
            replies[0]
        };
        let failed = Reply::Failed;
        for (status, told, expected) in [
            (500, "Transaction validation failed", Reply::rejected(500)),
            (
                500,
                "Internal error - Mempool is full",
                Reply::rejected(500),
            ),
            (
                400,
                "Invalid transaction (DoubleSpend): input is spent",
                Reply::rejected(400),
            ),
            (
                500,
                "Internal error - Timed out waiting for tx to be included in a block",
                failed(Failure::CommitTimeout),
            ),
            (500, "Internal Server Error", failed(Failure::HttpStatus)),
            (502, "Bad Gateway", failed(Failure::HttpStatus)),
        ] {
            assert_eq!(reply(status, told), expected, "{told}");
        }
        reply(
            400,
            "Invalid transaction (DuplicateTransaction): transaction exists",
        );
        let texts = protocol.texts.lock().counts().clone();
        let has = |words: &str| texts.keys().any(|text| text.contains(words));
        assert!(
            has("DoubleSpend") && has("choose another --seed"),
            "{texts:?}"
        );
    }

    #[test]
    fn a_request_is_the_transaction_s_text_and_its_name_the_id_in_it() {
        let workload = BigchainWorkload::creates(Content {
            seed: 1,
            signers: NonZeroU32::MIN,
            asset_size: 0,
            metadata: Metadata::default(),
        })
        .unwrap();
        let [mut stream, mut other] = [workload.open().unwrap(), workload.open().unwrap()];
        let protocol = Bigchaindb::default();
        for index in 0..300 {
            let (mut tx, mut again, mut request) = (Vec::new(), Vec::new(), Vec::new());
            let name = stream.write(index, &mut tx).unwrap();
            assert_eq!(other.write(index, &mut again).unwrap(), name);
            let id = protocol.encode(index, &tx, name, &mut request).unwrap();
            assert_eq!((&request, &again), (&tx, &tx));
            let unnamed = protocol.encode(index, &tx, TxName::Hash, &mut request);
            assert_eq!((unnamed.unwrap(), name), (id, TxName::Known(id)));
        }
    }
}
