//! What is looked up when somebody asks, instead of being kept up to date.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::labels::ConnectionState;

/// The state of the program at one moment. The owners of the state fill it in at each scrape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Writes that wait in the fair queue.
    pub queue_depth: usize,
    /// Their bytes.
    pub queue_bytes: usize,
    /// Writes sent to nodes and not yet answered.
    pub writes_in_flight: usize,
    /// Bytes of the ledger in use.
    pub buffered_bytes: usize,
    /// The ledger's bound.
    pub buffer_capacity_bytes: usize,
    /// Connections of clients.
    pub connections: usize,
    /// Clients with a write that waits.
    pub clients_active: usize,
    /// Clients with a state of their own.
    pub client_table_entries: usize,
    /// Clients whose state was given up for another's; only grows.
    pub client_evictions: u64,
    /// Shared flows in use because the table is full.
    pub overflow_flows_active: usize,
    /// Writes a second that a client with a backlog and weight 1 gets now.
    pub fair_share: f64,
    /// Writes a second that may go out now.
    pub pace_rate: f64,
    /// Whether the pace has neither blocks nor mempool to go by.
    pub pace_blind: bool,
    /// Transactions a second that the chain commits, smoothed.
    pub committed_tx_rate: f64,
    /// Transactions in the mempool of the node that is asked.
    pub upstream_mempool_txs: usize,
    /// Nodes that answer and are not catching up.
    pub upstreams_up: usize,
    /// Nodes in all.
    pub upstreams: usize,
    /// Write connections in use.
    pub upstream_open: usize,
    /// Write connections being made.
    pub upstream_connecting: usize,
    /// Write connections that were replaced and still wait for answers.
    pub upstream_closing: usize,
    /// `broadcast_tx_commit` calls that wait for their block.
    pub commit_waiters: usize,
    /// Bytes of accepted transactions kept until they are committed.
    pub retained_bytes: usize,
    /// Subscriptions of clients.
    pub ws_subscriptions: usize,
    /// Events of missed blocks that subscribers were given after a break; only grows.
    pub ws_replayed_events: u64,
    /// Times a subscription missed events that nobody can make up for, was ended, and its client
    /// told; only grows.
    pub ws_dropped_events: u64,
}

/// The registered gauges that [`Gauges`] fills.
#[derive(Debug)]
pub(super) struct Registered {
    whole: Vec<(Whole, Gauge)>,
    real: Vec<(Real, Gauge<f64, AtomicU64>)>,
    counters: Vec<(Count, Counter)>,
    connections: [Gauge; ConnectionState::ALL.len()],
}

type Whole = fn(&Gauges) -> usize;
type Real = fn(&Gauges) -> f64;
type Count = fn(&Gauges) -> u64;

impl Registered {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let whole = WHOLE
            .iter()
            .map(|&(name, unit, help, value)| {
                let gauge = Gauge::default();
                match unit {
                    Some(unit) => registry.register_with_unit(name, help, unit(), gauge.clone()),
                    None => registry.register(name, help, gauge.clone()),
                }
                (value, gauge)
            })
            .collect();
        let real = REAL
            .iter()
            .map(|&(name, help, value)| {
                let gauge = Gauge::default();
                registry.register(name, help, gauge.clone());
                (value, gauge)
            })
            .collect();
        let counters = COUNTERS
            .iter()
            .map(|&(name, help, value)| {
                let counter = Counter::default();
                registry.register(name, help, counter.clone());
                (value, counter)
            })
            .collect();
        let states: Family<[(&str, &str); 1], Gauge> = Family::default();
        registry.register(
            "upstream_connections",
            "Write connections to nodes",
            states.clone(),
        );
        Self {
            whole,
            real,
            counters,
            connections: ConnectionState::ALL
                .map(|state| states.get_or_create_owned(&[("state", state.name())])),
        }
    }

    pub(super) fn set(&self, gauges: &Gauges) {
        for (value, gauge) in &self.whole {
            gauge.set(i64::try_from(value(gauges)).unwrap_or(i64::MAX));
        }
        for (value, gauge) in &self.real {
            gauge.set(value(gauges));
        }
        for (value, counter) in &self.counters {
            counter.inner().fetch_max(value(gauges), Ordering::Relaxed);
        }
        let connections = [
            (ConnectionState::Open, gauges.upstream_open),
            (ConnectionState::Connecting, gauges.upstream_connecting),
            (ConnectionState::Closing, gauges.upstream_closing),
        ];
        for (state, count) in connections {
            self.connections[state.index()].set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
}

type Described = (&'static str, Option<fn() -> Unit>, &'static str, Whole);

/// Name, unit, what it is, where it comes from.
const WHOLE: &[Described] = &[
    (
        "queue_depth",
        None,
        "Writes waiting in the fair queue",
        |g| g.queue_depth,
    ),
    (
        "queue",
        Some(|| Unit::Bytes),
        "Bytes of the writes waiting in the fair queue",
        |g| g.queue_bytes,
    ),
    (
        "writes_in_flight",
        None,
        "Writes sent to nodes and not yet answered",
        |g| g.writes_in_flight,
    ),
    (
        "buffered",
        Some(|| Unit::Bytes),
        "Bytes of everything that is buffered",
        |g| g.buffered_bytes,
    ),
    (
        "buffer_capacity",
        Some(|| Unit::Bytes),
        "Most bytes that may be buffered",
        |g| g.buffer_capacity_bytes,
    ),
    ("connections", None, "Connections of clients", |g| {
        g.connections
    }),
    (
        "clients_active",
        None,
        "Clients with a write waiting",
        |g| g.clients_active,
    ),
    (
        "client_table_entries",
        None,
        "Clients with a state of their own",
        |g| g.client_table_entries,
    ),
    (
        "overflow_flows_active",
        None,
        "Shared flows in use because the client table is full",
        |g| g.overflow_flows_active,
    ),
    (
        "pace_blind",
        None,
        "1 while the pace has neither blocks nor mempool to go by",
        |g| usize::from(g.pace_blind),
    ),
    (
        "upstream_mempool_txs",
        None,
        "Transactions in the node's mempool",
        |g| g.upstream_mempool_txs,
    ),
    (
        "upstreams_up",
        None,
        "Nodes that answer and are not catching up",
        |g| g.upstreams_up,
    ),
    ("upstreams", None, "Nodes configured", |g| g.upstreams),
    (
        "commit_waiters",
        None,
        "broadcast_tx_commit calls waiting for their block",
        |g| g.commit_waiters,
    ),
    (
        "retained",
        Some(|| Unit::Bytes),
        "Bytes of accepted transactions kept until they are committed",
        |g| g.retained_bytes,
    ),
    ("ws_subscriptions", None, "Subscriptions of clients", |g| {
        g.ws_subscriptions
    }),
];

const COUNTERS: &[(&str, &str, Count)] = &[
    (
        "client_evictions",
        "Clients whose state was given up for another's",
        |g| g.client_evictions,
    ),
    (
        "ws_replayed_events",
        "Events of missed blocks that subscribers were given after a break",
        |g| g.ws_replayed_events,
    ),
    (
        "ws_dropped_events",
        "Subscriptions ended, and their clients told, because events were missed for good",
        |g| g.ws_dropped_events,
    ),
];

const REAL: &[(&str, &str, Real)] = &[
    (
        "fair_share_req_per_second",
        "Writes a second of a client with a backlog and weight 1",
        |g| g.fair_share,
    ),
    (
        "pace_rate_req_per_second",
        "Writes a second that may go out now",
        |g| g.pace_rate,
    ),
    (
        "committed_tx_rate",
        "Transactions a second that the chain commits, smoothed",
        |g| g.committed_tx_rate,
    ),
];
