//! `txmesh simulate`: the same nodes on a simulated clock, as many as time allows.

use std::sync::Arc;

use gossip::Relayed;
use gossip::app::Mix;
use gossip::sim::{LinkModel, Outcome, Prices, Processors, SimSettings, run};
use harness::fresh_seed;
use harness::{RunFolder, default_folder};
use harness::{note, print};
use ops::command::{CommandError, failed, usage};
use pacing::{Arrivals, Nanos, Profile, Schedule};
use report::chart::{Axis, Chart, Tone, Unit};
use report::text::{millis, number, percent, percent_tenths, rate, whole};
use report::{Page, Table};
use serde::Serialize;

use super::mix_file;
use crate::cli::SimulateArgs;
use crate::settings::CpuShare;

/// One point of the curve.
#[derive(Debug, Clone, Copy, Serialize)]
struct Point {
    nodes: u16,
    /// The node's CPU, as a share of the one whose prices are simulated.
    cpu: f64,
    offered_per_s: f64,
    eps_host: f64,
    /// The mean of all nodes.
    eps_node: f64,
    /// The share of nodes that saw a message.
    reach: f64,
    latency_p50_ms: Option<f64>,
    latency_p99_ms: Option<f64>,
    parcels_per_s_node: f64,
    bytes_per_s_node: f64,
    duplicate_share: f64,
    dropped: u64,
    /// How long the busiest node worked, as a share of the load's time.
    busiest: f64,
}

/// Simulates every point and shows the curve; gives the exit code.
///
/// # Errors
/// With exit code 2 when the command line is at fault, 1 when the folder cannot be written.
pub(super) fn execute(args: &SimulateArgs) -> Result<u8, CommandError> {
    let origin = args.mix.as_str();
    let text = mix_file::text_of(origin).map_err(usage)?;
    let mix = Arc::new(mix_file::parse(&text, origin).map_err(usage)?);
    let profile = Profile::constant(args.rate, Some(args.duration)).map_err(usage)?;
    let schedule = Schedule::new(profile, Arrivals::Even);
    let seed = args.seed.unwrap_or_else(fresh_seed);
    let out = args.out.clone();
    let folder = RunFolder::create(out.unwrap_or_else(|| default_folder("mesh-simulate")));
    let folder = folder.map_err(usage)?;
    let mut points = Vec::new();
    for cpu in &args.cpu {
        for nodes in &args.nodes {
            let nodes = nodes.get();
            let settings = settings(args, &mix, nodes, *cpu, seed);
            let outcome = run(&settings, (*mix).clone(), &schedule, args.duration);
            let point = Point::of(nodes, *cpu, &outcome);
            note(&format!(
                "{nodes} nodes, {cpu} of a CPU each: {} EPS at the host, reach {}, busiest node {}",
                number(point.eps_host),
                percent(point.reach),
                percent(point.busiest)
            ));
            points.push(point);
        }
    }
    write(&folder, args, seed, &points).map_err(failed)?;
    let report = folder.path().join("report.html");
    let text = format!(
        "{}\nseed {seed}, report: {}\n",
        table(&points).text(),
        report.display()
    );
    Ok(print(&text))
}

fn settings(args: &SimulateArgs, mix: &Mix, nodes: u16, cpu: CpuShare, seed: u64) -> SimSettings {
    let relayed = Relayed::kinds(&mix.relayed());
    SimSettings {
        node: args.variant.node(args.fanout, args.queue, relayed),
        dials: args.topology.dials(nodes, seed),
        link: LinkModel {
            delay: args.delay.unwrap_or(LinkModel::default().delay),
            bits_per_s: args.link_rate.map(|rate| rate.bits_per_second() as u64),
            ..LinkModel::default()
        },
        prices: Prices::default().scaled(1.0 / cpu.0),
        processors: args.shared_cpus.map_or(Processors::Own, Processors::Shared),
        drain: DRAIN,
        seed,
    }
}

impl Point {
    fn of(nodes: u16, cpu: CpuShare, outcome: &Outcome) -> Self {
        let seconds = outcome.duration.as_secs_f64();
        let per_s_node = |count: u64| count as f64 / seconds / f64::from(nodes);
        let ms = |share| outcome.latency.quantile(share).map(Nanos::as_millis_f64);
        let totals = &outcome.totals;
        Self {
            nodes,
            cpu: cpu.0,
            offered_per_s: outcome.offered as f64 / seconds,
            eps_host: outcome.eps_host(),
            eps_node: outcome.eps_sum() / f64::from(nodes),
            reach: outcome.reach(),
            latency_p50_ms: ms(0.5),
            latency_p99_ms: ms(0.99),
            parcels_per_s_node: per_s_node(totals.parcels_read),
            bytes_per_s_node: per_s_node(totals.bytes_read),
            duplicate_share: totals.duplicates as f64 / totals.received.max(1) as f64,
            dropped: totals.dropped,
            busiest: outcome.busiest(),
        }
    }
}

fn table(points: &[Point]) -> Table {
    Table::of(points)
        .figure("nodes", |it| it.nodes.to_string())
        .number("CPU", percent, |it| it.cpu)
        .number("EPS host", whole, |it| it.eps_host)
        .number("a node", whole, |it| it.eps_node)
        .rest()
        .number("reach", percent_tenths, |it| it.reach)
        .number("p50", millis, |it| it.latency_p50_ms)
        .rest()
        .number("p99", millis, |it| it.latency_p99_ms)
        .number("parcels", rate, |it| it.parcels_per_s_node)
        .rest()
        .number("MB/s", number, |it| it.bytes_per_s_node / 1e6)
        .rest()
        .number("duplicates", percent_tenths, |it| it.duplicate_share)
        .rest_of_page()
        .count("dropped", |it| it.dropped)
        .alarm(|it| it.dropped > 0)
        .number("busiest", percent, |it| it.busiest)
        .alarm(|it| it.busiest > BUSY)
        .table()
}

fn page(args: &SimulateArgs, points: &[Point]) -> String {
    let mut page = Page::new(&format!(
        "Simulated: {} for {}, {}, {}",
        args.rate, args.duration, args.variant, args.topology
    ));
    page.paragraph(
        "The nodes' state machine on a simulated clock: bytes are encoded, sent and read, time is computed \
         from the prices of work on the measured machine.",
    );
    let chart = |title: &str, y: Axis, value: &dyn Fn(&Point) -> f64| {
        let chart = Chart::new(title, Axis::linear("nodes", Unit::Number), y);
        let lines = args
            .cpu
            .iter()
            .enumerate()
            .fold(chart, |chart, (place, cpu)| {
                let of_cpu = points.iter().filter(|it| (it.cpu - cpu.0).abs() < 1e-9);
                let line = of_cpu.map(|it| (f64::from(it.nodes), value(it)));
                chart.line(&format!("{cpu} of a CPU"), Tone::Nth(place), line)
            });
        lines.html()
    };
    let entries = Axis::linear("entries", Unit::PerSecond);
    let parcels = Axis::linear("parcels", Unit::PerSecond);
    page.push(&Page::grid([
        chart("EPS at the host", entries.clone(), &|it| it.eps_host),
        chart("EPS of a node, in the mean", entries, &|it| it.eps_node),
        chart("Reach", Axis::linear("of all nodes", Unit::Share), &|it| {
            it.reach
        }),
        chart(
            "Latency p99",
            Axis::log("to a first sight", Unit::Millis),
            &|it| it.latency_p99_ms.unwrap_or(f64::NAN),
        ),
        chart("Parcels read by a node", parcels, &|it| {
            it.parcels_per_s_node
        }),
        chart(
            "The busiest node",
            Axis::linear("of the time", Unit::Share),
            &|it| it.busiest,
        ),
    ]));
    page.section("Points", &table(points).html());
    page.html()
}

fn write(
    folder: &RunFolder,
    args: &SimulateArgs,
    seed: u64,
    points: &[Point],
) -> anyhow::Result<()> {
    let document = serde_json::json!({
        "format": "tidegate.mesh-simulation/1",
        "rate": args.rate.to_string(),
        "duration": args.duration.to_string(),
        "variant": args.variant.to_string(),
        "topology": args.topology.to_string(),
        "fanout": args.fanout,
        "mix": args.mix,
        "seed": seed,
        "points": points,
    });
    let summary = format!("{document:#}\n");
    folder.write("summary.json", &summary)?;
    folder.write("report.html", &page(args, points))
}

/// After the last message is due.
const DRAIN: Nanos = Nanos::from_secs(5);
/// A node that works more has nothing left for a burst.
const BUSY: f64 = 0.95;
