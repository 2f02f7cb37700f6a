//! `txmesh node`: one node of a mesh as a process. Sockets, timers and counting only: the protocol is
//! [`gossip::Node`]'s, the traffic is [`gossip::app::App`]'s.
//!
//! One thread, one task a connection. The task that brings an event to the node also carries out what the node
//! returns, and writes as much as the sockets take; a task waits only for its own socket.

mod connection;
mod engine;
mod state;

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use connection::{Connection, Wrote};
use engine::{Engine, Task};
use gossip::{Endpoint, Origin, PeerId, Relayed, Settings};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixStream, lookup_host};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::{JoinHandle, JoinSet, LocalSet};
use tokio::time::timeout;

use crate::cli::NodeArgs;
use crate::control::{NodeConfig, NodeMessage, Order};

/// Runs a node until the program ends it, or has ended itself.
///
/// # Errors
/// The configuration cannot be used, or a socket cannot be opened.
pub(super) fn run(args: &NodeArgs) -> anyhow::Result<()> {
    let of_file = || args.config.display().to_string();
    let file = File::open(&args.config).with_context(of_file)?;
    let config: NodeConfig =
        serde_json::from_reader(io::BufReader::new(file)).with_context(of_file)?;
    // What cannot be raised shows when a connection is refused.
    let _ = ops::process::allow_open_files(connection::MAX_CONNECTIONS as u64);
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
    let (mut orders, writer) = open(control);
    writer.send(&NodeMessage::Hello {
        node: config.node,
        listen,
    });
    let Some(peers) = orders.join().await else {
        bail!("the program ended before it sent the addresses of the nodes");
    };
    let source = config.source;
    let engine = Rc::new(Engine::new(config, listen, &peers, writer)?);
    work(engine, listener, source, orders).await;
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

/// The commands of the program.
struct Orders {
    lines: Lines<BufReader<OwnedReadHalf>>,
}

/// The messages to the program, in order.
struct ControlWriter {
    /// `None` after the last message.
    lines: Option<Sender<Vec<u8>>>,
    writer: Option<JoinHandle<()>>,
}

fn open(stream: UnixStream) -> (Orders, ControlWriter) {
    let (reading, writing) = stream.into_split();
    let (lines, waiting) = mpsc::channel(LINES_WAITING);
    let writer = tokio::task::spawn_local(write(writing, waiting));
    let orders = Orders {
        lines: BufReader::new(reading).lines(),
    };
    let writer_end = ControlWriter {
        lines: Some(lines),
        writer: Some(writer),
    };
    (orders, writer_end)
}

impl Orders {
    /// The next command; `None` when the program has ended.
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped.
    async fn next(&mut self) -> Option<Order> {
        let line = self.lines.next_line().await.ok()??;
        // A command that cannot be read comes from another version: the node ends.
        serde_json::from_str(&line).ok()
    }

    /// The addresses of all nodes, from the first command.
    async fn join(&mut self) -> Option<Vec<SocketAddr>> {
        match self.next().await? {
            Order::Join { peers } => Some(peers),
            _ => None,
        }
    }
}

impl ControlWriter {
    /// Sends a message. It is dropped when those of a quarter of an hour wait.
    fn send(&self, message: &NodeMessage) {
        if let (Some(lines), Ok(mut line)) = (&self.lines, serde_json::to_vec(message)) {
            line.push(b'\n');
            let _ = lines.try_send(line);
        }
    }

    /// Ends the messages; the task that is given ends when all are written.
    fn close(&mut self) -> Option<JoinHandle<()>> {
        self.lines = None;
        self.writer.take()
    }
}

async fn write(mut stream: OwnedWriteHalf, mut lines: Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if stream.write_all(&line).await.is_err() {
            return;
        }
    }
}

const LINES_WAITING: usize = 1024;

/// Serves until the program ends the node, or has ended itself.
async fn work(
    engine: Rc<Engine>,
    listener: TcpListener,
    source: Option<IpAddr>,
    mut orders: Orders,
) {
    let mut tasks = JoinSet::new();
    engine.on_time();
    loop {
        let next = engine.next_timer();
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, from)) = accepted {
                    engine.connected(stream, Origin::Accepted(from.ip().to_string()));
                }
            }
            () = engine.woken() => {}
            () = tokio::time::sleep_until(next) => engine.on_time(),
            order = orders.next() => match order {
                Some(Order::Finish {}) | None => break,
                Some(order) => engine.on_order(&order),
            },
            Some(_) = tasks.join_next() => {}
        }
        for task in engine.take_tasks() {
            let engine = Rc::clone(&engine);
            match task {
                Task::Serve(peer, connection) => {
                    tasks.spawn_local(serve_connection(connection, peer, engine))
                }
                Task::Dial(endpoint) => tasks.spawn_local(link(endpoint, source, engine)),
            };
        }
    }
    tasks.shutdown().await;
    engine.finish().await;
}

/// Serves a connection until it ends.
async fn serve_connection(connection: Rc<Connection>, peer: PeerId, engine: Rc<Engine>) {
    let mut buffer = vec![0; READ_BYTES];
    while !connection.is_closed() {
        let Some(ready) = connection.ready().await else {
            continue;
        };
        let Ok(ready) = ready else {
            break;
        };
        if connection.waits() && ready.is_writable() {
            match connection.write_on() {
                Wrote::All => engine.writable(peer),
                Wrote::Part => {}
                Wrote::Broken => break,
            }
        }
        if ready.is_readable() || ready.is_read_closed() {
            match connection.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => engine.bytes(peer, &buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
    }
    if !connection.is_closed() {
        engine.closed(peer);
    }
}

/// Dials once; the node asks for it again when that fails.
async fn link(endpoint: Endpoint, source: Option<IpAddr>, engine: Rc<Engine>) {
    if let Some(stream) = dial(&endpoint, source).await {
        engine.connected(stream, Origin::Dialled(endpoint));
    }
}

async fn dial(endpoint: &Endpoint, source: Option<IpAddr>) -> Option<TcpStream> {
    timeout(DIAL_TIMEOUT, connect(endpoint, source))
        .await
        .ok()?
        .ok()
}

async fn connect(endpoint: &Endpoint, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let to = lookup_host((endpoint.host(), endpoint.port()))
        .await?
        .next();
    let to = to.ok_or_else(|| io::Error::other("the host has no address"))?;
    let socket = match to {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if let Some(source) = source.filter(|source| !source.is_unspecified()) {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    socket.connect(to).await
}

/// Some hundred parcels: more would keep the other connections waiting.
const READ_BYTES: usize = 64 * 1024;
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
