//! BigchainDB: the application, the HTTP API and the event stream, on a node of CometBFT.

mod api;
mod application;
mod execution;
mod spends;
mod state;
mod stream;
mod validators;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::app::App;
use crate::config::{BigchaindbConfig, Config};
use crate::host::{Host, Kind, Setup};
use crate::node::Node;
use api::Api;
use stream::Stream;

pub(crate) use application::Bigchaindb;

/// The name of the HTTP API among the services.
const API: &str = "api";

/// A node with BigchainDB on it: the RPC, the HTTP API and the event stream.
pub(crate) struct BigchaindbNode;

impl Kind for BigchaindbNode {
    fn listens(&self, config: &Config) -> Vec<(&'static str, SocketAddr)> {
        let BigchaindbConfig { listen, events, .. } = config.bigchaindb;
        vec![(API, listen), (stream::SERVICE, events)]
    }

    fn build(&self, host: &Arc<Host>) -> Setup {
        let Config {
            bigchaindb,
            admission,
            ..
        } = &host.config;
        let app = Arc::new(Bigchaindb::new(bigchaindb, admission));
        let node = Node::new(host, Arc::clone(&app) as Arc<dyn App>);
        let api = Api {
            node: Arc::clone(&node),
            app: Arc::clone(&app),
        };
        let stream = Stream {
            host: Arc::clone(host),
            app,
        };
        let mut setup = node.setup();
        setup.endpoints.push((API, Arc::new(api)));
        setup.endpoints.push((stream::SERVICE, Arc::new(stream)));
        setup
    }
}
