//! Metrics that are read from their owners at each scrape, instead of being kept up to date.

use control::Bound;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Metric, Registry, Unit};
use serde::Serialize;

use super::{Labels, family, metric};
use crate::budget::Ledger;
use crate::lane::Status;
use crate::upstream::{HubCounters, NodeState};

/// What is read at a scrape.
pub(crate) struct Sources<'a> {
    pub(crate) status: &'a Status,
    pub(crate) nodes: &'a [NodeState],
    pub(crate) ledger: &'a Ledger,
    pub(crate) hub: HubCounters,
    /// Connections of clients.
    pub(crate) connections: usize,
    /// Write connections to each node at first.
    pub(crate) write_connections: usize,
}

/// Defines [`Gauges`] and registers a metric for each of its fields: field and type, where it is read, the metric's
/// name, its unit if its name is to have one, and its help.
macro_rules! gauges {
    ($from:ident; $($field:ident: $type:ty = $value:expr, $name:literal $(in $unit:ident)?, $help:literal;)*) => {
        /// The state of the program at one moment. The owners of the state fill it in at each scrape.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
        pub struct Gauges {
            $(#[doc = $help] pub $field: $type,)*
            /// What holds the next write back.
            #[serde(skip)]
            pub bound: Bound,
            /// Write connections in use.
            pub upstream_open: usize,
            /// Write connections being made.
            pub upstream_connecting: usize,
        }

        impl Gauges {
            /// The state now.
            pub(crate) fn read($from: &Sources<'_>) -> Self {
                let is_connecting = !$from.status.connected && $from.status.node.is_some();
                Self {
                    $($field: $value,)*
                    bound: $from.status.bound,
                    upstream_open: $from.status.connections,
                    upstream_connecting: usize::from(is_connecting) * $from.write_connections,
                }
            }

            /// Registers each as a metric that has this value.
            pub(super) fn register(&self, registry: &mut Registry) {
                $({
                    #[allow(unused_mut, unused_assignments)]
                    let mut unit = None;
                    $(unit = Some(Unit::$unit);)?
                    self.$field.register(registry, ($name, $help, unit));
                })*
                self.register_connections(registry);
                self.register_bound(registry);
            }

            /// These values; counters that are behind those of an earlier scrape have its values.
            pub(super) fn after(&self, earlier: &Self) -> Self {
                Self {
                    $($field: self.$field.after(earlier.$field),)*
                    ..*self
                }
            }
        }
    };
}

gauges! { s;
    queue_depth: usize = s.status.queued, "queue_depth", "Writes waiting in the fair queue";
    queue_bytes: usize = s.status.queued_bytes, "queue" in Bytes, "Bytes of the writes waiting in the fair queue";
    writes_in_flight: usize = s.status.in_flight, "writes_in_flight", "Writes sent to nodes and not yet answered";
    buffered_bytes: usize = s.ledger.used(), "buffered" in Bytes, "Bytes of everything that is buffered";
    buffer_capacity_bytes: usize = s.ledger.capacity(), "buffer_capacity" in Bytes, "Most bytes that may be buffered";
    connections: usize = s.connections, "connections", "Connections of clients";
    clients_active: usize = s.status.backlogged_clients, "clients_active", "Clients with a write waiting";
    client_table_entries: usize = s.status.known_clients, "client_table_entries", "Clients with a state of their own";
    client_evictions: u64 = s.status.evictions, "client_evictions", "Clients whose state was given up for another's";
    fair_share: f64 = s.status.rate.as_f64() / s.status.backlogged_clients.max(1) as f64, "fair_share_req_per_second",
        "Writes a second of a client with a backlog and weight 1";
    pace_rate: f64 = s.status.rate.as_f64(), "pace_rate_req_per_second", "Writes a second that may go out now";
    pace_blind: bool = s.status.blind, "pace_blind", "1 while the pace has neither blocks nor mempool to go by";
    committed_tx_rate: f64 = s.status.committed_rate, "committed_tx_rate",
        "Transactions a second that the chain commits, smoothed";
    upstream_mempool_txs: usize = s.active().map_or(0, |node| node.mempool_txs), "upstream_mempool_txs",
        "Transactions in the node's mempool";
    upstreams_up: usize = s.nodes.iter().filter(|node| node.up && !node.catching_up).count(), "upstreams_up",
        "Nodes that answer and are not catching up";
    upstreams: usize = s.nodes.len(), "upstreams", "Nodes configured";
    commit_waiters: usize = s.status.commits, "commit_waiters", "broadcast_tx_commit calls waiting for their block";
    retained_bytes: usize = s.status.retained_bytes, "retained" in Bytes,
        "Bytes of accepted transactions kept until they are committed";
    uncommitted_forgotten: u64 = s.status.forgotten, "uncommitted_forgotten",
        "Transactions accepted and forgotten, as too many were in no block";
    ws_subscriptions: usize = s.hub.subscriptions, "ws_subscriptions", "Subscriptions of clients";
    ws_queries: usize = s.hub.queries, "ws_queries", "Distinct queries subscribed to at the nodes";
    ws_subscribers: usize = s.hub.links, "ws_subscribers", "Connections to nodes that subscribe for the clients";
    ws_slow_subscriptions: u64 = s.hub.slow, "ws_slow_subscriptions",
        "Subscriptions ended because their client did not read its events";
    ws_dropped_events: u64 = s.hub.ended, "ws_dropped_events",
        "Subscriptions ended, and their clients told, because events may have been missed";
}

impl Sources<'_> {
    /// The node that takes the writes.
    fn active(&self) -> Option<&NodeState> {
        self.nodes.get(self.status.node?)
    }
}

impl Gauges {
    fn register_connections(&self, registry: &mut Registry) {
        let states = ["open", "connecting"];
        let help = "Write connections to nodes";
        let gauges: [Gauge; _] = family(registry, "upstream_connections", help, "state", states);
        let counts = [self.upstream_open, self.upstream_connecting];
        for (gauge, count) in gauges.iter().zip(counts) {
            gauge.set(count as i64);
        }
    }

    fn register_bound(&self, registry: &mut Registry) {
        let help = "1 for what holds the next write back";
        let bounds: Family<Labels<1>, Gauge> = metric(registry, "bound", help);
        for name in Bound::NAMES {
            let gauge = bounds.get_or_create_owned(&[("bound", *name)]);
            gauge.set(i64::from(*name == self.bound.name()));
        }
    }
}

/// A metric's name, its help, and its unit if its name is to have one.
type About = (&'static str, &'static str, Option<Unit>);

/// A type of field that is a metric.
trait Exposed: Copy {
    /// Registers a metric with this value.
    fn register(self, registry: &mut Registry, about: About);

    /// The value after an earlier one.
    fn after(self, _earlier: Self) -> Self {
        self
    }
}

fn add(registry: &mut Registry, (name, help, unit): About, metric: impl Metric) {
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, metric),
        None => registry.register(name, help, metric),
    }
}

impl Exposed for usize {
    fn register(self, registry: &mut Registry, about: About) {
        add(registry, about, ConstGauge::new(self as i64));
    }
}

impl Exposed for bool {
    fn register(self, registry: &mut Registry, about: About) {
        add(registry, about, ConstGauge::new(i64::from(self)));
    }
}

impl Exposed for f64 {
    fn register(self, registry: &mut Registry, about: About) {
        add(registry, about, ConstGauge::new(self));
    }
}

/// A number that only grows.
impl Exposed for u64 {
    fn register(self, registry: &mut Registry, about: About) {
        add(registry, about, ConstCounter::new(self));
    }

    fn after(self, earlier: Self) -> Self {
        self.max(earlier)
    }
}
