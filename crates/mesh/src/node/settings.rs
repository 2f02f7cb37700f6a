//! A node's settings from its configuration.

use std::net::SocketAddr;

use gossip::{Endpoint, Peering, Relayed, Settings, topology};
use pacing::Nanos;

use crate::control::NodeConfig;
use crate::settings::Topology;

/// The settings of a node that listens there and knows where all others do.
///
/// # Errors
/// When an address is none that can be dialled.
pub(super) fn settings(
    config: &NodeConfig,
    listen: SocketAddr,
    peers: &[SocketAddr],
    relayed: Relayed,
) -> anyhow::Result<Settings> {
    let endpoint = |node: usize| {
        let address = peers
            .get(node)
            .map(|peer| (peer.ip().to_string(), peer.port()));
        let (host, port) = address.unwrap_or_default();
        Endpoint::new(&host, port)
    };
    let (own, nodes) = (usize::from(config.node), usize::from(config.nodes));
    let dialled = |lists: Vec<Vec<usize>>| {
        let own = lists.into_iter().nth(own).unwrap_or_default();
        own.into_iter().map(endpoint).collect::<Result<Vec<_>, _>>()
    };
    let peering = match config.topology {
        Topology::Full => Peering::fixed(dialled(topology::full(nodes))?),
        Topology::Random(links) => Peering::fixed(dialled(topology::random(
            nodes,
            usize::from(links),
            config.seed,
        ))?),
        Topology::Capped => Peering {
            // All nodes may be on one host.
            accept_every: Nanos::ZERO,
            ..Peering::capped(
                (0..nodes)
                    .filter(|node| *node != own)
                    .map(endpoint)
                    .collect::<Result<_, _>>()?,
            )
        },
    };
    let node = config.variant.node(config.fanout, config.queue, relayed);
    let mut settings = Settings { peering, ..node };
    settings.identity.node_id = u32::from(config.node) + 1;
    settings.identity.listen_port = listen.port();
    Ok(settings)
}
