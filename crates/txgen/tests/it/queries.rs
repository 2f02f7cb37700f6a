//! Reads as a load: the paths of a file, over a node's RPC and over BigchainDB's API.

use std::fs;

use chain_bigchaindb::fixture::{API, BigchaindbConfig, BigchaindbKind};
use devnode::Blueprint;

use crate::support::{Node, Place, quick};

/// Writes a path for each transaction of a run, and one that nothing is found at.
fn write(place: &Place, run: &str, before: &str, missing: &str) {
    let txs = place.run(run).table("txs.csv");
    let found: String = txs
        .column("txid")
        .map(|id| format!("{before}{id}\n"))
        .collect();
    fs::write(place.path().join("queries"), format!("{found}{missing}\n")).unwrap();
}

/// Five transactions and one that is none, each asked for ten times.
fn assert_asked(place: &Place, node: &str, code: &str) {
    let ended = place.txgen(&format!(
        "flood --workload queries:queries --count 60 --concurrency 3 --out reads {node}"
    ));
    ended.expect(0);
    let run = place.run("reads");
    let summary = run.summary();
    assert_eq!(summary.count("fate.accepted"), 50, "{}", ended.out);
    let refused = summary.at("fate.rejected_by_code").get(code);
    assert_eq!(refused.and_then(serde_json::Value::as_u64), Some(10));
    assert_eq!(summary.at("followed"), false);
    assert_eq!(run.manifest()["plan"]["method"], "GET");
}

#[test]
fn a_node_s_transactions_are_asked_for_by_their_hashes() {
    let node = Node::quick();
    let place = Place::new();
    let to = format!("--endpoints {}", node.url());
    let ended = place.txgen(&format!(
        "flood --count 5 --concurrency 1 --out writes {to}"
    ));
    ended.expect(0);
    let missing = format!("/tx?hash=0x{}", "0".repeat(64));
    write(&place, "writes", "/tx?hash=0x", &missing);
    assert_asked(&place, &to, "-32603");
}

/// A server that ends each connection after its answer, as BigchainDB's does.
#[test]
fn a_bigchaindb_s_transactions_are_asked_for_by_their_ids() {
    let config = quick().with(BigchaindbConfig {
        workers: 1,
        ..BigchaindbConfig::default()
    });
    let kind = &BigchaindbKind;
    let node = Node::start(Blueprint { kind, config });
    let place = Place::new();
    let to = format!(
        "--target bigchaindb --endpoints http://{}",
        node.address(API).unwrap()
    );
    let ended = place.txgen(&format!(
        "flood --count 5 --concurrency 1 --out writes {to}"
    ));
    ended.expect(0);
    let path = "/api/v1/transactions/";
    write(&place, "writes", path, &format!("{path}{}", "0".repeat(64)));
    assert_asked(&place, &to, "404");
}

#[test]
fn what_needs_blocks_or_a_websocket_is_refused() {
    let place = Place::new();
    fs::write(place.path().join("queries"), "/status\n").unwrap();
    for (line, words) in [
        ("--transport ws", "goes over http or https"),
        (
            "--endpoints http://127.0.0.1:1,ws://127.0.0.1:2",
            "goes over http or https",
        ),
        (
            "--threshold commit.p99<5s",
            "--workload queries cannot be used with 'commit.p99<5s'",
        ),
        ("--size 100", "no meaning for a file"),
    ] {
        let ended = place.txgen(&format!(
            "flood --count 5 --workload queries:queries {line}"
        ));
        ended.expect(2);
        assert!(ended.err.contains(words), "{line}: {}", ended.err);
    }
}
