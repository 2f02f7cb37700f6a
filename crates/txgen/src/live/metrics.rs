//! A run's figures for Prometheus at `http://ADDRESS/metrics`: names, units and values, and the listener on a
//! thread of its own.
//!
//! Counters run through all runs of a process (`txgen search` makes many), gauges and the state are
//! those of the run under way. Labels are bounded: reasons, kinds and states are fixed lists, `node` is
//! one of the endpoints that were given.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use anyhow::Context as _;
use hyper::{Request, StatusCode};
use measure::{BUCKET_BOUNDS_S, Buckets, Counters, Failure, LatencyKind, UnsentReason};
use ops::ListenAddress;
use ops::listener::{self, Bounds};
use ops::page;
use pacing::{Nanos, Profile, Rate};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::state::{LiveState, NodeState, Phase};

/// Serves until it is dropped.
pub(super) struct MetricsServer {
    address: SocketAddr,
    shutdown: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens, and serves the figures of `state` from then on.
    ///
    /// # Errors
    /// When the address is taken or is not ours.
    pub(super) fn start(
        address: ListenAddress,
        state: Arc<Mutex<LiveState>>,
    ) -> anyhow::Result<Self> {
        let asked = address.0;
        let failed = || {
            format!(
                "cannot serve metrics on {asked}; free it, or give --metrics another port (0 takes a free one)"
            )
        };
        let runtime = crate::runtime::start().with_context(failed)?;
        let bound = runtime.block_on(TcpListener::bind(asked));
        let listener = bound.with_context(failed)?;
        let address = listener.local_addr().with_context(failed)?;
        let shutdown = CancellationToken::new();
        let registry = Mutex::new(registry(state));
        let pages = move |request: &Request<_>| page(request.uri().path(), &registry);
        let serving = listener::serve(listener, Bounds::default(), pages, shutdown.clone());
        let thread = thread::Builder::new()
            .name("metrics".into())
            .spawn(move || runtime.block_on(serving))
            .with_context(failed)?;
        Ok(Self {
            address,
            shutdown,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.shutdown.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by its thread; the run does not depend on it.
            let _ = thread.join();
        }
    }
}

fn page(path: &str, registry: &Mutex<Registry>) -> page::Page {
    match path {
        "/metrics" => {
            let mut text = String::with_capacity(EXPOSITION_BYTES);
            let registry = registry.lock();
            let encoded = encode_registry(&mut text, &registry)
                .and_then(|()| ops::process::encode(&mut text))
                .and_then(|()| encode_eof(&mut text));
            match encoded {
                Ok(()) => page::metrics(text),
                Err(error) => page::text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    format!("the metrics cannot be encoded: {error}\n"),
                ),
            }
        }
        "/" => page::text(StatusCode::OK, INDEX.into()),
        _ => page::not_found(INDEX),
    }
}

/// A registry that shows `state` at every scrape.
fn registry(state: Arc<Mutex<LiveState>>) -> Registry {
    let mut registry = Registry::with_prefix("txgen");
    registry.register_collector(Box::new(Figures { state }));
    registry
}

#[derive(Debug)]
struct Figures {
    state: Arc<Mutex<LiveState>>,
}

impl Collector for Figures {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        // The page is written to memory: a slow scrape holds no lock.
        let state = self.state.lock();
        let mut counters = state.before.clone();
        counters.add(&state.counters);
        let mut page = Page { encoder };
        page.about(&state)?;
        page.counts(&counters)?;
        page.latencies(&counters)?;
        page.present(&state)?;
        page.nodes(&state.info.nodes.all())
    }
}

/// One exposition.
struct Page<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Page<'_> {
    fn about(&mut self, state: &LiveState) -> fmt::Result {
        let mut build = self.metric("build", "The program", None, MetricType::Info)?;
        build.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])?;
        let mut phases = self.metric(
            "run_state",
            "1 for the state of the run, 0 for the others",
            None,
            MetricType::Gauge,
        )?;
        for phase in Phase::ALL {
            phases
                .encode_family(&[("state", phase.name())])?
                .encode_gauge(&u64::from(phase == state.phase))?;
        }
        Ok(())
    }

    fn counts(&mut self, counters: &Counters) -> fmt::Result {
        let totals = &counters.totals;
        for (name, help, value) in [
            (
                "offered_txs",
                "Transactions that fell due by the schedule, up to the last full second",
                totals.offered,
            ),
            (
                "sent_txs",
                "Transactions handed to a socket, up to their last byte",
                totals.sent,
            ),
            (
                "accepted_txs",
                "Transactions that the node's check accepted",
                totals.accepted,
            ),
            (
                "rejected_txs",
                "Transactions answered with another code than 0 or a JSON-RPC error",
                totals.rejected,
            ),
            (
                "committed_txs",
                "Own transactions seen in blocks and executed with code 0",
                totals.committed,
            ),
            (
                "commit_failed_txs",
                "Own transactions seen in blocks and executed with another code",
                totals.commit_failed,
            ),
            (
                "unverified_txs",
                "Own transactions seen in blocks whose results the node did not give",
                totals.unverified,
            ),
            ("blocks", "Blocks seen, every height once", totals.blocks),
        ] {
            self.metric(name, help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        self.counters(
            "unsent_txs",
            "Transactions that fell due and were never sent",
            "reason",
            UnsentReason::ALL.map(|reason| (reason.name(), counters.unsent[reason as usize])),
        )?;
        self.counters(
            "error_txs",
            "Transactions without a usable answer",
            "kind",
            Failure::ALL.map(|kind| (kind.name(), counters.errors[kind as usize])),
        )?;
        let reconnects = &counters.reconnects;
        self.counters(
            "reconnects",
            "Connections that came back",
            "cause",
            [
                ("planned", reconnects.planned),
                ("broken", reconnects.broken),
            ],
        )
    }

    fn latencies(&mut self, counters: &Counters) -> fmt::Result {
        for (kind, name, help) in LATENCIES {
            let Buckets { counts, sum_s } = counters.latencies.of(kind);
            let bounds = BUCKET_BOUNDS_S.iter().copied().chain([f64::INFINITY]);
            let classes: Vec<(f64, u64)> = bounds.zip(counts.iter().copied()).collect();
            let count = classes.iter().map(|(_, count)| count).sum();
            self.metric(name, help, Some(&Unit::Seconds), MetricType::Histogram)?
                .encode_histogram::<NoLabelSet>(*sum_s, count, &classes, None)?;
        }
        Ok(())
    }

    fn present(&mut self, state: &LiveState) -> fmt::Result {
        let last = state.last();
        let info = &state.info;
        let profile = info.profile.as_ref();
        let offering = state.phase == Phase::Offering
            && info.duration.is_none_or(|duration| state.now < duration);
        let rate = |profile: &Profile| {
            let wanted = offering.then(|| profile.rate_at(state.now));
            wanted.map_or(0.0, Rate::as_f64)
        };
        // A load without an end has no duration and no count, a closed loop no profile.
        for (name, help, unit, value) in [
            (
                "elapsed",
                "Time since the run's origin",
                Some(&Unit::Seconds),
                Some(state.now.as_secs_f64()),
            ),
            (
                "planned_duration",
                "How long the load is offered",
                Some(&Unit::Seconds),
                info.duration.map(Nanos::as_secs_f64),
            ),
            (
                "planned_txs",
                "Transactions that the whole run plans",
                None,
                info.planned.map(|planned| planned as f64),
            ),
            (
                "planned_rate_txs_per_second",
                "The rate that the profile wants now",
                None,
                profile.map(rate),
            ),
            (
                "step",
                "The step of the profile, from 0",
                None,
                profile.map(|profile| f64::from(profile.step_at(state.now).index)),
            ),
            (
                "pending_txs",
                "Transactions sent whose answer or block is awaited",
                None,
                Some(state.pending as f64),
            ),
            (
                "in_flight_txs",
                "Transactions sent and not answered, at the end of the last full second",
                None,
                Some(last.map_or(0.0, |row| row.in_flight as f64)),
            ),
            (
                "backlog_txs",
                "Transactions accepted and not in a block, at the end of the last full second",
                None,
                Some(last.map_or(0.0, |row| row.backlog as f64)),
            ),
        ] {
            if let Some(value) = value {
                self.metric(name, help, unit, MetricType::Gauge)?
                    .encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    fn nodes(&mut self, nodes: &[NodeState]) -> fmt::Result {
        let reached = |node: &NodeState| Some(u64::from(node.trouble.is_none()));
        self.of_nodes(
            "node_up",
            "1 while its blocks can be followed",
            nodes,
            reached,
        )?;
        self.of_nodes("node_height", "The last block seen", nodes, |node| {
            (node.height > 0).then_some(node.height)
        })?;
        self.of_nodes(
            "node_mempool_txs",
            "Transactions in its mempool, asked once a second",
            nodes,
            |node| node.mempool.map(|(txs, _, _)| txs),
        )?;
        self.of_nodes(
            "node_mempool_bytes",
            "Bytes in its mempool, asked once a second",
            nodes,
            |node| node.mempool.map(|(_, bytes, _)| bytes),
        )
    }

    /// A gauge of every node that has a value.
    fn of_nodes(
        &mut self,
        name: &str,
        help: &str,
        nodes: &[NodeState],
        value: impl Fn(&NodeState) -> Option<u64>,
    ) -> fmt::Result {
        let mut metric = self.metric(name, help, None, MetricType::Gauge)?;
        for node in nodes {
            if let Some(value) = value(node) {
                metric
                    .encode_family(&[("node", node.name.as_str())])?
                    .encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: [(&'static str, u64); N],
    ) -> fmt::Result {
        let mut metric = self.metric(name, help, None, MetricType::Counter)?;
        for (value, count) in values {
            metric
                .encode_family(&[(label, value)])?
                .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        Ok(())
    }

    fn metric<'a>(
        &'a mut self,
        name: &'a str,
        help: &'a str,
        unit: Option<&'a Unit>,
        kind: MetricType,
    ) -> Result<MetricEncoder<'a>, fmt::Error> {
        self.encoder.encode_descriptor(name, help, unit, kind)
    }
}

/// The latencies that are served, with their names here.
const LATENCIES: [(LatencyKind, &str, &str); 4] = [
    (LatencyKind::Lateness, "lateness", "From due to sent"),
    (
        LatencyKind::AcceptResponse,
        "accept_response",
        "From due to accepted",
    ),
    (
        LatencyKind::AcceptService,
        "accept_service",
        "From sent to accepted",
    ),
    (
        LatencyKind::CommitFromDue,
        "commit_from_due",
        "From due to seen in a block",
    ),
];

const INDEX: &str = "/metrics   the run under way, for Prometheus\n";
const EXPOSITION_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use measure::{Recorder, RecorderConfig, RunFolderWriters, SchedulePlan, Sent, SourceId};
    use pacing::{Arrivals, Schedule};

    use super::*;
    use crate::live::state::RunInfo;

    /// What a run with one transaction, sent 3 ms late, has counted after its first second.
    fn counted() -> Counters {
        let profile = Profile::constant("1/s".parse().unwrap(), Some(Nanos::from_secs(2))).unwrap();
        let plan = SchedulePlan::new(Schedule::new(profile, Arrivals::Even));
        let writers = RunFolderWriters {
            txs: std::io::sink(),
            answers: std::io::sink(),
            series: std::io::sink(),
            steps: std::io::sink(),
            blocks: std::io::sink(),
            hlog: std::io::sink(),
        };
        let mut recorder = Recorder::new(RecorderConfig::new(0, 1, 0), plan, writers);
        recorder.sent(&Sent {
            index: 0,
            hash: [7; 32],
            size: 250,
            due: Nanos::ZERO,
            sent: Nanos::from_millis(3),
            endpoint: 0,
            step: 0,
            cause: measure::Cause::Node,
            own_late: false,
        });
        recorder.watermark(SourceId(0), Nanos::from_secs(1));
        recorder.counters()
    }

    #[test]
    fn counters_run_on_through_runs_and_classes_are_cumulative() {
        let mut state = LiveState {
            counters: counted(),
            ..LiveState::default()
        };
        state.begin(RunInfo::default());
        state.counters = counted();
        let registry = registry(Arc::new(Mutex::new(state)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "txgen_sent_txs_total 2",
            "txgen_unsent_txs_total{reason=\"max_in_flight\"} 0",
            "txgen_run_state{state=\"connecting\"} 1",
            "txgen_run_state{state=\"offering\"} 0",
            "txgen_lateness_seconds_bucket{le=\"0.0025\"} 0",
            "txgen_lateness_seconds_bucket{le=\"0.005\"} 2",
            "txgen_lateness_seconds_bucket{le=\"+Inf\"} 2",
            "txgen_lateness_seconds_count 2",
            "txgen_lateness_seconds_sum 0.006",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("planned_duration"), "there is none");
    }
}
