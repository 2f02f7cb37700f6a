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
use measure::{BUCKET_BOUNDS_S, Buckets, Counters, Failure, LatencyKind, SeriesRow, UnsentReason};
use ops::ListenAddress;
use ops::listener::{self, Bounds};
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
        let runtime = crate::runtime().with_context(failed)?;
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

fn page(path: &str, registry: &Mutex<Registry>) -> listener::Page {
    match path {
        "/metrics" => {
            let mut text = String::with_capacity(EXPOSITION_BYTES);
            let registry = registry.lock();
            let encoded = encode_registry(&mut text, &registry)
                .and_then(|()| ops::process::encode(&mut text))
                .and_then(|()| encode_eof(&mut text));
            match encoded {
                Ok(()) => listener::metrics(text),
                Err(error) => listener::text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    format!("the metrics cannot be encoded: {error}\n"),
                ),
            }
        }
        "/" => listener::text(StatusCode::OK, INDEX.into()),
        _ => listener::not_found(INDEX),
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
        let mut build = self.metric("build", MetricType::Info)?;
        build.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])?;
        let phases = Phase::ALL.map(|phase| (phase.name(), u64::from(phase == state.phase)));
        self.labelled("run_state", MetricType::Gauge, "state", phases)
    }

    fn counts(&mut self, counters: &Counters) -> fmt::Result {
        let totals = &counters.totals;
        for (name, value) in [
            ("offered_txs", totals.offered),
            ("sent_txs", totals.sent),
            ("accepted_txs", totals.accepted),
            ("rejected_txs", totals.rejected),
            ("committed_txs", totals.committed),
            ("commit_failed_txs", totals.commit_failed),
            ("unverified_txs", totals.unverified),
            ("blocks", totals.blocks),
        ] {
            self.metric(name, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        let unsent = UnsentReason::ALL.map(|it| (it.name(), counters.unsent[it as usize]));
        self.labelled("unsent_txs", MetricType::Counter, "reason", unsent)?;
        let errors = Failure::ALL.map(|it| (it.name(), counters.errors[it as usize]));
        self.labelled("error_txs", MetricType::Counter, "kind", errors)?;
        let found = &counters.reconnects;
        let reconnects = [("planned", found.planned), ("broken", found.broken)];
        self.labelled("reconnects", MetricType::Counter, "cause", reconnects)
    }

    fn latencies(&mut self, counters: &Counters) -> fmt::Result {
        for kind in LATENCIES {
            let Buckets { counts, sum_s } = counters.latencies.of(kind);
            let bounds = BUCKET_BOUNDS_S.iter().copied().chain([f64::INFINITY]);
            let classes: Vec<(f64, u64)> = bounds.zip(counts.iter().copied()).collect();
            let count = classes.iter().map(|(_, count)| count).sum();
            self.metric(kind.name(), MetricType::Histogram)?
                .encode_histogram::<NoLabelSet>(*sum_s, count, &classes, None)?;
        }
        Ok(())
    }

    fn present(&mut self, state: &LiveState) -> fmt::Result {
        let info = &state.info;
        let profile = info.profile.as_ref();
        let offering = state.phase == Phase::Offering
            && info.duration.is_none_or(|duration| state.now < duration);
        let rate = |profile: &Profile| {
            let wanted = offering.then(|| profile.rate_at(state.now));
            wanted.map_or(0.0, Rate::as_f64)
        };
        let step = |profile: &Profile| f64::from(profile.step_at(state.now).index);
        let last = |of: fn(&SeriesRow) -> u64| state.last().map_or(0.0, |row| of(row) as f64);
        let duration = info.duration.map(Nanos::as_secs_f64);
        // A load without an end has no duration and no count, a closed loop no profile.
        for (name, value) in [
            ("elapsed", Some(state.now.as_secs_f64())),
            ("planned_duration", duration),
            ("planned_txs", info.planned.map(|planned| planned as f64)),
            ("planned_rate_txs_per_second", profile.map(rate)),
            ("step", profile.map(step)),
            ("pending_txs", Some(state.pending as f64)),
            ("in_flight_txs", Some(last(|row| row.in_flight))),
            ("backlog_txs", Some(last(|row| row.backlog))),
        ] {
            if let Some(value) = value {
                self.metric(name, MetricType::Gauge)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    fn nodes(&mut self, nodes: &[NodeState]) -> fmt::Result {
        type OfNode = fn(&NodeState) -> Option<u64>;
        let gauges: [(&str, OfNode); 4] = [
            ("node_up", |node| Some(u64::from(node.trouble.is_none()))),
            ("node_height", |node| Some(node.height).filter(|it| *it > 0)),
            ("node_mempool_txs", |node| Some(node.mempool?.0)),
            ("node_mempool_bytes", |node| Some(node.mempool?.1)),
        ];
        for (name, of) in gauges {
            let known = nodes
                .iter()
                .filter_map(|node| Some((&*node.name, of(node)?)));
            self.labelled(name, MetricType::Gauge, "node", known)?;
        }
        Ok(())
    }

    /// A counter or gauge for each value of a label.
    fn labelled<'a>(
        &mut self,
        name: &str,
        kind: MetricType,
        label: &str,
        values: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> fmt::Result {
        let mut metric = self.metric(name, kind)?;
        for (value, count) in values {
            let labels = [(label, value)];
            let mut one = metric.encode_family(&labels)?;
            match kind {
                MetricType::Counter => one.encode_counter::<NoLabelSet, _, u64>(&count, None)?,
                _ => one.encode_gauge(&count)?,
            }
        }
        Ok(())
    }

    /// Begins a metric, with its unit and what it is by [`ABOUT`].
    fn metric<'a>(
        &'a mut self,
        name: &'a str,
        kind: MetricType,
    ) -> Result<MetricEncoder<'a>, fmt::Error> {
        let mut rest = ABOUT.lines().filter_map(|line| line.strip_prefix(name));
        let about =
            rest.find_map(|it| it.split_once(": ").filter(|(unit, _)| UNITS.contains(unit)));
        let (unit, help) = about.ok_or(fmt::Error)?;
        let unit = (!unit.is_empty()).then_some(&Unit::Seconds);
        self.encoder.encode_descriptor(name, help, unit, kind)
    }
}

/// The latencies that are served.
const LATENCIES: [LatencyKind; 4] = [
    LatencyKind::Lateness,
    LatencyKind::AcceptResponse,
    LatencyKind::AcceptService,
    LatencyKind::CommitFromDue,
];

/// A line for each metric: its name, its unit if it has one, and what it is.
const ABOUT: &str = include_str!("metrics.txt");
const UNITS: [&str; 2] = ["", " in seconds"];
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
