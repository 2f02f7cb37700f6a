//! The nodes of a run before its first transaction: every endpoint has to be a node's RPC, up, and on one chain.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use chain::{Learning, NodeClient, Probe};
use pacing::Nanos;
use rpc::{ClientOptions, ConnectionOptions, Endpoint};
use sender::shard::Address;

use crate::live::NodeState;
use crate::plan::{Guest, Plan};
use crate::shutdown::Shutdown;

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

/// Checks every endpoint of the plan; `guest` is where the built-in node listens. Nothing when the user stopped it.
///
/// # Errors
/// The first thing that is wrong.
pub(super) fn check(
    plan: &Plan,
    guest: Option<Guest>,
    shutdown: &Shutdown,
) -> anyhow::Result<Option<Vec<Node>>> {
    let endpoints = plan.nodes.endpoints(guest);
    let runtime = crate::runtime().context("cannot ask the nodes")?;
    let mut nodes: Vec<Node> = Vec::with_capacity(endpoints.len());
    for (number, endpoint) in endpoints.into_iter().enumerate() {
        let node = runtime.block_on(async {
            tokio::select! {
                node = ask(plan, number as u16, endpoint) => node.map(Some),
                () = shutdown.requested() => Ok(None),
            }
        });
        let Some(node) = node? else {
            return Ok(None);
        };
        compare(&nodes, &node)?;
        nodes.push(node);
    }
    Ok(Some(nodes))
}

/// The plan with what the workload needs to know of the chain, if it needs something.
///
/// # Errors
/// When the chain does not answer, or its answer makes the load impossible.
pub(super) fn learn(plan: &Plan, nodes: &[Node]) -> anyhow::Result<Option<Plan>> {
    let Some(node) = nodes.first() else {
        return Ok(None);
    };
    let runtime = crate::runtime().context("cannot ask the nodes")?;
    let learnt = runtime.block_on(plan.workload.learn(Learning {
        endpoint: &node.address.endpoint,
        options: ClientOptions::new(QUERY_TIMEOUT, &plan.trust),
        probe: &node.probe,
        planned: plan.planned_by_all(),
    }))?;
    Ok(learnt.map(|workload| Plan {
        workload,
        ..plan.clone()
    }))
}

async fn ask(plan: &Plan, number: u16, endpoint: Endpoint) -> anyhow::Result<Node> {
    let socket = resolve(&endpoint)?;
    let options = ClientOptions::new(QUERY_TIMEOUT, &plan.trust);
    let client = plan.target.target().connect(&endpoint, options)?;
    let probe = client.probe(&plan.load_options()).await?;
    let round_trip = if plan.most_connections > plan.connections {
        round_trip(client.as_ref()).await
    } else {
        Nanos::ZERO
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
                gets: plan.workload.queries().is_some(),
                ..ConnectionOptions::default()
            }),
        },
        probe,
        round_trip,
    })
}

/// The shortest of some queries for the mempool's size.
async fn round_trip(client: &dyn NodeClient) -> Nanos {
    let mut shortest = Nanos::MAX;
    for _ in 0..ROUND_TRIPS {
        let asked = Instant::now();
        // An error has its round trip too.
        let _ = client.pending(&[]).await;
        shortest = shortest.min(asked.elapsed().into());
    }
    shortest
}

fn resolve(endpoint: &Endpoint) -> anyhow::Result<SocketAddr> {
    let failed = || format!("cannot resolve {endpoint}; check the host name");
    let addresses = endpoint.resolve().with_context(failed)?;
    let first = addresses.first().copied();
    // A name such as localhost has several addresses, and the node may listen on one of them only.
    addresses
        .into_iter()
        .find(|address| TcpStream::connect_timeout(address, QUERY_TIMEOUT).is_ok())
        .or(first)
        .ok_or_else(|| anyhow!("the name has no address").context(failed()))
}

fn compare(earlier: &[Node], node: &Node) -> anyhow::Result<()> {
    let endpoint = &node.address.endpoint;
    let chain = |node: &Node| node.probe.chain_id.clone().unwrap_or_default();
    if let Some(first) = earlier.first()
        && first.probe.chain_id != node.probe.chain_id
    {
        bail!(
            "{endpoint} is on chain {:?}, but {} is on {:?}; give endpoints of one chain",
            chain(node),
            first.address.endpoint,
            chain(first)
        );
    }
    let socket = node.address.socket;
    let mut others = earlier.iter().map(|earlier| &earlier.address);
    if let Some(other) = others.find(|other| other.socket == socket) {
        bail!(
            "{endpoint} and {} are the same address ({socket}); name each node once and use --connections for \
             more connections",
            other.endpoint
        );
    }
    Ok(())
}

/// The first may open a connection.
const ROUND_TRIPS: usize = 3;
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
