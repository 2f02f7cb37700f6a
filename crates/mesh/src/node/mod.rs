//! `txmesh node`: one node of a mesh as a process. Sockets, timers and counting only: the protocol is
//! [`gossip::Node`]'s, the traffic is [`gossip::app::App`]'s.
//!
//! One thread, one task a connection. The task that brings an event to the node also carries out what the node
//! returns, and writes as much as the sockets take; a task waits only for its own socket.

mod connection;
mod control;
mod engine;
mod meter;
mod shaper;
mod state;
mod tasks;

use std::fs::File;
use std::io::BufReader;
use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::{Context as _, bail};
use gossip::{Endpoint, Relayed, Settings};
use tokio::net::{TcpListener, UnixStream};
use tokio::task::LocalSet;

use super::control::{NodeConfig, NodeMessage};
use crate::cli::NodeArgs;
use engine::Engine;

/// Runs a node until the program ends it, or has ended itself.
///
/// # Errors
/// The configuration cannot be used, or a socket cannot be opened.
pub(super) fn run(args: &NodeArgs) -> anyhow::Result<()> {
    let of_file = || args.config.display().to_string();
    let file = File::open(&args.config).with_context(of_file)?;
    let config: NodeConfig = serde_json::from_reader(BufReader::new(file)).with_context(of_file)?;
    // What cannot be raised shows when a connection is refused.
    let _ = ops::open_files::allow(connection::MAX_CONNECTIONS as u64);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the node's runtime")?;
    LocalSet::new().block_on(&runtime, serve(config))
}

async fn serve(config: NodeConfig) -> anyhow::Result<()> {
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {}", config.listen))?;
    let listen = listener
        .local_addr()
        .context("the listener has no address")?;
    let control = UnixStream::connect(&config.control)
        .await
        .with_context(|| format!("cannot reach {}", config.control.display()))?;
    let (mut orders, writer) = control::open(control);
    writer.send(&NodeMessage::Hello {
        node: config.node,
        listen,
    });
    let Some(peers) = orders.join().await else {
        bail!("the program ended before it sent the addresses of the nodes");
    };
    let source = config.source;
    let engine = Rc::new(Engine::new(config, listen, &peers, writer)?);
    tasks::run(engine, listener, source, orders).await;
    Ok(())
}

/// The settings of a node that listens there, with the addresses of all nodes.
///
/// # Errors
/// When an address is none that can be dialled.
fn settings(
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
    let plan = &config.plan;
    let dials = plan.topology.dials(plan.nodes, plan.seed);
    let own = usize::from(config.node);
    let dialled = dials.into_iter().nth(own).unwrap_or_default();
    let dialled = dialled.into_iter().map(endpoint);
    let node = plan.variant.node(plan.fanout, plan.queue, relayed);
    let mut settings = Settings {
        dialled: dialled.collect::<Result<_, _>>()?,
        remembered: plan.remembered as usize,
        ..node
    };
    settings.identity.node_id = u32::from(config.node) + 1;
    settings.identity.listen_port = listen.port();
    Ok(settings)
}
