//! One observed node: its blocks, its mempool, the sampled transactions, and its process.

use std::collections::HashSet;
use std::fs::File;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use measure::TxHash;
use pacing::{Nanos, Random};
use procfs::process::Process;
use rpc::{Client, ClientOptions, FollowEvent, FollowOptions};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::book::{Book, lock};
use super::counters::Counters;
use super::error::ObserveError;
use crate::clock::RunClock;
use crate::settings::Observed;
use crate::target::{Probe, Target};

/// What watches one node.
pub(super) struct NodeWatch<T: Target> {
    /// Its place in the book.
    number: usize,
    node: Observed,
    queries: T::Queries,
    options: ClientOptions,
    resources: Resources,
    clock: RunClock,
    book: Arc<Mutex<Book<File>>>,
}

/// Where its process' figures come from.
#[derive(Clone)]
enum Resources {
    Process(i32),
    Metrics(Client),
    Unknown,
}

impl<T: Target> NodeWatch<T> {
    pub(super) fn new(
        number: usize,
        node: &Observed,
        options: ClientOptions,
        clock: RunClock,
        book: Arc<Mutex<Book<File>>>,
    ) -> Result<Self, ObserveError> {
        let name = || node.name.clone();
        let silent = |source| ObserveError::Silent {
            name: name(),
            source,
        };
        let resources = match (node.pid, &node.metrics) {
            (Some(pid), _) => {
                let process = Process::new(pid).and_then(|process| Counters::of_process(&process));
                process.map_err(|error| ObserveError::Process {
                    name: name(),
                    pid,
                    reason: error.to_string(),
                })?;
                Resources::Process(pid)
            }
            (None, Some(metrics)) => {
                let client = Client::with_options(metrics, options.clone());
                Resources::Metrics(client.map_err(silent)?)
            }
            (None, None) => Resources::Unknown,
        };
        Ok(Self {
            number,
            node: node.clone(),
            queries: T::queries(&node.endpoint, options.clone()).map_err(silent)?,
            options,
            resources,
            clock,
            book,
        })
    }

    /// Asks once.
    pub(super) async fn check(&self) -> Result<(), ObserveError> {
        match T::pending(&self.queries, &[]).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(ObserveError::Mute {
                kind: T::facts().name,
            }),
            Err(source) => Err(ObserveError::Silent {
                name: self.node.name.clone(),
                source,
            }),
        }
    }

    /// Watches until `shutdown`.
    pub(super) fn spawn(self, tasks: &mut JoinSet<()>, shutdown: &CancellationToken) {
        let watch = Arc::new(self);
        tasks.spawn(watch.clone().follow(shutdown.clone()));
        tasks.spawn(watch.clone().ask());
        tasks.spawn(watch.account());
    }

    async fn follow(self: Arc<Self>, shutdown: CancellationToken) {
        let options = FollowOptions {
            codes: false,
            trust: self.options.trust.clone(),
            ..FollowOptions::default()
        };
        // What follows a node that can be observed needs nothing of a probe.
        let probe = Probe::default();
        let clock = self.clock.clone();
        let followed = T::follow(&probe, &self.node.endpoint, options, clock, shutdown);
        let Ok((mut follower, task)) = followed else {
            return;
        };
        let read = async {
            while let Some(event) = follower.next().await {
                let FollowEvent::Block(block) = event else {
                    continue;
                };
                if block.observed.is_zero() {
                    continue;
                }
                let has: HashSet<TxHash> = block.hashes.iter().copied().collect();
                let mut book = lock(&self.book);
                book.block(self.number, &block);
                book.seen(self.number, block.observed, block.resolution, &has);
            }
        };
        tokio::join!(task, read);
    }

    /// Asks for the depth of the mempool, and for the sampled transactions.
    async fn ask(self: Arc<Self>) {
        let mut random = Random::new(self.number as u64);
        let mut asked = Nanos::ZERO;
        loop {
            sleep(mempool_pause(&mut random)).await;
            let told = T::pending(&self.queries, &[]).await;
            let now = self.clock.now();
            if now.is_zero() {
                continue;
            }
            lock(&self.book).mempool(self.number, now, told.ok().flatten());
            let awaited = lock(&self.book).awaited(self.number);
            if awaited.is_empty() {
                continue;
            }
            if let Ok(Some(held)) = T::holds(&self.queries, &awaited).await {
                let now = self.clock.now();
                let held = awaited.into_iter().zip(held);
                let has = held
                    .filter_map(|(hash, held)| held.then_some(hash))
                    .collect();
                let since = now.saturating_sub(asked);
                lock(&self.book).seen(self.number, now, Some(since), &has);
                asked = now;
            }
        }
    }

    /// Closes a row each second.
    async fn account(self: Arc<Self>) {
        while self.clock.now().is_zero() {
            sleep(BEFORE_THE_ORIGIN).await;
        }
        let mut before = self.used().await;
        loop {
            let second = self.clock.now().as_secs();
            let next = Nanos::from_secs(second + 1);
            sleep(next.saturating_sub(self.clock.now()).as_duration()).await;
            let used = self.used().await;
            lock(&self.book).close(self.number, second, |row| {
                if let (Some((at, now)), Some((since, before))) = (&used, &before) {
                    let seconds = at.saturating_sub(*since).as_secs_f64();
                    now.note(before, seconds, row);
                }
            });
            before = used;
        }
    }

    /// What its process has used by now; `None` where that is unknown, or it is gone.
    async fn used(&self) -> Option<(Nanos, Counters)> {
        let counters = match &self.resources {
            Resources::Process(pid) => {
                let process = Process::new(*pid);
                process
                    .and_then(|process| Counters::of_process(&process))
                    .ok()
            }
            Resources::Metrics(client) => {
                let text = client.text().await.ok();
                text.map(|text| Counters::of_metrics(&text))
            }
            Resources::Unknown => None,
        };
        counters.map(|counters| (self.clock.now(), counters))
    }
}

/// The pause before the next question for a mempool's depth: 100 to 300 ms, each as likely. At regular instants a
/// chain with regular blocks would be seen always just before, or always just after a block.
pub(crate) fn mempool_pause(random: &mut Random) -> Duration {
    Duration::from_secs_f64(0.1 + 0.2 * random.unit())
}

const BEFORE_THE_ORIGIN: Duration = Duration::from_millis(10);
