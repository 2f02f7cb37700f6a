//! The HTTP API and the event stream of a BigchainDB server.

use std::num::NonZeroU32;
use std::sync::Arc;

use anyhow::bail;
use measure::{Failure, IdText, RefusalTexts, Reply, TxHash};
use parking_lot::Mutex;
use rpc::{
    BigchaindbClient, BroadcastMethod, ClientError, ClientOptions, Endpoint, Mempool, Message,
    bigchaindb_transactions_path,
};

use super::{BuiltIn, Facts, FollowWith, Followed, Limits, Probe, ReplyTo, Target, TargetOptions};
use crate::workload::{TxName, Workload, WorkloadError, WorkloadKind, bigchain_id};

/// A BigchainDB server, given transactions by `POST /api/v1/transactions`.
#[derive(Debug, Clone)]
pub struct Bigchaindb {
    method: BroadcastMethod,
    follow: bool,
    /// Shared by the clones of all threads, and touched by what is no answer only.
    texts: Arc<Mutex<RefusalTexts>>,
}

impl Target for Bigchaindb {
    type Queries = BigchaindbClient;

    const FACTS: &'static Facts = &Facts {
        name: "bigchaindb",
        ids: IdText::LowerHex,
        workload: &WorkloadKind::BigchainCreate,
        no_kvstore: Some(
            "means nothing to a BigchainDB; use bigchaindb-create or bigchaindb-transfer",
        ),
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
        answers_unchecked: false,
        method_prefix: "mode=",
        interface: Some("its HTTP API"),
        built_in: BuiltIn::BigchaindbApi,
        ..Facts::COMETBFT
    };

    fn new(options: TargetOptions) -> Self {
        Self {
            method: options.method,
            follow: options.follow,
            texts: Arc::default(),
        }
    }

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

    /// The status says it: 202 with the transaction when it was taken, 400 when the server refuses it,
    /// 500 when its Tendermint does, each with a JSON object. Anything else comes from somebody else.
    fn read(&self, message: &Message<'_>, replies: &mut impl FnMut(ReplyTo, Reply)) {
        let is_object = message.body.trim_ascii_start().starts_with(b"{");
        let reply = match message.status {
            202 if is_object => Reply::Accepted,
            202 => Reply::Failed(Failure::Malformed),
            status @ (400 | 500) if is_object => Reply::rejected(u32::from(status)),
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

    fn queries(
        endpoint: &Endpoint,
        options: ClientOptions,
    ) -> Result<BigchaindbClient, ClientError> {
        BigchaindbClient::new(endpoint, options)
    }

    async fn probe(
        &self,
        endpoint: &Endpoint,
        queries: &BigchaindbClient,
        _: &Workload,
    ) -> anyhow::Result<Probe> {
        let about = queries.about().await?;
        let events = about.events_of(endpoint);
        if events.is_none() && self.follow {
            bail!(
                "{endpoint} says that its events are at {:?}, which is not a WebSocket; correct `wsserver` in its \
                 configuration, or use --no-follow",
                about.streams
            );
        }
        // Behind a gateway the API has a path before its own.
        let base = endpoint.path();
        let path = bigchaindb_transactions_path(self.method);
        Ok(Probe {
            chain_id: None,
            version: format!("BigchainDB {}", about.version),
            path: Some(format!("{}{path}", base.trim_end_matches('/'))),
            events,
            ..Probe::default()
        })
    }

    fn follow(probe: &Probe, with: FollowWith<'_>) -> Result<Followed, ClientError> {
        let clock = move || with.clock.now();
        // A probe of a node that is followed has found its events.
        let events = probe.events.as_ref().unwrap_or(with.endpoint);
        let (follower, worker) =
            rpc::follow_bigchaindb(with.endpoint, events, with.options, clock, with.shutdown)?;
        Ok((follower, Box::pin(worker.run())))
    }

    /// The API does not tell how many transactions wait, but whether one has been committed.
    async fn pending(
        queries: &BigchaindbClient,
        own: &[String],
    ) -> Result<Option<Mempool>, ClientError> {
        let mut waiting = 0;
        for id in own {
            waiting += u64::from(!queries.is_committed(id).await?);
        }
        Ok((!own.is_empty()).then_some(Mempool {
            txs: waiting,
            bytes: 0,
        }))
    }
}
