//! `txmesh node`: one node of a mesh as a process. Sockets, timers and counting only: what the node
//! does is [`gossip::Node`]'s, what it says is [`gossip::app::App`]'s.
//!
//! One thread, one task a connection. Whoever brings something to the node also takes what comes out of
//! it and writes as much as the sockets take; a task waits only for its own socket.

mod codec_timer;
mod connection;
mod control;
mod dial;
mod engine;
mod links;
mod meter;
mod settings;
mod state;
mod tasks;

use std::fs::File;
use std::io::BufReader;
use std::rc::Rc;

use anyhow::{Context as _, bail};
use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::net::{TcpListener, UnixStream};
use tokio::task::LocalSet;

use super::control::{NodeConfig, Word};
use crate::cli::NodeArgs;
use engine::Engine;

/// Runs a node until it is told to end, or until whoever tells it has gone.
///
/// # Errors
/// The configuration cannot be used, or a socket cannot be opened.
pub(super) fn run(args: &NodeArgs) -> anyhow::Result<()> {
    let of_file = || args.config.display().to_string();
    let file = File::open(&args.config).with_context(of_file)?;
    let config: NodeConfig = serde_json::from_reader(BufReader::new(file)).with_context(of_file)?;
    pin(&config.cpus)?;
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
    let (mut orders, words) = control::open(control);
    words.say(&Word::Hello {
        node: config.node,
        listen,
    });
    let Some(peers) = orders.join().await else {
        bail!("was told to end before it was told to connect");
    };
    let source = config.source;
    let engine = Rc::new(Engine::new(config, listen, &peers, words)?);
    tasks::run(engine, listener, source, orders).await;
    Ok(())
}

/// Keeps the process on these CPUs; on all when there are none.
fn pin(cpus: &[usize]) -> anyhow::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu);
    }
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on the CPUs {cpus:?}"))
}
