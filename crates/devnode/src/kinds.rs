//! The kinds of node that the configuration names.

use std::sync::Arc;

use crate::app::bank::Bank;
use crate::app::kvstore::KvStore;
use crate::bigchaindb::BigchaindbNode;
use crate::bitcoin::BitcoinNode;
use crate::config::{Application, Config};
use crate::host::{Host, Kind, Setup};
use crate::node::Node;

pub(crate) fn of(config: &Config) -> Box<dyn Kind> {
    match config.app {
        Application::Kvstore => Box::new(kvstore),
        Application::Bigchaindb => Box::new(BigchaindbNode),
        Application::Bitcoin => Box::new(BitcoinNode),
        Application::Bank => Box::new(bank),
    }
}

fn kvstore(host: &Arc<Host>) -> Setup {
    Node::new(host, Arc::new(KvStore::new(host.config.retain_keys))).setup()
}

fn bank(host: &Arc<Host>) -> Setup {
    Node::new(host, Arc::new(Bank::new(&host.config))).setup()
}
