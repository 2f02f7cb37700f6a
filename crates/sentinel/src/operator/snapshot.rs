//! The program at one moment, collected from its parts in one place.

use std::net::IpAddr;
use std::sync::Arc;

use control::{Bound, BreakState};
use pacing::Nanos;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::Inspect;
use super::explain::{ClientView, Explanation};
use crate::budget::Ledger;
use crate::clock::Clock;
use crate::config::Config;
use crate::front::Front;
use crate::identity::Identities;
use crate::lane::{Lane, Status};
use crate::metrics::{Counted, Gauges, Metrics};
use crate::upstream::{ABSENT, Hub, NodeState, Nodes, SILENT};

/// The program at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When: time since the start.
    pub at: Nanos,
    /// The program is going down: what is queued is still forwarded, nothing new is taken.
    pub draining: bool,
    /// Whether any node has answered within the last 10 s, or owes no answer.
    pub answering: bool,
    /// The nodes, in the order of the configuration.
    pub nodes: Vec<NodeView>,
    /// The write lane.
    pub status: Status,
    /// The state in numbers.
    pub gauges: Gauges,
    /// What was counted since the start.
    pub counted: Counted,
}

/// One node behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeView {
    /// Its address as configured.
    pub url: String,
    /// Whether it answers, as far as is known.
    pub up: bool,
    /// How long it has owed an answer, once that is longer than a block may take; in milliseconds.
    pub silent_ms: Option<u64>,
    /// Whether it is still catching up with its chain.
    pub catching_up: bool,
    /// The last height that was seen.
    pub height: Option<u64>,
}

impl Snapshot {
    /// Whether any node was reached since the start.
    pub fn reached(&self) -> bool {
        let mut nodes = self.nodes.iter();
        nodes.any(|node| node.up || node.height.is_some())
    }

    /// Whether clients should be sent here, and why, in a few words. A break is no reason not to: writes are held
    /// and go out after it. Neither is a node that restarts.
    pub fn readiness(&self) -> (bool, String) {
        if self.draining {
            return (false, "going down: nothing new is taken".to_owned());
        }
        if !self.reached() {
            return (false, "no node was reached since the start".to_owned());
        }
        if !self.answering {
            let why = "no node has answered for 10 s: reads are refused, and writes wait until their deadline";
            return (false, why.to_owned());
        }
        let is_silent = |node: &NodeView| node.silent_ms.is_some();
        let takes_writes = |node: &NodeView| node.up && !node.catching_up && !is_silent(node);
        if !self.nodes.iter().any(takes_writes) {
            let silent = self.nodes.iter().any(is_silent);
            let what = if silent { "answers" } else { "takes writes" };
            let why = format!("no node {what} at the moment: writes are held until their deadline");
            return (true, why);
        }
        let why = match self.status.state {
            BreakState::Running => "running".to_owned(),
            state => format!(
                "{}: writes are held and go out after the break",
                state.name()
            ),
        };
        (true, why)
    }

    /// What holds the next write back, in a sentence.
    pub fn bound(&self) -> String {
        self.status.bound.text(self.at)
    }
}

/// Looks at everything, owns nothing.
pub(crate) struct Operator {
    pub(crate) config: Arc<Config>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    pub(crate) lane: Lane,
    pub(crate) nodes: Nodes,
    pub(crate) ledger: Ledger,
    pub(crate) identities: Identities,
    pub(crate) front: Front,
    pub(crate) hub: Hub,
    pub(crate) shutdown: CancellationToken,
}

impl Operator {
    /// The gauges of this moment.
    fn gauges(&self, status: &Status, states: &[NodeState]) -> Gauges {
        let hub = self.hub.counters();
        let active = status.node.and_then(|node| states.get(node));
        Gauges {
            queue_depth: status.queued,
            queue_bytes: status.queued_bytes,
            writes_in_flight: status.in_flight,
            buffered_bytes: self.ledger.used(),
            buffer_capacity_bytes: self.ledger.capacity(),
            connections: self.front.connections(),
            clients_active: status.backlogged_clients,
            client_table_entries: status.known_clients,
            client_evictions: status.evictions,
            fair_share: status.rate.as_f64() / status.backlogged_clients.max(1) as f64,
            pace_rate: status.rate.as_f64(),
            pace_blind: status.blind,
            committed_tx_rate: status.committed_rate,
            upstream_mempool_txs: active.map_or(0, |node| node.mempool_txs),
            upstreams_up: states
                .iter()
                .filter(|node| node.up && !node.catching_up)
                .count(),
            upstreams: states.len(),
            commit_waiters: status.commits,
            retained_bytes: status.retained_bytes,
            uncommitted_forgotten: status.forgotten,
            ws_subscriptions: hub.subscriptions,
            ws_queries: hub.queries,
            ws_subscribers: hub.links,
            ws_slow_subscriptions: hub.slow,
            ws_dropped_events: hub.ended,
            bound: status.bound,
            upstream_open: status.connections,
            upstream_connecting: status.connecting,
        }
    }
}

impl Inspect for Operator {
    fn snapshot(&self) -> Snapshot {
        let (status, at) = (self.lane.status(), self.clock.now());
        let states = self.nodes.states();
        let gauges = self.gauges(&status, &states);
        let answering = states.iter().any(|node| !node.is_silent_for(ABSENT, at));
        let nodes = states.into_iter().enumerate().map(|(place, node)| {
            let bound = (status.node == Some(place)).then_some(status.bound);
            node_view(node, bound, at)
        });
        Snapshot {
            at,
            draining: self.shutdown.is_cancelled(),
            answering,
            nodes: nodes.collect(),
            status,
            gauges,
            counted: self.metrics.counted(),
        }
    }

    fn clients(&self, top: usize) -> Vec<ClientView> {
        let clients = self.lane.top(top).into_iter();
        let view = |(client, _)| self.view(client, &self.lane.explain(client));
        clients.map(view).collect()
    }

    fn explain(&self, address: IpAddr) -> Explanation {
        self.explanation(address)
    }
}

/// A node and what is known of its answers: by its health, and by the writes under way to it if `bound` is what
/// holds them back.
fn node_view(node: NodeState, bound: Option<Bound>, now: Nanos) -> NodeView {
    let writes_wait = match bound {
        Some(Bound::NodeSilent { since, .. }) => Some(since),
        _ => None,
    };
    let since = node.unanswered_since.into_iter().chain(writes_wait).min();
    let silent = since.map(|since| now.saturating_sub(since));
    let silent = silent.filter(|silent| *silent >= SILENT);
    NodeView {
        url: node.endpoint,
        up: node.up,
        silent_ms: silent.map(Nanos::as_millis),
        catching_up: node.catching_up,
        height: (node.height > 0).then_some(node.height),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_node_is_seen_after_two_seconds_by_its_health_or_by_its_writes() {
        let seconds = Nanos::from_secs;
        let silent_ms = |asked: Option<u64>, writes: Option<u64>, now: u64| {
            let node = NodeState {
                up: true,
                unanswered_since: asked.map(seconds),
                ..NodeState::default()
            };
            let bound = writes.map(|since| Bound::NodeSilent {
                since: seconds(since),
                under_way: 8,
            });
            node_view(node, bound.or(Some(Bound::Nothing)), seconds(now)).silent_ms
        };
        assert_eq!(silent_ms(Some(10), None, 12), Some(2_000));
        assert_eq!(silent_ms(None, Some(9), 12), Some(3_000));
        assert_eq!(silent_ms(Some(10), Some(9), 12), Some(3_000));
        // What it is asked just now, or owes no answer to, is no silence.
        assert_eq!(silent_ms(Some(11), None, 12), None);
        assert_eq!(silent_ms(None, None, 12), None);
    }

    fn ready() -> Snapshot {
        Snapshot {
            answering: true,
            nodes: vec![NodeView {
                url: "http://127.0.0.1:26657".to_owned(),
                up: true,
                silent_ms: None,
                catching_up: false,
                height: Some(7),
            }],
            ..Snapshot::default()
        }
    }

    fn why(snapshot: &Snapshot) -> String {
        snapshot.readiness().1
    }

    #[test]
    fn ready_unless_it_drains_or_has_never_reached_a_node() {
        assert_eq!(ready().readiness(), (true, "running".to_owned()));
        let draining = Snapshot {
            draining: true,
            ..ready()
        };
        assert!(!draining.readiness().0);
        assert!(why(&draining).contains("going down"));
        let alone = Snapshot {
            nodes: vec![NodeView::default()],
            ..ready()
        };
        assert!(!alone.readiness().0);
        assert!(why(&alone).contains("no node was reached"));
    }

    #[test]
    fn ready_while_paused_and_while_the_node_is_away() {
        let mut paused = ready();
        paused.status.state = BreakState::Paused;
        assert!(paused.readiness().0);
        assert!(why(&paused).starts_with("paused: writes are held"));
        let mut down = ready();
        down.nodes[0].up = false;
        assert!(down.readiness().0);
        assert!(why(&down).contains("no node takes writes"));
    }

    #[test]
    fn case_91_a_node_that_answers_nothing_is_not_shown_as_up() {
        let mut stopped = ready();
        stopped.nodes[0].silent_ms = Some(4_200);
        assert_eq!(
            why(&stopped),
            "no node answers at the moment: writes are held until their deadline"
        );
        // It may be executing a large block: clients are still sent here.
        assert!(stopped.readiness().0);
        // At 2b52556 they were for as long as the node was stopped.
        stopped.answering = false;
        assert!(!stopped.readiness().0);
        assert!(why(&stopped).starts_with("no node has answered for 10 s"));
        let mut beside = ready();
        beside.nodes.extend(stopped.nodes);
        assert_eq!(why(&beside), "running");
    }
}
