//! The protocol of a service manager: sockets that it has opened, readiness, the end.
//!
//! Without `LISTEN_FDS` and `NOTIFY_SOCKET` in the environment nothing here has an effect.

use std::io;
use std::net::TcpListener;

use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;
pub(crate) use sd_notify::NotifyState;
use tracing::warn;

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
pub(crate) fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        warn!(%error, "the service manager was not told (NOTIFY_SOCKET)");
    }
}
