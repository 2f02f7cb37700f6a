//! Searches as programs: their files, messages and endings. How exact a knee is does not
//! belong here, since it depends on the machine: `measure` tests it on a model of the target.

use std::time::Duration;

use devnode::{CapacityModel, Config};
use serde_json::Value;

use crate::support::{Ended, Node, Place, wait_until};

/// Commits so many a second and no more.
fn node_with(capacity: f64) -> Node {
    Node::start(Config {
        capacity: Some(CapacityModel::constant(capacity)),
        block_interval: Duration::from_millis(100),
        ..Config::default()
    })
}

fn account(place: &Place, name: &str) -> Value {
    place.run(name).json("search.json")
}

fn points(account: &Value) -> &Vec<Value> {
    account["points"].as_array().unwrap()
}

/// Everything about the file that holds for every search.
fn check(place: &Place, name: &str, ended: &Ended) -> Value {
    let account = account(place, name);
    assert_eq!(account["format"], "tidegate.search/2", "{ended}");
    for point in points(&account) {
        let folder = point["folder"].as_str().unwrap();
        let run = place.run(&format!("{name}/{folder}"));
        let summary = run.summary();
        summary.assert_conserved();
        assert_eq!(point["planned"], summary.count("offered.planned"));
    }
    account
}

/// What the file says agrees with itself, with what is printed and with the exit code, however fast the
/// machine was.
fn check_ending(account: &Value, ended: &Ended) {
    for point in points(account) {
        let reasons = point["reasons"].as_array().unwrap();
        assert_eq!(point["finding"] == "held", reasons.is_empty(), "{point}");
    }
    let found = account["knee"].is_object();
    assert!(!ended.printed("not found"), "{ended}");
    ended.expect(match account["ended"].as_str().unwrap() {
        "generator_limit" => 98,
        "not_recovered" | "failed" => 1,
        _ if account["highest_held_tps"].is_null() && account["lowest_broken_tps"].is_null() => 98,
        "out_of_time" | "undecided" if !found => 98,
        _ => 0,
    });
}

#[test]
fn a_list_of_rates_is_measured_in_its_order() {
    let node = node_with(400.0);
    let place = Place::new();
    let ended = place.txgen(&format!(
        "search --rates 100,200..600:400 --duration 1s --slo commit.p50<30s --out scan --endpoints {}",
        node.url()
    ));
    let account = check(&place, "scan", &ended);
    assert_eq!(account["limits"]["slo"][0], "commit.p50<30s");
    check_ending(&account, &ended);
    let mut rates: Vec<f64> = points(&account)
        .iter()
        .map(|point| point["rate_tps"].as_f64().unwrap())
        .collect();
    // What the machine, not the node, kept from its rate is tried again.
    rates.dedup();
    assert!([100.0, 200.0, 600.0].starts_with(&rates), "{rates:?}");
}

/// Also of announced blocks one may be asked for first, where the machine is busy.
#[test]
fn the_resolution_of_polled_commits_stands_beside_the_latencies_of_points() {
    for subscribers in [0, 100] {
        let mut config = crate::support::quick();
        config.rpc.max_subscription_clients = subscribers;
        let node = Node::start(config);
        let place = Place::new();
        let ended = place.txgen(&format!(
            "search --rates 50 --duration 1s --out scan --endpoints {}",
            node.url()
        ));
        let account = account(&place, "scan");
        let polled = |point: &Value| {
            let folder = point["folder"].as_str().unwrap();
            let summary = place.run(&format!("scan/{folder}")).summary();
            summary.count("blocks.polled") > 0
        };
        for point in points(&account) {
            assert_eq!(point["commit_resolution"].is_string(), polled(point));
        }
        let words = points(&account).iter().any(polled);
        assert!(words || subscribers > 0, "{ended}");
        let said = ended.printed("Commits seen by polling (");
        assert_eq!(said, words, "{ended}");
        let page = place.run("scan").text("report.html");
        assert_eq!(page.contains("Commits seen by polling ("), words);
    }
}

/// A rate found on the built-in node says which of its settings it is.
#[test]
fn beside_a_knee_of_the_built_in_node_stands_the_setting_that_is_its_limit() {
    let place = Place::new();
    let ended = place.txgen("search --rates 50 --duration 1s --out scan");
    let account = account(&place, "scan");
    let limit = "the built-in node commits at most 5000/s: mempool size 5000 / block interval 1s";
    let reason = account["reason"].as_str().unwrap();
    assert!(reason.ends_with(limit), "{reason}");
    ended.prints(limit);
    let node = node_with(400.0);
    let ended = place.txgen(&format!(
        "search --rates 50 --duration 1s --out foreign --endpoints {}",
        node.url()
    ));
    assert!(!ended.printed("built-in"), "{ended}");
}

#[test]
fn a_search_tells_each_point_and_ends_as_its_file_says() {
    let node = node_with(400.0);
    let place = Place::new();
    let ended = place.txgen(&format!(
        "search --from 200 --max 1600 --duration 1s --time-limit 5s --seed 1 --connections 4 --out found --endpoints {}",
        node.url()
    ));
    let account = check(&place, "found", &ended);
    ended.says("200/s for 0.5s: the first");
    check_ending(&account, &ended);
    node.assert_none_came_twice();
}

#[test]
fn a_limit_of_the_user_breaks_a_rate() {
    let node = Node::quick();
    let place = Place::new();
    let ended = place.txgen(&format!(
        "search --from 50 --min 50 --max 100 --duration 1s --slo rate.accepted_tps>1000/s \
         --out slo --endpoints {}",
        node.url()
    ));
    let account = check(&place, "slo", &ended);
    check_ending(&account, &ended);
    for point in points(&account) {
        let reasons = point["reasons"].as_array().unwrap();
        let broken = |reason: &Value| {
            let text = reason.as_str().unwrap();
            text.starts_with("rate.accepted_tps>1000/s is broken")
        };
        let unusable = point["finding"] == "unusable";
        assert!(unusable || reasons.iter().any(broken), "{point}");
    }
}

#[test]
fn a_target_that_never_recovers_is_given_up_with_what_is_known() {
    let node = Node::quick();
    let place = Place::new();
    let running = place.start(&format!(
        "search --from 20 --duration 1s --drain-timeout 2s --recover-timeout 1s --out run --endpoints {}",
        node.url()
    ));
    wait_until("the second point is on its way", || {
        running.err_so_far().contains("\n  2   ")
    });
    // A kill at this point still leaves links from a point to the others.
    let page = place.run("run").text("report.html");
    assert!(page.contains("01-20/report.html"), "{page}");
    node.faults().halt();
    let ended = running.wait();
    ended
        .expect(1)
        .prints("given up: after this point the target did not come to rest within 1s")
        .prints("still holds");
    let account = check(&place, "run", &ended);
    assert_eq!(account["ended"], "not_recovered");
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
        ("search --warmup 30s", "leaves nothing of a load"),
        ("search --precision 0", "write for instance 5%"),
        (
            "search --shard 1/2",
            "--shard and --start-at are for single runs",
        ),
        (
            "search --endpoints http://127.0.0.1:1 --recover-timeout 60s",
            "127.0.0.1:1 cannot be reached",
        ),
        ("search --rates 10..1:2", "lower rate first"),
        ("search --repeats 2", "--rates"),
        ("search --rates 10 --precision 5%", "cannot be used with"),
    ] {
        place.txgen(line).expect(2).says(phrase);
    }
    place
        .txgen("search --dry-run")
        .expect(0)
        .prints("looks for the highest rate sustained from 250/s on");
    assert_eq!(place.contents(), ["txs"]);
}
