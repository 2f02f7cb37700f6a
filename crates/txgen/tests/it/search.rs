//! The knee of a node whose capacity is known, and targets that have none to show.

use std::time::Duration;

use devnode::{CapacityModel, Config};
use serde_json::Value;

use crate::support::{Ended, Node, Place, wait_until};

/// Commits so many a second and no more.
fn node_with(capacity: f64) -> Node {
    Node::start(Config {
        capacity: Some(CapacityModel::constant(capacity)),
        // Long enough that a moment of a busy machine is a small share of it.
        block_interval: Duration::from_millis(250),
        ..Config::default()
    })
}

fn account(place: &Place, name: &str) -> Value {
    let text = std::fs::read_to_string(place.path().join(name).join("search.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn points(account: &Value) -> &Vec<Value> {
    account["points"].as_array().unwrap()
}

/// Whether the machine, busy with other tests, kept the generator or the node from its work: what a
/// search shows then is about the machine.
fn was_busy(account: &Value) -> bool {
    let stumbled = |point: &Value| point["finding"] == "unusable" || point["verdict"] == "invalid";
    account["ended"] == "out_of_time" || points(account).iter().any(stumbled)
}

/// Everything about the file that holds for every search.
fn check(place: &Place, name: &str, ended: &Ended) -> Value {
    let account = account(place, name);
    assert_eq!(account["format"], "tidegate.search/1", "{ended}");
    for point in points(&account) {
        let folder = point["folder"].as_str().unwrap();
        let run = place.run(&format!("{name}/{folder}"));
        let summary = run.summary();
        summary.assert_conserved();
        assert_eq!(point["planned"], summary.count("offered.planned"));
    }
    account
}

#[test]
fn the_knee_of_a_known_capacity_is_found_within_three_percent() {
    let node = node_with(400.0);
    let place = Place::new();
    let ended = place.txgen(&format!(
        "search --from 200 --max 1600 --duration 4s --time-limit 70s --seed 1 --connections 4 --out found --endpoints {}",
        node.url()
    ));
    let account = check(&place, "found", &ended);
    ended.says("200/s for 2s: the first");
    if was_busy(&account) {
        return;
    }
    ended
        .expect(0)
        .says("the middle of what is open; 200 held")
        .prints("the highest rate sustained");
    assert_eq!(account["ended"], "done");
    let knee = |key: &str| account["knee"][key].as_f64().unwrap();
    assert!((knee("rate_tps") / 400.0 - 1.0).abs() < 0.03, "{ended}");
    assert!(
        knee("low_tps") < 412.0 && knee("high_tps") > 400.0,
        "{ended}"
    );
    let reasons = |point: &Value| point["reasons"].as_array().unwrap().len();
    for point in points(&account) {
        assert_eq!(point["finding"] == "held", reasons(point) == 0, "{point}");
        assert_eq!(point["recovered"], true);
    }
    let hashes: std::collections::HashSet<_> =
        node.committed().into_iter().map(|tx| tx.0).collect();
    assert_eq!(
        hashes.len(),
        node.committed().len(),
        "a transaction came twice"
    );
}

#[test]
fn a_scan_goes_through_its_rates_and_names_what_lies_between() {
    let node = node_with(400.0);
    let place = Place::new();
    let ended = place.txgen(&format!(
        "scan --rates 100,200..600:400 --duration 2s --slo commit.p50<30s --out scan --endpoints {}",
        node.url()
    ));
    let account = check(&place, "scan", &ended);
    assert_eq!(account["limits"]["slo"][0], "commit.p50<30s");
    if was_busy(&account) {
        return;
    }
    ended.expect(0).prints("200/s held and 600/s did not");
    let findings: Vec<&str> = points(&account)
        .iter()
        .map(|point| point["finding"].as_str().unwrap())
        .collect();
    assert_eq!(findings, ["held", "held", "broken"], "{ended}");
    assert_eq!(account["highest_held_tps"], 200.0);
}

#[test]
fn limits_of_the_user_break_a_rate_and_no_knee_is_said_honestly() {
    let node = Node::quick();
    let place = Place::new();
    let search = |name: &str, more: &str| {
        place.txgen(&format!(
            "search --from 50 --min 50 --max 100 --duration 2s --out {name} {more} --endpoints {}",
            node.url()
        ))
    };
    let ended = search("open", "");
    ended
        .expect(0)
        .prints("knee         not found")
        .prints("no knee up to 100/s");
    assert_eq!(check(&place, "open", &ended)["ended"], "not_reached");
    let ended = search("slo", "--slo rate.accepted_tps>1000");
    ended
        .expect(0)
        .prints("already 50/s, the lowest allowed, broke");
    let account = check(&place, "slo", &ended);
    assert_eq!(account["ended"], "below_min");
    let reason = points(&account)[0]["reasons"][0].as_str().unwrap();
    assert!(
        reason.starts_with("rate.accepted_tps>1000 is broken"),
        "{reason}"
    );
}

#[test]
fn a_target_that_never_recovers_is_given_up_with_what_is_known() {
    let node = Node::quick();
    let place = Place::new();
    let running = place.start(&format!(
        "search --from 100 --duration 2s --drain-timeout 2s --recover-timeout 1s --out run --endpoints {}",
        node.url()
    ));
    wait_until("the second point is on its way", || {
        running.err_so_far().contains("  2   200/s")
    });
    node.faults().halt();
    let ended = running.wait();
    ended
        .expect(1)
        .prints("given up: after this point the target did not come to rest within 1s")
        .prints("still holds");
    let account = check(&place, "run", &ended);
    assert_eq!(account["ended"], "not_recovered");
    assert_eq!(account["highest_held_tps"], 100.0);
    assert_eq!(points(&account).last().unwrap()["recovered"], false);
}

#[test]
fn what_makes_no_search_is_refused_before_it_begins() {
    let place = Place::new();
    place.write("txs", "61\n");
    for (line, phrase) in [
        (
            "search --min 100 --max 10",
            "--min 100/s is above --max 10/s",
        ),
        (
            "search --workload file:txs",
            "needs new transactions for each point",
        ),
        (
            "search --threshold commit.p99<1s",
            "write --slo instead of --threshold",
        ),
        ("search --slo comit.p99<1s", "did you mean commit.p99"),
        ("search --warmup 30s", "leaves nothing of a point"),
        ("search --precision 0", "write for instance 5%"),
        (
            "search --shard 1/2",
            "--shard and --start-at are for single runs",
        ),
        (
            "search --endpoints http://127.0.0.1:1 --recover-timeout 60s",
            "127.0.0.1:1 cannot be reached",
        ),
        ("scan", "--rates"),
        ("scan --rates 10..1:2", "lower rate first"),
    ] {
        place.txgen(line).expect(2).says(phrase);
    }
    place
        .txgen("search --dry-run")
        .expect(0)
        .prints("looks for the highest rate sustained from 250/s on");
    assert_eq!(place.contents(), ["txs"]);
}
