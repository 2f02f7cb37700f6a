//! Many nodes recorded on the run's one clock: depth, blocks, first sights, and what each costs its machine.
//!
//! `Observers::start` watches nodes with the followers and queries of the target's kind and writes `nodes.csv`
//! and `sights.csv`; `Observers::stop` returns which nodes were away meanwhile.

mod book;
mod counters;
mod intake;
mod node;
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

pub(crate) use book::{Chosen, Observation, Tables};
pub(crate) use counters::{busy_s, seconds};
pub(crate) use node::{discover, mempool_pause};

use crate::settings::Observed;
use book::{Book, SAMPLED};
use node::NodeWatch;

/// Observers at work.
#[derive(Debug)]
pub(crate) struct Observers {
    shutdown: CancellationToken,
    thread: JoinHandle<()>,
    book: Arc<Mutex<Book<File>>>,
    samples: Samples,
}

/// Receives the sent transactions: some of them are looked for at every node.
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
    /// When a node does not answer, has nothing of what is observed, or has no such process.
    pub(crate) fn start(
        target: &'static dyn Target,
        nodes: &[Observed],
        trust: &Trust,
        clock: &RunClock,
        chosen: Chosen,
        tables: Tables<File>,
    ) -> anyhow::Result<Self> {
        let runtime = crate::runtime().context("nodes cannot be observed")?;
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

    /// Receives the sent transactions.
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

/// A stretch without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    from: Nanos,
    /// When it answered again, if it has.
    until: Option<Nanos>,
}

/// What one node's answers show of it.
#[derive(Debug, Default)]
struct Presence {
    /// Since its last answer, or since it was first asked.
    silent_since: Option<Nanos>,
    gaps: Vec<Gap>,
    /// Gaps that found no room.
    more: u64,
}

impl Presence {
    fn failed(&mut self, at: Nanos) {
        self.silent_since.get_or_insert(at);
    }

    fn answered(&mut self, at: Nanos) {
        self.close(at, Some(at));
    }

    /// All gaps by the end of the run, and how many more there were.
    fn finish(&mut self, now: Nanos) -> (&[Gap], u64) {
        self.close(now, None);
        (&self.gaps, self.more)
    }

    fn close(&mut self, now: Nanos, until: Option<Nanos>) {
        let Some(from) = self.silent_since.take() else {
            return;
        };
        if now.saturating_sub(from) < AWAY {
            return;
        }
        if self.gaps.len() < MOST_GAPS {
            self.gaps.push(Gap { from, until });
        } else {
            self.more += 1;
        }
    }
}

/// A node that is busy with a block may leave a question or two open; seconds without any answer leave holes
/// in its rows.
const AWAY: Nanos = Nanos::from_secs(2);
const MOST_GAPS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_vanishes_and_returns_leaves_a_gap_and_one_that_stays_away_an_open_one() {
        let mut presence = Presence::default();
        presence.answered(Nanos::from_secs(1));
        presence.failed(Nanos::from_secs(2));
        presence.failed(Nanos::from_secs(3));
        presence.answered(Nanos::from_secs(5));
        presence.failed(Nanos::from_secs(8));
        let (gaps, more) = presence.finish(Nanos::from_secs(20));
        let gap = |from, until: Option<u64>| Gap {
            from: Nanos::from_secs(from),
            until: until.map(Nanos::from_secs),
        };
        assert_eq!((gaps, more), (&[gap(2, Some(5)), gap(8, None)][..], 0));
    }

    #[test]
    fn a_late_answer_is_no_gap_and_many_gaps_are_counted() {
        let mut presence = Presence::default();
        presence.failed(Nanos::from_secs(1));
        presence.answered(Nanos::from_millis(2_999));
        assert_eq!(presence.finish(Nanos::from_secs(3)), (&[][..], 0));
        for second in 0..20 {
            presence.failed(Nanos::from_secs(second * 10));
            presence.answered(Nanos::from_secs(second * 10 + 5));
        }
        let (gaps, more) = presence.finish(Nanos::from_secs(300));
        assert_eq!((gaps.len(), more), (16, 4));
    }
}
