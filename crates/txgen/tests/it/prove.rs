//! `[[prove]]`: what a rate owes to a resource, shown on nodes whose limits are known.

use std::fs;

use serde_json::Value;

use crate::support::Place;

/// A node that commits 100 transactions every 100 ms or checks one every 2 ms, and gets more than both.
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
drain_timeout = "10s"
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
    for (name, block, check, limits, idle) in [
        ("checks", "1000", "2ms", "check", "block"),
        ("blocks", "100", "0.1ms", "block", "check"),
    ] {
        let text = LIMITED.replace("BLOCK", block).replace("CHECK", check);
        place.write("prove.toml", text);
        let ended = place.txgen(&format!("run prove.toml --out {name} --no-tui"));
        let path = place.path().join(name).join("campaign.json");
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
        // How much can be told in two rounds depends on the machine; what is told does not.
        let told = [effects(&document, limits), effects(&document, idle)];
        assert_eq!(told.each_ref().map(Vec::len), [2, 2], "{document}");
        let only = |told: &[&Value], may: &str| {
            let mut told = told.iter();
            told.all(|effect| **effect == may || **effect == "cannot_tell")
        };
        assert!(
            only(&told[0], "limits") && only(&told[1], "none"),
            "{ended}"
        );
        // A rate that follows a setting of the node is no limit of the generator.
        if told[0].iter().all(|effect| **effect == "limits") {
            let bases = runs.iter().filter(|run| run["change"]["factor"] == 1.0);
            let own = ["schedule", "source", "connection"];
            let limited = |run: &Value| run["figures"]["limited_by"].as_str().map(str::to_owned);
            let mut limited = bases.filter_map(limited);
            assert!(limited.all(|by| !own.contains(&&*by)), "{ended}");
        }
        ended.prints("elasticity (95 %)").fits_a_terminal();
    }
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
