//! One load of several workers over a NATS server.

use std::path::PathBuf;

use ::fleet::message::PROTOCOL;
use rustix::process::Signal;
use serde_json::Value;
use servers::{find, free_port};
use testkit::wait_until;
use tokio::runtime::Runtime;

use super::live;
use super::shards::ids;
use crate::support::{Behaviour, FakeNode, Node, Place};

/// `--nats-server`, if a test's environment names one; else it is in PATH.
fn server() -> String {
    let given = std::env::var_os("NATS_SERVER_BIN").map(PathBuf::from);
    let server = find(given.as_deref(), "nats-server").expect("a nats-server");
    server.display().to_string()
}

#[test]
#[ignore = "needs nats-server"]
fn three_workers_send_the_plan_of_one_generator() {
    let node = Node::quick();
    let place = Place::new();
    let port = free_port();
    let fleet = format!("fleet --local 3 --port {port} --nats-server {}", server());
    let fleet = place.start(&fleet);
    wait_until("the fleet", || fleet.out_so_far().contains("NATS server"));
    let load = format!(
        "constant --rate 301/s --duration 1s --seed 7 --endpoints {}",
        node.url()
    );
    let ended = place.txgen(&format!(
        "{load} --workers 3 --nats nats://127.0.0.1:{port} --out fleet"
    ));
    let whole = place.run("fleet/whole");
    ended.ends_as_judged(0, &whole.summary());
    whole.summary().assert_all_committed(301);
    let manifest = whole.manifest();
    let merged = manifest["plan"]["merged"].as_array().unwrap();
    assert_eq!(merged.len(), 3);
    for part in merged {
        let clock = &part["fleet_clock"];
        let figure = |name: &str| clock[name].as_f64().unwrap();
        assert!(
            figure("offset_ms").abs() <= figure("error_ms"),
            "one machine: {clock}"
        );
    }
    // The same as one generator, transaction for transaction.
    let alone = Node::quick();
    let load = load.replace(&node.url(), &alone.url());
    let ended = place.txgen(&format!("{load} --out alone"));
    let run = place.run("alone");
    ended.ends_as_judged(0, &run.summary());
    assert_eq!(ids(&whole), ids(&run));
    // What one worker cannot begin, nobody begins.
    let load = load.replace(&alone.url(), "http://127.0.0.1:1");
    let none = place.txgen(&format!(
        "{load} --workers 3 --nats nats://127.0.0.1:{port} --out none"
    ));
    none.expect(2).says("could not begin, so nobody did");
    assert!(!place.path().join("none").exists());
    drop(fleet);
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

/// The one that has none made the whole invalid: it had sent nothing.
#[test]
#[ignore = "needs nats-server"]
fn a_worker_without_a_transaction_costs_the_others_nothing() {
    let (node, place) = (Node::quick(), Place::new());
    let (_fleet, workers) = fleet(&place, 3);
    let load = format!(
        "constant --rate 2/s --duration 1s --seed 7 --endpoints {}",
        node.url()
    );
    // On a busy machine one may be late or unsent, and of two that is the half.
    place.txgen(&format!("{load} {workers} --out fleet"));
    let whole = place.run("fleet/whole");
    let summary = whole.summary();
    summary.assert_conserved();
    assert_eq!(whole.manifest()["plan"]["lost"], Value::Null);
    assert_eq!(summary.count("offered.planned"), 2);
    let planned = [1, 2, 3].map(|shard| {
        let part = place.run(&format!("fleet/shard-{shard}"));
        part.summary().count("offered.planned")
    });
    assert_eq!(planned, [1, 1, 0]);
    // Whatever is wrong with the whole is said of the whole.
    let (barred, reasons) = (
        summary.list("verdict.bars"),
        summary.list("verdict.reasons"),
    );
    assert!(!barred.contains(&"account"), "{barred:?}");
    let is_said = reasons.iter().any(|it| it.starts_with("invalid: "));
    assert_eq!(is_said, !barred.is_empty(), "{reasons:?}");
}

#[test]
#[ignore = "needs nats-server"]
fn a_server_that_restarts_in_the_middle_of_a_load_costs_it_nothing() {
    let (node, place) = (Node::quick(), Place::new());
    let mut nats = testkit::Nats::start();
    let url = nats.url();
    let workers = [1, 2].map(|number| {
        let worker = place.start(&format!(
            "worker --nats {url} --name w{number} --runs w{number}"
        ));
        wait_until("the worker", || {
            worker.err_so_far().contains("waiting for work")
        });
        worker
    });
    let load = place.start(&format!(
        "constant --rate 101/s --duration 5s --seed 7 --endpoints {} --workers 2 --nats {url} --out fleet",
        node.url()
    ));
    wait_until("the load", || node.committed().len() > 30);
    nats.restart();
    let ended = load.wait();
    let whole = place.run("fleet/whole");
    ended.ends_as_judged(0, &whole.summary());
    whole.summary().assert_conserved();
    assert_eq!(whole.summary().count("offered.planned"), 505);
    assert_eq!(whole.manifest()["plan"]["lost"], Value::Null);
    drop(workers);
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
        let document = place.run(name).text("campaign.json");
        let document: Value = serde_json::from_str(&document).unwrap();
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

/// Starts `txgen` where a limit on the size of files, so many blocks of 512 or 1024 bytes, stands for a full disk.
fn on_full_disk(place: &Place, blocks: u32, line: &str) -> testkit::Running {
    let mut shell = place.command("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$TXGEN\" {line}");
    shell
        .args(["-c", &script])
        .env("TXGEN", env!("CARGO_BIN_EXE_txgen"));
    testkit::Running::start(shell)
}

#[test]
#[ignore = "needs nats-server"]
fn a_full_disk_of_a_worker_costs_what_it_did_not_take_and_is_named() {
    let (node, place) = (Node::quick(), Place::new());
    let (_fleet, nats) = fleet(&place, 1);
    let nats = nats.strip_prefix("--workers 1 ").unwrap();
    let load = format!(
        "constant --rate 1000/s --duration 1s --seed 7 --endpoints {} {nats} --workers 2",
        node.url()
    );
    let worker = |blocks| {
        let worker = on_full_disk(&place, blocks, &format!("worker {nats} --name full"));
        wait_until("the worker", || {
            worker.err_so_far().contains("waiting for work")
        });
        worker
    };
    // There is no room for 500 rows, and for all else there is.
    let full = worker(64);
    let ended = place.txgen(&format!("{load} --out rows"));
    ended.says("worker full: exit code 1: the record is incomplete");
    let whole = place.run("rows/whole");
    let summary = whole.summary();
    summary.assert_conserved();
    assert_eq!(
        summary.count("fate.sent") + summary.count("offered.unsent"),
        1_000
    );
    assert_eq!(summary.list("recorder.incomplete_files"), ["txs.csv"]);
    let parts = whole.manifest()["plan"]["merged"].clone();
    let problems = parts.as_array().unwrap().iter();
    let problems: Vec<&str> = problems
        .filter_map(|part| part["problem"].as_str())
        .collect();
    assert!(
        problems.len() == 1 && problems[0].contains("txs.csv"),
        "{parts}"
    );
    let reasons = summary.list("verdict.reasons").join("; ");
    assert!(
        reasons.contains(": exit code 1: the record is incomplete: txs.csv"),
        "{reasons}"
    );
    drop(full);
    // Not for its summary either.
    let full = worker(8);
    place.txgen(&format!("{load} --out none")).expect(98);
    let whole = place.run("none/whole");
    whole.summary().assert_conserved();
    assert_eq!(whole.summary().count("offered.planned"), 1_000);
    let lost = &whole.manifest()["plan"]["lost"];
    assert_eq!(lost[0]["planned"], 500, "{lost}");
    assert!(
        lost[0]["reason"]
            .as_str()
            .unwrap()
            .contains("free some space"),
        "{lost}"
    );
    drop(full);
    // For nothing: that is known before anything is sent.
    let _full = worker(0);
    let sent = node.committed().len();
    place
        .txgen(&format!("{load} --out nothing"))
        .expect(2)
        .says("could not begin, so nobody did")
        .says("cannot write manifest.json: free some space");
    assert_eq!(node.committed().len(), sent);
}

#[test]
#[ignore = "needs nats-server"]
fn what_the_coordinator_s_full_disk_does_not_take_can_be_fetched_later() {
    let (node, place) = (Node::quick(), Place::new());
    let (_fleet, workers) = fleet(&place, 2);
    let load = format!(
        "constant --rate 10/s --duration 1s --seed 7 --endpoints {} {workers} --out here",
        node.url()
    );
    let ended = on_full_disk(&place, 0, &load).wait();
    ended
        .expect(2)
        .says("there is no run folder of any worker")
        .says("cannot write here/shard-");
    let said: Vec<&str> = ended.err.split_whitespace().collect();
    let said = said.join(" ");
    let (_, rest) = said.split_once("`txgen fleet --fetch ").unwrap();
    let run = rest.split('`').next().unwrap();
    let nats = workers.strip_prefix("--workers 2 ").unwrap();
    place
        .txgen(&format!("fleet --fetch {run} {nats} --out later"))
        .expect(0);
    place.txgen("merge later/shard-1 later/shard-2 --out whole");
    let summary = place.run("whole").summary();
    assert_eq!(summary.count("offered.planned"), 10);
    summary.assert_conserved();
}

/// The process whose command line has all of these.
fn process_with(words: &[&str]) -> String {
    let processes = std::fs::read_dir("/proc").unwrap();
    let found = processes.flatten().find(|process| {
        let line = std::fs::read_to_string(process.path().join("cmdline"));
        line.is_ok_and(|line| words.iter().all(|word| line.contains(word)))
    });
    found.unwrap().file_name().into_string().unwrap()
}

#[test]
#[ignore = "needs nats-server"]
fn a_generator_that_is_killed_leaves_its_part_unsent_and_the_others_whole() {
    let (node, place) = (Node::quick(), Place::new());
    let (_fleet, workers) = fleet(&place, 3);
    let load = place.start(&format!(
        "constant --rate 300/s --duration 3s --seed 7 --endpoints {} {workers} --out fleet",
        node.url()
    ));
    wait_until("the load", || node.committed().len() > 30);
    // The generator of this shard alone: its guard and its worker live on.
    let runs = place.path().canonicalize().unwrap();
    let process = process_with(&["--shard=2/3", &runs.display().to_string()]);
    place.shell(&format!("kill -9 {process}")).expect(0);
    let ended = load.wait();
    ended.expect(98).says("was killed");
    let whole = place.run("fleet/whole");
    assert_eq!(whole.summary().count("offered.planned"), 900);
    let lost = &whole.manifest()["plan"]["lost"];
    assert_eq!(lost.as_array().unwrap().len(), 1, "{lost}");
    assert_eq!(lost[0]["planned"], 300);
    whole.summary().assert_conserved();
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

/// It is there until it is dropped.
fn worker_of_another_version(place: &Place, url: &str) -> Runtime {
    let (runtime, url) = (Runtime::new().unwrap(), url.to_owned());
    let runs = place.path().to_owned();
    runtime.spawn(async move {
        let bus = ::fleet::Bus::connect(&url, "old").await.unwrap();
        let program = ::fleet::Program {
            path: "/bin/false".into(),
            version: "0.0.1".into(),
            prefix: "NONE_",
            note: |_| (),
            before: Vec::new(),
        };
        let worker = ::fleet::Worker::new(bus, "old".into(), program, runs);
        worker.serve(std::future::pending()).await
    });
    runtime
}

#[test]
#[ignore = "needs nats-server"]
fn a_second_coordinator_has_none_that_are_at_work_and_none_of_another_version() {
    let (node, place) = (Node::quick(), Place::new());
    let (_fleet, workers) = fleet(&place, 2);
    let url = workers.rsplit(' ').next().unwrap();
    let _old = worker_of_another_version(&place, url);
    let load = |duration: &str, out: &str| {
        let node = node.url();
        format!(
            "constant --rate 20/s --duration {duration} --seed 7 --endpoints {node} {workers} --out {out}"
        )
    };
    let first = place.start(&load("10m", "first"));
    first.said("2 workers begin");
    let own = env!("CARGO_PKG_VERSION");
    place
        .txgen(&load("1s", "second"))
        .expect(2)
        .says("2 workers are wanted, and 0 could be had")
        .says(&format!(
            "old has version 0.0.1, protocol {PROTOCOL}, this is version {own}, protocol {PROTOCOL}"
        ))
        .says("local-1 is at work for run")
        .says("local-2 is at work for run");
    assert!(!place.path().join("second").exists());
    first.signal(Signal::INT);
    first.wait().expect(130);
    place.run("first/whole").summary().assert_conserved();
    // Its workers are free again.
    place.txgen(&load("1s", "second"));
    let second = place.run("second/whole").summary();
    second.assert_conserved();
    assert_eq!(second.count("offered.planned"), 20);
}

#[test]
fn what_makes_no_fleet_is_refused() {
    let place = Place::new();
    let load = "constant --rate 10/s --duration 1s --endpoints http://127.0.0.1:1";
    let port = free_port();
    for (line, said) in [
        (format!("{load} --workers 3"), "--nats"),
        (
            format!("{load} --workers 1 --nats nats://127.0.0.1:{port}"),
            "a fleet has 2 to 10,000 workers",
        ),
        (
            format!("{load} --workers 2 --nats nats://127.0.0.1:{port}"),
            "cannot reach the NATS server",
        ),
        (
            format!("constant --rate 10/s --workers 2 --nats nats://127.0.0.1:{port}"),
            "--endpoints",
        ),
        (
            format!("worker --nats nats://127.0.0.1:{port}"),
            "cannot reach the NATS server",
        ),
        // What sends from here takes no workers, and does not leave them aside either.
        (
            format!(
                "flood --count 10 --endpoints http://127.0.0.1:1 --workers 2 --nats nats://127.0.0.1:{port}"
            ),
            "a flood has none",
        ),
        (
            format!("run phases --workers 2 --nats nats://127.0.0.1:{port}"),
            "it starts no node and no sentinel",
        ),
        (
            format!("run prove-builtin --workers 2 --nats nats://127.0.0.1:{port}"),
            "it starts no node and no sentinel",
        ),
        (
            format!(
                "run phases --endpoints http://127.0.0.1:1 --workers 2 --nats nats://127.0.0.1:{port}"
            ),
            "cannot reach the NATS server",
        ),
        ("fleet".into(), "--local"),
        ("fleet --fetch one".into(), "--nats"),
    ] {
        place.txgen(&line).expect(2).says(said);
    }
    let left = place.contents();
    assert!(left.iter().all(|name| name == "runs"), "{left:?}");
}
