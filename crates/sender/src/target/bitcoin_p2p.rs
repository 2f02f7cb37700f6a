//! The peer-to-peer protocol of a Bitcoin node.
//!
//! Transactions are sent as `tx` messages unasked, which btcd takes (`handleTxMsg` in its `netsync/manager.go`) and
//! which saves a round trip and a table of what is asked for. There are no answers: another connection, on which
//! nothing is sent, is told what the node announces.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use measure::{RefusalTexts, Reply, TxHash};
use parking_lot::Mutex;
use rpc::{
    ClientError, ClientOptions, Endpoint, Mempool, Message, PEER_NETWORKS, PeerNetwork,
    PeerRejection, Transport, probe_peer, write_peer_tx,
};

use super::{
    BitcoinNode, BuiltIn, Facts, FollowWith, Followed, Limits, Probe, ReplyTo, Target,
    TargetOptions,
};
use crate::workload::bitcoin::{bitcoin_id, hash_text};
use crate::workload::{TxName, Workload, WorkloadError};

/// A Bitcoin node, given transactions as one of its peers gives them.
#[derive(Debug, Clone)]
pub struct BitcoinPeer {
    network: PeerNetwork,
    /// Shared by the clones of all threads, and touched by rejections only.
    refusals: Arc<Mutex<RefusalTexts>>,
}

/// Asks a node as a peer does.
#[derive(Debug, Clone)]
pub struct PeerQueries {
    endpoint: Endpoint,
    timeout: Duration,
}

impl Target for BitcoinPeer {
    type Queries = PeerQueries;
    /// What a peer is not told, the JSON-RPC of other nodes tells.
    type Observed = BitcoinNode;

    const FACTS: &'static Facts = &Facts {
        name: "bitcoin-p2p",
        no_websocket: Some("takes transactions over bitcoin-p2p, not over ws"),
        no_sentinel: Some(
            "sentinel stands in front of a CometBFT's RPC; leave out target = \"bitcoin-p2p\"",
        ),
        transport: Some(Transport::P2p),
        most_connections: NonZeroU32::MIN,
        acceptance: Some(
            "accepted is the first announcement (inv) of a transaction at a connection that only listens; nodes \
             announce some at a time (btcd each 10 s unless --trickleinterval says otherwise), and times to \
             acceptance are as coarse as that. What is never announced was refused or is unknown",
        ),
        method_prefix: "tx message, ",
        interface: Some("bitcoin-p2p"),
        built_in: BuiltIn::BitcoinPeers,
        ..*BitcoinNode::FACTS
    };

    fn new(_: TargetOptions) -> Self {
        Self {
            network: PEER_NETWORKS[0],
            refusals: Arc::default(),
        }
    }

    fn probed(self, probe: &Probe) -> Self {
        Self {
            network: probe.network.unwrap_or(self.network),
            ..self
        }
    }

    fn encode(
        &self,
        index: u64,
        tx: &[u8],
        name: TxName,
        out: &mut Vec<u8>,
    ) -> Result<TxHash, WorkloadError> {
        write_peer_tx(out, self.network.magic, tx);
        match name {
            TxName::Known(id) => Ok(id),
            TxName::Hash | TxName::Sequenced(_) => bitcoin_id(index, tx),
        }
    }

    /// A rejection is counted with its text. It ends no transaction: few nodes send any, and a transaction that one
    /// of them rejects may have been accepted before.
    fn read(&self, message: &Message<'_>, _: &mut impl FnMut(ReplyTo, Reply)) {
        if let Some(rejection) = PeerRejection::read(message.body) {
            let code = format!("{:#04x}", rejection.code);
            self.refusals.lock().count(&code, &rejection.reason);
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            answers: false,
            ..Limits::default()
        }
    }

    fn texts(&self) -> Option<&Mutex<RefusalTexts>> {
        Some(&self.refusals)
    }

    fn queries(endpoint: &Endpoint, options: ClientOptions) -> Result<PeerQueries, ClientError> {
        Ok(PeerQueries {
            endpoint: endpoint.clone(),
            timeout: options.timeout,
        })
    }

    async fn probe(
        &self,
        _: &Endpoint,
        queries: &PeerQueries,
        workload: &Workload,
    ) -> anyhow::Result<Probe> {
        let info = probe_peer(&queries.endpoint, queries.timeout).await?;
        let offered = workload
            .bitcoin()
            .map(|workload| workload.spec().fee_rate * 1_000);
        if let Some((offered, wanted)) = offered.zip(info.fee_filter)
            && offered < wanted
        {
            bail!(
                "--fee-rate pays {offered} satoshi for 1,000 bytes, and the node asks for none that pay less \
                 than {wanted} (feefilter); use --fee-rate {}",
                wanted.div_ceil(1_000)
            );
        }
        Ok(Probe {
            chain_id: Some(hash_text(&info.network.genesis)),
            version: format!("Bitcoin node {} on {}", info.user_agent, info.network),
            network: Some(info.network),
            ..Probe::default()
        })
    }

    fn follow(probe: &Probe, with: FollowWith<'_>) -> Result<Followed, ClientError> {
        let clock = move || with.clock.now();
        let network = probe.network.unwrap_or(PEER_NETWORKS[0]);
        let (follower, task) =
            rpc::follow_bitcoin_peer(with.endpoint, network, with.options, clock, with.shutdown);
        Ok((follower, Box::pin(task)))
    }

    /// A peer is not told how many transactions wait.
    async fn pending(_: &PeerQueries, _: &[String]) -> Result<Option<Mempool>, ClientError> {
        Ok(None)
    }
}
