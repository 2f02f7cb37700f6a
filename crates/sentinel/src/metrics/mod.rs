//! What the program counts, and how that is written down for Prometheus.
//!
//! A series exists from the start (a counter that appears only with its first event hides that event
//! from `rate()`), except for those that `gauges` adds with their first event; none is looked up by label when it is
//! counted.

mod gauges;
mod labels;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

use control::BreakCause;
pub use gauges::Gauges;
use gauges::{Requests, UpstreamTimes};
pub use labels::{
    AckEnd, CacheEnd, MethodClass, OutcomeLabel, ReconnectCause, RestartedTask, Transport,
    UpstreamError,
};
use pacing::Nanos;
use parking_lot::Mutex;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry, Unit};
use serde::Serialize;

use crate::refusal::Reason;

/// Defines [`Metrics`] and registers a metric for each of its fields. Of a family: what counts an event of it, by what,
/// the field, the metric's name and its help, and the name of its label.
macro_rules! metrics {
    (
        $registry:ident;
        {$(
            $(#[doc = $about:literal])*
            $count:ident($by:ident), $family:ident: $name:literal, $help:literal, $label:literal;
        )*}
        $($seen:vis $field:ident: $type:ty = $make:expr;)*
    ) => {
        /// All counters of the program. Shared in an `Arc`; counting is an atomic addition, observing
        /// a duration a short lock.
        #[derive(Debug)]
        pub struct Metrics {
            $($family: [Counter; $by::ALL.len()],)*
            $($seen $field: $type,)*
            registry: Registry,
            /// Waits by the bounds of `queue_wait`; the last are longer than all.
            waits: [AtomicU64; QUEUE_WAITS.len() + 1],
            /// The gauges of the last scrape: counters among them do not fall below it.
            scraped: Mutex<Gauges>,
        }

        impl Default for Metrics {
            fn default() -> Self {
                let mut registry = Registry::with_prefix(PREFIX);
                let $registry = &mut registry;
                let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
                $registry.register("build", "The program", version);
                $(let $family = family($registry, $name, $help, $label, $by::ALL.map($by::name));)*
                $(let $field = $make;)*
                let scraped = Mutex::default();
                Self { $($family,)* $($field,)* registry, waits: Default::default(), scraped }
            }
        }

        impl Metrics {
            $(
                $(#[doc = $about])*
                pub fn $count(&self, by: $by) {
                    self.$family[by as usize].inc();
                }
            )*
        }
    };
}

metrics! { r; {
    /// A request, or a connection, was refused.
    refused(Reason), rejected: "rejected", "Requests refused here", "reason";
    /// A request, or a connection, would have been refused, but for `limits.shadow`.
    would_refuse(Reason), would_reject: "would_reject",
        "What would have been refused here, but for limits.shadow", "reason";
    /// A write ended that had been acknowledged.
    acknowledged(AckEnd), acknowledged: "acknowledged",
        "Writes by their end whose clients had been told before that they were taken", "end";
    /// A question was asked whose answer is kept if it cannot change.
    cacheable_read(CacheEnd), cacheable_reads: "cacheable_reads",
        "Reads whose answers may be kept, by where the answer came from", "result";
    /// A node refused, failed or was lost.
    upstream_error(UpstreamError), upstream_errors: "upstream_errors",
        "Errors of nodes and on the way to them, those that clients never saw included", "class";
    /// A write connection was opened again.
    reconnected(ReconnectCause), reconnects: "reconnects", "Write connections opened again", "cause";
    /// A task ended by a fault of the program, and begins anew.
    task_restarted(RestartedTask), task_restarts: "task_restarts",
        "Tasks that ended by a fault of the program and began anew", "task";
    /// A break has begun.
    paused(BreakCause), pauses: "pauses", "Breaks given to nodes", "cause";
}
    requests: Requests = Requests::register(r);
    queue_wait: Histogram =
        seconds(r, "queue_wait", "Time writes spent in the fair queue", Histogram::new(QUEUE_WAITS));
    upstream_requests: UpstreamTimes = UpstreamTimes::register(r);
    pub(crate) requeued: Counter =
        metric(r, "requeued", "Writes put back into the queue because the node could not take them");
    pub(crate) paused_seconds: Counter<f64, AtomicU64> =
        seconds(r, "paused", "Time nodes were given a break", Counter::default());
    pub(crate) pause_gain: Gauge<f64, AtomicU64> =
        // What was committed around it over what was to be expected without it, minus 1.
        metric(r, "pause_gain_ratio",
            "Gain in committed transactions of the last judged break, its time included; 0.05 is 5 % more");
    committed: Counter =
        metric(r, "committed_txs", "Transactions in blocks, every height counted once");
    block_interval: Histogram =
        seconds(r, "block_interval", "Time from one block to the next", Histogram::new(BLOCK_INTERVALS));
    pub(crate) access_lost: [Counter; 2] =
        family(r, "access_lost", "Requests that ended and could not be written down in time, by where",
            "to", ["file", "collector"]);
    pub(crate) ws_clients: Gauge = metric(r, "ws_clients", "WebSockets of clients");
}

/// What was counted since the start, as far as the operator's page shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counted {
    /// Reads that ended.
    pub reads: u64,
    /// Transactions in blocks.
    pub committed: u64,
    /// Breaks by their cause, in the order of [`BreakCause::ALL`].
    pub pauses: [u64; BreakCause::ALL.len()],
    /// Their time.
    pub paused_seconds: f64,
    /// Gain of the last break that was judged.
    pub pause_gain: f64,
    /// Writes that left the queue, by how long they had waited: up to each bound of the metric, and longer.
    #[serde(skip)]
    pub waits: [u64; QUEUE_WAITS.len() + 1],
}

impl Metrics {
    /// A request has come to its end.
    pub fn request(&self, transport: Transport, class: MethodClass, outcome: OutcomeLabel) {
        self.requests.count(transport, class, outcome);
    }

    /// A write has left the queue.
    pub fn queue_wait(&self, waited: Nanos) {
        let waited = waited.as_secs_f64();
        self.queue_wait.observe(waited);
        let place = QUEUE_WAITS.partition_point(|bound| *bound < waited);
        self.waits[place].fetch_add(1, Ordering::Relaxed);
    }

    /// A node has answered.
    pub fn upstream_request(&self, class: MethodClass, took: Nanos) {
        self.upstream_requests.observe(class, took);
    }

    /// A block was seen, `since_last` after the one before it.
    pub fn block(&self, txs: u64, since_last: Option<Nanos>) {
        self.committed.inc_by(txs);
        if let Some(interval) = since_last {
            self.block_interval.observe(interval.as_secs_f64());
        }
    }

    /// What was counted until now.
    pub fn counted(&self) -> Counted {
        Counted {
            reads: self.requests.reads(),
            committed: self.committed.get(),
            pauses: self.pauses.each_ref().map(Counter::get),
            paused_seconds: self.paused_seconds.get(),
            pause_gain: self.pause_gain.get(),
            waits: self
                .waits
                .each_ref()
                .map(|count| count.load(Ordering::Relaxed)),
        }
    }

    /// Everything in the OpenMetrics text format.
    pub fn render(&self, gauges: &Gauges) -> String {
        let mut scraped = self.scraped.lock();
        *scraped = gauges.after(&scraped);
        let mut read_now = Registry::with_prefix(PREFIX);
        scraped.register(&mut read_now);
        drop(scraped);
        let mut text = String::with_capacity(EXPOSITION_BYTES);
        encode_registry(&mut text, &self.registry)
            .and_then(|()| encode_registry(&mut text, &read_now))
            .and_then(|()| ops::process::encode(&mut text))
            .and_then(|()| encode_eof(&mut text))
            .expect("a string takes any text");
        text
    }
}

/// What the names of all metrics begin with.
const PREFIX: &str = "sentinel";

/// About what an exposition takes, so that it is allocated once.
const EXPOSITION_BYTES: usize = 48 << 10;

/// Seconds. The fair queue's promise to a light client is milliseconds, its deadline half a minute.
pub(crate) const QUEUE_WAITS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// Seconds. A node answers in less than a millisecond, or once it has committed its block.
const UPSTREAM_TIMES: [f64; 11] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25, 1.0, 2.5, 10.0, 30.0,
];

/// Seconds. Chains make a block a second or one in ten; 12 s were seen under overload.
const BLOCK_INTERVALS: [f64; 10] = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 30.0];

type Labels<const N: usize> = [(&'static str, &'static str); N];

fn metric<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// The metrics of a family with one label, in the order of its values.
fn family<M, const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    label: &'static str,
    values: [&'static str; N],
) -> [M; N]
where
    M: Metric + TypedMetric + Clone + Default,
{
    let family: Family<Labels<1>, M> = metric(registry, name, help);
    values.map(|value| family.get_or_create_owned(&[(label, value)]))
}

/// Registers a metric of durations.
fn seconds<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}
