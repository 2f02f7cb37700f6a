//! Blocks for nodes that mine on request only.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use base::Random;

use super::client::Node;
use crate::workload::Mining;

/// Tells nodes to mine until it is dropped.
#[derive(Debug)]
pub(super) struct Miner {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Miner {
    /// What a block takes longer than until the next one is due is not made up for. There is a node at least.
    pub(super) fn start(nodes: Vec<Node>, mining: Mining, seed: u64) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let mine = move || {
            let mut random = Random::new(seed);
            let mut due = Instant::now();
            loop {
                let (interval, place) = mining.next(&mut random, nodes.len());
                due = (due + interval).max(Instant::now());
                let left = due.saturating_duration_since(Instant::now());
                if stopped.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                // A node that does not answer now is asked again; the missing block shows in the record.
                let _ = nodes[place].ask(|client| client.generate(1));
            }
        };
        let thread = thread::Builder::new().name("miner".into()).spawn(mine);
        Self {
            stop: Some(stop),
            thread: thread.ok(),
        }
    }
}

impl Drop for Miner {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic in it was reported by its thread.
            let _ = thread.join();
        }
    }
}
