//! One observed node: its blocks, its mempool, the sampled transactions, and its process.

use std::fs::File;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use base::Random;
use chain::{FollowWith, NodeClient, Probe, Target};
use measure::TxHash;
use pacing::Nanos;
use parking_lot::Mutex;
use rpc::{Client, ClientOptions, Endpoint, FollowEvent, FollowOptions, Trust};
use sender::clock::RunClock;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::book::{Book, Chosen};
use super::counters::Counters;
use super::process::{Look, Watched};
use crate::settings::Observed;
use crate::shutdown::Shutdown;

/// What watches one node.
pub(super) struct NodeWatch {
    target: &'static dyn Target,
    /// Its place in the book.
    number: usize,
    node: Observed,
    /// What was learnt when it was checked.
    probe: Probe,
    client: Arc<dyn NodeClient>,
    options: ClientOptions,
    resources: Resources,
    clock: RunClock,
    book: Arc<Mutex<Book<File>>>,
    chosen: Chosen,
}

/// Where its process' figures come from: from its metrics where there is no process to look at.
#[derive(Clone)]
struct Resources {
    process: Option<Watched>,
    metrics: Option<Client>,
}

impl NodeWatch {
    pub(super) fn new(
        (number, target): (usize, &'static dyn Target),
        node: &Observed,
        options: ClientOptions,
        clock: RunClock,
        book: Arc<Mutex<Book<File>>>,
        chosen: Chosen,
    ) -> anyhow::Result<Self> {
        let name = &node.name;
        let watched = |pid| {
            Watched::new(pid, node.endpoint.port()).map_err(|error| {
                anyhow!(
                    "the node {name} has no process {pid} on this machine that can be read: {error}; give \
                     metrics=URL for a node elsewhere"
                )
            })
        };
        let client =
            |metrics| Client::with_options(metrics, options.clone()).with_context(|| silent(name));
        let resources = Resources {
            process: node.pid.map(watched).transpose()?,
            metrics: node.metrics.as_ref().map(client).transpose()?,
        };
        let connected = target.connect(&node.endpoint, options.clone());
        Ok(Self {
            number,
            node: node.clone(),
            probe: Probe::default(),
            client: connected.with_context(|| silent(name))?,
            target,
            options,
            resources,
            clock,
            book,
            chosen,
        })
    }

    /// Asks once.
    pub(super) async fn check(&mut self) -> anyhow::Result<()> {
        let silent = || silent(&self.node.name);
        self.probe = self.client.observable().await.with_context(silent)?;
        if let Some(peer) = &self.node.peer {
            let peer = self.target.connect(peer, self.options.clone());
            let peer = peer.with_context(silent)?;
            self.probe = peer.observable().await.with_context(silent)?;
        }
        Ok(())
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
        let with = FollowWith {
            endpoint: self.node.peer.as_ref().unwrap_or(&self.node.endpoint),
            options,
            clock: self.clock.clone(),
            shutdown,
        };
        let Ok((mut follower, task)) = self.target.follow(&self.probe, with) else {
            return;
        };
        let read = async {
            while let Some(event) = follower.next().await {
                match event {
                    FollowEvent::Block(block) if !block.observed.is_zero() => {
                        self.book.lock().block(self.number, &block);
                        self.note(block.observed, block.resolution, block.hashes);
                    }
                    FollowEvent::Arrived(block) if !block.at.is_zero() => {
                        self.book.lock().arrived(self.number, &block);
                    }
                    FollowEvent::Reorganised { height, blocks, .. } => {
                        let now = self.clock.now();
                        self.book.lock().left(self.number, now, height, &blocks);
                    }
                    FollowEvent::Accepted { observed, txs } if !observed.is_zero() => {
                        self.note(observed, None, txs);
                    }
                    _ => {}
                }
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
            let told = match self.client.pending(&[]).await {
                // A node does not show its peers how many transactions wait.
                Ok(None) => return,
                told => told.ok().flatten(),
            };
            let now = self.clock.now();
            if now.is_zero() {
                continue;
            }
            self.book.lock().mempool(self.number, now, told);
            let began = self.clock.now();
            let Some(has) = self.held(began).await else {
                continue;
            };
            let now = self.clock.now();
            match self.chosen {
                Chosen::OfOurs => {
                    let has = has.into_iter().collect();
                    self.book.lock().held(self.number, now, &has);
                }
                Chosen::OfAll => self.note(now, Some(now.saturating_sub(asked)), has),
            }
            asked = now;
            // A list of a deep mempool takes a node long: it is asked for it a tenth of the time at most.
            sleep(now.saturating_sub(began).as_duration() * 9).await;
        }
    }

    /// The sampled transactions that it has in its mempool; `None` where none is looked for, or it does not show them.
    async fn held(&self, now: Nanos) -> Option<Vec<TxHash>> {
        if self.chosen == Chosen::OfAll {
            return self.client.listed().await.ok().flatten();
        }
        let awaited = self.book.lock().awaited(self.number, now);
        if awaited.is_empty() {
            return None;
        }
        let Some(held) = self.client.holds(&awaited).await.ok().flatten() else {
            self.book.lock().unanswered(self.number, now);
            return None;
        };
        let held = awaited.into_iter().zip(held);
        Some(
            held.filter_map(|(hash, held)| held.then_some(hash))
                .collect(),
        )
    }

    /// It has these, and may have had them for `resolution`.
    fn note(&self, at: Nanos, resolution: Option<Nanos>, has: Vec<TxHash>) {
        let mut book = self.book.lock();
        match self.chosen {
            Chosen::OfOurs => book.seen(self.number, at, resolution, &has.into_iter().collect()),
            Chosen::OfAll => book.shown(self.number, at, resolution, has),
        }
    }

    /// Closes a row each second.
    async fn account(self: Arc<Self>) {
        while self.clock.now().is_zero() {
            sleep(BEFORE_THE_ORIGIN).await;
        }
        let mut resources = self.resources.clone();
        let mut before = self.used(&mut resources).await;
        loop {
            let second = self.clock.now().as_secs();
            let next = Nanos::from_secs(second + 1);
            sleep(next.saturating_sub(self.clock.now()).as_duration()).await;
            let used = self.used(&mut resources).await;
            self.book.lock().close(self.number, second, |row| {
                // Of a process that took another one's place it is not known what it used in this second.
                if let (Some((at, now, false)), Some((since, before, _))) = (&used, &before) {
                    let seconds = at.saturating_sub(*since).as_secs_f64();
                    now.note(before, seconds, row);
                }
            });
            before = used;
        }
    }

    /// What its process has used by now, and whether that is another one than before; `None` where that is unknown,
    /// or it is gone.
    async fn used(&self, resources: &mut Resources) -> Option<(Nanos, Counters, bool)> {
        let metrics = match &resources.metrics {
            Some(http) => http.text("").await.ok(),
            None => None,
        };
        let told = metrics.as_deref().map(Counters::of_metrics);
        let (counters, replaced) = match (&mut resources.process, told) {
            (Some(watched), told) => {
                let (counters, replaced) = self.look(watched)?;
                (counters.with_calls_of(&told.unwrap_or_default()), replaced)
            }
            (None, told) => (told?, false),
        };
        Some((self.clock.now(), counters, replaced))
    }

    fn look(&self, watched: &mut Watched) -> Option<(Counters, bool)> {
        let tell = |what: String| {
            let at = self.clock.now().as_secs_f64();
            let name = &self.node.name;
            let told =
                format!("the process of the observed node {name} ended by {at:.1} s: {what}");
            self.book.lock().process(self.number, told);
        };
        match watched.look() {
            Look::There(counters) => Some((counters, false)),
            Look::Replaced {
                before,
                now,
                counters,
            } => {
                tell(format!(
                    "from then on process {now} counts, which listens at its port, in place of {before}"
                ));
                Some((counters, true))
            }
            Look::Ended { pid } => {
                tell(format!(
                    "what process {pid} used is missing from there on, unless another one listens at its port later"
                ));
                None
            }
            Look::Away => None,
        }
    }
}

fn silent(name: &str) -> String {
    format!("the node {name} that is to be observed does not answer")
}

/// The pause before the next question for a mempool's depth: 100 to 300 ms, each as likely. At regular instants a
/// chain with regular blocks would be seen always just before, or always just after a block.
pub(crate) fn mempool_pause(random: &mut Random) -> Duration {
    Duration::from_secs_f64(0.1 + 0.2 * random.unit())
}

const BEFORE_THE_ORIGIN: Duration = Duration::from_millis(10);

/// Asks `first` for its peers until `wanted` nodes answer, itself included: all that do.
///
/// # Errors
/// When they do not within [`PATIENCE`].
pub(crate) fn discover(
    target: &dyn Target,
    first: &Endpoint,
    wanted: usize,
    trust: &Trust,
    shutdown: &Shutdown,
) -> anyhow::Result<Vec<Observed>> {
    let runtime = crate::runtime().context("nodes cannot be observed")?;
    let begun = Instant::now();
    loop {
        let nodes = runtime.block_on(answering(target, first, trust));
        if nodes.len() >= wanted {
            return Ok(nodes);
        }
        if begun.elapsed() >= PATIENCE || shutdown.is_requested() {
            let waited_s = begun.elapsed().as_secs();
            bail!(
                "{} nodes of the network answer where {wanted} are wanted, after {waited_s} s{}",
                nodes.len(),
                target.peers_hint()
            );
        }
        thread::sleep(PAUSE);
    }
}

/// The first node and those of its peers that answer.
async fn answering(target: &dyn Target, first: &Endpoint, trust: &Trust) -> Vec<Observed> {
    let options = || ClientOptions::new(QUERY_TIMEOUT, trust);
    let mut endpoints = vec![first.clone()];
    if let Ok(client) = target.connect(first, options()) {
        let mut peers = client.peers().await.unwrap_or_default();
        peers.sort_by_key(ToString::to_string);
        peers.dedup();
        peers.retain(|peer| peer != first);
        endpoints.extend(peers);
    }
    let mut nodes = Vec::new();
    for endpoint in endpoints {
        let Ok(client) = target.connect(&endpoint, options()) else {
            continue;
        };
        if client.pending(&[]).await.is_ok() {
            nodes.push(Observed {
                name: format!("node-{}", nodes.len()),
                endpoint,
                peer: None,
                pid: None,
                metrics: None,
                is_loaded: false,
            });
        }
    }
    nodes
}

const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// A network that has just been started needs that to find itself.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(500);
