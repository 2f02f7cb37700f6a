//! What runs on the node's thread: the loop that takes commands and accepts connections, a task for each connection,
//! and one for each endpoint that is dialled.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use gossip::{Endpoint, Origin, PeerId};
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Orders;
use super::connection::{Connection, Wrote};
use super::engine::{Engine, Task};
use crate::control::Order;

/// Serves until the program ends the node, or has ended itself.
pub(super) async fn run(
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
                Task::Serve(peer, connection) => tasks.spawn_local(serve(connection, peer, engine)),
                Task::Dial(endpoint) => tasks.spawn_local(link(endpoint, source, engine)),
            };
        }
    }
    tasks.shutdown().await;
    engine.finish().await;
}

/// Serves a connection until it ends.
async fn serve(connection: Rc<Connection>, peer: PeerId, engine: Rc<Engine>) {
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
