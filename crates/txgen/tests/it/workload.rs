//! What is sent: sizes to the byte, the same again for the same seed, and files line by line; and
//! reads as a load: the paths of a file, over a node's RPC and over BigchainDB's API.

use std::collections::BTreeSet;
use std::fs;

use chain_bigchaindb::fixture::{API, BigchaindbConfig, BigchaindbKind};
use devnode::Blueprint;
use sha2::{Digest, Sha256};

use crate::support::{Behaviour, FakeNode, Node, Place, RunFolder, quick};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn ids(run: &RunFolder) -> BTreeSet<String> {
    let txs = run.table("txs.csv");
    txs.column("txid").map(ToOwned::to_owned).collect()
}

#[test]
fn sizes_are_exact_on_the_wire() {
    for size in [16, 17, 250, 100_000] {
        let node = FakeNode::always(Behaviour::Accept);
        let place = Place::new();
        let ended = place.txgen(&format!(
            "flood --count 12 --concurrency 2 --size {size} --no-follow --out run --endpoints {}",
            node.url()
        ));
        ended.expect(0);
        let received = node.change(|chain| chain.received.clone());
        assert_eq!(received.len(), 12);
        for tx in &received {
            assert_eq!(tx.len(), size);
            assert_eq!(tx.iter().filter(|byte| **byte == b'=').count(), 1);
        }
        let run = place.run("run");
        assert_eq!(run.table("txs.csv").sum("size"), 12 * size as u64);
        let hashes: BTreeSet<String> = received.iter().map(|tx| hex(&Sha256::digest(tx))).collect();
        assert_eq!(
            hashes,
            ids(&run),
            "the ids are the hashes of what was received"
        );
    }
}

#[test]
fn a_large_transaction_is_committed_over_both_transports() {
    let node = Node::quick();
    for (run, transport) in ["http", "ws"].into_iter().enumerate() {
        let place = Place::new();
        let ended = place.txgen(&format!(
            "flood --count 6 --concurrency 2 --size 700000 --seed {run} --transport {transport} \
             --out run --endpoints {}",
            node.url()
        ));
        ended.expect(0);
        place.run("run").summary().assert_all_committed(6);
    }
}

#[test]
fn one_seed_sends_the_same_and_another_something_else() {
    let place = Place::new();
    let sent_with = |seed: u64, out: &str| {
        let node = Node::quick();
        let ended = place.txgen(&format!(
            "constant --rate 400 --duration 500ms --arrivals poisson --seed {seed} --out {out} --endpoints {}",
            node.url()
        ));
        let run = place.run(out);
        let summary = run.summary();
        ended.ends_as_judged(0, &summary);
        let planned = summary.count("offered.planned");
        summary.assert_all_committed(planned);
        assert_eq!(run.manifest()["seed"], seed);
        let mut dues = run.table("txs.csv").numbers("due_ns");
        dues.sort_unstable();
        assert_eq!(dues.len() as u64, planned);
        (ids(&run), dues)
    };
    let (first, second) = (sent_with(7, "first"), sent_with(7, "second"));
    assert!(first.0.len() > 100);
    assert_eq!(first, second);
    let other = sent_with(8, "other");
    assert!(first.0.is_disjoint(&other.0));
    assert_ne!(first.1, other.1);
}

/// How a transaction is written in a file.
type Spell = fn(&[u8]) -> String;

#[test]
fn files_of_every_format_are_sent_to_their_end() {
    let node = Node::quick();
    let spell: [(&str, Spell); 3] = [
        ("raw", |tx| String::from_utf8(tx.to_vec()).unwrap()),
        ("hex", hex),
        ("base64", |tx| base64_simd::STANDARD.encode_to_string(tx)),
    ];
    for (format, spell) in spell {
        let transactions: Vec<Vec<u8>> = (0..40)
            .map(|n| format!("{format}-{n}={}", "x".repeat(n + 1)).into_bytes())
            .collect();
        let place = Place::new();
        let lines: Vec<String> = transactions.iter().map(|tx| spell(tx)).collect();
        // Without a line feed at the end, which is a line all the same.
        place.write("txs", lines.join("\n"));
        let line = "constant --rate 200 --duration 60s --workload file:txs --out run";
        place
            .txgen(&format!("{line} --dry-run"))
            .expect(0)
            .prints("transactions  40\n")
            .prints(&format!("read as {format}"));
        let ended = place.txgen(&format!("{line} --endpoints {}", node.url()));
        let run = place.run("run");
        let summary = run.summary();
        ended.ends_as_judged(0, &summary);
        summary.assert_all_committed(40);
        // The last one is due after 195 ms, and with it the offering ends; the drain is no part of it.
        let offered = summary.number("time.offered_s");
        assert!((0.19..30.0).contains(&offered), "{offered}");
        let planned = summary.number("rate.planned_tps") * offered;
        assert!((39.0..=41.0).contains(&planned), "{planned}");
        let expected: BTreeSet<String> = transactions
            .iter()
            .map(|tx| hex(&Sha256::digest(tx)))
            .collect();
        assert_eq!(ids(&run), expected, "{format}");
        let on_chain: BTreeSet<String> =
            node.committed().iter().map(|(hash, _)| hex(hash)).collect();
        assert!(expected.is_subset(&on_chain), "{format}");
    }
}

#[test]
fn what_the_application_refuses_is_rejected_by_its_code() {
    let node = Node::quick();
    let place = Place::new();
    // The kvstore wants one equals sign, and a key and a value.
    place.write("txs", "good=1\nbad\nfine=2\nworse=\n");
    let ended = place.txgen(&format!(
        "flood --count 100 --concurrency 1 --workload file:txs --file-format raw --out run --endpoints {}",
        node.url()
    ));
    let summary = place.run("run").summary();
    ended.expect(0);
    summary.assert_conserved();
    assert_eq!(summary.count("offered.planned"), 4, "the file is used up");
    assert_eq!(summary.count("fate.committed"), 2);
    assert_eq!(summary.count("fate.rejected_by_code.2"), 2);
}

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
