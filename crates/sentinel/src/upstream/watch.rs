//! Watches the nodes: their health, their blocks, their mempools.

use std::panic;
use std::sync::Arc;
use std::time::Duration;

use chain_cometbft::{Status, follow};
use futures_util::future::{BoxFuture, FutureExt as _, OptionFuture, join_all};
use pacing::Nanos;
use rpc::{AnswerLimit, FollowEvent, FollowOptions, Follower, Height, Mempool};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{debug, info, warn};

use super::UpstreamError;
use super::health::{Condition, Health, Observation};
use super::http::NodeHttp;
use super::node_state::{BlockLimits, NodeEvent, NodeIndex, Version, untested};
use super::nodes::{Node, Nodes};
use crate::budget::Ledger;
use crate::config::Config;
use crate::metrics::RestartedTask;
use crate::shared_context::SharedContext;
use crate::supervise::keep_running;

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
        shared_context: SharedContext,
    ) -> Result<(Self, mpsc::Receiver<NodeEvent>, NodesWorker), UpstreamError> {
        let nodes = Self::new(shared_context)?;
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
        let SharedContext { metrics, end, .. } = self.nodes.shared_context();
        let watches = self.watches.into_iter().map(|watch| {
            let run = move || watch.clone().run();
            let (metrics, end) = (Arc::clone(metrics), end.clone());
            keep_running(RestartedTask::NodeWatch, metrics, end, run)
        });
        join_all(watches).await;
        self.nodes.closed().await;
    }
}

/// A node on another chain is asked at once when its connections break, and again with each block that it announces:
/// more blocks than these have not been made before that is seen.
const BLOCKS_UNSEEN: u64 = 2;
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
    /// For short questions, over connections that no client uses.
    http: NodeHttp,
    /// What the answers to these are charged to: clients cannot fill it.
    account: Ledger,
    /// Of the follower's questions for blocks.
    max_answer_bytes: AnswerLimit,
    /// Where a follower begins.
    from: Height,
}

/// A health check under way.
type Check = BoxFuture<'static, Result<Status, UpstreamError>>;

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
        let patience = nodes.shared_context().config.load().upstream.timeout;
        // An answer that is late is still one.
        let limit = (patience / 3).clamp(SHORTEST_LIMIT, LONGEST_LIMIT);
        let dialer = nodes.node(index).http.dialer.clone();
        let http = NodeHttp::new(dialer, nodes.pool_options().clone(), limit)?;
        let first_limit = BlockLimits::DEFAULT.answer_bytes(nodes.ledger().capacity());
        let watch = Self {
            nodes,
            index,
            events,
            health: Health::new(index, patience.into()),
            http,
            account: Ledger::new(ACCOUNT_BYTES),
            max_answer_bytes: first_limit.into(),
            from: Height::Next,
        };
        // What can go wrong with it goes wrong here and not while it runs.
        drop(watch.follow()?);
        Ok(watch)
    }

    /// Watches until shutdown.
    pub(super) async fn run(mut self) {
        let shutdown = self.nodes.shared_context().end.clone();
        let mempool = self.clone();
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = mempool.poll_mempool() => {}
            error = self.watch() => warn!(%error, "the node cannot be followed"),
        }
    }

    /// Watches with one follower after another; why there is no further one.
    async fn watch(&mut self) -> UpstreamError {
        loop {
            match self.follow() {
                Ok((follower, worker)) => self.watch_with(follower, worker).await,
                Err(error) => return error,
            }
        }
    }

    /// Watches as long as this follower lives.
    async fn watch_with(
        &mut self,
        mut follower: Follower,
        worker: impl Future<Output = ()> + Send + 'static,
    ) {
        // A task of its own, so that announcements are stamped while events wait for their reader.
        let mut following = JoinSet::new();
        following.spawn(worker);
        let mut checks = interval(self.config().fixed.health_interval);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut check: Option<Check> = None;
        let nodes = self.nodes.clone();
        let look = &nodes.node(self.index).look;
        let mut asked = Nanos::ZERO;
        loop {
            tokio::select! {
                biased;
                event = follower.next() => match event {
                    Some(event) => if self.on_follow(event).await {
                        // What broke off is looked at without delay.
                        checks.reset_immediately();
                    },
                    None => break,
                },
                Some(result) = OptionFuture::from(check.as_mut()) => {
                    check = None;
                    let seen = self.judge(asked, result);
                    self.see(seen).await;
                }
                () = look.notified() => checks.reset_immediately(),
                _ = checks.tick(), if check.is_none() => {
                    asked = self.now();
                    self.health.ask(asked);
                    self.note_health();
                    let (http, account) = (self.http.clone(), self.account.clone());
                    let asking = async move { http.call("status", &account).await };
                    check = Some(asking.boxed());
                }
            }
        }
        if let Some(Err(error)) = following.join_next().await {
            // It is begun anew with the watch, after a pause.
            panic::resume_unwind(error.into_panic());
        }
    }

    /// Follows the chain.
    fn follow(&self) -> Result<(Follower, impl Future<Output = ()> + Send + use<>), UpstreamError> {
        let dialer = &self.http.dialer;
        let context = self.nodes.shared_context();
        let options = FollowOptions {
            from: self.from,
            codes: false,
            events: FOLLOW_EVENTS,
            max_answer_bytes: self.max_answer_bytes.clone(),
            // Watermarks are not used here.
            watermark_interval: Duration::from_secs(60),
            trust: context.trust.clone(),
            ..FollowOptions::default()
        };
        let (clock, end) = (context.clock, context.end.clone());
        let (follower, worker) = follow(dialer.endpoint(), options, move || clock.now(), end)
            .map_err(|error| dialer.setup(&error))?;
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
            FollowEvent::Connected { next, .. } => {
                self.node()
                    .state()
                    .followed_after
                    .get_or_insert(next.saturating_sub(1));
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
                // Blocks that it has already may hold what was sent from here.
                self.from = Height::At(error.height().saturating_sub(BLOCKS_UNSEEN));
                self.tell(NodeEvent::ChainReplaced { node, reason }).await;
                return true;
            }
            _ => {}
        }
        false
    }

    /// What an answer to a question of this instant, or none, shows of the node.
    fn judge(&self, asked: Nanos, result: Result<Status, UpstreamError>) -> Observation {
        let status = match result {
            Ok(status) => status,
            Err(error @ UpstreamError::Connect(..)) => {
                self.node().state().unreachable = true;
                return Observation::Unreachable(error.to_string());
            }
            Err(error) => return Observation::Silent(error.to_string()),
        };
        let is_tested = Version::parse(&status.version).is_some_and(Version::is_tested);
        if !is_tested && !self.config().upstream.any_version {
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
            (known.unreachable, known.lowest) = (false, status.earliest_block_height);
            (known.chain_id, known.version) = (status.chain_id, status.version);
            known.told = (asked, status.latest_block_height);
        }
        let (height, now) = (status.latest_block_height, self.now());
        if self.is_stuck(height, now) {
            let text = format!("it stands at height {height} while others go on");
            return Observation::Gone(text);
        }
        self.node().rise(height, now);
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
    /// still everywhere is no node's fault.
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
        let event = self.health.see(seen, self.now());
        self.note_health();
        if let Some(event) = event {
            self.log(&event);
            self.tell(event).await;
        }
    }

    /// Lets everybody see the node's health.
    fn note_health(&self) {
        let mut known = self.node().state();
        known.unanswered_since = self.health.unanswered_since();
        let condition = self.health.condition();
        known.up = matches!(condition, Condition::Up { .. });
        known.catching_up = condition == Condition::Up { catching_up: true };
    }

    fn log(&self, event: &NodeEvent) {
        let known = self.node().state();
        let (node, endpoint, version) = (self.index, &known.endpoint, &known.version);
        match event {
            NodeEvent::Up { catching_up, .. } => {
                info!(node, endpoint, version, catching_up, "the node is up");
            }
            NodeEvent::Down { reason, .. } => warn!(node, endpoint, reason, "the node is down"),
            _ => {}
        }
    }

    /// Asks how full the mempool is, again and again while the node is up, which costs the node two loads each
    /// time, and now and then what blocks may hold.
    async fn poll_mempool(&self) {
        let mut ticks = interval(self.config().fixed.mempool_interval);
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
                if self.node().state().largest_block == 0 {
                    self.learn_largest_block().await;
                }
                self.learn_block_limits().await;
            }
        }
    }

    async fn ask_mempool(&self) {
        let at = self.now();
        let asked = self.http.call("num_unconfirmed_txs", &self.account).await;
        let Ok(Mempool { txs, .. }) = asked else {
            return;
        };
        let txs = usize::try_from(txs).unwrap_or(usize::MAX);
        let node = self.index;
        // Should it be left out, the next one has the same, only newer.
        let _ = self.events.try_send(NodeEvent::Mempool { node, txs, at });
        self.node().state().mempool_txs = txs;
    }

    /// Asks what the last blocks held (20 of them, `blockchain`). What a node leaves out, its next blocks show.
    async fn learn_largest_block(&self) {
        let asked = self.http.call::<Value>("blockchain", &self.account).await;
        let Ok(last) = asked else { return };
        let blocks = last["block_metas"].as_array().into_iter().flatten();
        let txs = blocks.filter_map(|block| integer(&block["num_txs"]));
        let most = txs.filter_map(|txs| u64::try_from(txs).ok()).max();
        self.node().state().largest_block = most.unwrap_or(0);
    }

    /// Asks what blocks may hold, which bounds the answers with blocks.
    async fn learn_block_limits(&self) {
        let asked = self
            .http
            .call::<Value>("consensus_params", &self.account)
            .await;
        let Ok(params) = asked else { return };
        let block = &params["consensus_params"]["block"];
        if block["max_bytes"].is_string() {
            let [bytes, gas] = ["max_bytes", "max_gas"].map(|key| integer(&block[key]));
            let limits = BlockLimits::new(bytes.unwrap_or(-1), gas.unwrap_or(-1));
            self.node().state().block_limits = Some(limits);
            let buffers = self.nodes.ledger().capacity();
            self.max_answer_bytes.set(limits.answer_bytes(buffers));
        }
    }

    async fn tell(&self, event: NodeEvent) {
        // Without a reader the proxy is ending.
        let _ = self.events.send(event).await;
    }

    fn node(&self) -> &Node {
        self.nodes.node(self.index)
    }

    fn config(&self) -> Arc<Config> {
        self.nodes.shared_context().config.current()
    }

    fn now(&self) -> Nanos {
        self.nodes.now()
    }
}

/// An integer as a node writes it: in a text.
fn integer(value: &Value) -> Option<i64> {
    value.as_str()?.parse().ok()
}

/// Blocks that a follower holds for us.
const FOLLOW_EVENTS: usize = 16;
/// A health check may take a third of the time after which a silent node counts as gone, but
/// between these.
const SHORTEST_LIMIT: Duration = Duration::from_secs(1);
const LONGEST_LIMIT: Duration = Duration::from_secs(10);
/// Parameters of the chain change by votes that take days.
const LIMITS_INTERVAL: Duration = Duration::from_secs(60);
/// Room for two short answers, of which each takes a quarter at most: a status has 2 KB.
const ACCOUNT_BYTES: usize = 4 << 20;
/// A node so many blocks behind the others, and at the same height for so long, is stuck.
const STUCK_BLOCKS: u64 = 20;
const STUCK_AFTER: Nanos = Nanos::from_secs(30);
