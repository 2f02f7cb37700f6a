//! Black-box tests of a node in this process.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod faults;
mod limits;
mod smoke;

use std::time::Duration;

use devnode::{Blueprint, Config, DevNode};
use testkit::{Http, HttpAnswer};
use tokio::task::JoinHandle;

/// A node whose worker runs until it is dropped.
pub(crate) struct Running {
    pub(crate) node: DevNode,
    worker: JoinHandle<()>,
}

/// Starts a node.
pub(crate) async fn start(node: impl Into<Blueprint>) -> Running {
    let (node, worker) = DevNode::bind(node).await.unwrap();
    Running {
        node,
        worker: tokio::spawn(worker),
    }
}

/// A node with short blocks.
pub(crate) fn quick() -> Config {
    Config {
        block_interval: Duration::from_millis(20),
        ..Config::default()
    }
}

impl Running {
    /// A request over a connection of its own, off the test's thread.
    pub(crate) async fn ask(&self, method: &'static str, path: &str, body: &str) -> HttpAnswer {
        let http = Http::new(self.node.rpc_address(), Duration::from_secs(15));
        let (path, body) = (path.to_owned(), body.to_owned());
        tokio::task::spawn_blocking(move || http.request(method, &path, &[], body.as_bytes()))
            .await
            .unwrap()
            .unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> serde_json::Value {
        serde_json::from_slice(&self.ask("GET", path, "").await.body).unwrap()
    }

    pub(crate) async fn post(&self, body: &str) -> serde_json::Value {
        serde_json::from_slice(&self.ask("POST", "/", body).await.body).unwrap()
    }

    /// Shuts down and waits for the worker.
    pub(crate) async fn stop(self) {
        self.node.shutdown();
        self.worker.await.unwrap();
    }
}
