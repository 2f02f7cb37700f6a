//! One load of several workers over a NATS server.

use std::path::PathBuf;

use servers::{find, free_port};
use testkit::wait_until;

use super::shards::ids;
use crate::support::{Node, Place};

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
        ("fleet".into(), "--local"),
        ("fleet --fetch one".into(), "--nats"),
    ] {
        place.txgen(&line).expect(2).says(said);
    }
    let left = place.contents();
    assert!(left.iter().all(|name| name == "runs"), "{left:?}");
}
