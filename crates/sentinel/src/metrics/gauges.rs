//! Metrics that are read from their owners at each scrape, instead of being kept up to date; and families whose series
//! appear with the first event of their kind.
//!
//! Three transports, ten classes and five ends make 150 series of requests, of which a proxy has a
//! dozen in use: the others would be zeros in every scrape. No alert needs them (`config/prometheus`
//! goes by families that exist from the start). All ends of a class appear together, so `rate()` sees
//! the first expired write of a class whose writes were served before.

use std::sync::OnceLock;

use control::{Bound, BreakState};
use pacing::Nanos;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use serde::Serialize;

use super::labels::{MethodClass, OutcomeLabel, Transport};
use super::{Labels, UPSTREAM_TIMES, metric, seconds};

/// Defines [`Gauges`] and registers a metric for each of its fields: field and type, the metric's name, its unit if its
/// name is to have one, and its help. A `u64` is a counter, which is never behind that of an earlier scrape.
macro_rules! gauges {
    (@metric u64 $value:expr) => { ConstCounter::new($value) };
    (@metric bool $value:expr) => { ConstGauge::new(i64::from($value)) };
    (@metric $type:ident $value:expr) => { ConstGauge::new($value) };
    (@after u64 $value:expr, $earlier:expr) => { $value.max($earlier) };
    (@after $type:ident $value:expr, $earlier:expr) => { $value };
    (@register $registry:ident $name:literal, $help:literal, $metric:expr) => {
        $registry.register($name, $help, $metric);
    };
    (@register $registry:ident $name:literal, $help:literal, $metric:expr, $unit:ident) => {
        $registry.register_with_unit($name, $help, Unit::$unit, $metric);
    };
    ($($field:ident: $type:ident, $name:literal $(in $unit:ident)?, $help:literal;)*) => {
        /// The state of the program at one moment. The owners of the state fill it in at each scrape.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
        pub struct Gauges {
            $(#[doc = $help] pub $field: $type,)*
            /// What holds the next write back.
            #[serde(skip)]
            pub bound: Bound,
            /// The state of the break controller.
            #[serde(skip)]
            pub state: BreakState,
            /// Write connections in use.
            pub upstream_open: usize,
            /// Write connections being made.
            pub upstream_connecting: usize,
        }

        impl Gauges {
            /// Registers each as a metric that has this value.
            pub(super) fn register(&self, registry: &mut Registry) {
                $({
                    let metric = gauges!(@metric $type self.$field);
                    gauges!(@register registry $name, $help, metric $(, $unit)?);
                })*
                self.register_families(registry);
            }

            /// These values; counters that are behind those of an earlier scrape have its values.
            pub(super) fn after(&self, earlier: &Self) -> Self {
                Self {
                    $($field: gauges!(@after $type self.$field, earlier.$field),)*
                    ..*self
                }
            }
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
    fair_share: f64, "fair_share_req_per_second",
        "Writes a second of a client with a backlog and weight 1";
    pace_rate: f64, "pace_rate_req_per_second", "Writes a second that may go out now";
    pace_blind: bool, "pace_blind", "1 while the pace has neither blocks nor mempool to go by";
    committed_tx_rate: f64, "committed_tx_rate",
        "Transactions a second that the chain commits, smoothed";
    upstream_mempool_txs: usize, "upstream_mempool_txs",
        "Transactions in the node's mempool";
    upstreams_up: usize, "upstreams_up",
        "Nodes that answer and are not catching up";
    upstreams: usize, "upstreams", "Nodes configured";
    commit_waiters: usize, "commit_waiters", "broadcast_tx_commit calls waiting for their block";
    retained_bytes: usize, "retained" in Bytes,
        "Bytes of accepted transactions kept until they are committed";
    uncommitted_forgotten: u64, "uncommitted_forgotten",
        "Transactions accepted and forgotten, as too many were in no block";
    ws_subscriptions: usize, "ws_subscriptions", "Subscriptions of clients";
    ws_queries: usize, "ws_queries", "Distinct queries subscribed to at the nodes";
    ws_subscribers: usize, "ws_subscribers", "Connections to nodes that subscribe for the clients";
    ws_slow_subscriptions: u64, "ws_slow_subscriptions",
        "Subscriptions ended because their client did not read its events";
    ws_dropped_events: u64, "ws_dropped_events",
        "Subscriptions ended, and their clients told, because events may have been missed";
}

impl Gauges {
    fn register_families(&self, registry: &mut Registry) {
        let about = (
            "upstream_connections",
            "Write connections to nodes",
            "state",
        );
        let [open, connecting] = [self.upstream_open, self.upstream_connecting];
        labelled(
            registry,
            about,
            [("open", open), ("connecting", connecting)],
        );
        let about = ("bound", "1 for what holds the next write back", "bound");
        let holds = |name: &&'static str| (*name, usize::from(*name == self.bound.name()));
        labelled(registry, about, Bound::NAMES.iter().map(holds));
        let help = "1 for the state of the break controller, 0 for the others";
        let holds = |state: BreakState| (state.name(), usize::from(state == self.state));
        let about = ("controller_state", help, "state");
        labelled(registry, about, BreakState::ALL.map(holds));
    }
}

/// Registers a family of gauges, one for each value of its label.
fn labelled(
    registry: &mut Registry,
    (name, help, label): (&str, &str, &'static str),
    gauges: impl IntoIterator<Item = (&'static str, usize)>,
) {
    let family: Family<Labels<1>, Gauge> = metric(registry, name, help);
    for (value, count) in gauges {
        let gauge = family.get_or_create_owned(&[(label, value)]);
        gauge.set(count as i64);
    }
}

/// Requests by transport, lane, class and end.
#[derive(Debug)]
pub(super) struct Requests {
    family: Family<Labels<4>, Counter>,
    rows: [[OnceLock<Row>; MethodClass::ALL.len()]; Transport::ALL.len()],
}

/// The counters of one transport and class, in the order of the ends.
type Row = [Counter; OutcomeLabel::ALL.len()];

impl Requests {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            family: metric(
                registry,
                "requests",
                "Requests by their end; a class appears with its first request",
            ),
            rows: Default::default(),
        }
    }

    pub(super) fn count(&self, transport: Transport, class: MethodClass, outcome: OutcomeLabel) {
        let row =
            self.rows[transport.index()][class.index()].get_or_init(|| self.row(transport, class));
        row[outcome.index()].inc();
    }

    /// Reads that ended, in whatever way.
    pub(super) fn reads(&self) -> u64 {
        let rows = self
            .rows
            .iter()
            .flat_map(|rows| rows.iter().zip(MethodClass::ALL));
        let rows = rows.filter(|(_, class)| !class.is_write());
        let rows = rows.filter_map(|(row, _)| row.get());
        rows.flatten().map(Counter::get).sum()
    }

    fn row(&self, transport: Transport, class: MethodClass) -> Row {
        let lane = if class.is_write() { "write" } else { "read" };
        OutcomeLabel::ALL.map(|outcome| {
            self.family.get_or_create_owned(&[
                ("transport", transport.name()),
                ("lane", lane),
                ("method_class", class.name()),
                ("outcome", outcome.name()),
            ])
        })
    }
}

/// How long nodes take to answer, by class.
#[derive(Debug)]
pub(super) struct UpstreamTimes {
    family: Family<Labels<1>, Histogram, fn() -> Histogram>,
    classes: [OnceLock<Histogram>; MethodClass::ALL.len()],
}

impl UpstreamTimes {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let new: fn() -> Histogram = || Histogram::new(UPSTREAM_TIMES);
        let help = "Time nodes took to answer; a class appears with its first answer";
        let family = Family::new_with_constructor(new);
        Self {
            family: seconds(registry, "upstream_request_duration", help, family),
            classes: Default::default(),
        }
    }

    pub(super) fn observe(&self, class: MethodClass, took: Nanos) {
        let histogram = self.classes[class.index()].get_or_init(|| {
            let labels = [("method_class", class.name())];
            self.family.get_or_create_owned(&labels)
        });
        histogram.observe(took.as_secs_f64());
    }
}
