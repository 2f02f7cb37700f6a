//! Blocks on an interval, from a node that mines only when it is told to.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::client::Node;

/// Tells a node to mine until it is dropped.
#[derive(Debug)]
pub(crate) struct Miner {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Miner {
    /// A block each interval; what a block takes longer is not made up for.
    pub(crate) fn start(node: Node, every: Duration) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let mine = move || {
            let mut due = Instant::now() + every;
            loop {
                let left = due.saturating_duration_since(Instant::now());
                if stopped.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                // A node that does not answer now is told again; the missing block shows in the record.
                let _ = node.ask(|client| client.generate(1));
                due = (due + every).max(Instant::now());
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
