//! One load of several workers over a NATS server.

mod faults;

use std::collections::BTreeMap;
use std::path::PathBuf;

use hdrhistogram::Histogram;
use rustix::process::Signal;
use serde_json::Value;
use servers::{find, free_port};
use testkit::wait_until;

use super::live;
use super::shards::ids;
use crate::support::{Behaviour, FakeNode, Node, Place, RunFolder};

/// `--nats-server`, if a test's environment names one; else it is in PATH.
fn server() -> String {
    let given = std::env::var_os("NATS_SERVER_BIN").map(PathBuf::from);
    let server = find(given.as_deref(), "nats-server").expect("a nats-server");
    server.display().to_string()
}

/// The latencies of these runs, from the instants that their rows have.
fn histograms_of_rows(runs: &[RunFolder]) -> BTreeMap<String, Histogram<u64>> {
    let mut histograms = BTreeMap::new();
    for (name, from, to) in [
        ("lateness", "due_ns", "sent_ns"),
        ("accept_response", "due_ns", "accepted_ns"),
        ("accept_service", "sent_ns", "accepted_ns"),
        ("commit_from_due", "due_ns", "committed_ns"),
        ("commit_from_sent", "sent_ns", "committed_ns"),
        ("commit_from_accepted", "accepted_ns", "committed_ns"),
    ] {
        let highest = measure::HIGHEST.as_nanos();
        let mut histogram = Histogram::new_with_bounds(1, highest, 3).unwrap();
        for run in runs {
            let rows = run.table("txs.csv");
            for (from, to) in rows.numbers(from).into_iter().zip(rows.numbers(to)) {
                histogram.record(to.saturating_sub(from)).unwrap();
            }
        }
        histograms.insert(name.to_owned(), histogram);
    }
    histograms
}

fn due_times(run: &RunFolder) -> BTreeMap<String, u64> {
    let rows = run.table("txs.csv");
    let ids = rows.column("txid").map(Into::into);
    ids.zip(rows.numbers("due_ns")).collect()
}

/// Its schedule, transaction for transaction; and the histograms of all rows, to the last count.
#[test]
#[ignore = "needs nats-server"]
fn four_workers_send_the_plan_of_one_generator_and_say_what_their_rows_say() {
    let (node, place) = (Node::quick(), Place::new());
    let (_fleet, workers) = fleet(&place, 4);
    let load = format!(
        "constant --rate 301/s --duration 1s --seed 7 --endpoints {}",
        node.url()
    );
    let ended = place.txgen(&format!("{load} {workers} --out fleet"));
    let whole = place.run("fleet/whole");
    ended.ends_as_judged(0, &whole.summary());
    whole.summary().assert_all_committed(301);
    let manifest = whole.manifest();
    let merged = manifest["plan"]["merged"].as_array().unwrap();
    assert_eq!(merged.len(), 4);
    for part in merged {
        let clock = &part["fleet_clock"];
        let figure = |name: &str| clock[name].as_f64().unwrap();
        assert!(
            figure("offset_ms").abs() <= figure("error_ms"),
            "one machine: {clock}"
        );
    }
    let shards = [1, 2, 3, 4].map(|number| place.run(&format!("fleet/shard-{number}")));
    assert_eq!(whole.histograms(), histograms_of_rows(&shards));
    // The same as one generator.
    let alone = Node::quick();
    let load = load.replace(&node.url(), &alone.url());
    let ended = place.txgen(&format!("{load} --out alone"));
    let run = place.run("alone");
    ended.ends_as_judged(0, &run.summary());
    assert_eq!(due_times(&whole), due_times(&run));
    // What one worker cannot begin, nobody begins.
    let load = load.replace(&alone.url(), "http://127.0.0.1:1");
    let none = place.txgen(&format!("{load} {workers} --out none"));
    none.expect(2).says("could not begin, so nobody did");
    assert!(!place.path().join("none").exists());
}

/// Word for word, but for the ports and the server of this test.
#[test]
#[ignore = "needs nats-server"]
fn the_first_steps_of_the_page_come_to_what_it_says() {
    let page = include_str!("../../../../../docs/fleet.md");
    let (_, steps) = page.split_once("## Try it on one machine").unwrap();
    let (steps, _) = steps.split_once("\n## ").unwrap();
    let (node, bus) = (free_port().to_string(), free_port().to_string());
    let steps = steps.replace("26657", &node).replace("4222", &bus);
    let local = format!("fleet --port {bus} --nats-server {} --local", server());
    let (place, mut running) = (Place::new(), Vec::new());
    for step in steps.lines().filter_map(|it| it.strip_prefix("$ txgen ")) {
        let step = step.replace("fleet --local", &local);
        let Some(step) = step.strip_suffix(" &") else {
            let ended = place.txgen(&step);
            ended.ends_as_judged(0, &place.run("runs/fleet/whole").summary());
            continue;
        };
        running.push(place.start(step));
        let started = running.last().unwrap();
        wait_until("the first lines", || !started.out_so_far().is_empty());
    }
    let said = running[1].out_so_far();
    let lines = steps
        .lines()
        .skip_while(|it| !it.starts_with("NATS server"));
    for line in lines.take_while(|line| *line != "```") {
        assert!(said.contains(line), "{line}: {said}");
    }
    let summary = place.run("runs/fleet/whole").summary();
    assert_eq!(summary.count("offered.planned"), 3_000);
    for shard in 1..=3 {
        let part = place.run(&format!("runs/fleet/shard-{shard}")).summary();
        assert_eq!(part.count("offered.planned"), 1_000);
    }
}

/// A server and so many workers.
fn fleet(place: &Place, workers: u32) -> (testkit::Running, String) {
    let port = free_port();
    let server = server();
    let fleet = place.start(&format!(
        "fleet --local {workers} --port {port} --nats-server {server}"
    ));
    wait_until("the fleet", || fleet.out_so_far().contains("NATS server"));
    (
        fleet,
        format!("--workers {workers} --nats nats://127.0.0.1:{port}"),
    )
}

#[test]
#[ignore = "needs nats-server"]
fn the_points_of_a_search_are_those_of_one_generator() {
    let (node, place) = (Node::quick(), Place::new());
    let (_fleet, workers) = fleet(&place, 3);
    let search = "search --rates 50,101 --duration 2s --seed 7";
    // What is found of so short points is not asked.
    let fleet = format!("{search} --endpoints {} {workers} --out fleet", node.url());
    place.txgen(&fleet);
    let alone = Node::quick();
    place.txgen(&format!("{search} --endpoints {} --out alone", alone.url()));
    for (point, planned) in [("01-50", 100), ("02-101", 202)] {
        let run = place.run(&format!("fleet/{point}"));
        run.summary().assert_all_committed(planned);
        assert_eq!(ids(&run), ids(&place.run(&format!("alone/{point}"))));
    }
    assert!(!place.path().join("fleet/shards").exists());
}

#[test]
#[ignore = "needs nats-server"]
fn each_run_of_an_ab_is_one_load_of_all_workers_with_the_flags_of_its_side() {
    let (node, place) = (Node::quick(), Place::new());
    let (_fleet, workers) = fleet(&place, 2);
    let url = node.url();
    let mut txgen = place.command(env!("CARGO_BIN_EXE_txgen"));
    txgen.args(["ab", "--a", "--connections 2", "--b", "--connections 3"]);
    let rest = format!(
        "--rate 31/s --duration 1s --max-pairs 2 --seed 7 --rows none --endpoints {url} {workers} --out ab --no-tui"
    );
    txgen.args(rest.split_whitespace());
    let ended = testkit::Running::start(txgen).wait();
    let mut counted = String::new();
    for number in 1.. {
        // A run that was not the planned load, as on a busy machine, is taken again.
        let name = |side: &str| format!("ab/{side}/{number:03}");
        let is_there = |side: &&str| place.path().join(name(side)).exists();
        let Some(side) = ["a", "b"].into_iter().find(is_there) else {
            break;
        };
        let run = place.run(&name(side));
        run.summary().assert_conserved();
        assert_eq!(run.summary().count("offered.planned"), 31);
        let plan = &run.manifest()["plan"];
        assert_eq!(plan["merged"].as_array().unwrap().len(), 2);
        let connections = if side == "a" { 2 } else { 3 };
        assert_eq!(plan["connections"], connections, "{plan}");
        if run.summary().text("verdict.schedule") != "invalid" {
            counted += side;
        }
    }
    let is_whole = counted == "abba";
    assert_eq!(place.path().join("ab/ab.json").exists(), is_whole);
    if !is_whole {
        assert!("abb".starts_with(&counted), "{counted}");
        ended.expect(98);
    }
}

/// Phases, cases and repeats, whose rates and counts three do not divide.
const CAMPAIGN: &str = r#"
name = "many"
[[phases]]
profile = "constant"
rate = "10/s"
duration = "1s"
[[phases]]
profile = "square"
rate = "20/s"
low = "2/s"
on = "1s"
off = "1s"
cycles = 1
[settings]
seed = 7
[campaign]
repeats = 2
[[cases]]
name = "small"
[[cases]]
name = "large"
set = { "settings.size" = 400 }
"#;

#[test]
#[ignore = "needs nats-server"]
fn each_run_of_a_campaign_is_the_load_of_one_generator() {
    let (node, place) = (Node::quick(), Place::new());
    let (_fleet, workers) = fleet(&place, 3);
    place.write("many.toml", CAMPAIGN);
    let run = "run many.toml --no-tui --scale 0.5 --threshold fate.errors==0";
    let fleet = format!("{run} --endpoints {} {workers} --out fleet", node.url());
    // Loads of a second may be late on any machine.
    place.txgen(&fleet);
    let alone = Node::quick();
    place.txgen(&format!("{run} --endpoints {} --out alone", alone.url()));
    let runs = |name: &str| -> Vec<Value> {
        let document = place.run(name).json("campaign.json");
        document["runs"].as_array().unwrap().clone()
    };
    let (fleet, alone) = (runs("fleet"), runs("alone"));
    assert_eq!(fleet.len(), 4);
    for (one, other) in fleet.iter().zip(&alone) {
        let keys = |run: &Value| run.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!((keys(one), &one["label"]), (keys(other), &other["label"]));
        let folder = one["folder"].as_str().unwrap();
        let [one, other] =
            ["fleet", "alone"].map(|place_of| place.run(&format!("{place_of}/{folder}")));
        one.summary().assert_all_committed(16);
        assert_eq!(ids(&one), ids(&other));
        let [one, other] = [one.manifest(), other.manifest()];
        assert_eq!(one["plan"]["merged"].as_array().unwrap().len(), 3);
        for key in ["command", "schedule", "thresholds", "transactions"] {
            assert_eq!(one["plan"][key], other["plan"][key], "{key}");
        }
    }
}

#[test]
#[ignore = "needs nats-server"]
fn what_one_worker_finds_broken_ends_the_load_of_all() {
    let (node, place) = (Node::quick(), Place::new());
    let (_fleet, workers) = fleet(&place, 2);
    // More than the test waits for; all is later than this.
    let load = "constant --rate 20/s --duration 10m --seed 7 --abort-on commit.max<1us";
    let url = node.url();
    let ended = place.txgen(&format!("{load} --endpoints {url} {workers} --out fleet"));
    ended.says("commit.max<1us is broken");
    let whole = place.run("fleet/whole");
    let stopped = whole.manifest()["plan"]["stopped"].to_string();
    assert!(
        stopped.contains("/2: commit.max<1us is broken ("),
        "{stopped}"
    );
    let summary = whole.summary();
    assert!(!summary.at("interrupted").as_bool().unwrap());
    ended.ends_as_judged(99, &summary);
    summary.assert_conserved();
    // Each part ended long before its plan.
    for shard in ["fleet/shard-1", "fleet/shard-2"] {
        let sent = place.run(shard).summary().count("fate.sent");
        assert!(sent < 3_000, "{shard}: {sent}");
    }
    // What a part has only a share of.
    for condition in ["rate.committed_tps>10/s", "fate.errors<10"] {
        let load = load.replace("commit.max<1us", condition);
        let ended = place.txgen(&format!("{load} --endpoints {url} {workers} --out none"));
        ended.expect(2).says("looks at its own part");
    }
}

#[test]
#[ignore = "needs nats-server"]
fn metrics_of_a_fleet_are_the_sum_of_its_workers() {
    let (node, place) = (FakeNode::always(Behaviour::Silence), Place::new());
    let (_fleet, workers) = fleet(&place, 2);
    // Nothing is answered, so that the load is over and its figures stay.
    let load = place.start(&format!(
        "constant --rate 40/s --duration 1s --seed 7 --no-follow --drain-timeout 10m --metrics 0 --endpoints {} \
         {workers} --out fleet",
        node.ws_url()
    ));
    let metrics = live::address(&load);
    let figure = |name: &str| live::scrape(metrics).get(name).copied();
    wait_until("both parts", || {
        figure("txgen_offered_txs_total") == Some(40.0)
    });
    assert_eq!(figure("txgen_planned_txs"), Some(40.0));
    load.signal(Signal::INT);
    load.wait().expect(130);
    let whole = place.run("fleet/whole").summary();
    whole.assert_conserved();
    assert_eq!(whole.count("offered.planned"), 40);
}
