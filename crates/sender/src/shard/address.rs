//! Where a connection goes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rpc::{ConnectionOptions, Endpoint, Transport};

/// A node's address, resolved once before the run.
#[derive(Debug, Clone)]
pub struct Address {
    /// Its place in the plan's list.
    pub number: u16,
    /// How the node is reached.
    pub endpoint: Endpoint,
    /// Its resolved address.
    pub socket: SocketAddr,
    /// How its connections are made.
    pub options: Arc<ConnectionOptions>,
}

impl Address {
    /// Whether the system says when an answer came, and each is the only one on its way.
    pub(super) fn is_stamped(&self) -> bool {
        let plain_http = self.endpoint.transport() == Transport::Http && !self.endpoint.is_tls();
        plain_http && self.options.arrival_stamps
    }

    /// The same node, reached from a local address.
    #[must_use]
    pub fn reached_from(mut self, source: Option<IpAddr>) -> Self {
        if source.is_some() {
            Arc::make_mut(&mut self.options).source = source;
        }
        self
    }
}
