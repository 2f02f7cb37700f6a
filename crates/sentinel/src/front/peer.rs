//! Who is at the other end of a socket.

use std::net::IpAddr;

use crate::identity::Identity;

/// Who is at the other end of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// The socket's own address.
    pub(crate) address: IpAddr,
    /// The client that it is, headers unseen.
    pub(crate) identity: Identity,
    /// Whether it is a trusted proxy, whose headers say who the client is.
    pub(crate) is_proxy: bool,
}
