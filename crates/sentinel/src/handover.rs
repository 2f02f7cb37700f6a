//! Listening sockets that another program has opened.
//!
//! A restart without a refused connection: a new process takes the listening sockets over from the one that serves.
//! Both have the same `listen.handover`, the path of a Unix socket. The new process asks there for the sockets, sets
//! itself up, and reports that it serves. The old one answers with the queries that its clients subscribe to. The new one
//! subscribes to them too and ends the connection; from then on it alone accepts, and has the path. The old one serves what
//! is connected for `shutdown.drain`, tells each HTTP client to connect anew, and ends as after SIGTERM. A new process
//! that fails before it serves changes nothing. The kernel's queue of connections belongs to the sockets, so none in it is
//! lost. Only a process of the same user is given them.
//!
//! A service manager's protocol (`LISTEN_FDS`, `NOTIFY_SOCKET`): sockets that it has opened, readiness, the end. Without
//! these variables it has no effect.

use std::fs::{self, Permissions};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use listenfd::ListenFd;
use rustix::cmsg_space;
use rustix::net::sockopt::socket_acceptconn;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
pub(crate) use sd_notify::NotifyState;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;
use tracing::{info, warn};

/// The process that served until now, and waits for the message that this one serves.
#[derive(Debug)]
pub struct Predecessor(UnixStream);

/// What clients subscribe to, and at which node of the list.
pub type Queries = Vec<(usize, String)>;

/// Sockets by the keys of the addresses they listen on.
pub type NamedListeners = Vec<(String, TcpListener)>;

/// Sockets that one process may have.
const MOST_SOCKETS: usize = 16;
/// Bytes of their names.
const MOST_BYTES: usize = 1 << 10;
/// Bytes of the queries of clients.
const MOST_QUERY_BYTES: u64 = 1 << 20;
/// How long the other process may take for a message: it sends it at once.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a new process may take from the sockets to its first client: it asks each node for its version.
const SETUP: Duration = Duration::from_mins(1);
/// The message of a process that serves.
const SERVING: u8 = b'S';

/// The sockets of the process that serves at this path; none if there is no such process.
///
/// # Errors
/// There is one, and it does not hand them over; or the path cannot be used.
pub async fn take(path: &Path) -> io::Result<Option<(Predecessor, NamedListeners)>> {
    let stream = match UnixStream::connect(path).await {
        Ok(stream) => stream,
        // No process has served here, or it has ended.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let received = stream.async_io(Interest::READABLE, || receive(stream.as_fd()));
    let listeners = timeout(PATIENCE, received).await;
    let listeners = listeners.map_err(|_| silent())??;
    Ok(Some((Predecessor(stream), listeners)))
}

fn silent() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "the process that serves there does not answer",
    )
}

fn receive(stream: BorrowedFd<'_>) -> io::Result<NamedListeners> {
    let mut names = [0; MOST_BYTES];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_SOCKETS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(
        stream,
        &mut [IoSliceMut::new(&mut names)],
        &mut ancillary,
        flags,
    )?;
    let mut sockets: Vec<OwnedFd> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            sockets.extend(passed);
        }
    }
    let names = std::str::from_utf8(&names[..received.bytes]).unwrap_or_default();
    let names: Vec<&str> = names.lines().collect();
    if names.is_empty() || names.len() != sockets.len() {
        return Err(io::Error::other(
            "the process that serves there handed over no sockets with names",
        ));
    }
    let named = names.into_iter().zip(sockets);
    Ok(named
        .map(|(name, socket)| (name.to_owned(), TcpListener::from(socket)))
        .collect())
}

impl Predecessor {
    /// This process serves: the other one is to accept nothing any more, once this is dropped. What its clients
    /// subscribe to; a version that does not tell has no such clients.
    pub async fn relieve(&mut self) -> Queries {
        if let Err(error) = self.0.write_all(&[SERVING]).await {
            warn!(%error, "the process that served before was not told to end (listen.handover); it may accept on");
        }
        let (mut queries, mut told) = (Vec::new(), (&mut self.0).take(MOST_QUERY_BYTES));
        let _ = timeout(PATIENCE, told.read_to_end(&mut queries)).await;
        serde_json::from_slice(&queries).unwrap_or_default()
    }
}

/// Hands the sockets over to the process that asks for them, and returns once that serves, and subscribes to what clients
/// here do.
///
/// # Errors
/// The path cannot be listened on.
///
/// # Cancel safety
/// Dropping the future leaves the sockets where they are.
pub async fn give(
    path: &Path,
    listeners: &[(&'static str, OwnedFd)],
    queries: impl Fn() -> Queries,
) -> io::Result<()> {
    let requests = listen(path)?;
    loop {
        let (stream, _) = requests.accept().await?;
        match hand_over(stream, listeners, &queries).await {
            Ok(()) => {
                info!(
                    "another process serves now; what is connected here is served for shutdown.drain"
                );
                return Ok(());
            }
            Err(error) => {
                warn!(%error, "a process asked for the sockets and does not serve (listen.handover); this one goes on");
            }
        }
    }
}

/// Takes the sockets over from the process that listened before.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let mut own = path.as_os_str().to_owned();
    own.push(format!(".{}", std::process::id()));
    let own = Path::new(&own);
    let _ = fs::remove_file(own);
    let listener = UnixListener::bind(own)?;
    let placed = fs::set_permissions(own, Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(own, path));
    if placed.is_err() {
        let _ = fs::remove_file(own);
    }
    placed.map(|()| listener)
}

async fn hand_over(
    mut stream: UnixStream,
    listeners: &[(&'static str, OwnedFd)],
    queries: impl Fn() -> Queries,
) -> io::Result<()> {
    let user = stream.peer_cred()?.uid();
    if user != rustix::process::geteuid().as_raw() && user != 0 {
        return Err(io::Error::other(format!("it runs as another user, {user}")));
    }
    let names: Vec<&str> = listeners.iter().map(|(name, _)| *name).collect();
    let names = names.join("\n");
    let sockets: Vec<BorrowedFd<'_>> = listeners.iter().map(|(_, socket)| socket.as_fd()).collect();
    let sent = stream.async_io(Interest::WRITABLE, || {
        send(stream.as_fd(), &names, &sockets)
    });
    timeout(PATIENCE, sent).await.map_err(|_| silent())??;
    let said = timeout(SETUP, stream.read_u8())
        .await
        .map_err(|_| silent())??;
    if said != SERVING {
        return Err(io::Error::other(format!("it said {said}")));
    }
    let told = async {
        let queries = serde_json::to_vec(&queries())?;
        stream.write_all(&queries).await?;
        stream.shutdown().await?;
        stream.read_u8().await
    };
    // What is not subscribed to by then is when its clients come.
    let _ = timeout(PATIENCE, told).await;
    Ok(())
}

fn send(stream: BorrowedFd<'_>, names: &str, sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_SOCKETS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(sockets)) {
        return Err(io::Error::other("there are too many sockets to hand over"));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let sent = sendmsg(
        stream,
        &[IoSlice::new(names.as_bytes())],
        &mut ancillary,
        flags,
    )?;
    if sent == names.len() {
        Ok(())
    } else {
        Err(io::Error::other("the names of the sockets were cut short"))
    }
}

/// The sockets that the service manager has opened and passed on, in the order of its unit
/// (`sd_listen_fds(3)`).
///
/// # Errors
/// One of them is no TCP listener.
pub(crate) fn passed_listeners() -> io::Result<Vec<TcpListener>> {
    let mut passed = ListenFd::from_env();
    let listeners =
        (0..passed.len()).filter_map(|place| passed.take_tcp_listener(place).transpose());
    listeners
        .map(|listener| {
            let listener = listener?;
            if !socket_acceptconn(&listener)? {
                let message = "a socket was passed that does not listen: the unit needs Accept=no";
                return Err(io::Error::other(message));
            }
            listener.set_nonblocking(true)?;
            Ok(listener)
        })
        .collect()
}

/// Tells the service manager that clients are served, or that the program has begun to end (`sd_notify(3)`).
pub(crate) fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        warn!(%error, "the service manager was not told (NOTIFY_SOCKET)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sockets() -> (Vec<(&'static str, OwnedFd)>, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (vec![("listen.addr", listener.into())], address)
    }

    #[tokio::test]
    async fn who_serves_gets_the_sockets_and_who_fails_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("handover");
        assert!(take(&path).await.unwrap().is_none());
        let (given, address) = sockets();
        let of_old = path.clone();
        // Clients come between the new one's subscriptions and the end of the old one's.
        let queries = vec![(0, "tm.event='Tx'".to_owned()), (1, "a.b='\n'".to_owned())];
        let told = queries.clone();
        let giving = tokio::spawn(async move { give(&of_old, &given, || told.clone()).await });
        while !path.exists() {
            tokio::task::yield_now().await;
        }
        // One that ends before it serves.
        let (predecessor, listeners) = take(&path).await.unwrap().unwrap();
        drop((predecessor, listeners));
        let (mut predecessor, listeners) = take(&path).await.unwrap().unwrap();
        assert!(!giving.is_finished());
        let (name, listener) = &listeners[0];
        assert_eq!(
            (name.as_str(), listener.local_addr().unwrap()),
            ("listen.addr", address)
        );
        assert_eq!(predecessor.relieve().await, queries);
        assert!(!giving.is_finished());
        drop(predecessor);
        giving.await.unwrap().unwrap();
        // The old one is gone; its path is no process's.
        assert!(take(&path).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn what_serves_there_and_is_something_else_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other");
        let other = UnixListener::bind(&path).unwrap();
        let speaking = tokio::spawn(async move {
            let (mut stream, _) = other.accept().await.unwrap();
            stream.write_all(b"hello\n").await.unwrap();
            // Until it is closed.
            let _ = stream.read_u8().await;
        });
        assert!(take(&path).await.is_err());
        speaking.await.unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(listen(&folder.path().join("no folder/handover")).is_err());
    }
}
