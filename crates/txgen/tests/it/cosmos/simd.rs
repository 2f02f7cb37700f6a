//! The same on a real chain of the Cosmos SDK.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cosmos::Prefix;
use serde_json::{Value, json};
use testkit::Simd;

use super::trials::{differences, recorded, said};
use crate::support::Place;

/// Writes the accounts of seed 7 into a genesis.
fn funded(place: &Place, genesis: &Path) {
    place
        .txgen(&format!(
            "cosmos prepare --seed 7 --accounts 20 --amount 10000000stake --genesis {}",
            genesis.display()
        ))
        .expect(0)
        .prints("20 accounts");
}

#[test]
#[ignore = "needs simd"]
fn a_real_chain_commits_what_is_sent() {
    let place = Place::new();
    let chain = Simd::start("0.01stake", |genesis| funded(&place, genesis)).unwrap();
    for (out, more) in [
        ("http", String::new()),
        ("ws", "--transport ws --connections 2".to_owned()),
        ("cold", "--recipients cold --messages 2".to_owned()),
        (
            "multi",
            "--workload cosmos-multisend --messages 3".to_owned(),
        ),
    ] {
        let kind = if out == "multi" {
            ""
        } else {
            "--workload cosmos-send"
        };
        let ended = place.txgen(&format!(
            "constant --rate 40 --duration 3s {kind} {more} --accounts 20 --seed 7 --chain-id {} --endpoints {} --out {out}",
            Simd::CHAIN,
            chain.rpc_url()
        ));
        let summary = place.run(out).summary();
        ended.ends_as_judged(0, &summary);
        summary.assert_all_committed(120);
        let blocks = place.run(out).table("blocks.csv");
        let gas = |column: &str| blocks.column(column).filter(|gas| !gas.is_empty()).count();
        assert!(gas("gas_wanted") > 0 && gas("gas_used") > 0, "gas is read");
    }
}

#[test]
#[ignore = "needs simd"]
fn accounts_are_funded_and_swept_over_the_rpc() {
    let place = Place::new();
    let chain = Simd::start("0stake", |_| {}).unwrap();
    let url = chain.rpc_url();
    let wallet = [("TXGEN_FUNDER", Simd::WALLET)];
    place
        .txgen_with(
            &wallet,
            &format!(
                "cosmos prepare --seed 9 --accounts 120 --amount 1000000stake --endpoints {url}"
            ),
        )
        .expect(0)
        .prints("120 accounts have 1000000stake more each");
    let first = cosmos::Keys::from_mnemonic(Simd::WALLET, "m/44'/118'/0'/0").unwrap();
    let prefix = Prefix::new("cosmos").unwrap();
    let to = prefix.write(first.key(0).unwrap().address());
    place
        .txgen(&format!(
            "cosmos sweep --seed 9 --accounts 120 --to {to} --endpoints {url}"
        ))
        .expect(0)
        .prints("120 of 120 accounts sent 120000000stake");
}

/// The chain of the built-in node.
fn endowed(place: &Place, genesis: &Path) {
    funded(place, genesis);
    let text = fs::read_to_string(genesis).unwrap();
    let mut whole: Value = serde_json::from_str(&text).unwrap();
    whole["consensus"]["params"]["block"]["max_gas"] = json!("2000000");
    fs::write(genesis, whole.to_string()).unwrap();
}

#[test]
#[ignore = "needs simd"]
fn simd_still_says_what_was_recorded_of_it() {
    let place = Place::new();
    let chain = Simd::start("0.01stake", |genesis| endowed(&place, genesis)).unwrap();
    let said = said(&chain.rpc_url());
    if let Some(path) = std::env::var_os("TXGEN_RECORD_SIMD") {
        fs::write(path, serde_json::to_string_pretty(&said).unwrap()).unwrap();
        return;
    }
    assert_eq!(differences(&said, &recorded()), BTreeMap::new());
}

/// What the bank says is Cosmos SDK 0.50's; of 0.53 it differs in this.
#[test]
#[ignore = "needs simd of SDK 0.53"]
fn unordered_transactions_are_not_all_that_sdk_0_53_says_differently() {
    let place = Place::new();
    let chain = Simd::start_unordered("0.01stake", |genesis| endowed(&place, genesis)).unwrap();
    let said = said(&chain.rpc_url());
    let found = differences(&said, &recorded());
    // Its chain here has no circuit breaker, which takes 2,000 for each message.
    let found = found.keys().filter(|it| !it.ends_with(": gas_used"));
    let expected = [
        "a transaction of the key-value store: log",
        "an unknown type: log",
        "query: a simulated unknown type: log",
        "unordered: code",
        "unordered: log",
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

/// A node that has not caught up, for ever: it has a chain's genesis and no peers.
#[test]
#[ignore = "needs simd"]
fn a_node_that_is_catching_up_is_not_measured() {
    let place = Place::new();
    let chain = Simd::start("0stake", |genesis| funded(&place, genesis)).unwrap();
    let behind = Simd::start_alone(&chain).unwrap();
    let url = behind.rpc_url();
    let phrase = format!(
        "the node at {url} is catching up (height 0); wait until its status says catching_up false"
    );
    for line in [
        "constant --rate 5 --duration 1s --out run --workload cosmos-send",
        "cosmos sweep --to cosmos1",
    ] {
        let ended = place.txgen(&format!("{line} --accounts 20 --seed 7 --endpoints {url}"));
        ended.says(&phrase);
        assert!(!place.path().join("run").exists(), "nothing was recorded");
    }
}

/// The node is started by the run, with the accounts in its genesis and blocks of 20 transfers.
#[test]
#[ignore = "needs simd"]
fn a_scenario_starts_its_own_chain_with_blocks_limited_by_gas() {
    let place = Place::new();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/cosmos-gas.toml");
    let ended = place.txgen(&format!(
        "run {} --node simd --scale 0.2 --set node.genesis.consensus.params.block.max_gas=4000000 --out run --no-tui",
        file.display()
    ));
    let summary = place.run("run").summary();
    ended.ends_as_judged(0, &summary);
    // A step that a busy machine left unclear was offered once more.
    let steps = summary.at("steps").as_array().unwrap();
    let again = steps.iter().filter(|step| !step["again_of"].is_null());
    let again: u64 = again.map(|step| step["offered"].as_u64().unwrap()).sum();
    summary.assert_all_committed(1_000 + again);
    let blocks = place.run("run").table("blocks.csv");
    let wanted = blocks
        .column("gas_wanted")
        .filter_map(|gas| gas.parse::<u64>().ok());
    assert_eq!(wanted.max(), Some(4_000_000), "the fullest block is full");
    let nodes = place.run("run").table("nodes.csv");
    let sum = |column: &str| -> f64 {
        nodes
            .column(column)
            .filter_map(|it| it.parse::<f64>().ok())
            .sum()
    };
    assert!(
        sum("checks") > 900.0,
        "the node's own metrics are read: {}",
        sum("checks")
    );
    assert!(sum("executing_s") > 0.0 && sum("commit_step_s") > sum("executing_s"));
    let home = fs::read_dir(place.path()).unwrap().filter_map(Result::ok);
    let left = home.map(|entry| entry.file_name().into_string().unwrap());
    let left: Vec<String> = left.filter(|name| name.starts_with(".simd-")).collect();
    assert_eq!(left, Vec::<String>::new(), "its home is removed");
}

#[test]
fn a_chain_is_started_for_its_own_transactions_only() {
    let place = Place::new();
    let run = |name: &str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
        let file = file.join(name);
        place.txgen(&format!(
            "run {} --node simd --simd /nowhere",
            file.display()
        ))
    };
    run("constant.toml")
        .expect(2)
        .says("a simd takes transactions of a Cosmos SDK chain; use workload = \"cosmos-send\"");
    run("cosmos-ramp.toml")
        .expect(1)
        .says("cannot run /nowhere");
}

/// Cosmos SDK 0.53, which has unordered transactions since ADR-070.
#[test]
#[ignore = "needs simd of SDK 0.53"]
fn unordered_transactions_are_committed_by_a_chain_that_takes_them_for_so_long() {
    let place = Place::new();
    let chain = Simd::start_unordered("0stake", |genesis| funded(&place, genesis)).unwrap();
    let run = |more: &str, out: &str| {
        place.txgen(&format!(
            "constant --rate 40 --duration 3s --workload cosmos-send {more} --transport ws --accounts 20 --seed 7 \
             --endpoints {} --out {out}",
            chain.rpc_url()
        ))
    };
    let ended = run("--unordered 5m", "unordered");
    let summary = place.run("unordered").summary();
    ended.ends_as_judged(0, &summary);
    summary.assert_all_committed(120);
    // The accounts' sequences are where they were, and nothing else is.
    run("", "ordered");
    place.run("ordered").summary().assert_all_committed(120);
    run("--unordered 20m", "long")
        .expect(2)
        .says("unordered tx ttl exceeds 10m0s");
}
