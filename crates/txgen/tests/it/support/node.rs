//! The built-in node inside the test's own process, so that a test can pull its faults and see
//! its truth.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use devnode::{Blueprint, Config, DevNode};

/// A running node; dropping it stops it.
pub(crate) struct Node {
    node: Option<DevNode>,
    thread: Option<JoinHandle<()>>,
}

impl Node {
    pub(crate) fn start(node: impl Into<Blueprint>) -> Self {
        let blueprint = node.into();
        let (sender, receiver) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let (node, worker) = DevNode::bind(blueprint).await.unwrap();
                sender.send(node).unwrap();
                worker.await;
            });
        });
        Self {
            node: Some(receiver.recv().unwrap()),
            thread: Some(thread),
        }
    }

    /// A node that makes blocks quickly, so that no test waits for one.
    pub(crate) fn quick() -> Self {
        Self::start(quick())
    }

    pub(crate) fn url(&self) -> String {
        self.rpc_url()
    }

    /// Every committed transaction's hash and height, in order.
    pub(crate) fn committed(&self) -> Vec<([u8; 32], u64)> {
        (1..=self.snapshot().height)
            .filter_map(|height| self.block(height))
            .flat_map(|block| {
                block
                    .txs
                    .into_iter()
                    .map(move |(hash, _)| (hash, block.height))
            })
            .collect()
    }
}

/// Blocks every 100 ms.
pub(crate) fn quick() -> Config {
    Config {
        block_interval: Duration::from_millis(100),
        ..Config::default()
    }
}

impl std::ops::Deref for Node {
    type Target = DevNode;

    fn deref(&self) -> &DevNode {
        self.node.as_ref().expect("it is taken in drop only")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            node.shutdown();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
