//! From a listener to connections, and to their end. A connection that a proxy in TCP mode has passed on begins with a
//! PROXY header, which names the client.

use std::future::pending;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::{BoxFuture, FutureExt as _};
use ops::accept::{Accept, Acceptor};
use socket2::SockRef;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_rustls::rustls::ServerConfig;
use wire::proxy::{ProxyHeader, read_proxy_header};

use super::backend::Backend;
use super::encrypted::{Encrypted, handshake};
use super::http::Connection;
use super::socket::Stream;
use super::{Shared, http2};
use crate::budget::Held;
use crate::identity::{Peer, denied};
use crate::refusal::{Reason, Refusal};

/// Bytes that a connection's socket takes before it has sent others. The kernel would take megabytes of
/// each client that reads nothing, in memory that no account here has, and copying them delays everybody;
/// what is sent and unconfirmed does not count, so a fast client far away is not slowed down.
const UNSENT_BYTES: u32 = 128 << 10;

/// Sets what connections inherit from their listener (as on Linux all of this), so that it costs no call
/// for each.
pub(super) fn prepare(listener: &TcpListener) {
    let socket = SockRef::from(listener);
    // Answers are small and complete: waiting for more to send would only delay them.
    let set = socket.set_tcp_nodelay(true);
    if let Err(error) = set.and_then(|()| socket.set_tcp_notsent_lowat(UNSENT_BYTES)) {
        tracing::warn!(%error, "the listener keeps the system's settings; answers may be slow");
    }
}

/// Serves until the shutdown begins, then until the last connection has ended or the budget is used up.
/// Returns how many connections were cut off.
pub(super) async fn serve<B, A>(front: Arc<Shared<B>>, listener: A) -> usize
where
    B: Backend,
    A: Accept,
    A::Stream: Stream,
{
    let mut turns = JoinSet::new();
    turns.spawn(front.budget.clone().hand_out_turns());
    let serving = accept(&front, listener, |connections, stream, address| {
        admit(&front, connections, stream, address);
    });
    tokio::select! {
        biased;
        cut_off = serving => cut_off,
        // Nothing long is served any more; the listener's task ends.
        _ = turns.join_next() => 0,
    }
}

/// Takes connections until the shutdown begins, then waits until the last one has ended or the budget is used up.
/// Returns how many connections were cut off.
pub(super) async fn accept<B: Backend, A: Accept>(
    front: &Shared<B>,
    listener: A,
    admit: impl Fn(&mut JoinSet<()>, A::Stream, SocketAddr),
) -> usize {
    let mut connections = JoinSet::new();
    front.listeners.fetch_add(1, Ordering::Relaxed);
    let mut acceptor = Acceptor::new(listener);
    let stop = front.stop.clone();
    let mut left = std::pin::pin!(front.leave.cancelled());
    loop {
        tokio::select! {
            biased;
            () = &mut left => break,
            Some(ended) = connections.join_next() => note(&ended),
            (stream, peer) = acceptor.next() => admit(&mut connections, stream, peer),
        }
    }
    drop(acceptor);
    let patience = front.config.load().shutdown.drain;
    // Another process accepts now: what is connected here, at any listener, is served, and then this one stops.
    if front.leave.is_cancelled() {
        let all_served = async {
            all_ended(&mut connections).await;
            if front.listeners.fetch_sub(1, Ordering::Relaxed) > 1 {
                pending::<()>().await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            _ = timeout(patience, all_served) => stop.cancel(),
        }
    }
    // A timeout needs no handling here: the connections that are left are counted next.
    let _ = timeout(patience, all_ended(&mut connections)).await;
    let cut_off = connections.len();
    connections.shutdown().await;
    cut_off
}

async fn all_ended(connections: &mut JoinSet<()>) {
    while let Some(ended) = connections.join_next().await {
        note(&ended);
    }
}

/// Serves a connection, answers it with a refusal, or closes it without sending a response.
fn admit<B, IO>(
    front: &Arc<Shared<B>>,
    connections: &mut JoinSet<()>,
    stream: IO,
    address: SocketAddr,
) where
    B: Backend,
    IO: Stream,
{
    let address = address.ip().to_canonical();
    if front.tls.current().is_some() || front.names_clients(address) {
        connections.spawn(serve_prepared(Arc::clone(front), stream, address));
        return;
    }
    if let Some(serving) = enter(front, stream, address) {
        connections.spawn(serving);
    }
}

/// A connection whose first bytes were read, where they name its client or agree on its keys.
pub(super) enum Prepared<IO> {
    /// Of this address.
    Plain(IO, IpAddr),
    /// Its client has a place.
    Encrypted(Box<(Encrypted<IO>, Peer, Held)>),
}

/// Reads these bytes; none if the connection is to be closed.
pub(super) async fn prepared<B: Backend, IO: Stream>(
    front: &Shared<B>,
    mut stream: IO,
    mut address: IpAddr,
) -> Option<Prepared<IO>> {
    if front.names_clients(address) {
        address = proxied_client(front, &mut stream, address).await?;
    }
    let Some(config) = front.tls.current() else {
        return Some(Prepared::Plain(stream, address));
    };
    let encrypted = encrypted(front, stream, (address, config)).await?;
    Some(Prepared::Encrypted(Box::new(encrypted)))
}

async fn serve_prepared<B: Backend, IO: Stream>(
    front: Arc<Shared<B>>,
    stream: IO,
    address: IpAddr,
) {
    match prepared(&front, stream, address).await {
        Some(Prepared::Encrypted(encrypted)) => {
            let (stream, peer, slot) = *encrypted;
            let connection = Connection::new(front, stream, peer, slot);
            Box::pin(http2::run(connection)).await;
        }
        Some(Prepared::Plain(stream, address)) => {
            if let Some(serving) = enter(&front, stream, address) {
                serving.await;
            }
        }
        None => {}
    }
}

/// Counts a connection of this client's and agrees with it on keys; none if it is to be closed, which needs no keys.
async fn encrypted<B: Backend, IO: Stream>(
    front: &Shared<B>,
    stream: IO,
    (address, config): (IpAddr, Arc<ServerConfig>),
) -> Option<(Encrypted<IO>, Peer, Held)> {
    let (mut peer, slot) = slot(front, address);
    let slot = slot.inspect_err(|refusal| front.refused(peer.identity.client, refusal));
    let slot = slot.ok()?;
    let stream = handshake(front, stream, (&peer, config)).await?;
    let known = &front.config.load().known;
    let key = stream
        .certificate()
        .and_then(|der| known.of_certificate(der));
    peer.identity.client = key.unwrap_or(peer.identity.client);
    Some((stream, peer, slot))
}

/// Serves a connection, or answers it with a refusal; none if it is to be closed without sending a response.
fn enter<B, IO>(
    front: &Arc<Shared<B>>,
    stream: IO,
    address: IpAddr,
) -> Option<BoxFuture<'static, ()>>
where
    B: Backend,
    IO: Stream,
{
    let (peer, slot) = slot(front, address);
    let connection = |slot| Connection::new(Arc::clone(front), stream, peer, slot);
    let refusal = match slot {
        Ok(slot) => return Some(http2::run(connection(slot)).boxed()),
        Err(refusal) => refusal,
    };
    let Some(slot) = front.budget.refuse() else {
        front.refused(peer.identity.client, &refusal);
        return None;
    };
    Some(connection(slot).refuse_all(refusal).boxed())
}

/// The client, and the place of the connection among its connections.
pub(super) fn slot<B: Backend>(
    front: &Shared<B>,
    address: IpAddr,
) -> (Peer, Result<Held, Refusal>) {
    let identities = front.identities.load();
    let peer = Peer {
        identity: identities.of_peer(address),
        is_proxy: identities.is_proxy(address),
    };
    let slot = if peer.is_proxy {
        front.budget.connect_proxy()
    } else if peer.identity.allowed {
        let connected = front.budget.connect(peer.identity.client);
        let judged = front.shadow.judge(peer.identity.client, connected);
        judged.and_then(|slot| slot.map_or_else(|| front.budget.connect_proxy(), Ok))
    } else if front.shadow.is_on() {
        // Each of its requests is judged.
        front.budget.connect_proxy()
    } else {
        Err(denied())
    };
    (peer, slot)
}

/// One connection's panic is not the others' end.
fn note(ended: &Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection's task failed");
    }
}

/// The client of a connection from `address`, whose header is read, and nothing behind it. None if it is to be closed:
/// no header came in time, or something else. Until then it counts as one of a trusted proxy's.
///
/// # Cancel safety
/// Bytes of the header are lost: the connection is of no use any more.
async fn proxied_client<B: Backend, IO: Stream>(
    front: &Shared<B>,
    stream: &mut IO,
    address: IpAddr,
) -> Option<IpAddr> {
    let naming = async {
        let _slot = front.budget.connect_proxy()?;
        let patience = front.config.load().fixed.header_timeout;
        let late = |_| Refusal::new(Reason::Parse, "the PROXY header did not come in time");
        let named = timeout(patience, named(stream, address)).await;
        named.map_err(late)?
    };
    let named = tokio::select! {
        biased;
        named = naming => named,
        () = front.stop.cancelled() => return None,
    };
    let refused = |refusal: &Refusal| {
        let proxy = front.identities.load().of_peer(address).client;
        front.refused(proxy, refusal);
    };
    named.inspect_err(refused).ok()?
}

/// The client that the header names, or the other end if it names none; none if the connection has ended.
async fn named<IO: Stream>(stream: &mut IO, peer: IpAddr) -> Result<Option<IpAddr>, Refusal> {
    let read = |bytes: &[u8]| {
        let header = read_proxy_header(bytes);
        header.map_err(|error| Refusal::new(Reason::Parse, error.to_string()))
    };
    let mut bytes = Vec::new();
    loop {
        let more = match read(&bytes)? {
            ProxyHeader::Client(client) => return Ok(Some(client.to_canonical())),
            ProxyHeader::Local => return Ok(Some(peer)),
            ProxyHeader::More(more) => more,
        };
        let mut known = bytes.len();
        bytes.resize(known + more, 0);
        while known < bytes.len() {
            // A proxy that checks whether the port is open closes the connection at once.
            match stream.read(&mut bytes[known..]).await {
                Ok(0) | Err(_) => return Ok(None),
                Ok(count) => known += count,
            }
            // What is no header shows before its length is there.
            read(&bytes[..known])?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that reads nothing had megabytes of the kernel's memory, and the time it takes to copy them.
    #[tokio::test]
    async fn sharing_71_the_kernel_holds_little_for_who_reads_nothing() {
        use tokio::io::AsyncWriteExt;

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        prepare(&listener);
        let client = tokio::net::TcpSocket::new_v4().unwrap();
        client.set_recv_buffer_size(4_096).unwrap();
        let (client, accepted) = tokio::join!(
            client.connect(listener.local_addr().unwrap()),
            listener.accept()
        );
        let (client, (mut stream, _)) = (client.unwrap(), accepted.unwrap());
        assert!(stream.nodelay().unwrap());
        let mut taken = 0;
        while let Ok(count) = stream.try_write(&[0; 16 << 10]) {
            taken += count;
        }
        assert!((64 << 10..1 << 20).contains(&taken), "{taken} bytes");
        drop(client);
        let _ = stream.shutdown().await;
    }
}
