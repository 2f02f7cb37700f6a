//! `[[prove]]`: what a rate owes to a resource, shown on nodes whose limits are known.

use std::fs;

use serde_json::Value;

use crate::support::Place;

/// A node that commits BLOCK transactions every 100 ms, checks one in CHECK, and gets more than it can take.
const LIMITED: &str = r#"
[[phases]]
profile = "constant"
rate = "3000/s"
duration = "1s"
[campaign]
repeats = 2
[[prove]]
name = "check"
key = "node.builtin.check_cost"
by = "30%"
[[prove]]
name = "block"
key = "node.builtin.max_block_txs"
by = "30%"
[node.builtin]
block_interval = "100ms"
max_block_txs = BLOCK
check_cost = "CHECK"
mempool.size = 300
[settings]
connections = 4
max_in_flight = 400
drain_timeout = "1s"
"#;

/// What was found of a resource, lowered and raised.
fn effects<'a>(document: &'a Value, resource: &str) -> Vec<&'a Value> {
    let proofs = document["prove"].as_array().unwrap().iter();
    let of = proofs.filter(|proof| proof["resource"] == resource);
    of.map(|proof| &proof["effect"]).collect()
}

#[test]
fn what_limits_is_followed_and_what_does_not_is_not() {
    let place = Place::new();
    let text = LIMITED.replace("BLOCK", "100").replace("CHECK", "0.1ms");
    place.write("prove.toml", text);
    let ended = place.txgen("run prove.toml --out all --no-tui");
    let path = place.path().join("all/campaign.json");
    let document: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let runs = document["runs"].as_array().unwrap();
    assert_eq!(
        runs.len(),
        12,
        "two rounds of two resources, each between unchanged runs"
    );
    assert_eq!(runs[0]["label"], "check unchanged #1");
    assert_eq!(runs[1]["label"], "check x 0.700 #1");
    assert!(runs.iter().all(|run| run["state"] == "done"), "{ended}");
    let told = [effects(&document, "block"), effects(&document, "check")];
    assert_eq!(told.each_ref().map(Vec::len), [2, 2], "{document}");
    // Where the load was late the machine was full, and the processor may have been the limit.
    let is_kept = |run: &Value| run["figures"]["verdict"] == "valid";
    if runs.iter().all(is_kept) {
        let only = |told: &[&Value], may: &str| {
            let mut told = told.iter();
            told.all(|effect| **effect == may || **effect == "cannot_tell")
        };
        assert!(
            only(&told[0], "limits") && only(&told[1], "none"),
            "{ended}"
        );
        // A rate that follows a setting of the node is no limit of the generator.
        let bases = runs.iter().filter(|run| run["change"]["factor"] == 1.0);
        let own = ["schedule", "source", "connection"];
        let limited = |run: &Value| run["figures"]["limited_by"].as_str().map(str::to_owned);
        let mut limited = bases.filter_map(limited);
        assert!(limited.all(|by| !own.contains(&&*by)), "{ended}");
    }
    ended.prints("elasticity (95 %)").fits_a_terminal();
}

#[test]
fn what_cannot_be_changed_is_refused() {
    let place = Place::new();
    let text = LIMITED.replace("BLOCK", "100").replace("CHECK", "1ms");
    for (from, to, problem) in [
        ("repeats = 2", "repeats = 1", "set campaign.repeats"),
        (".check_cost\"", ".recheck_cost\"", "has no value for it"),
        (".check_cost\"", ".mempool\"", "has no value for it"),
        (
            "max_block_txs = 100",
            "max_block_txs = 1",
            "is no number that can be multiplied by",
        ),
        (
            "[node.builtin]",
            "[node]\nprocessor = \"50%\"\n[node.builtin]",
            "nodes that are processes",
        ),
    ] {
        place.write("prove.toml", text.replace(from, to));
        let ended = place.txgen("run prove.toml --dry-run");
        ended.expect(2).says(problem);
    }
}
