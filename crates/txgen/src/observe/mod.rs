//! Many nodes recorded on the run's one clock: depth, blocks, first sights, and what each costs its machine.
//!
//! `Observers::start` watches nodes with the followers and queries of the target's kind and writes `nodes.csv`
//! and `sights.csv`; `Observers::stop` says which nodes were away meanwhile.

mod book;
mod counters;
mod discover;
mod intake;
mod node;
mod presence;
mod process;

use std::fs::File;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use chain::Target;
use measure::{KeptRows, TxHash};
use pacing::Nanos;
use parking_lot::Mutex;
use rpc::{ClientOptions, Trust};
use sender::clock::RunClock;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::settings::Observed;
use book::{Book, SAMPLED};
pub(crate) use book::{Chosen, Observation, Tables};
pub(crate) use discover::discover;
use node::NodeWatch;
pub(crate) use node::mempool_pause;

/// Observers at work.
#[derive(Debug)]
pub(crate) struct Observers {
    shutdown: CancellationToken,
    thread: JoinHandle<()>,
    book: Arc<Mutex<Book<File>>>,
    samples: Samples,
}

/// Where sent transactions are told of: some of them are looked for at every node.
#[derive(Debug, Clone)]
pub(crate) struct Samples {
    chosen: KeptRows,
    sender: mpsc::Sender<(TxHash, Nanos)>,
}

impl Samples {
    /// One that was sent. Where the observers are behind, it is not looked for.
    pub(crate) fn sent(&self, hash: TxHash, at: Nanos) {
        if self.chosen.keeps(&hash) {
            let _ = self.sender.try_send((hash, at));
        }
    }
}

impl Observers {
    /// Watches `nodes`, each of which has to answer once before; rows begin with the clock.
    ///
    /// # Errors
    /// When a node does not answer, says nothing of what is observed, or has no such process.
    pub(crate) fn start(
        target: &'static dyn Target,
        nodes: &[Observed],
        trust: &Trust,
        clock: &RunClock,
        chosen: Chosen,
        tables: Tables<File>,
    ) -> anyhow::Result<Self> {
        let runtime = crate::runtime::start().context("nodes cannot be observed")?;
        let book = Arc::new(Mutex::new(Book::new(nodes, target.facts(), tables)));
        let shutdown = CancellationToken::new();
        let options = || ClientOptions::new(QUERY_TIMEOUT, trust);
        let mut watches = Vec::new();
        for (number, node) in nodes.iter().enumerate() {
            let mut watch = NodeWatch::new(
                (number, target),
                node,
                options(),
                clock.clone(),
                book.clone(),
                chosen,
            )?;
            runtime.block_on(watch.check())?;
            watches.push(watch);
        }
        let (sender, mut sent) = mpsc::channel(SAMPLES_WAITING);
        let ended = shutdown.clone();
        let samples = book.clone();
        let work = async move {
            let mut tasks = tokio::task::JoinSet::new();
            for watch in watches {
                watch.spawn(&mut tasks, &ended);
            }
            tasks.spawn(async move {
                while let Some((hash, at)) = sent.recv().await {
                    samples.lock().sent(hash, at);
                }
            });
            ended.cancelled().await;
            tasks.shutdown().await;
        };
        let thread = thread::Builder::new()
            .name("observers".into())
            .spawn(move || runtime.block_on(work))
            .context("nodes cannot be observed")?;
        Ok(Self {
            shutdown,
            thread,
            book,
            samples: Samples {
                chosen: SAMPLED,
                sender,
            },
        })
    }

    /// Where sent transactions are told of.
    pub(crate) fn samples(&self) -> Samples {
        self.samples.clone()
    }

    /// Ends them: what was seen by `now`.
    pub(crate) fn stop(self, now: Nanos) -> Observation {
        self.shutdown.cancel();
        // A panic in it was reported by its thread; the rows are written.
        let _ = self.thread.join();
        self.book.lock().finish(now)
    }
}

/// Sampled transactions on their way to the observers: a second's at 250,000/s.
const SAMPLES_WAITING: usize = 4_096;
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
