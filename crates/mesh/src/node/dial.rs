//! Opens the connections that the node orders.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use gossip::Endpoint;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::timeout;

/// Dials once.
pub(super) async fn dial(endpoint: &Endpoint, source: Option<IpAddr>) -> Option<TcpStream> {
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

const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
