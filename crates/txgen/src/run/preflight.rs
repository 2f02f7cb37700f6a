//! Before the first transaction: is every endpoint a node's RPC, up, and on one chain?

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pacing::Nanos;
use rpc::{ClientOptions, ConnectionOptions, Endpoint, PEER_NETWORKS};

use crate::live::NodeState;
use crate::plan::{Guest, Plan};
use crate::shard::Address;
use crate::target::{Probe, ProbeError, Target};

/// A checked target.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) address: Address,
    pub(super) probe: Probe,
    /// How long a small answer takes; zero where it did not matter.
    pub(super) round_trip: Nanos,
}

impl Node {
    /// Its address as people write it.
    pub(super) fn url(&self) -> String {
        self.address.endpoint.to_string()
    }

    /// What is known of it before its first block.
    pub(super) fn state(&self) -> NodeState {
        NodeState {
            name: self.url(),
            version: self.probe.version.clone(),
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
    /// It cannot be loaded.
    #[error(transparent)]
    Probe(#[from] ProbeError),
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
    /// The system refuses a runtime.
    #[error("cannot ask the nodes")]
    System(#[source] io::Error),
}

/// Checks every endpoint of the plan; `guest` is where the built-in node listens.
///
/// # Errors
/// The first thing that is wrong.
pub(super) fn check<T: Target>(
    target: &T,
    plan: &Plan,
    guest: Option<Guest>,
) -> Result<Vec<Node>, PreflightError> {
    let endpoints = plan.nodes.endpoints(guest);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(PreflightError::System)?;
    let mut nodes: Vec<Node> = Vec::with_capacity(endpoints.len());
    for (number, endpoint) in endpoints.into_iter().enumerate() {
        let node = runtime.block_on(ask(target, plan, number as u16, endpoint))?;
        compare(&nodes, &node)?;
        nodes.push(node);
    }
    Ok(nodes)
}

/// The plan with what the workload needs to know of the chain, if it needs something.
///
/// # Errors
/// When the chain does not say it, or what it says makes the load impossible.
pub(super) fn learn<T: Target>(
    target: &T,
    plan: &Plan,
    nodes: &[Node],
) -> Result<Option<Plan>, PreflightError> {
    let Some(node) = nodes.first() else {
        return Ok(None);
    };
    let endpoint = &node.address.endpoint;
    let queries =
        T::queries(endpoint, query_options(plan, QUERY_TIMEOUT)).map_err(ProbeError::Query)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(PreflightError::System)?;
    let (workload, planned) = (&plan.workload, plan.planned_by_all());
    let learnt = runtime.block_on(target.learn(&queries, &node.probe, workload, planned))?;
    Ok(learnt.map(|workload| Plan {
        workload,
        ..plan.clone()
    }))
}

async fn ask<T: Target>(
    target: &T,
    plan: &Plan,
    number: u16,
    endpoint: Endpoint,
) -> Result<Node, PreflightError> {
    let socket = resolve(&endpoint)?;
    let queries =
        T::queries(&endpoint, query_options(plan, QUERY_TIMEOUT)).map_err(ProbeError::Query)?;
    let probe = target.probe(&endpoint, &queries, &plan.workload).await?;
    let round_trip = match plan.most_connections > plan.connections {
        true => round_trip::<T>(&queries).await,
        false => Nanos::ZERO,
    };
    Ok(Node {
        address: Address {
            number,
            endpoint,
            socket,
            options: Arc::new(ConnectionOptions {
                trust: plan.trust.clone(),
                path: probe.path.clone(),
                arrival_stamps: true,
                magic: probe.network.unwrap_or(PEER_NETWORKS[0]).magic,
                ..ConnectionOptions::default()
            }),
        },
        probe,
        round_trip,
    })
}

/// The shortest of some queries for the mempool's size.
async fn round_trip<T: Target>(queries: &T::Queries) -> Nanos {
    let mut shortest = Nanos::MAX;
    for _ in 0..ROUND_TRIPS {
        let asked = Instant::now();
        // An error has its round trip too.
        let _ = T::pending(queries, &[]).await;
        shortest = shortest.min(asked.elapsed().into());
    }
    shortest
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

fn compare(earlier: &[Node], node: &Node) -> Result<(), PreflightError> {
    let endpoint = || node.address.endpoint.to_string();
    if let Some(first) = earlier.first()
        && first.probe.chain_id != node.probe.chain_id
    {
        return Err(PreflightError::OtherChain {
            endpoint: endpoint(),
            chain_id: node.probe.chain_id.clone().unwrap_or_default(),
            first: first.address.endpoint.to_string(),
            first_chain_id: first.probe.chain_id.clone().unwrap_or_default(),
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

/// The first may open a connection.
const ROUND_TRIPS: usize = 3;
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
