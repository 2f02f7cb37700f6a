//! The RPC of CometBFT 0.38, as far as the contract of the built-in node goes: requests, answers, and the three
//! ways they travel.

mod args;
mod broadcast;
mod calls;
mod http;
mod methods;
mod ws;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::host::{Endpoint, RPC, Setup, Work};
use crate::http::{Handler, Limits, Request, Response};
use crate::node::Node;

#[cfg(test)]
pub(crate) use broadcast::broadcast;
pub use broadcast::take_in;
#[cfg(test)]
pub(crate) use calls::get;
pub use ws::handshake;

/// CometBFT's RPC of a node.
pub(crate) struct Rpc(pub(crate) Arc<Node>);

/// A connection of the RPC.
struct Connection<'a> {
    node: &'a Arc<Node>,
    peer: SocketAddr,
}

/// Where WebSockets are.
const WEBSOCKET_PATH: &str = "/websocket";

impl Node {
    /// The node behind CometBFT's RPC alone.
    pub fn setup(self: Arc<Self>) -> Setup {
        Setup {
            endpoints: vec![(RPC, Arc::new(Rpc(Arc::clone(&self))))],
            maker: self,
        }
    }
}

impl Endpoint for Rpc {
    fn connections(&self) -> usize {
        self.0.host.config.rpc.max_open_connections
    }

    fn serve(self: Arc<Self>, stream: TcpStream, peer: SocketAddr) -> Work<'static, ()> {
        Box::pin(async move {
            let node = &self.0;
            let limits = Limits::of_rpc(&node.host.config);
            // A broken connection needs no action of the node.
            if let Ok(Some(upgrade)) =
                crate::http::serve(stream, limits, &Connection { node, peer }).await
            {
                ws::serve(node, peer, upgrade).await;
            }
        })
    }
}

impl Handler for Connection<'_> {
    async fn answer(&self, request: &Request) -> Response {
        let host = &self.node.host;
        if request.path() == WEBSOCKET_PATH {
            host.faults.pass().await;
            return handshake(request);
        }
        host.answered(http::handle(self.node, self.peer, request))
            .await
    }
}
