//! A Bitcoin node of the regression-test network, behind the JSON-RPC of btcd 0.26, and among peers if it listens
//! for them: a chain, coins and a mempool of its own.
//!
//! What it spends are P2PKH outputs; blocks are mined on the interval and by `generate`, and are valid to btcd,
//! which a test shows by feeding them to one.

mod chain;
mod error;
mod ledger;
mod methods;
mod node;
mod peers;
mod rpc;
mod rules;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::config::Config;
use crate::host::{Host, Kind, RPC, Setup};
use node::Bitcoin;
use peers::Peers;
use rpc::Rpc;

/// A node of Bitcoin's regression-test network.
pub(crate) struct BitcoinNode;

/// The name of the service that peers connect to.
const PEERS: &str = "peers";

impl Kind for BitcoinNode {
    fn listens(&self, config: &Config) -> Vec<(&'static str, SocketAddr)> {
        let peers = config.bitcoin.p2p_listen.map(|address| (PEERS, address));
        peers.into_iter().collect()
    }

    fn build(&self, host: &Arc<Host>) -> Setup {
        let node = Arc::new(Bitcoin::new(host));
        Setup {
            endpoints: vec![
                (RPC, Arc::new(Rpc(Arc::clone(&node)))),
                (PEERS, Arc::new(Peers(Arc::clone(&node)))),
            ],
            maker: node,
        }
    }
}
