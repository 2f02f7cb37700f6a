//! CometBFT and Tendermint nodes, loaded through their RPC.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use anyhow::bail;
use chain::{
    Asking, Chain, Facts, FollowWith, Followed, LoadOptions, Loader, NodeClient, Probe, Protocol,
    ReplyTo, Sequences, Target, TxName, Wanted, Workload, WorkloadError, check_limit,
};
use measure::{Code, Codespace, Failure, NodeLimits, RefusalTexts, Reply, TxHash};
use parking_lot::Mutex;
use rpc::{BroadcastMethod, ClientError, ClientOptions, Endpoint, Mempool, Message};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::client::{Client, Status};
use crate::codec::{AnswerId, Outcome, decode_answer};
use crate::kvstore::KvStore;

/// CometBFT and Tendermint.
pub static COMETBFT: CometbftChain = CometbftChain;

/// The chain of CometBFT nodes that run the kvstore, or any application that takes transactions from a file.
#[derive(Debug)]
pub struct CometbftChain;

impl Chain for CometbftChain {
    fn name(&self) -> &'static str {
        "CometBFT"
    }

    fn target(&self) -> Option<&'static dyn Target> {
        Some(&CometbftTarget)
    }

    fn workloads(&self) -> &'static [&'static str] {
        &["kvstore"]
    }

    fn workload(&self, wanted: &Wanted<'_>) -> Result<Arc<dyn Workload>, WorkloadError> {
        let size = wanted.size.unwrap_or(DEFAULT_SIZE);
        Ok(Arc::new(KvStore::new(wanted.seed, size)?))
    }
}

/// The RPC of a node.
#[derive(Debug)]
pub struct CometbftTarget;

/// A CometBFT or Tendermint node, given transactions by `broadcast_tx_*`.
#[derive(Debug, Clone)]
pub struct Cometbft {
    method: BroadcastMethod,
    /// Shared by the clones of all threads, and touched by refusals only.
    refusals: Arc<Mutex<RefusalTexts>>,
    sequences: Option<Arc<Sequences>>,
}

impl Protocol for Cometbft {
    /// The chain calls a transaction by the hash of its bytes.
    fn encode(
        &self,
        index: u64,
        tx: &[u8],
        _: TxName,
        out: &mut Vec<u8>,
    ) -> Result<TxHash, WorkloadError> {
        rpc::encode_broadcast(out, index, self.method, tx);
        Ok(Sha256::digest(tx).into())
    }

    fn read(&self, message: &Message<'_>, replies: &mut impl FnMut(ReplyTo, Reply)) {
        let Ok(answer) = decode_answer(message.body) else {
            let failure = match message.status {
                HTTP_OK => Failure::Malformed,
                _ => Failure::HttpStatus,
            };
            return replies(ReplyTo::OldestRequest, Reply::Failed(failure));
        };
        let subject = match answer.id.as_u64() {
            Some(index) => ReplyTo::Index(index),
            // The node could not even read the id.
            None if answer.id == AnswerId::Missing => ReplyTo::OldestRequest,
            None => ReplyTo::Unknown,
        };
        let reply = reply_of(&answer.outcome);
        if let Some((code, text)) = refusal_of(reply, &answer.outcome) {
            let code = code.to_string();
            let expectation = self
                .sequences
                .as_ref()
                .and_then(|sequences| sequences.read(text));
            match (&self.sequences, answer.id.as_u64(), expectation) {
                // Whether it is a refusal of its own or follows from another, the account's shard knows.
                (Some(sequences), Some(index), Some(expectation)) => {
                    sequences.expect(index, expectation);
                }
                _ => self.refusals.lock().count(&code, text),
            }
        }
        replies(subject, reply);
    }

    fn texts(&self) -> Option<&Mutex<RefusalTexts>> {
        Some(&self.refusals)
    }
}

static FACTS: Facts = Facts {
    // A node takes 900 in all by default (`rpc.max_open_connections`).
    most_connections: NonZeroU32::new(512).expect("not zero"),
    answers_unchecked: true,
    method_prefix: "broadcast_tx_",
    ..Facts::new("cometbft", "kvstore")
};

impl Target for CometbftTarget {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn connect(
        &self,
        endpoint: &Endpoint,
        options: ClientOptions,
    ) -> Result<Arc<dyn NodeClient>, ClientError> {
        Ok(Arc::new(Node(Client::with_options(endpoint, options)?)))
    }

    fn follow(&self, _: &Probe, with: FollowWith<'_>) -> Result<Followed, ClientError> {
        let clock = move || with.clock.now();
        let (follower, worker) = crate::follow(with.endpoint, with.options, clock, with.shutdown)?;
        Ok((follower, Box::pin(worker.run())))
    }

    fn loader(&self, options: &LoadOptions) -> Arc<dyn Loader> {
        Arc::new(Cometbft {
            method: options.method,
            refusals: Arc::default(),
            sequences: options.workload.sequences().cloned(),
        })
    }

    fn peers_hint(&self) -> &'static str {
        "; a peer is found by the rpc.laddr that it announces, which has to be reachable from here"
    }
}

/// A node, asked through its RPC.
struct Node(Client);

impl NodeClient for Node {
    fn probe<'a>(&'a self, load: &'a LoadOptions) -> Asking<'a, anyhow::Result<Probe>> {
        Box::pin(async move {
            let status = caught_up(&self.0).await?;
            let limits = block_limits(&self.0).await;
            if let Some(bytes) = limits.block_bytes {
                let for_txs = usize::try_from(bytes).unwrap_or(usize::MAX);
                check_limit(
                    load.workload.as_ref(),
                    for_txs.saturating_sub(BLOCK_OVERHEAD_BYTES),
                    "the consensus parameters' block.max_bytes, less the header and the commit",
                )?;
            }
            Ok(Probe {
                chain_id: Some(status.chain_id),
                version: status.version,
                limits,
                ..Probe::default()
            })
        })
    }

    fn pending<'a>(&'a self, _: &'a [String]) -> Asking<'a, Result<Option<Mempool>, ClientError>> {
        Box::pin(async move { self.0.num_unconfirmed_txs().await.map(Some) })
    }

    /// The oldest hundred; what is behind them is seen in blocks.
    fn listed(&self) -> Asking<'_, Result<Option<Vec<TxHash>>, ClientError>> {
        Box::pin(async move {
            let waiting = self.0.unconfirmed_txs().await?;
            let hash = |tx: &Vec<u8>| Sha256::digest(tx).into();
            Ok(Some(waiting.iter().map(hash).collect()))
        })
    }

    fn peers(&self) -> Asking<'_, Result<Vec<Endpoint>, ClientError>> {
        Box::pin(peers(&self.0))
    }
}

/// Peers' RPCs are where they announce (`other.rpc_address`), on the address that they were dialled at where they
/// listen on all of theirs.
async fn peers(client: &Client) -> Result<Vec<Endpoint>, ClientError> {
    #[derive(Deserialize)]
    struct NetInfo {
        peers: Vec<Peer>,
    }
    #[derive(Deserialize)]
    struct Peer {
        remote_ip: String,
        node_info: NodeInfo,
    }
    #[derive(Deserialize)]
    struct NodeInfo {
        other: Other,
    }
    #[derive(Deserialize)]
    struct Other {
        rpc_address: String,
    }
    let peers: NetInfo = client.call("net_info", "{}").await?;
    let endpoint = |peer: Peer| {
        let listens = peer.node_info.other.rpc_address;
        let listens: SocketAddr = listens.strip_prefix("tcp://")?.parse().ok()?;
        let address = if listens.ip().is_unspecified() {
            SocketAddr::new(peer.remote_ip.parse().ok()?, listens.port())
        } else {
            listens
        };
        Some(client.endpoint().on(address))
    };
    Ok(peers.peers.into_iter().filter_map(endpoint).collect())
}

/// The code of a refusal, and the node's message: CometBFT puts the real text of an error into `data`.
fn refusal_of<'a>(reply: Reply, outcome: &'a Outcome<'_>) -> Option<(Code, &'a str)> {
    let text = match outcome {
        Outcome::Broadcast { log, .. } | Outcome::Commit { log, .. } => log,
        Outcome::Error { data, message, .. } if data.is_empty() => message,
        Outcome::Error { data, .. } => data,
        Outcome::Other => return None,
    };
    let (space, number) = match reply {
        Reply::Rejected { code, space } => (space, i64::from(code)),
        Reply::RpcError { code } => (Codespace::NONE, i64::from(code)),
        Reply::Accepted | Reply::Failed(_) => return None,
    };
    Some((Code { space, number }, text))
}

fn reply_of(outcome: &Outcome<'_>) -> Reply {
    match outcome {
        Outcome::Broadcast { code: 0, .. } | Outcome::Commit { check_code: 0, .. } => {
            Reply::Accepted
        }
        Outcome::Broadcast {
            code, codespace, ..
        }
        | Outcome::Commit {
            check_code: code,
            codespace,
            ..
        } => Reply::Rejected {
            code: *code,
            space: Codespace::named(codespace),
        },
        Outcome::Error { data, .. }
            if data.get(1..).is_some_and(|told| told.starts_with(NOT_YET)) =>
        {
            Reply::Failed(Failure::CommitTimeout)
        }
        // A full node refuses for lack of room, with the same code; this is refused for what it is.
        Outcome::Error { data, .. } if data.eq_ignore_ascii_case(IN_CACHE) => Reply::Rejected {
            code: SDK_IN_CACHE,
            space: Codespace::named("sdk"),
        },
        Outcome::Error { code, .. } => Reply::RpcError {
            code: i32::try_from(*code).unwrap_or(i32::MIN),
        },
        Outcome::Other => Reply::Failed(Failure::Malformed),
    }
}

/// The status of a node that is no longer catching up.
pub async fn caught_up(queries: &Client) -> anyhow::Result<Status> {
    let status = queries.status().await?;
    if status.catching_up {
        bail!(
            "the node at {} is catching up (height {}); wait until its status says catching_up false",
            queries.endpoint(),
            status.latest_block_height
        );
    }
    Ok(status)
}

/// What a block can carry; `None` where the node has no limit (-1) or does not give it.
async fn block_limits(queries: &Client) -> NodeLimits {
    #[derive(Deserialize)]
    struct ConsensusParams {
        consensus_params: Params,
    }
    #[derive(Deserialize)]
    struct Params {
        block: Block,
    }
    #[derive(Deserialize)]
    struct Block {
        max_bytes: String,
        max_gas: String,
    }
    let answer = queries
        .call::<ConsensusParams>("consensus_params", "{}")
        .await;
    let Ok(ConsensusParams { consensus_params }) = answer else {
        return NodeLimits::default();
    };
    NodeLimits {
        block_bytes: consensus_params.block.max_bytes.parse().ok(),
        block_gas: consensus_params.block.max_gas.parse().ok(),
        ..NodeLimits::default()
    }
}

/// CometBFT's error for a transaction that it has had (`ErrTxInCache`, mempool/errors.go; with a large letter up to
/// Tendermint 0.33).
const IN_CACHE: &str = "tx already exists in cache";
/// The number that the clients of the Cosmos SDK give that (`ErrTxInMempoolCache`, types/errors/errors.go of 0.50).
const SDK_IN_CACHE: u32 = 19;

/// tm-bench's default transaction size in bytes.
const DEFAULT_SIZE: usize = 250;
/// Also the status of a WebSocket message.
const HTTP_OK: u16 = 200;
/// The error of `BroadcastTxCommit` behind its first letter, which is large up to Tendermint 0.33 (rpc/core/mempool.go).
const NOT_YET: &str = "imed out waiting for tx to be included in a block";
/// CometBFT 0.38, types/block.go: `MaxOverheadForBlock` 11, `MaxHeaderBytes` 626, a commit of one
/// signature 94 + 109, and the frame of a transaction.
const BLOCK_OVERHEAD_BYTES: usize = 11 + 626 + 94 + 109 + 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_that_version_1_0_refuses_is_rejected_with_its_code_and_counted_as_such() {
        let target = Cometbft {
            method: BroadcastMethod::Sync,
            refusals: Arc::default(),
            sequences: None,
        };
        let mut replies = Vec::new();
        let dialect = testkit::Dialect::COMETBFT_1_0;
        let refused = dialect.answer("broadcast_tx_sync_refused").unwrap();
        let full = dialect.answer("mempool_full").unwrap();
        let in_cache = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error","data":"tx already exists in cache"}}"#;
        for body in [refused, full, in_cache] {
            let message = Message {
                status: HTTP_OK,
                body: body.as_bytes(),
                arrived_unix_ns: None,
            };
            target.read(&message, &mut |_, reply| replies.push(reply));
        }
        // A full mempool is no verdict on the transaction: that stays an error. That it was sent before is one.
        let again = Reply::Rejected {
            code: 19,
            space: Codespace::named("sdk"),
        };
        let full = Reply::RpcError { code: -32603 };
        let expected = [Reply::rejected(2), full, again];
        assert_eq!(replies, expected);
        let texts = Protocol::texts(&target).unwrap().lock();
        let texts: Vec<String> = texts.counts().keys().cloned().collect();
        assert!(
            texts.iter().any(|text| text.contains("mempool is full")),
            "{texts:?}"
        );
        assert!(
            !texts.iter().any(|text| text.contains("broadcast error")),
            "{texts:?}"
        );
    }
}
