//! BigchainDB's workloads, and its API as a target, on the built-in node.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use chain_bigchaindb::fixture::{API, BigchaindbConfig, BigchaindbKind};
use devnode::{Blueprint, Config};
use serde_json::Value;

use crate::support::{Node, Place, RunFolder, quick, wait_until};

/// A built-in BigchainDB node that makes blocks quickly.
fn bigchaindb() -> Node {
    let config = quick().with(BigchaindbConfig {
        workers: 1,
        ..BigchaindbConfig::default()
    });
    let kind = &BigchaindbKind;
    Node::start(Blueprint { kind, config })
}

fn api(node: &Node) -> String {
    format!("http://{}", node.address(API).unwrap())
}

fn ids(run: &RunFolder) -> BTreeSet<String> {
    let txs = run.table("txs.csv");
    txs.column("txid").map(ToOwned::to_owned).collect()
}

#[test]
fn creates_are_committed_over_the_rpc_and_over_the_api() {
    let node = bigchaindb();
    let place = Place::new();
    for (run, target, seed) in [
        ("rpc", format!("--endpoints {}", node.url()), 1),
        (
            "api",
            format!("--target bigchaindb --endpoints {}", api(&node)),
            2,
        ),
    ] {
        let ended = place.txgen(&format!(
            "flood --workload bigchaindb-create --count 200 --concurrency 8 --seed {seed} --out {run} {target}"
        ));
        ended.expect(0);
        let folder = place.run(run);
        folder.summary().assert_all_committed(200);
        assert_eq!(folder.table("txs.csv").sum("size"), 200 * 765);
        assert_eq!(ids(&folder).len(), 200);
    }
    // The API's runs name transactions as its users do.
    let id = ids(&place.run("api")).into_iter().next().unwrap();
    assert_eq!(id, id.to_lowercase());
    // One went alone before each load.
    for run in ["rpc/first", "api/first"] {
        place.run(run).summary().assert_all_committed(1);
    }
    assert_eq!(node.snapshot().committed, 402);
}

#[test]
fn one_seed_makes_the_same_whatever_the_number_of_threads() {
    let place = Place::new();
    let made = |threads: u32, out: &str| {
        let node = bigchaindb();
        let ended = place.txgen(&format!(
            "constant --rate 100 --duration 1s --workload bigchaindb-create --signing-threads {threads} \
             --signers 2 --size 40 --metadata {{\"planet\":\"earth\"}} --seed 11 --out {out} --endpoints {}",
            node.url()
        ));
        let run = place.run(out);
        let summary = run.summary();
        ended.ends_as_judged(0, &summary);
        summary.assert_all_committed(100);
        ids(&run)
    };
    assert_eq!(made(1, "one"), made(3, "three"));
}

#[test]
fn chains_of_transfers_grow_over_outputs_made_before() {
    let node = bigchaindb();
    let place = Place::new();
    for (run, target) in [
        ("rpc", format!("--seed 5 --endpoints {}", node.url())),
        (
            "api",
            format!("--seed 6 --target bigchaindb --endpoints {}", api(&node)),
        ),
    ] {
        // 10 chains of 3; each is committed before the next is sent.
        let ended = place.txgen(&format!(
            "flood --count 30 --concurrency 1 --broadcast-tx-method commit --workload bigchaindb-transfer \
             --chain-depth 3 --signing-threads 2 --out {run} {target}"
        ));
        ended.expect(0);
        place.run(run).summary().assert_all_committed(30);
        let prepared = place.run(&format!("{run}/preparation")).summary();
        prepared.assert_all_committed(10);
        for first in ["preparation-first", "first"] {
            let alone = place.run(&format!("{run}/{first}")).summary();
            alone.assert_all_committed(1);
        }
    }
}

#[test]
fn the_benchmark_s_command_line_is_the_plan_it_means_and_its_csv_has_every_transaction() {
    let node = bigchaindb();
    let place = Place::new();
    let line = |flags: &str, requests: u32| {
        format!(
            "bigchaindb-benchmark --csv out.csv --processes 8 --peer {} --out run {flags} send -r {requests} --mode async",
            api(&node)
        )
    };
    let ended = place.txgen(&line("--dry-run", 1003));
    ended.expect(0);
    for words in ["flood of 1,000 with 8 in flight", "765 bytes", "mode=async"] {
        assert!(ended.out.contains(words), "{}", ended.out);
    }
    assert!(!place.path().join("out.csv").exists());
    place.txgen(&line("--auth a:b", 8)).expect(2).says("--auth");

    place.txgen(&line("", 40)).expect(0);
    let csv = fs::read_to_string(place.path().join("out.csv")).unwrap();
    let mut rows = csv.lines();
    let header = "txid,size,ts_send,ts_accept,ts_commit,ts_error";
    assert_eq!(rows.next(), Some(header));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split(',').collect()).collect();
    assert_eq!(rows.len(), 40);
    for row in rows {
        let stamp = |column: usize| row[column].parse::<u64>().unwrap();
        assert_eq!((row.len(), row[1], row[5]), (6, "765", ""));
        assert!(stamp(2) <= stamp(3) && stamp(2) <= stamp(4), "{row:?}");
        // Milliseconds: 2001 to 2286.
        assert_eq!(row[2].len(), 13);
    }
}

/// A transaction of the original's, and two that spend its output.
fn spent_twice() -> [String; 3] {
    let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/../bigchain/tests/vectors");
    let read = |file: &str| -> Value {
        let text = fs::read_to_string(format!("{vectors}/{file}")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let valid = read("valid.json");
    let mut named = valid["vectors"].as_array().unwrap().iter();
    let create = named.find(|it| it["name"] == "create-asset").unwrap();
    let pair = &read("double-spend-pair.json")["pair"];
    [&create["tx"], &pair[0], &pair[1]].map(Value::to_string)
}

#[test]
fn what_a_block_refused_is_pending_for_the_api_and_refused_for_its_tendermint() {
    for names_tendermint in [true, false] {
        let node = bigchaindb();
        let place = Place::new();
        let [create, spends @ ..] = spent_twice();
        let file = |name: &str, lines: &[String]| {
            place.write(name, lines.join("\n"));
            let tendermint = if names_tendermint {
                format!("--tendermint {}", node.url())
            } else {
                String::new()
            };
            format!(
                "flood --workload file:{name} --file-format raw --count {0} --concurrency {0} --target bigchaindb \
                 --drain-timeout 2s --endpoints {1} --out {name}-run {tendermint}",
                lines.len(),
                api(&node)
            )
        };
        place.txgen(&file("create", &[create])).expect(0);
        node.faults().halt();
        let running = place.start(&file("spends", &spends));
        while node.snapshot().mempool_txs < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        node.faults().resume();
        running.wait();
        let summary = place.run("spends-run").summary();
        let count = |fate: &str| summary.count(&format!("fate.{fate}"));
        let fates = ["committed", "commit_failed", "pending"].map(count);
        if names_tendermint {
            assert_eq!(fates, [1, 1, 0]);
        } else {
            // When the API's block is read depends on the drain.
            assert!(fates[1] == 0 && fates[2] > 0, "{fates:?}");
        }
    }
}

#[test]
fn a_tendermint_that_cannot_be_followed_is_an_error_before_the_load() {
    let node = bigchaindb();
    let place = Place::new();
    for (tendermint, problem) in [
        (node.url().replace("http", "ws"), "give its http:// address"),
        ("http://me:secret@127.0.0.1:1".into(), "without them"),
        ("http://127.0.0.1:1".into(), "--tendermint"),
        ("nowhere:x".into(), "--tendermint"),
    ] {
        let line = format!(
            "flood --count 1 --concurrency 1 --target bigchaindb --endpoints {} --tendermint {tendermint}",
            api(&node)
        );
        place.txgen(&line).expect(2).says(problem);
    }
}

#[test]
fn a_node_that_refuses_the_outputs_ends_the_run_before_the_load() {
    let config = Config {
        mempool: devnode::MempoolConfig {
            size: 5,
            ..Default::default()
        },
        block_interval: Duration::from_millis(700),
        ..Config::default()
    };
    let kind = &BigchaindbKind;
    let node = Node::start(Blueprint { kind, config });
    let place = Place::new();
    let ended = place.txgen(&format!(
        "flood --count 100 --concurrency 8 --workload bigchaindb-transfer --out run --drain-timeout 3s \
         --endpoints {}",
        node.url()
    ));
    ended.expect(1);
    assert!(
        ended.err.contains("of the 100 transactions"),
        "{}",
        ended.err
    );
    assert!(place.path().join("run/preparation/summary.json").exists());
}

#[test]
fn without_endpoints_a_built_in_bigchaindb_is_started() {
    let place = Place::new();
    let runs = [
        ("rpc", "--workload bigchaindb-create"),
        ("api", "--target bigchaindb --broadcast-tx-method async"),
        ("commit", "--target bigchaindb --broadcast-tx-method commit"),
    ];
    let running = runs.map(|(run, flags)| {
        let line = format!("flood --count 40 --concurrency 20 {flags} --out {run}");
        (run, place.start(&line))
    });
    for (run, running) in running {
        let ended = running.wait();
        ended.expect(0);
        assert!(
            ended.err.contains("built-in BigchainDB node"),
            "{}",
            ended.err
        );
        place.run(run).summary().assert_all_committed(40);
    }
}

#[test]
fn a_scenario_file_says_the_same() {
    let place = Place::new();
    place.write(
        "chains.toml",
        "[flood]\nconcurrency = 4\ncount = 40\n[settings]\ntarget = \"bigchaindb\"\n\
         workload = \"bigchaindb-transfer\"\nchain_depth = 1\nsigning_threads = 2\nsize = 10\n\
         out = \"run\"\n[settings.bigchaindb]\nsigners = 2\nmetadata = '{\"a\": 1}'\n",
    );
    place.txgen("run chains.toml").expect(0);
    place.run("run").summary().assert_all_committed(40);
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let place = Place::new();
    let node = Node::quick();
    for (flags, words) in [
        ("--signers 2", "needs --workload bigchaindb-create"),
        (
            "--chain-depth 2 --workload bigchaindb-create",
            "transactions spend one another",
        ),
        (
            "--target bigchaindb --workload kvstore",
            "means nothing to a BigchainDB",
        ),
        ("--target bigchaindb --transport ws", "over http or https"),
        (
            "--workload bigchaindb-create --metadata [1]",
            "is no JSON object",
        ),
        ("--workload bigchaindb-create --signers 101", "1 to 100"),
        (
            "--workload bigchaindb-create --size 2000000",
            "above the node's limit",
        ),
        (
            "--workload bigchaindb-transfer --no-follow",
            "has to be seen in blocks",
        ),
        (
            "--workload bigchaindb",
            "bigchaindb-create, bigchaindb-transfer",
        ),
    ] {
        let ended = place.txgen(&format!("flood --count 5 --out run {flags}"));
        ended.expect(2);
        assert!(ended.err.contains(words), "{flags}: {}", ended.err);
    }
    let endless = place.txgen("ramp --workload bigchaindb-transfer --out run");
    endless.expect(2);
    assert!(
        endless.err.contains("give the load an end"),
        "{}",
        endless.err
    );
    let other = place.txgen(&format!(
        "flood --count 5 --target bigchaindb --out run --endpoints {}",
        node.url()
    ));
    other.expect(2);
    assert!(
        other.err.contains("not BigchainDB's HTTP API"),
        "{}",
        other.err
    );
    assert!(place.contents().is_empty());
}

/// The Python of `.ci/bigchaindb-driver`.
const PYTHON: &str = "BIGCHAINDB_DRIVER_PYTHON";

#[test]
#[ignore = "needs bigchaindb_driver"]
fn the_python_driver_creates_transfers_fetches_and_listens() {
    let python = std::env::var(PYTHON).unwrap_or_else(|_| {
        panic!("set {PYTHON} to what .ci/bigchaindb-driver prints");
    });
    let place = Place::new();
    let node = place.start(
        "devnode --app bigchaindb --listen 127.0.0.1:0 --api 127.0.0.1:0 --events 127.0.0.1:0 \
         --set block_interval=50ms",
    );
    // The last line that it prints.
    wait_until("the node listens", || {
        let out = node.out_so_far();
        out.contains("events ") && out.ends_with('\n')
    });
    let out = node.out_so_far();
    let url = |name: &str| {
        let line = out.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/driver/flow.py");
    let flow = Command::new(python)
        .args([script, &url("api"), &url("events")])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&flow.stdout);
    let error = String::from_utf8_lossy(&flow.stderr);
    assert!(flow.status.success(), "{text}\n{error}");
    assert_eq!(text.trim(), "ok");
}
