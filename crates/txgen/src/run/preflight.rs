//! Before the first transaction: is every endpoint a node's RPC, up, and on one chain?

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rpc::{
    BigchaindbClient, Client, ClientError, ClientOptions, ConnectionOptions, Endpoint,
    bigchaindb_transactions_path,
};
use serde::Deserialize;

use crate::cli::Interface;
use crate::live::NodeState;
use crate::plan::{Plan, Target};
use crate::shard::Address;
use crate::workload::WorkloadError;

/// A checked target.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) address: Address,
    /// `None` for a BigchainDB server, which does not say.
    pub(super) chain_id: Option<String>,
    pub(super) version: String,
    /// Where the events of a BigchainDB server are.
    pub(super) events: Option<Endpoint>,
}

impl Node {
    /// What is known of it before its first block.
    pub(super) fn state(&self) -> NodeState {
        NodeState {
            name: self.address.endpoint.to_string(),
            version: self.version.clone(),
            ..NodeState::default()
        }
    }
}

/// Why the target cannot be measured. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// The host has no address.
    #[error("cannot resolve {endpoint}; check the host name")]
    Resolve {
        /// The endpoint.
        endpoint: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It does not answer as a node does.
    #[error(transparent)]
    Query(#[from] ClientError),
    /// The node is not ready.
    #[error(
        "the node at {endpoint} is catching up (height {height}); wait until its status says catching_up false"
    )]
    CatchingUp {
        /// The endpoint.
        endpoint: String,
        /// How far it is.
        height: u64,
    },
    /// The endpoints are not one network.
    #[error(
        "{endpoint} is on chain {chain_id:?}, but {first} is on {first_chain_id:?}; give endpoints of one chain"
    )]
    OtherChain {
        /// The odd one.
        endpoint: String,
        /// Its chain.
        chain_id: String,
        /// The first endpoint.
        first: String,
        /// The first one's chain.
        first_chain_id: String,
    },
    /// A BigchainDB server that names no event stream.
    #[error(
        "{endpoint} says that its events are at {streams:?}, which is no WebSocket; mend `wsserver` in its configuration, or use --no-follow"
    )]
    NoEvents {
        /// The endpoint.
        endpoint: String,
        /// What it names.
        streams: String,
    },
    /// Two endpoints are one socket.
    #[error(
        "{endpoint} and {other} are the same address ({socket}); name each node once and use --connections for more connections"
    )]
    SameAddress {
        /// The later one.
        endpoint: String,
        /// The earlier one.
        other: String,
        /// Where both lead.
        socket: SocketAddr,
    },
    /// A transaction would not fit.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The system refuses a runtime.
    #[error("cannot ask the nodes")]
    System(#[source] io::Error),
}

/// Checks every endpoint of the plan; `guest` is where the built-in node listens.
///
/// # Errors
/// The first thing that is wrong.
pub(super) fn check(plan: &Plan, guest: Option<SocketAddr>) -> Result<Vec<Node>, PreflightError> {
    let endpoints = match (&plan.target, guest) {
        (Target::Endpoints(endpoints), _) => endpoints.clone(),
        (Target::BuiltIn { transport, .. }, Some(address)) => {
            let endpoint = format!("{transport}://{address}")
                .parse()
                .expect("a socket address makes an endpoint");
            vec![endpoint]
        }
        (Target::BuiltIn { .. }, None) => Vec::new(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(PreflightError::System)?;
    let mut nodes: Vec<Node> = Vec::with_capacity(endpoints.len());
    for (number, endpoint) in endpoints.into_iter().enumerate() {
        let node = runtime.block_on(ask(plan, number as u16, endpoint))?;
        compare(&nodes, &node)?;
        nodes.push(node);
    }
    Ok(nodes)
}

async fn ask(plan: &Plan, number: u16, endpoint: Endpoint) -> Result<Node, PreflightError> {
    match plan.interface {
        Interface::Cometbft => ask_node(plan, number, endpoint).await,
        Interface::Bigchaindb => ask_bigchaindb(plan, number, endpoint).await,
    }
}

async fn ask_bigchaindb(
    plan: &Plan,
    number: u16,
    endpoint: Endpoint,
) -> Result<Node, PreflightError> {
    let socket = resolve(&endpoint)?;
    let client = BigchaindbClient::new(&endpoint, query_options(plan, QUERY_TIMEOUT))?;
    let about = client.about().await?;
    let events = about.events_of(&endpoint);
    if events.is_none() && plan.follow {
        return Err(PreflightError::NoEvents {
            endpoint: endpoint.to_string(),
            streams: about.streams,
        });
    }
    // Behind a gateway the API has a path before its own.
    let base = endpoint.path();
    let path = bigchaindb_transactions_path(plan.method);
    let path = format!("{}{path}", base.trim_end_matches('/'));
    Ok(Node {
        address: Address {
            number,
            endpoint,
            socket,
            interface: plan.interface,
            options: Arc::new(ConnectionOptions {
                trust: plan.trust.clone(),
                path: Some(path),
                ..ConnectionOptions::default()
            }),
        },
        chain_id: None,
        version: format!("BigchainDB {}", about.version),
        events,
    })
}

async fn ask_node(plan: &Plan, number: u16, endpoint: Endpoint) -> Result<Node, PreflightError> {
    let socket = resolve(&endpoint)?;
    let client = Client::with_options(&endpoint, query_options(plan, QUERY_TIMEOUT))?;
    let status = client.status().await?;
    if status.catching_up {
        return Err(PreflightError::CatchingUp {
            endpoint: endpoint.to_string(),
            height: status.latest_block_height,
        });
    }
    if let Some(limit) = block_limit(&client).await {
        plan.workload.check_limit(
            limit,
            "the consensus parameters' block.max_bytes, less the header and the commit",
        )?;
    }
    Ok(Node {
        address: Address {
            number,
            endpoint,
            socket,
            interface: plan.interface,
            options: Arc::new(ConnectionOptions {
                trust: plan.trust.clone(),
                ..ConnectionOptions::default()
            }),
        },
        chain_id: Some(status.chain_id),
        version: status.version,
        events: None,
    })
}

/// Options of a client that asks and does not load.
pub(super) fn query_options(plan: &Plan, timeout: Duration) -> ClientOptions {
    ClientOptions {
        timeout,
        trust: plan.trust.clone(),
        ..ClientOptions::default()
    }
}

fn resolve(endpoint: &Endpoint) -> Result<SocketAddr, PreflightError> {
    let failed = |source| PreflightError::Resolve {
        endpoint: endpoint.to_string(),
        source,
    };
    let addresses = endpoint.resolve().map_err(failed)?;
    let first = addresses.first().copied();
    // A name such as localhost has several addresses, and the node may listen on one of them only.
    addresses
        .into_iter()
        .find(|address| TcpStream::connect_timeout(address, QUERY_TIMEOUT).is_ok())
        .or(first)
        .ok_or_else(|| failed(io::Error::other("the name has no address")))
}

/// What a block can carry of one transaction; `None` when the node has no limit or does not say.
async fn block_limit(client: &Client) -> Option<usize> {
    #[derive(Deserialize)]
    struct Answer {
        consensus_params: Params,
    }
    #[derive(Deserialize)]
    struct Params {
        block: Block,
    }
    #[derive(Deserialize)]
    struct Block {
        max_bytes: String,
    }
    let answer: Answer = client.call("consensus_params", "{}").await.ok()?;
    let max_bytes: usize = answer.consensus_params.block.max_bytes.parse().ok()?;
    Some(max_bytes.saturating_sub(BLOCK_OVERHEAD_BYTES))
}

fn compare(earlier: &[Node], node: &Node) -> Result<(), PreflightError> {
    let endpoint = || node.address.endpoint.to_string();
    if let Some(first) = earlier.first()
        && first.chain_id != node.chain_id
    {
        return Err(PreflightError::OtherChain {
            endpoint: endpoint(),
            chain_id: node.chain_id.clone().unwrap_or_default(),
            first: first.address.endpoint.to_string(),
            first_chain_id: first.chain_id.clone().unwrap_or_default(),
        });
    }
    let same = earlier
        .iter()
        .find(|earlier| earlier.address.socket == node.address.socket);
    if let Some(same) = same {
        return Err(PreflightError::SameAddress {
            endpoint: endpoint(),
            other: same.address.endpoint.to_string(),
            socket: node.address.socket,
        });
    }
    Ok(())
}

const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// CometBFT 0.38, types/block.go: `MaxOverheadForBlock` 11, `MaxHeaderBytes` 626, a commit of one
/// signature 94 + 109, and the frame of a transaction.
const BLOCK_OVERHEAD_BYTES: usize = 11 + 626 + 94 + 109 + 16;
