//! Watches the nodes: their health, their blocks, their mempools.

use std::panic;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use pacing::Nanos;
use rpc::{
    AnswerLimit, Client, ClientError, ClientOptions, FollowEvent, FollowOptions, Follower, Status,
    follow,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{debug, info, warn};

use super::UpstreamError;
use super::health::{Change, Health, Observation};
use super::nodes::{BlockLimits, Node, NodeEvent, NodeIndex, Nodes, setup};
use super::version::{Version, untested};
use crate::config::Config;
use crate::metrics::RestartedTask;
use crate::supervise::keep_running;
use crate::surroundings::Surroundings;

/// Watches the nodes: run it.
pub struct NodesWorker {
    watches: Vec<Watch>,
    nodes: Nodes,
}

impl Nodes {
    /// Prepares to watch the configured nodes. Nothing happens until the worker runs, which ends
    /// with the shutdown.
    ///
    /// The receiver must be read: when its 16 places are taken, blocks wait in the
    /// followers, which stop asking for more.
    ///
    /// # Errors
    /// [`UpstreamError::Setup`] when TLS is needed and cannot be set up.
    pub fn start(
        surroundings: Surroundings,
    ) -> Result<(Self, mpsc::Receiver<NodeEvent>, NodesWorker), UpstreamError> {
        let nodes = Self::new(surroundings)?;
        let (events, receiver) = mpsc::channel(EVENTS);
        let watches = (0..nodes.count())
            .map(|index| Watch::new(nodes.clone(), index, events.clone()))
            .collect::<Result<_, _>>()?;
        let worker = NodesWorker {
            watches,
            nodes: nodes.clone(),
        };
        Ok((nodes, receiver, worker))
    }
}

impl NodesWorker {
    /// Watches until shutdown, and until every connection of the upstream side has ended.
    ///
    /// # Cancel safety
    /// Dropping the future ends the watching.
    pub async fn run(self) {
        let Surroundings { metrics, end, .. } = self.nodes.surroundings();
        let watches = self.watches.into_iter().map(|watch| {
            let run = move || watch.clone().run();
            keep_running(
                RestartedTask::NodeWatch,
                Arc::clone(metrics),
                end.clone(),
                run,
            )
        });
        join_all(watches).await;
        self.nodes.closed().await;
    }
}

/// Events that wait for their reader. A block of 50,000 transactions is an event of 1.6 MB; a longer
/// queue would only hide a reader that is stuck.
const EVENTS: usize = 16;

/// Watches one node.
#[derive(Clone)]
pub(super) struct Watch {
    nodes: Nodes,
    index: NodeIndex,
    events: mpsc::Sender<NodeEvent>,
    health: Health,
    /// Short calls: health and mempool.
    client: Client,
    /// Of the follower's questions for blocks.
    max_answer_bytes: AnswerLimit,
}

/// A health check under way.
type Check = Pin<Box<dyn Future<Output = Result<Status, ClientError>> + Send>>;

impl Watch {
    /// Prepares.
    ///
    /// # Errors
    /// [`UpstreamError::Setup`] when TLS is needed and cannot be set up.
    pub(super) fn new(
        nodes: Nodes,
        index: NodeIndex,
        events: mpsc::Sender<NodeEvent>,
    ) -> Result<Self, UpstreamError> {
        let endpoint = nodes.endpoint(index);
        let patience = nodes.surroundings().config.upstream.write_timeout;
        let options = ClientOptions {
            // An answer that is late is still one.
            timeout: (patience / 3).clamp(SHORTEST_LIMIT, LONGEST_LIMIT),
            max_answer_bytes: MAX_STATUS_BYTES.into(),
            trust: nodes.surroundings().trust.clone(),
        };
        let client =
            Client::with_options(endpoint, options).map_err(|error| setup(endpoint, &error))?;
        let first_limit = BlockLimits::DEFAULT.answer_bytes(nodes.ledger().capacity());
        let watch = Self {
            nodes,
            index,
            events,
            health: Health::new(patience.into()),
            client,
            max_answer_bytes: first_limit.into(),
        };
        // What can go wrong with it goes wrong here and not while it runs.
        drop(watch.follow()?);
        Ok(watch)
    }

    /// Watches until shutdown.
    pub(super) async fn run(mut self) {
        let shutdown = self.nodes.surroundings().end.clone();
        let mempool = self.clone();
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = mempool.poll_mempool() => {}
            () = self.watch() => {}
        }
    }

    async fn watch(&mut self) {
        let mut checks = interval(self.config().upstream.health_interval);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut check: Option<Check> = None;
        // A task of its own, so that announcements are stamped while events wait for their reader.
        let mut following = JoinSet::new();
        let mut follower = None;
        loop {
            let followed = match &mut follower {
                Some(follower) => follower,
                None => match self.follow() {
                    Ok((fresh, worker)) => {
                        following.spawn(worker);
                        follower.insert(fresh)
                    }
                    Err(error) => return warn!(%error, "the node cannot be followed"),
                },
            };
            tokio::select! {
                biased;
                event = followed.next() => match event {
                    Some(event) => if self.on_follow(event).await {
                        // What broke off is looked at without delay.
                        checks.reset_immediately();
                    },
                    None => {
                        if let Some(Err(error)) = following.join_next().await {
                            // It is begun anew with the watch, after a pause.
                            panic::resume_unwind(error.into_panic());
                        }
                        follower = None;
                    }
                },
                result = settled(&mut check) => {
                    let seen = self.judge(result);
                    self.see(seen).await;
                }
                _ = checks.tick(), if check.is_none() => {
                    self.health.ask(self.nodes.surroundings().clock.now());
                    self.node().state().unanswered_since = self.health.unanswered_since();
                    let client = self.client.clone();
                    check = Some(Box::pin(async move { client.status().await }));
                }
            }
        }
    }

    /// Follows the chain from its next block on.
    fn follow(&self) -> Result<(Follower, impl Future<Output = ()> + Send + use<>), UpstreamError> {
        let endpoint = &self.node().endpoint;
        let options = FollowOptions {
            codes: false,
            events: FOLLOW_EVENTS,
            max_answer_bytes: self.max_answer_bytes.clone(),
            // Watermarks are not used here.
            watermark_interval: Duration::from_secs(60),
            trust: self.nodes.surroundings().trust.clone(),
            ..FollowOptions::default()
        };
        let (clock, end) = (
            self.nodes.surroundings().clock,
            self.nodes.surroundings().end.clone(),
        );
        let (follower, worker) = follow(endpoint, options, move || clock.now(), end)
            .map_err(|error| setup(endpoint, &error))?;
        Ok((follower, worker.run()))
    }

    /// Passes on what the follower tells; whether the node should be asked at once.
    async fn on_follow(&mut self, event: FollowEvent) -> bool {
        let node = self.index;
        match event {
            FollowEvent::Block(block) => {
                self.node().rise(block.height, block.observed);
                self.tell(NodeEvent::Block { node, block }).await;
            }
            FollowEvent::Missing { first, last } => {
                warn!(node, first, last, "the node no longer has these blocks");
            }
            FollowEvent::Disconnected {
                reason,
                closed,
                unread,
            } => {
                debug!(node, reason, closed, "following interrupted");
                if unread && self.others().next().is_some() {
                    self.see(Observation::Unusable(reason)).await;
                } else if unread {
                    warn!(node, reason, "blocks of the node cannot be read");
                } else if closed {
                    self.see(Observation::Gone(reason)).await;
                }
                return true;
            }
            FollowEvent::Failed(error) => {
                let reason = error.to_string();
                // Where it was down already, nothing else would tell.
                warn!(
                    node,
                    reason, "the node's chain was replaced; it is followed anew"
                );
                self.see(Observation::Gone("its chain was replaced".to_owned()))
                    .await;
                self.nodes.replace_chain(self.index);
                self.tell(NodeEvent::ChainReplaced { node, reason }).await;
                return true;
            }
            FollowEvent::Connected { .. }
            | FollowEvent::CaughtUp { .. }
            | FollowEvent::Unsubscribed { .. }
            | FollowEvent::Accepted { .. }
            | FollowEvent::Reorganised { .. }
            | FollowEvent::CodesUnavailable { .. }
            | FollowEvent::Watermark(_) => {}
        }
        false
    }

    /// What an answer, or none, says about the node.
    fn judge(&self, result: Result<Status, ClientError>) -> Observation {
        let status = match result {
            Ok(status) => status,
            Err(error @ ClientError::Unreachable { .. }) => {
                return Observation::Unreachable(error.to_string());
            }
            Err(error) => return Observation::Silent(error.to_string()),
        };
        if !self.config().upstream.any_version
            && !Version::parse(&status.version).is_some_and(Version::is_tested)
        {
            return Observation::Gone(untested(&status.version));
        }
        if let Some(chain) = self.other_chain(&status.chain_id) {
            return Observation::Gone(format!(
                "it is on chain '{}', the others are on '{chain}'",
                status.chain_id
            ));
        }
        {
            let mut known = self.node().state();
            (known.chain_id, known.version) = (status.chain_id, status.version);
        }
        let now = self.nodes.surroundings().clock.now();
        if self.is_stuck(status.latest_block_height, now) {
            return Observation::Gone(format!(
                "it stands at height {} while others go on",
                status.latest_block_height
            ));
        }
        self.node().rise(status.latest_block_height, now);
        Observation::Answer {
            catching_up: status.catching_up,
        }
    }

    /// The chain of another node that is up, if it differs.
    fn other_chain(&self, chain_id: &str) -> Option<String> {
        self.others()
            .map(|other| other.state().chain_id.clone())
            .find(|chain| !chain.is_empty() && chain != chain_id)
    }

    /// Whether other nodes' chain has left this one's behind for a while. A chain that stands
    /// still everywhere is nobody's fault.
    fn is_stuck(&self, height: u64, now: Nanos) -> bool {
        let best = self.others().map(|other| other.state().height).max();
        let known = self.node().state();
        height <= known.height
            && best.is_some_and(|best| best > height + STUCK_BLOCKS)
            && now.saturating_sub(known.risen_at) > STUCK_AFTER
    }

    fn others(&self) -> impl Iterator<Item = &Node> {
        let nodes = &self.nodes;
        (0..nodes.count())
            .filter(|other| *other != self.index && nodes.is_up(*other))
            .map(|other| nodes.node(other))
    }

    async fn see(&mut self, seen: Observation) {
        let now = self.nodes.surroundings().clock.now();
        let changes = self.health.see(seen, now);
        self.node().state().unanswered_since = self.health.unanswered_since();
        for change in changes.into_iter().flatten() {
            let event = self.change(change);
            self.tell(event).await;
        }
    }

    /// Notes a change of the node's health.
    fn change(&self, change: Change) -> NodeEvent {
        let node = self.index;
        let mut known = self.node().state();
        match change {
            Change::Up => {
                (known.up, known.catching_up) = (true, false);
                info!(
                    node,
                    endpoint = known.endpoint,
                    version = known.version,
                    "the node is up"
                );
                NodeEvent::Up { node }
            }
            Change::Down(reason) => {
                known.up = false;
                warn!(node, endpoint = known.endpoint, reason, "the node is down");
                NodeEvent::Down { node, reason }
            }
            Change::CatchingUp(catching_up) => {
                known.catching_up = catching_up;
                info!(node, catching_up, "the node catches up, or no longer");
                NodeEvent::CatchingUp { node, catching_up }
            }
        }
    }

    /// Asks how full the mempool is, again and again while the node is up. Costs the node two loads each time.
    async fn poll_mempool(&self) {
        let mut ticks = interval(self.config().pace.mempool_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut limits_due = Instant::now();
        loop {
            ticks.tick().await;
            if !self.nodes.is_up(self.index) {
                continue;
            }
            self.ask_mempool().await;
            if limits_due <= Instant::now() {
                limits_due = Instant::now() + LIMITS_INTERVAL;
                if self.nodes.largest_block(self.index) == 0 {
                    // What a node does not tell, its next blocks show.
                    let _ = self.nodes.learn_largest_block(self.index).await;
                }
                match self.nodes.learn_block_limits(self.index).await {
                    Ok(limits) => {
                        let buffers = self.nodes.ledger().capacity();
                        self.max_answer_bytes.set(limits.answer_bytes(buffers));
                    }
                    Err(error) => {
                        let reason = error.to_string();
                        debug!(
                            node = self.index,
                            reason, "the limits of blocks are unknown"
                        );
                    }
                }
            }
        }
    }

    async fn ask_mempool(&self) {
        let at = self.nodes.surroundings().clock.now();
        let Ok(mempool) = self.client.num_unconfirmed_txs().await else {
            return;
        };
        let txs = usize::try_from(mempool.txs).unwrap_or(usize::MAX);
        let node = self.index;
        // Should it be left out, the next one says the same, only newer.
        let _ = self.events.try_send(NodeEvent::Mempool { node, txs, at });
        self.node().state().mempool_txs = txs;
    }

    async fn tell(&self, event: NodeEvent) {
        // Without a reader the proxy is ending.
        let _ = self.events.send(event).await;
    }

    fn node(&self) -> &Node {
        self.nodes.node(self.index)
    }

    fn config(&self) -> &Config {
        &self.nodes.surroundings().config
    }
}

/// The result of the check under way; never while there is none.
async fn settled(check: &mut Option<Check>) -> Result<Status, ClientError> {
    match check {
        Some(running) => {
            let result = running.await;
            *check = None;
            result
        }
        None => std::future::pending().await,
    }
}

/// Blocks that a follower holds for us.
const FOLLOW_EVENTS: usize = 16;
/// A health check may take a third of the time after which a silent node counts as gone, but
/// between these.
const SHORTEST_LIMIT: Duration = Duration::from_secs(1);
const LONGEST_LIMIT: Duration = Duration::from_secs(10);
/// Parameters of the chain change by votes that take days.
const LIMITS_INTERVAL: Duration = Duration::from_secs(60);
/// A status is 2 KB.
const MAX_STATUS_BYTES: usize = 1 << 20;
/// A node so many blocks behind the others, and at the same height for so long, is stuck.
const STUCK_BLOCKS: u64 = 20;
const STUCK_AFTER: Nanos = Nanos::from_secs(30);
