//! Metrics that are read from their owners at each scrape, instead of being kept up to date.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry, Unit};

use super::labels::ConnectionState;

/// Defines [`Gauges`] and registers a metric for each of its fields: field and type, the metric's
/// name, its unit if its name is to have one, and its help.
macro_rules! gauges {
    ($($field:ident: $type:ty, $name:literal $(in $unit:ident)?, $help:literal;)*) => {
        /// The state of the program at one moment. The owners of the state fill it in at each scrape.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Gauges {
            $(#[doc = $help] pub $field: $type,)*
            /// Write connections in use.
            pub upstream_open: usize,
            /// Write connections being made.
            pub upstream_connecting: usize,
            /// Write connections that were replaced and still wait for answers.
            pub upstream_closing: usize,
        }

        fn register(registry: &mut Registry) -> Vec<Update> {
            vec![$({
                #[allow(unused_mut, unused_assignments)]
                let mut unit = None;
                $(unit = Some(Unit::$unit);)?
                let description = Description { name: $name, help: $help, unit };
                <$type as Exposed>::update(registry, description, |gauges| gauges.$field)
            },)*]
        }
    };
}

gauges! {
    queue_depth: usize, "queue_depth", "Writes waiting in the fair queue";
    queue_bytes: usize, "queue" in Bytes, "Bytes of the writes waiting in the fair queue";
    writes_in_flight: usize, "writes_in_flight", "Writes sent to nodes and not yet answered";
    buffered_bytes: usize, "buffered" in Bytes, "Bytes of everything that is buffered";
    buffer_capacity_bytes: usize, "buffer_capacity" in Bytes, "Most bytes that may be buffered";
    connections: usize, "connections", "Connections of clients";
    clients_active: usize, "clients_active", "Clients with a write waiting";
    client_table_entries: usize, "client_table_entries", "Clients with a state of their own";
    client_evictions: u64, "client_evictions", "Clients whose state was given up for another's";
    overflow_flows_active: usize, "overflow_flows_active",
        "Shared flows in use because the client table is full";
    fair_share: f64, "fair_share_req_per_second",
        "Writes a second of a client with a backlog and weight 1";
    pace_rate: f64, "pace_rate_req_per_second", "Writes a second that may go out now";
    pace_blind: bool, "pace_blind", "1 while the pace has neither blocks nor mempool to go by";
    committed_tx_rate: f64, "committed_tx_rate",
        "Transactions a second that the chain commits, smoothed";
    upstream_mempool_txs: usize, "upstream_mempool_txs", "Transactions in the node's mempool";
    upstreams_up: usize, "upstreams_up", "Nodes that answer and are not catching up";
    upstreams: usize, "upstreams", "Nodes configured";
    commit_waiters: usize, "commit_waiters", "broadcast_tx_commit calls waiting for their block";
    retained_bytes: usize, "retained" in Bytes,
        "Bytes of accepted transactions kept until they are committed";
    ws_subscriptions: usize, "ws_subscriptions", "Subscriptions of clients";
    ws_replayed_events: u64, "ws_replayed_events",
        "Events of missed blocks that subscribers were given after a break";
    ws_dropped_events: u64, "ws_dropped_events",
        "Subscriptions ended, and their clients told, because events were missed for good";
}

/// The registered metrics that [`Gauges`] fills.
pub(super) struct Registered {
    updates: Vec<Update>,
    connections: [Gauge; ConnectionState::ALL.len()],
}

/// Sets one metric.
type Update = Box<dyn Fn(&Gauges) + Send + Sync>;

struct Description {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
}

/// A type of field that is a metric.
trait Exposed: Sized {
    /// Registers a metric and says how it is set.
    fn update(registry: &mut Registry, of: Description, value: fn(&Gauges) -> Self) -> Update;
}

impl Description {
    fn register<M: Metric + Clone + Default>(self, registry: &mut Registry) -> M {
        let metric = M::default();
        match self.unit {
            Some(unit) => registry.register_with_unit(self.name, self.help, unit, metric.clone()),
            None => registry.register(self.name, self.help, metric.clone()),
        }
        metric
    }
}

impl Exposed for usize {
    fn update(registry: &mut Registry, of: Description, value: fn(&Gauges) -> Self) -> Update {
        let gauge: Gauge = of.register(registry);
        Box::new(move |gauges| {
            gauge.set(whole(value(gauges)));
        })
    }
}

impl Exposed for bool {
    fn update(registry: &mut Registry, of: Description, value: fn(&Gauges) -> Self) -> Update {
        let gauge: Gauge = of.register(registry);
        Box::new(move |gauges| {
            gauge.set(i64::from(value(gauges)));
        })
    }
}

impl Exposed for f64 {
    fn update(registry: &mut Registry, of: Description, value: fn(&Gauges) -> Self) -> Update {
        let gauge: Gauge<Self, AtomicU64> = of.register(registry);
        Box::new(move |gauges| {
            gauge.set(value(gauges));
        })
    }
}

/// A number that only grows.
impl Exposed for u64 {
    fn update(registry: &mut Registry, of: Description, value: fn(&Gauges) -> Self) -> Update {
        let counter: Counter = of.register(registry);
        Box::new(move |gauges| {
            counter.inner().fetch_max(value(gauges), Ordering::Relaxed);
        })
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Registered {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let updates = register(registry);
        let states: Family<[(&str, &str); 1], Gauge> = Family::default();
        let help = "Write connections to nodes";
        registry.register("upstream_connections", help, states.clone());
        Self {
            updates,
            connections: ConnectionState::ALL
                .map(|state| states.get_or_create_owned(&[("state", state.name())])),
        }
    }

    pub(super) fn set(&self, gauges: &Gauges) {
        for update in &self.updates {
            update(gauges);
        }
        let connections = [
            (ConnectionState::Open, gauges.upstream_open),
            (ConnectionState::Connecting, gauges.upstream_connecting),
            (ConnectionState::Closing, gauges.upstream_closing),
        ];
        for (state, count) in connections {
            self.connections[state.index()].set(whole(count));
        }
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Registered")
    }
}
