//! The JSON-RPC of a Bitcoin node.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use measure::{Failure, IdText, RefusalTexts, Reply, TxHash};
use parking_lot::Mutex;
use rpc::{
    BitcoinClient, ClientError, ClientOptions, Endpoint, Mempool, Message, PEER_NETWORKS, Transport,
};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use wire::encoding::push_hex;

use super::{
    BuiltIn, Facts, FollowWith, Followed, Framing, Limits, Probe, ReplyTo, Target, TargetOptions,
};
use crate::workload::bitcoin::{bitcoin_id, hash_text};
use crate::workload::{BitcoinWorkload, TxName, Workload, WorkloadError, WorkloadKind};

/// A Bitcoin node (btcd, bchd, Bitcoin Core), given transactions by `sendrawtransaction`.
#[derive(Debug, Clone)]
pub struct BitcoinNode {
    batch: NonZeroU32,
    /// Learns what was refused, and tells what is dead therefore.
    workload: Option<BitcoinWorkload>,
    /// Shared by the clones of all threads, and touched by refusals only.
    refusals: Arc<Mutex<RefusalTexts>>,
}

/// Asks a Bitcoin node, over its JSON-RPC or as one of its peers, who are told less.
#[derive(Debug, Clone)]
pub enum BitcoinQueries {
    /// Its JSON-RPC.
    Rpc(BitcoinClient),
    /// Its peer-to-peer protocol; for observation alone.
    Peer {
        /// The node.
        endpoint: Endpoint,
        /// How long an answer may take.
        timeout: Duration,
    },
}

impl BitcoinQueries {
    /// The JSON-RPC; `None` of a peer.
    fn rpc(&self) -> Option<&BitcoinClient> {
        match self {
            Self::Rpc(client) => Some(client),
            Self::Peer { .. } => None,
        }
    }
}

impl Target for BitcoinNode {
    type Queries = BitcoinQueries;

    const FACTS: &'static Facts = &Facts {
        name: "bitcoin",
        ids: IdText::LowerHex,
        has_coinbase: true,
        workload: &WorkloadKind::Bitcoin,
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
        answers_unchecked: false,
        method_prefix: "sendrawtransaction, ",
        built_in: BuiltIn::BitcoinRpc,
        ..Facts::COMETBFT
    };

    fn new(options: TargetOptions) -> Self {
        Self {
            batch: options.batch,
            workload: options.bitcoin,
            refusals: Arc::default(),
        }
    }

    fn encode(
        &self,
        index: u64,
        tx: &[u8],
        name: TxName,
        out: &mut Vec<u8>,
    ) -> Result<TxHash, WorkloadError> {
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        out.extend_from_slice(index.to_string().as_bytes());
        out.extend_from_slice(b",\"method\":\"sendrawtransaction\",\"params\":[\"");
        push_hex(out, tx);
        out.extend_from_slice(b"\"]}");
        match name {
            TxName::Known(id) => Ok(id),
            TxName::Hash | TxName::Sequenced(_) => bitcoin_id(index, tx),
        }
    }

    fn read(&self, message: &Message<'_>, replies: &mut impl FnMut(ReplyTo, Reply)) {
        let mut one = |answer: JsonRpcAnswer<'_>| {
            let subject = answer.id.map_or(ReplyTo::OldestRequest, ReplyTo::Index);
            replies(subject, self.reply(&answer));
        };
        let is_batch = message.body.trim_ascii_start().starts_with(b"[");
        let read = match is_batch {
            true => {
                let mut body = serde_json::Deserializer::from_slice(message.body);
                body.deserialize_seq(Each(&mut one))
            }
            false => serde_json::from_slice(message.body).map(one),
        };
        if read.is_err() {
            let failure = match message.status {
                HTTP_OK => Failure::Malformed,
                _ => Failure::HttpStatus,
            };
            replies(ReplyTo::OldestRequest, Reply::Failed(failure));
        }
    }

    /// btcd closes a connection after its answer, and one that says nothing for 10 s
    /// (`rpcAuthTimeoutSeconds` in its `rpcserver.go`).
    fn limits(&self) -> Limits {
        Limits {
            batch: self.batch,
            framing: Framing {
                open: b"[",
                between: b",",
                close: b"]",
            },
            on_demand: true,
        }
    }

    fn texts(&self) -> Option<&Mutex<RefusalTexts>> {
        Some(&self.refusals)
    }

    fn queries(endpoint: &Endpoint, options: ClientOptions) -> Result<BitcoinQueries, ClientError> {
        if endpoint.transport() == Transport::P2p {
            return Ok(BitcoinQueries::Peer {
                endpoint: endpoint.clone(),
                timeout: options.timeout,
            });
        }
        BitcoinClient::new(endpoint, options).map(BitcoinQueries::Rpc)
    }

    async fn probe(
        &self,
        _: &Endpoint,
        queries: &BitcoinQueries,
        workload: &Workload,
    ) -> anyhow::Result<Probe> {
        let Some(client) = queries.rpc() else {
            bail!("a load needs the node's JSON-RPC, http://user:password@host:port");
        };
        let info = client.info().await?;
        if let Some(workload) = workload.bitcoin() {
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
    }

    fn follow(probe: &Probe, with: FollowWith<'_>) -> Result<Followed, ClientError> {
        let clock = move || with.clock.now();
        if with.endpoint.transport() == Transport::P2p {
            let network = probe.network.unwrap_or(PEER_NETWORKS[0]);
            let (follower, task) = rpc::follow_bitcoin_peer(
                with.endpoint,
                network,
                with.options,
                clock,
                with.shutdown,
            );
            return Ok((follower, Box::pin(task)));
        }
        let (follower, task) =
            rpc::follow_bitcoin(with.endpoint, with.options, clock, with.shutdown)?;
        Ok((follower, Box::pin(task)))
    }

    async fn observable(queries: &BitcoinQueries) -> anyhow::Result<Probe> {
        match queries {
            BitcoinQueries::Rpc(client) => {
                client.mempool().await?;
                Ok(Probe::default())
            }
            BitcoinQueries::Peer { endpoint, timeout } => Ok(Probe {
                network: Some(rpc::probe_peer(endpoint, *timeout).await?.network),
                ..Probe::default()
            }),
        }
    }

    /// The first output is unspent in the mempool's view as long as nothing in the mempool, or in a block, spends it.
    async fn holds(
        queries: &BitcoinQueries,
        ids: &[TxHash],
    ) -> Result<Option<Vec<bool>>, ClientError> {
        let Some(client) = queries.rpc() else {
            return Ok(None);
        };
        let first: Vec<(TxHash, u32)> = ids.iter().map(|id| (*id, 0)).collect();
        let outputs = client.outputs(&first).await?;
        Ok(Some(outputs.iter().map(Option::is_some).collect()))
    }

    async fn listed(queries: &BitcoinQueries) -> Result<Option<Vec<TxHash>>, ClientError> {
        match queries.rpc() {
            Some(client) => client.mempool_ids().await.map(Some),
            None => Ok(None),
        }
    }

    /// Peers say where they listen for other nodes, not for requests: asked is the same port as here.
    async fn peers(
        asked: &Endpoint,
        queries: &BitcoinQueries,
    ) -> Result<Vec<Endpoint>, ClientError> {
        let Some(client) = queries.rpc() else {
            return Ok(Vec::new());
        };
        let peers = client.peers().await?;
        let address = |peer: &String| peer.parse::<SocketAddr>().ok();
        let endpoint = |address: SocketAddr| asked.on(SocketAddr::new(address.ip(), asked.port()));
        Ok(peers.iter().filter_map(address).map(endpoint).collect())
    }

    const PEERS_HINT: &'static str = "; a Bitcoin node does not say where its peers take requests, so the same port is asked: name those with another one by --observe";

    async fn pending(
        queries: &BitcoinQueries,
        _: &[String],
    ) -> Result<Option<Mempool>, ClientError> {
        match queries.rpc() {
            Some(client) => client.mempool().await.map(Some),
            None => Ok(None),
        }
    }
}

impl BitcoinNode {
    fn reply(&self, answer: &JsonRpcAnswer<'_>) -> Reply {
        let Some(error) = &answer.error else {
            let is_accepted = answer.result.is_some();
            return match is_accepted {
                true => Reply::Accepted,
                false => Reply::Failed(Failure::Malformed),
            };
        };
        let workload = self.workload.as_ref().zip(answer.id);
        if let Some((workload, index)) = workload {
            if workload.is_dead(index) {
                // It is no refusal of the node's that it does not know what was refused before.
                return Reply::Failed(Failure::Dead);
            }
            workload.refuse(index);
        }
        let code = error.code.to_string();
        self.refusals.lock().count(&code, &error.message);
        Reply::RpcError {
            code: i32::try_from(error.code).unwrap_or(i32::MIN),
        }
    }
}

#[derive(Deserialize)]
struct JsonRpcAnswer<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    result: Option<Cow<'a, str>>,
    #[serde(borrow)]
    error: Option<JsonRpcError<'a>>,
}

#[derive(Deserialize)]
struct JsonRpcError<'a> {
    code: i64,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
}

/// Hands over the answers of a batch one by one.
struct Each<'f, F>(&'f mut F);

impl<'de, F: FnMut(JsonRpcAnswer<'de>)> Visitor<'de> for Each<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of answers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut answers: A) -> Result<(), A::Error> {
        while let Some(answer) = answers.next_element()? {
            (self.0)(answer);
        }
        Ok(())
    }
}

const HTTP_OK: u16 = 200;
