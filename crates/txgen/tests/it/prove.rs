//! `[[prove]]`: what a rate owes to a resource, shown on nodes whose limits are known.

use serde_json::Value;

use crate::support::{Ended, Place};

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

/// The campaign's document after it was played, and what it printed.
fn played(text: &str) -> (Value, Ended) {
    let place = Place::new();
    place.write("prove.toml", text);
    let ended = place.txgen("run prove.toml --out all --no-tui");
    let document = place.run("all").json("campaign.json");
    let runs = document["runs"].as_array().unwrap();
    assert!(runs.iter().all(|run| run["state"] == "done"), "{ended}");
    (document, ended)
}

/// What the unchanged runs say of themselves, of those whose load was the planned one: where it was late the machine
/// was full, and the processor may have been the limit.
fn conclusions(document: &Value) -> Vec<&str> {
    let runs = document["runs"].as_array().unwrap().iter();
    let sound =
        runs.filter(|run| run["change"]["factor"] == 1.0 && run["figures"]["verdict"] == "valid");
    sound
        .map(|run| run["figures"]["limited_by"].as_str().unwrap())
        .collect()
}

/// A node with such blocks and checks, of which one limits.
fn what_limits_is_followed_and_what_does_not_is_not(block: &str, check: &str, limits: &str) {
    let (document, ended) = played(&LIMITED.replace("BLOCK", block).replace("CHECK", check));
    let runs = document["runs"].as_array().unwrap();
    assert_eq!(
        runs.len(),
        12,
        "two rounds of two resources, each between unchanged runs"
    );
    assert_eq!(runs[0]["label"], "check unchanged #1");
    assert_eq!(runs[1]["label"], "check x 0.700 #1");
    let sound = conclusions(&document);
    // What follows a setting of the node is limited by the node, and by nothing of the generator's.
    assert!(sound.iter().all(|by| *by == "node"), "{sound:?} {ended}");
    for resource in ["block", "check"] {
        let told = effects(&document, resource);
        assert_eq!(told.len(), 2, "{document}");
        let may = if resource == limits { "limits" } else { "none" };
        let only = told.iter().all(|it| **it == may || **it == "cannot_tell");
        assert!(only || sound.len() < 4, "{resource}: {told:?} {ended}");
    }
    ended.prints("elasticity (95 %)").fits_a_terminal();
}

#[test]
fn blocks_that_limit_are_followed_and_checks_that_do_not_are_not() {
    what_limits_is_followed_and_what_does_not_is_not("100", "0.1ms", "block");
}

#[test]
fn checks_that_limit_are_followed_and_blocks_that_do_not_are_not() {
    what_limits_is_followed_and_what_does_not_is_not("1000", "3ms", "check");
}

#[test]
fn a_node_that_carries_the_load_shows_no_limit_and_says_none() {
    let text = LIMITED.replace("BLOCK", "1000").replace("CHECK", "0.1ms");
    let text = text
        .replace("3000/s", "200/s")
        .replace("by = \"30%\"", "only = \"down\"");
    let (document, ended) = played(&text);
    for resource in ["block", "check"] {
        assert_eq!(effects(&document, resource), ["cannot_tell"], "{ended}");
    }
    let sound = conclusions(&document);
    assert!(sound.iter().all(|by| *by != "node"), "{sound:?} {ended}");
}

#[test]
fn each_number_of_the_node_that_is_used_can_be_changed_without_being_listed() {
    let place = Place::new();
    let text = LIMITED.replace("BLOCK", "100").replace("CHECK", "1ms");
    let (from, to) = (
        text.find("[[prove]]").unwrap(),
        text.find("[node.builtin]").unwrap(),
    );
    let other = "[node]\nnodes = 1\n[node.cometbft]\nmempool.size = 300\nlog_level = \"error\"\n";
    place.write(
        "plain.toml",
        format!("{}{other}{}", &text[..from], &text[to..]),
    );
    let ended = place.txgen("run plain.toml --prove --dry-run");
    ended.expect(0);
    for key in [
        "block_interval",
        "max_block_txs",
        "check_cost",
        "mempool.size",
    ] {
        ended.prints(&format!("node.builtin.{key} x 0.850 #3"));
        ended.prints(&format!("node.builtin.{key} x 1.150 #3"));
    }
    assert!(
        !ended.out.contains("cometbft") && !ended.out.contains("node.nodes"),
        "{ended}"
    );
    let ended =
        place.txgen("run plain.toml --prove --dry-run --node btcd --set settings.workload=bitcoin");
    ended.expect(2).says("--set node.processor=60%");
    let ended = place.txgen(
        "run plain.toml --prove --dry-run --node btcd --set settings.workload=bitcoin --set node.processor=95%",
    );
    ended.expect(0).prints("node.processor x 0.850");
    assert!(!ended.out.contains("x 1.150"), "{ended}");
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
            "node.processor is for nodes that are processes",
        ),
        (
            "[node.builtin]",
            "[node]\nlink = \"1Mbit/s\"\n[node.builtin]",
            "node.link is for nodes that are processes",
        ),
        ("by = \"30%\"", "only = \"both\"", "`down` or `up`"),
    ] {
        place.write("prove.toml", text.replace(from, to));
        let ended = place.txgen("run prove.toml --dry-run");
        ended.expect(2).says(problem);
    }
}
