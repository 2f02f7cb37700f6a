//! The nodes of a network, found from one of them.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use chain::Target;
use rpc::{ClientOptions, Endpoint, Trust};

use crate::settings::Observed;
use crate::shutdown::Shutdown;

/// Asks `first` for its peers until `wanted` nodes answer, itself included: all that do.
///
/// # Errors
/// When they do not within [`PATIENCE`].
pub(crate) fn discover(
    target: &dyn Target,
    first: &Endpoint,
    wanted: usize,
    trust: &Trust,
    shutdown: &Shutdown,
) -> anyhow::Result<Vec<Observed>> {
    let runtime = crate::runtime::start().context("nodes cannot be observed")?;
    let begun = Instant::now();
    loop {
        let nodes = runtime.block_on(answering(target, first, trust));
        if nodes.len() >= wanted {
            return Ok(nodes);
        }
        if begun.elapsed() >= PATIENCE || shutdown.is_requested() {
            let waited_s = begun.elapsed().as_secs();
            bail!(
                "{} nodes of the network answer where {wanted} are wanted, after {waited_s} s{}",
                nodes.len(),
                target.peers_hint()
            );
        }
        thread::sleep(PAUSE);
    }
}

/// The first node and those of its peers that answer.
async fn answering(target: &dyn Target, first: &Endpoint, trust: &Trust) -> Vec<Observed> {
    let options = || ClientOptions::new(QUERY_TIMEOUT, trust);
    let mut endpoints = vec![first.clone()];
    if let Ok(client) = target.connect(first, options()) {
        let mut peers = client.peers().await.unwrap_or_default();
        peers.sort_by_key(ToString::to_string);
        peers.dedup();
        peers.retain(|peer| peer != first);
        endpoints.extend(peers);
    }
    let mut nodes = Vec::new();
    for endpoint in endpoints {
        let Ok(client) = target.connect(&endpoint, options()) else {
            continue;
        };
        if client.pending(&[]).await.is_ok() {
            nodes.push(Observed {
                name: format!("node-{}", nodes.len()),
                endpoint,
                peer: None,
                pid: None,
                metrics: None,
                is_loaded: false,
            });
        }
    }
    nodes
}

const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// A network that has just been started needs that to find itself.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(500);
