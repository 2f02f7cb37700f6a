//! The built-in node as a guest of the run: on threads of its own, gone with the run.

use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use devnode::{Blueprint, DevNode, DevNodeError};

use crate::chains::TargetKind;
use crate::plan::Guest;

/// A running built-in node.
pub(crate) struct BuiltInNode {
    node: Option<DevNode>,
    guest: Guest,
    thread: Option<JoinHandle<()>>,
}

/// Why it did not start.
#[derive(Debug, thiserror::Error)]
pub enum BuiltInError {
    /// Its configuration is illegal, or its address cannot be had.
    #[error("the built-in node cannot start")]
    Node(#[from] DevNodeError),
    /// The system gives no thread or runtime.
    #[error("the built-in node cannot start")]
    System(#[from] io::Error),
}

impl BuiltInNode {
    /// Starts it and waits until it listens for what the run speaks.
    pub(crate) fn start(node: Blueprint, target: TargetKind) -> Result<Self, BuiltInError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name(THREADS)
            .enable_all()
            .build()?;
        let (sender, receiver) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name(format!("{THREADS}-main"))
            .spawn(move || {
                runtime.block_on(async {
                    match DevNode::bind(node).await {
                        Ok((node, worker)) => {
                            let _ = sender.send(Ok(node));
                            worker.await;
                        }
                        Err(error) => {
                            let _ = sender.send(Err(error));
                        }
                    }
                });
            })?;
        let node = receiver
            .recv()
            .map_err(|_| io::Error::other("its thread ended early"))??;
        Ok(Self {
            guest: Guest {
                address: target.target().built_in_address(&node),
                rpc: node.rpc_address(),
            },
            node: Some(node),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub(crate) fn guest(&self) -> Guest {
        self.guest
    }
}

impl Drop for BuiltInNode {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            node.shutdown();
        }
        if let Some(thread) = self.thread.take() {
            // A panic in the node was reported by its thread already.
            let _ = thread.join();
        }
    }
}

/// How the names of its threads begin.
pub(super) const THREADS: &str = "devnode";
/// One for the connections, one for the chain: more would only compete with the generator.
const WORKERS: usize = 2;
