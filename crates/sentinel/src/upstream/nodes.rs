//! All nodes behind the proxy: which can be used, how high their chain is, what their blocks are.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use chain_cometbft::Status;
use pacing::Nanos;
use parking_lot::{Mutex, MutexGuard};
use rpc::Endpoint;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tracing::warn;

use super::UpstreamError;
use super::dial::Dialer;
use super::health::ABSENT;
use super::http::{NodeHttp, PoolOptions};
use super::node_state::{NodeDoor, NodeIndex, NodeState, Version, untested};
use crate::budget::Ledger;
use crate::shared_context::SharedContext;

/// All nodes. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Nodes(Arc<Inner>);

struct Inner {
    nodes: Vec<Node>,
    shared_context: SharedContext,
    pool_options: PoolOptions,
    second_attempts: Arc<Semaphore>,
}

/// What is known of one node.
pub(super) struct Node {
    /// Asks it over kept-alive connections, for clients.
    pub(super) http: NodeHttp,
    state: Mutex<NodeState>,
    /// Wakes its watch.
    pub(super) look: Notify,
}

impl Nodes {
    /// The configured nodes, of which nothing is known yet.
    ///
    /// # Errors
    /// [`UpstreamError::Setup`] when TLS is needed and cannot be set up.
    pub(super) fn new(shared_context: SharedContext) -> Result<Self, UpstreamError> {
        let config = shared_context.config.current();
        let upstream = &config.upstream;
        let pool_options = PoolOptions {
            // The library holds a buffer and the piece that was cut off it.
            window_bytes: config.fixed.window_bytes / 2,
            idle_limit: IDLE_LIMIT,
            tracker: TaskTracker::new(),
            shutdown: shared_context.end.clone(),
        };
        let nodes = upstream.urls.iter().map(|url| {
            let dialer = Dialer::new(url, &shared_context.trust, config.fixed.connect_timeout)?;
            let http = NodeHttp::new(dialer, pool_options.clone(), upstream.timeout)?;
            let state = Mutex::new(NodeState {
                endpoint: url.to_string(),
                ..NodeState::default()
            });
            Ok(Node {
                http,
                state,
                look: Notify::new(),
            })
        });
        Ok(Self(Arc::new(Inner {
            nodes: nodes.collect::<Result<_, UpstreamError>>()?,
            shared_context,
            pool_options,
            second_attempts: Arc::new(Semaphore::new(SECOND_ATTEMPTS)),
        })))
    }

    /// Waits until every connection of the upstream side has ended.
    pub(super) async fn closed(&self) {
        self.0.pool_options.tracker.close();
        self.0.pool_options.tracker.wait().await;
    }

    /// How many there are, at least one.
    pub fn count(&self) -> usize {
        self.0.nodes.len()
    }

    /// Whether a node answers. Costs one short lock.
    pub fn is_up(&self, node: NodeIndex) -> bool {
        self.node(node).state().up
    }

    /// Whether a node answers, takes transactions and is not drained.
    pub fn takes_writes(&self, node: NodeIndex) -> bool {
        let state = self.node(node).state();
        let takes = state.up && !state.catching_up;
        if state.drained.is_none() && state.unanswered_since.is_none() {
            return takes;
        }
        let now = self.now();
        let is_drained = state.is_drained(now);
        drop(state);
        takes && !is_drained && !self.is_left_behind(node, now)
    }

    /// Leaves the node of this address, or all, alone until a time, or no longer: whether there is such a node. Writes go
    /// to another one, or wait; reads go to another one, if there is one.
    pub(crate) fn drain(&self, url: Option<&str>, until: Option<&(Nanos, String)>) -> bool {
        let mut is_known = false;
        for node in &self.0.nodes {
            let mut state = node.state();
            if url.is_none_or(|url| state.endpoint == url) {
                state.drained = until.cloned();
                is_known = true;
            }
        }
        is_known
    }

    /// A node's address.
    pub fn endpoint(&self, node: NodeIndex) -> &Endpoint {
        self.node(node).http.dialer.endpoint()
    }

    /// The node itself if it is up, answers and is not drained, else the first other one of which that is so;
    /// itself if it is so of none.
    pub fn nearest_up(&self, node: NodeIndex) -> NodeIndex {
        let mut candidates = iter::once(node).chain(0..self.count());
        let now = self.now();
        let serves = |node: &NodeIndex| {
            let state = self.node(*node).state();
            state.up && !state.is_silent_for(ABSENT, now) && !state.is_drained(now)
        };
        let found = candidates.find(serves);
        found.unwrap_or(node)
    }

    /// No connection to a node could be made: nothing but its health is asked until it answers.
    pub(super) fn note_unreachable(&self, node: NodeIndex) {
        let mut state = self.node(node).state();
        if !std::mem::replace(&mut state.unreachable, true) {
            drop(state);
            self.look_at(Some(node));
        }
    }

    /// A read is sent to a node's listener, and `counts` if it is no write: a commit takes as long as a block.
    pub(super) fn note_sent(&self, node: NodeIndex, door: NodeDoor, counts: bool) -> Nanos {
        let now = self.now();
        let mut state = self.node(node).state();
        state.reads += 1;
        let rests = counts && state.breakers[door as usize].sent(now);
        drop(state);
        if rests && self.count() > 1 {
            warn!(
                node,
                ?door,
                "the node answers no reads; others are asked first"
            );
        }
        now
    }

    /// A read that was sent at that instant was answered by a node's listener, quickly if `is_light`; so long ago was
    /// it sent.
    pub(super) fn note_answered(
        &self,
        (node, door): (NodeIndex, NodeDoor),
        sent: Nanos,
        is_light: bool,
    ) -> Nanos {
        let now = self.now();
        let took = now.saturating_sub(sent);
        let breakers = &mut self.node(node).state().breakers;
        breakers[door as usize].answered(took, now, is_light);
        took
    }

    /// One more read may be asked of a second node while the first one may still answer it.
    pub(super) fn second_attempt(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.second_attempts).try_acquire_owned().ok()
    }

    pub(super) fn now(&self) -> Nanos {
        self.0.shared_context.clock.now()
    }

    /// Where a node stands, behind a short lock.
    pub fn state(&self, node: NodeIndex) -> MutexGuard<'_, NodeState> {
        self.node(node).state()
    }

    /// Where every node stands.
    pub fn states(&self) -> Vec<NodeState> {
        let nodes = self.0.nodes.iter();
        nodes.map(|node| node.state().clone()).collect()
    }

    pub(super) fn node(&self, node: NodeIndex) -> &Node {
        &self.0.nodes[node]
    }

    pub(super) fn shared_context(&self) -> &SharedContext {
        &self.0.shared_context
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.0.shared_context.ledger
    }

    /// Forgets what was known of a node's chain, which is another one now.
    pub(super) fn replace_chain(&self, node: NodeIndex) {
        let mut state = self.node(node).state();
        state.replacements += 1;
        state.height = 0;
        state.followed_after = None;
        state.chain_id.clear();
        state.version.clear();
    }

    /// How often a node's chain was replaced, and the height that it has now.
    pub(super) fn chain(&self, node: NodeIndex) -> (u64, u64) {
        let state = self.node(node).state();
        (state.replacements, state.height)
    }

    /// Asks a node for its state without delay.
    pub(crate) fn look_at(&self, node: Option<NodeIndex>) {
        if let Some(node) = node {
            self.node(node).look.notify_one();
        }
    }

    /// A node takes no write connection: reads leave it the place of one of theirs.
    pub(crate) fn give_way(&self, node: Option<NodeIndex>) {
        if let Some(node) = node {
            self.node(node).http.give_way();
        }
    }

    /// For further clients of the nodes.
    pub(super) fn pool_options(&self) -> &PoolOptions {
        &self.0.pool_options
    }

    /// The version of a node, once it has reported one.
    pub fn version(&self, node: NodeIndex) -> Option<Version> {
        Version::parse(&self.node(node).state().version)
    }

    /// Asks every node for its version; one that does not answer is judged when it does.
    ///
    /// # Errors
    /// [`UpstreamError::Setup`] when a node answers with a version that was not tested, unless any is
    /// served.
    pub async fn check_versions(&self) -> Result<(), UpstreamError> {
        let any_version = self.0.shared_context.config.load().upstream.any_version;
        for node in &self.0.nodes {
            let asking = node.http.call::<Status>("status", self.ledger());
            let Ok(Ok(status)) = timeout(VERSION_LIMIT, asking).await else {
                continue;
            };
            let is_tested = Version::parse(&status.version).is_some_and(Version::is_tested);
            if !is_tested && !any_version {
                return Err(node.http.dialer.setup(&untested(&status.version)));
            }
            node.state().version = status.version;
        }
        Ok(())
    }
}

impl Node {
    /// The node has this height, at least.
    pub(super) fn rise(&self, height: u64, now: Nanos) {
        let mut state = self.state();
        if state.height < height {
            (state.height, state.risen_at) = (height, now);
        }
    }

    /// Where it stands.
    pub(super) fn state(&self) -> MutexGuard<'_, NodeState> {
        self.state.lock()
    }
}

/// Reads asked of a second node at a time because the first one is late: a sixteenth of those that may be under way by
/// default. A node that is well answers some thousand a second so.
const SECOND_ATTEMPTS: usize = 16;
/// How long a node may take at the start to answer with its version.
const VERSION_LIMIT: Duration = Duration::from_secs(2);
/// A CometBFT node closes connections that were idle for 10 s; leaving them alone a little earlier saves most second
/// attempts.
const IDLE_LIMIT: Duration = Duration::from_secs(8);
