//! What the operator is shown, collected from the parts of the program in one place.

use std::net::IpAddr;
use std::time::Duration;

use control::Bound;
use fairq::{ClientKey, Network};
use pacing::Nanos;
use tracing::info;

use super::snapshot::{
    BanView, ClientView, DrainView, Explanation, Inspect, Limit, NodeView, Snapshot,
};
use crate::bans::Ban;
use crate::identity::Identity;
use crate::lane::{Explained, Lane, Status};
use crate::metrics::Gauges;
use crate::refusal::Reason;
use crate::reload::{NotReloaded, Reloaded, Reloader};
use crate::shared_context::SharedContext;
use crate::upstream::{ABSENT, Hub, NodeState, Nodes, SILENT};

/// Looks at everything, owns nothing.
pub(crate) struct Operator {
    pub(crate) shared_context: SharedContext,
    pub(crate) lane: Lane,
    pub(crate) nodes: Nodes,
    pub(crate) hub: Hub,
    pub(crate) reloader: Reloader,
}

impl Operator {
    /// The gauges of this moment.
    fn gauges(&self, status: &Status, states: &[NodeState]) -> Gauges {
        let SharedContext { budget, ledger, .. } = &self.shared_context;
        let hub = self.hub.counters();
        let active = status.node.and_then(|node| states.get(node));
        Gauges {
            queue_depth: status.queued,
            queue_bytes: status.queued_bytes,
            writes_in_flight: status.in_flight,
            buffered_bytes: ledger.used(),
            buffer_capacity_bytes: ledger.capacity(),
            connections: budget.connections(),
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
            state: status.state,
            upstream_open: status.connections,
            upstream_connecting: status.connecting,
        }
    }
}

impl Inspect for Operator {
    fn snapshot(&self) -> Snapshot {
        let (status, at) = (self.lane.status(), self.shared_context.clock.now());
        let states = self.nodes.states();
        let gauges = self.gauges(&status, &states);
        let answering = states.iter().any(|node| !node.is_silent_for(ABSENT, at));
        let nodes = states.into_iter().enumerate().map(|(place, node)| {
            let bound = (status.node == Some(place)).then_some(status.bound);
            node_view(node, bound, at)
        });
        Snapshot {
            at,
            draining: self.shared_context.stop.is_cancelled(),
            answering,
            nodes: nodes.collect(),
            status,
            gauges,
            counted: self.shared_context.metrics.counted(),
        }
    }

    fn clients(&self, top: usize) -> Vec<ClientView> {
        let clients = self.lane.top(top).into_iter();
        let view = |(client, _)| self.view(client, &self.lane.explain(client));
        clients.map(view).collect()
    }

    fn ban(&self, who: Network, length: Option<Duration>, why: String) -> Result<BanView, String> {
        let now = self.shared_context.clock.now();
        let until = length.map(|length| now.saturating_add(length.into()));
        let ban = Ban { who, until, why };
        let who = self.shared_context.identities.ban(ban.clone())?;
        let view = ban_view(Ban { who, ..ban }, now);
        info!(
            who = view.who,
            seconds = view.ends_in_seconds,
            why = view.why,
            "the operator banned a network"
        );
        Ok(view)
    }

    fn unban(&self, who: Network) -> bool {
        let was_there = self.shared_context.identities.unban(who);
        if was_there {
            info!(%who, "the operator ended a ban");
        }
        was_there
    }

    fn drain(&self, node: Option<&str>, length: Option<Duration>, why: String) -> bool {
        let now = self.shared_context.clock.now();
        let until = length.map(|length| (now.saturating_add(length.into()), why.clone()));
        let is_known = self.nodes.drain(node, until.as_ref());
        if is_known {
            let node = node.unwrap_or("all");
            match length {
                Some(length) => info!(node, ?length, why, "the operator drained this node"),
                None => info!(node, "the operator ended the drain of this node"),
            }
        }
        is_known
    }

    fn bans(&self) -> Vec<BanView> {
        let now = self.shared_context.clock.now();
        let bans = self.shared_context.identities.bans(now).into_iter();
        bans.map(|ban| ban_view(ban, now)).collect()
    }

    fn reload(&self) -> Result<Reloaded, NotReloaded> {
        self.reloader.reload()
    }

    fn explain(&self, address: IpAddr) -> Explanation {
        let identity = self.shared_context.identities.load().of_peer(address);
        let explained = self.lane.explain(identity.client);
        let snapshot = self.snapshot();
        let (bound, status) = (snapshot.bound(), snapshot.status);
        let client = self.view(identity.client, &explained);
        // How long a break lasts is known, and in the wait.
        let is_break = matches!(status.bound, Bound::Break(_));
        let node = status.node.filter(|_| status.connected);
        let has_node = node.is_some_and(|node| self.nodes.takes_writes(node));
        let is_known = has_node && (is_break || !status.bound.is_closed());
        Explanation {
            ip: address,
            allowed: identity.allowed,
            rule: self.rule(address),
            queue_limit: self.shared_context.config.load().fair.queue_per_client,
            pace_per_second: status.rate.as_f64(),
            sharing: status.backlogged_clients,
            estimated_wait_ms: is_known.then_some(explained.wait.as_millis() as u64),
            controller: status.state.name(),
            limits: self.limits(identity, &explained, &client, &status),
            bound,
            counted_in: status.shortage.to_string(),
            forgotten: status.forgotten,
            would_refuse: self.shared_context.shadow.of(identity.client),
            client,
        }
    }
}

fn seconds_left(until: Nanos, now: Nanos) -> u64 {
    until.saturating_sub(now).as_millis().div_ceil(1_000)
}

fn ban_view(ban: Ban, now: Nanos) -> BanView {
    BanView {
        who: ban.who.to_string(),
        ends_in_seconds: ban.until.map(|until| seconds_left(until, now)),
        why: ban.why,
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
    let drained = node.is_drained(now).then_some(node.drained).flatten();
    NodeView {
        drained: drained.map(|(until, why)| DrainView {
            ends_in_seconds: seconds_left(until, now),
            why,
        }),
        url: node.endpoint,
        up: node.up,
        silent_ms: silent.map(Nanos::as_millis),
        catching_up: node.catching_up,
        height: (node.height > 0).then_some(node.height),
        reads: node.reads,
    }
}

impl Operator {
    fn view(&self, client: ClientKey, explained: &Explained) -> ClientView {
        ClientView {
            client: client.to_string(),
            weight: explained.weight,
            connections: self.shared_context.budget.connections_of(client),
            queued: explained.backlog.entries,
            queued_bytes: explained.backlog.bytes as usize,
            share_per_second: explained.share,
            dispatched: explained.tally.dispatched,
            refused: explained.tally.refused,
            forwarded_per_second: None,
        }
    }

    /// The network of the lists that decides about an address.
    fn rule(&self, address: IpAddr) -> Option<String> {
        let config = self.shared_context.config.load();
        let trust = &config.trust;
        let networks = trust.allow.iter().chain(&trust.deny);
        networks
            .filter(|network| network.contains(address))
            .max_by_key(|network| network.prefix())
            .map(ToString::to_string)
    }

    /// What keeps this client's next write from going out at once.
    fn limits(
        &self,
        identity: Identity,
        explained: &Explained,
        view: &ClientView,
        status: &Status,
    ) -> Vec<Limit> {
        let context = &self.shared_context;
        let (config, ledger) = (context.config.load(), &context.ledger);
        let fair = &config.fair;
        let (used, capacity) = (ledger.used(), ledger.capacity());
        let (full, patience) = (fair.queue_per_client, fair.queue_timeout);
        let held = holds(explained, status, context.clock.now());
        let denied = "its network may not use the proxy (trust.allow, trust.deny, or a ban: /bans)";
        let bytes = format!("{used} of {capacity} bytes are buffered (buffer.bytes)");
        let queue = format!("its queue is full: {full} writes wait (fair.queue_per_client)");
        let timeout = config.text("fair.queue_timeout");
        let timeout =
            format!("its backlog takes longer than {timeout} at its share (fair.queue_timeout)");
        let has_its_connections = context.budget.has_its_connections(identity.client);
        let sockets = view.connections;
        let sockets = format!("it has its share of the connections: {sockets} (buffer.bytes)");
        let limits = [
            (!identity.allowed).then(|| (Reason::Denied, denied.to_owned())),
            held,
            (used > capacity / 2).then_some((Reason::Bytes, bytes)),
            (view.queued >= full).then_some((Reason::QueueFull, queue)),
            (explained.wait > patience).then_some((Reason::QueueTimeout, timeout)),
            has_its_connections.then_some((Reason::Connections, sockets)),
        ];
        let limit = |(reason, text): (Reason, String)| Limit {
            reason: reason.name(),
            text,
        };
        limits.into_iter().flatten().map(limit).collect()
    }
}

/// What holds back the writes of a client: what holds all back, or its share.
fn holds(explained: &Explained, status: &Status, now: Nanos) -> Option<(Reason, String)> {
    let of_all = status.bound.text(now);
    let reason = match status.bound {
        Bound::NodeDown(_) | Bound::NodeSilent { .. } => Reason::Upstream,
        _ => Reason::Rate,
    };
    if status.bound.is_closed() {
        return Some((reason, of_all));
    }
    if explained.backlog.entries == 0 {
        return None;
    }
    if status.backlogged_clients <= 1 && status.bound != Bound::Nothing {
        return Some((reason, of_all));
    }
    let share = Bound::Share {
        per_second: explained.share,
        clients: status.backlogged_clients,
    };
    Some((
        reason,
        format!("{}; all wait for {of_all}", share.text(now)),
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fairq::Backlog;

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

    #[test]
    fn explain_76_a_client_that_waits_is_told_what_for() {
        let told = |entries: usize, clients: usize, bound: Bound| {
            let explained = Explained {
                tally: crate::lane::Tally::default(),
                backlog: Backlog {
                    entries,
                    ..Backlog::default()
                },
                weight: 1,
                share: 500.0,
                wait: Duration::from_millis(80),
            };
            let status = Status {
                bound,
                backlogged_clients: clients,
                ..Status::default()
            };
            holds(&explained, &status, Nanos::from_secs(20))
        };
        let window = Bound::Window {
            own: 99,
            limit: 99,
            unit: control::Unit::Transactions,
        };
        let (reason, text) = told(5, 1, window).unwrap();
        assert_eq!(reason, Reason::Rate);
        assert!(text.contains("99 of 99"), "{text}");
        // Beside others it is the share first, whatever holds all back.
        for bound in [window, Bound::Nothing] {
            let (_, text) = told(5, 4, bound).unwrap();
            assert!(
                text.starts_with("its share: 500.0 writes/s while 4"),
                "{text}"
            );
        }
        // A client with nothing waiting is limited by what holds all back, and by nothing else.
        assert_eq!(told(0, 4, window), None);
        assert_eq!(told(0, 0, Bound::Nothing), None);
        let down = Bound::NodeDown(Nanos::from_secs(8));
        for entries in [0, 5] {
            let (reason, text) = told(entries, 1, down).unwrap();
            assert_eq!(reason, Reason::Upstream);
            assert!(text.contains("no node takes writes for 12.0 s"), "{text}");
        }
        // At d835b97 a node that was stopped (SIGSTOP) for 12 s "takes 0.2 ms" for its answers.
        let silent = Bound::NodeSilent {
            since: Nanos::from_secs(8),
            under_way: 8,
        };
        let (reason, text) = told(5, 1, silent).unwrap();
        assert_eq!(reason, Reason::Upstream);
        assert!(text.contains("answered nothing for 12.0 s"), "{text}");
    }
}
