//! Runs side by side: what changed, what chance explains, and exit codes for scripts.

use std::time::Duration;

use devnode::Config;
use serde_json::Value;

use crate::support::{Node, Place, quick};

/// Answers and blocks take so much longer.
fn slow_node() -> Node {
    let node = Node::start(Config {
        block_interval: Duration::from_millis(800),
        ..quick()
    });
    node.faults().slow_answers(Duration::from_millis(60));
    node
}

#[test]
fn a_slower_node_is_a_regression_and_its_like_is_not() {
    let place = Place::new();
    let (fast, slow) = (Node::quick(), slow_node());
    let runs = [
        ("before", &fast),
        ("slow", &slow),
        ("repeats/1", &fast),
        ("repeats/2", &fast),
    ];
    let mut seed = 0;
    let running = runs.map(|(out, node)| {
        seed += 1;
        let line = format!(
            "constant --rate 50 --duration 4s --transport ws --seed {seed} --out {out} --endpoints {}",
            node.url()
        );
        (out, place.start(&line))
    });
    for (out, running) in running {
        running.wait().ends_as_judged(0, &place.run(out).summary());
    }

    let ended = place.txgen("compare before slow --fail-on-regression 10%");
    ended
        .expect(99)
        .prints("slow against before")
        .prints("REGRESSION")
        .prints("commit.p50 of slow");
    place
        .txgen("compare slow before --fail-on-regression 10%")
        .expect(0)
        .prints("better")
        .prints("no regression");

    let ended = place
        .txgen("compare before slow repeats --format json --fail-on-regression 10% --out out.json");
    ended.expect(99);
    let text = std::fs::read_to_string(place.path().join("out.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["sides"][2]["runs"].as_array().unwrap().len(), 2);
    let differences = document["differences"].as_array().unwrap();
    let of = |side: &str, metric: &str| {
        let found = differences
            .iter()
            .find(|row| row["side"] == side && row["metric"] == metric);
        found.unwrap_or_else(|| panic!("{side} {metric} in {text}"))
    };
    assert_eq!(of("slow", "accept.p50")["regression"], true);
    assert!(of("slow", "accept.p50")["after"].as_f64().unwrap() >= 60.0);
    // What was offered was committed on both sides.
    assert_eq!(of("slow", "rate.accepted_tps")["regression"], false);
    assert_eq!(of("repeats", "rate.accepted_tps")["regression"], false);

    let ended = place.txgen("compare before repeats --format md");
    ended
        .expect(0)
        .prints("| `commit.p99` |")
        .prints("repeats (2 runs)");
}

#[test]
fn what_is_no_run_is_named() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("empty")).unwrap();
    for (line, phrase) in [
        ("compare empty empty", "empty is not a run"),
        ("compare nowhere empty", "there is no nowhere"),
        ("compare empty", "2 values required"),
        (
            "compare empty empty --fail-on-regression ten",
            "write for instance 5%",
        ),
    ] {
        place.txgen(line).expect(2).says(phrase);
    }
}
