//! What goes wrong with workers, coordinators, disks and the server.

use ::fleet::message::PROTOCOL;
use rustix::process::Signal;
use serde_json::Value;
use servers::free_port;
use testkit::wait_until;
use tokio::runtime::Runtime;

use super::fleet;
use crate::support::{Node, Place};

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
    // Whoever looks at a worker's terminal sees how its part ended.
    for worker in &workers {
        worker.said(": ended with exit code ");
        worker.said("free again after run");
    }
}

/// Its workers end their parts, keep them, and are free for another.
#[test]
#[ignore = "needs nats-server"]
fn what_a_coordinator_that_is_killed_leaves_is_named_by_its_workers_and_fetched() {
    let (node, place) = (Node::quick(), Place::new());
    let nats = testkit::Nats::start();
    let url = nats.url();
    let workers =
        [1, 2].map(|number| place.start(&format!("worker --nats {url} --runs w{number}")));
    let load = place.start(&format!(
        "constant --rate 100/s --duration 3s --seed 7 --endpoints {} --workers 2 --nats {url} --out gone",
        node.url()
    ));
    wait_until("the load", || node.committed().len() > 30);
    load.signal(Signal::KILL);
    let mut fetch = String::new();
    for worker in &workers {
        worker.said(": ended with exit code ");
        worker.said("free again: the coordinator of run");
        worker.said("fetches what is kept of it");
        let said = worker.err_so_far();
        let command = said.split('`').nth(1).unwrap().split_whitespace();
        fetch = command.skip(1).collect::<Vec<_>>().join(" ");
    }
    place
        .txgen(&format!("{fetch} --nats {url} --out later"))
        .expect(0);
    place.txgen("merge later/shard-1 later/shard-2 --out whole");
    let summary = place.run("whole").summary();
    summary.assert_conserved();
    assert_eq!(summary.count("offered.planned"), 300);
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
