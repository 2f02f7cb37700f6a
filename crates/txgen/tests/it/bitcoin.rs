//! Bitcoin loads from a wallet of their own, over JSON-RPC.

use std::time::Duration;

use chain_bitcoin::fixture::{BitcoinConfig, BitcoinKind, PEERS};
use devnode::{AdmissionMode, Blueprint, Config, MempoolConfig};
use serde_json::{Value, json};
use testkit::Http;

use crate::support::{Node, Place, quick, wait_until};

/// Blocks only when they are asked for.
const NEVER: Duration = Duration::from_secs(100_000);

/// A Bitcoin node that pays its blocks to the wallet with the default seed.
pub(crate) fn node(place: &Place, change: impl FnOnce(&mut Config)) -> Node {
    let address = place.txgen("bitcoin address");
    address.expect(0);
    let mut config = Config {
        block_interval: quick().block_interval,
        ..Blueprint::of(&BitcoinKind).config
    }
    .with(BitcoinConfig {
        mining_address: Some(address.out.trim().to_owned()),
        ..BitcoinConfig::default()
    });
    change(&mut config);
    let kind = &BitcoinKind;
    Node::start(Blueprint { kind, config })
}

pub(crate) fn url(node: &Node) -> String {
    format!("http://txgen:txgen@{}", node.rpc_address())
}

fn call(node: &Node, method: &str, params: &Value) -> Value {
    let http = Http::new(node.rpc_address(), Duration::from_secs(30));
    let request = json!({"jsonrpc": "1.0", "id": 1, "method": method, "params": params});
    // txgen:txgen
    let headers = [("Authorization", "Basic dHhnZW46dHhnZW4=")];
    let answer = http
        .request("POST", "/", &headers, request.to_string().as_bytes())
        .unwrap();
    let mut answer: Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!(answer["error"], Value::Null, "{method}");
    answer["result"].take()
}

/// The lines of a wallet file that are coins.
fn coins(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.starts_with(['#', 'o']));
    lines.collect()
}

#[test]
fn a_load_needs_nothing_but_the_workload_and_loses_no_satoshi() {
    let place = Place::new();
    for (run, more) in [
        ("one", ""),
        ("batches", "--batch 20"),
        ("parallel", "--admission parallel --validators 2"),
        ("chains", "--chain-depth 5 --shape 1in1out"),
        ("some-chains", "--chain-depth 5:40%"),
        ("fans", "--chain-depth 2 --shape fan:5 --signing-threads 3"),
    ] {
        let ended = place.txgen(&format!(
            "flood --count 200 --concurrency 4 --workload bitcoin --out {run} {more}"
        ));
        ended.expect(0).prints("wallet ").prints("funded ");
        assert!(!ended.printed("NOT conserved"), "{ended}");
        let folder = place.run(run);
        folder.summary().assert_all_committed(200);
        let summary = folder.summary();
        assert_eq!(
            summary.count("reconnects.broken"),
            0,
            "each answer ends its connection"
        );
        assert_eq!(summary.count("recorder.reorganised_blocks"), 0);
    }
    let of = |run: &str| place.run(run).table("txs.csv").numbers("size");
    assert!(of("one").iter().all(|size| (370..=374).contains(size)));
    assert!(of("fans").iter().all(|size| (324..=328).contains(size)));
}

#[test]
fn what_spends_a_refused_transaction_is_dead_and_no_refusal_of_the_node() {
    let place = Place::new();
    let node = node(&place, |config| {
        config.block_interval = NEVER;
        config.mempool = MempoolConfig {
            size: 20,
            ..MempoolConfig::default()
        };
    });
    // 20 chains: the first links fill the mempool, the second ones are refused.
    let ended = place.txgen(&format!(
        "flood --count 200 --concurrency 2 --workload bitcoin --chain-depth 10 --drain-timeout 5s --out run \
         --endpoints {}",
        url(&node)
    ));
    ended.prints("160 spent what had been refused");
    let summary = place.run("run").summary();
    assert_eq!(summary.count("fate.accepted"), 20);
    assert_eq!(summary.count("fate.rejected"), 20);
    assert_eq!(summary.count("fate.rejected_by_code.mempool/26"), 20);
    assert_eq!(summary.count("fate.errors_by_kind.dead"), 160);
}

#[test]
fn of_conflicting_transactions_the_node_takes_one() {
    let place = Place::new();
    for admission in ["serial", "parallel"] {
        let ended = place.txgen(&format!(
            "flood --count 300 --concurrency 1 --workload bitcoin --conflict-ratio 20% --orphan-ratio 0.1 \
             --seed 4 --admission {admission} --out {admission}"
        ));
        ended.expect(0);
        assert!(!ended.printed("NOT conserved"), "{ended}");
        let summary = place.run(admission).summary();
        let (accepted, refused) = (
            summary.count("fate.accepted"),
            summary.count("fate.rejected"),
        );
        assert_eq!(accepted + refused, 300);
        assert!(
            (60..=120).contains(&refused),
            "{refused} of 300 with 30 % odd ones"
        );
        assert!(summary.count("fate.rejected_by_code.-25") > 0, "orphans");
        assert!(summary.count("fate.rejected_by_code.-26") > 0, "conflicts");
        assert_eq!(summary.count("fate.committed"), accepted);
    }
}

#[test]
fn a_wallet_is_prepared_spent_rebuilt_and_gathered() {
    let place = Place::new();
    let node = node(&place, |_| ());
    let url = url(&node);
    let prepare = format!("bitcoin prepare --endpoints {url} --utxos 100 --wallet w.csv");
    place
        .txgen(&prepare)
        .expect(0)
        .prints("101 confirmed coins");
    place.txgen(&prepare).expect(2).says("exists already");
    let before = place.path().join("w.csv");
    let before = std::fs::read_to_string(&before).unwrap();
    assert_eq!(
        coins(&before).len(),
        101,
        "the last one is what was left over"
    );

    let load = |wallet: &str, out: &str| {
        place.txgen(&format!(
            "flood --count 40 --concurrency 4 --workload bitcoin --wallet {wallet} --out {out} --endpoints {url}"
        ))
    };
    load("w.csv", "first").expect(0);
    place.run("first").summary().assert_all_committed(40);
    let after = std::fs::read_to_string(place.path().join("w.csv")).unwrap();
    assert_eq!(after, place.run("first").text("wallet-after.csv"));
    assert_ne!(after, before);
    let value = |text: &str| -> u64 {
        let values = coins(text)
            .into_iter()
            .map(|line| line.split(',').nth(1).unwrap());
        values.map(|value| value.parse::<u64>().unwrap()).sum()
    };
    assert_eq!(
        value(&after) + 40 * 2 * 374,
        value(&before),
        "two satoshi a byte"
    );

    // The coins of the first run are gone: the old file says so before anything is sent.
    place.write("old.csv", &before);
    load("old.csv", "old").expect(1).says("spent elsewhere");
    place.write("short.csv", &after[..after.len() / 2]);
    load("short.csv", "short").expect(2).says("is damaged");
}

#[test]
fn a_wallet_of_another_chain_is_refused() {
    let place = Place::new();
    let node = node(&place, |_| ());
    let body = "# {\"format\":\"tidegate-bitcoin-wallet/1\",\"chain\":\"00ff\",\"seed\":1,\"digest\":\"legacy\"}\noutpoint,value,key,state";
    let sum = place.shell(&format!("printf '%s' '{body}' | sha256sum | cut -c1-64"));
    place.write("w.csv", format!("{body}\n# sha256 {}\n", sum.out.trim()));
    place
        .txgen(&format!(
            "flood --count 1 --workload bitcoin --wallet w.csv --out run --endpoints {}",
            url(&node)
        ))
        .expect(2)
        .says("is of the chain that begins with block 00ff");
}

#[test]
fn a_node_that_cannot_be_loaded_is_named_with_what_to_do() {
    let place = Place::new();
    let node = node(&place, |config| {
        config.sections.change(|own: &mut BitcoinConfig| {
            own.mining_address = None;
            own.min_relay_fee = 5_000;
        });
    });
    let load = |url: &str, more: &str| {
        place.txgen(&format!(
            "flood --count 10 --workload bitcoin --out run --endpoints {url} {more}"
        ))
    };
    let address = node.rpc_address();
    load(&format!("http://{address}"), "")
        .expect(2)
        .says("write them into the URL");
    load(&format!("http://txgen:wrong@{address}"), "")
        .expect(2)
        .says("refuses the user or the password");
    load(&url(&node), "").expect(2).says("use --fee-rate 5");
    let ended = load(&url(&node), "--fee-rate 5");
    ended.expect(2).says("start it with --miningaddr=m");
    for text in [&ended.out, &ended.err] {
        assert!(
            !text.contains("txgen:txgen"),
            "the password is shown: {ended}"
        );
    }
}

/// Once a block with a transaction of the run is in its account, that one is taken back.
fn take_back_what_is_committed(node: &Node, out_so_far: impl Fn() -> String) {
    let committed = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        line["totals"]["committed"].as_u64().unwrap_or_default() > 0
    };
    wait_until("a commit", || out_so_far().lines().any(committed));
    let tip = call(node, "getblockcount", &json!([])).as_u64().unwrap();
    let block = (1..=tip).rev().find_map(|height| {
        let hash = call(node, "getblockhash", &json!([height]));
        let block = call(node, "getblock", &json!([hash]));
        // Before the run come blocks with nothing but a coinbase.
        (block["tx"].as_array()?.len() < 2 && height < tip).then_some((height + 1, tip))
    });
    let (height, _) = block.unwrap();
    let hash = call(node, "getblockhash", &json!([height]));
    call(node, "invalidateblock", &json!([hash]));
}

#[test]
fn a_reorganisation_takes_committed_transactions_back_and_degrades_the_run() {
    let place = Place::new();
    let node = node(&place, |_| ());
    let running = place.start(&format!(
        "constant --rate 50 --duration 6s --workload bitcoin --report-interval 200ms --out run --endpoints {}",
        url(&node)
    ));
    take_back_what_is_committed(&node, || running.out_so_far());
    let ended = running.wait();
    let summary = place.run("run").summary();
    assert!(summary.count("recorder.reorganised_blocks") > 0, "{ended}");
    // A busy machine may make it invalid besides.
    let told = |reason: &&str| {
        reason.starts_with("degraded: ") && reason.contains("use more --confirmations")
    };
    assert!(summary.list("verdict.reasons").iter().any(told), "{ended}");
    assert_eq!(
        summary.count("fate.committed"),
        300,
        "all are in the new blocks"
    );
}

#[test]
fn parallel_admission_is_a_setting_of_the_built_in_node_alone() {
    let place = Place::new();
    let node = node(&place, |config| {
        config.admission.mode = Some(AdmissionMode::Parallel);
    });
    for (line, phrase) in [
        (
            format!(
                "--workload bitcoin --admission serial --endpoints {}",
                url(&node)
            ),
            "applies to the built-in node",
        ),
        (
            "--admission parallel".into(),
            "--admission needs --target bitcoin",
        ),
        (
            "--workload bitcoin --validators 2".into(),
            "add --admission parallel",
        ),
        ("--batch 2".into(), "--batch needs --target bitcoin"),
        ("--wallet x".into(), "--wallet needs --workload bitcoin"),
        (
            "--workload bitcoin --target cometbft".into(),
            "leave out --target",
        ),
        (
            "--target bitcoin --workload kvstore".into(),
            "use --workload bitcoin",
        ),
        (
            "--workload bitcoin --shape 7in".into(),
            "use 2in2out, 1in1out or fan:2",
        ),
        (
            "--workload bitcoin --wallet nowhere.csv".into(),
            "the wallet nowhere.csv cannot be read",
        ),
        (
            "--workload bitcoin --conflict-ratio 60% --orphan-ratio 50%".into(),
            "at most 90 %",
        ),
        (
            "--workload bitcoin --rows none".into(),
            "has to be all with --workload bitcoin",
        ),
        (
            "--workload bitcoin --chain-depth 10001".into(),
            "at most 10000",
        ),
        (
            "--workload bitcoin --chain-depth 2:60%".into(),
            "is not possible",
        ),
        ("--workload bitcoin --transport ws".into(), "not over ws"),
    ] {
        let ended = place.txgen(&format!("flood --count 10 --out run {line}"));
        ended.expect(2).says(phrase);
    }
}

#[test]
#[ignore = "needs btcd"]
fn two_btcds_of_a_scenario_take_a_load_and_mine_it() {
    let place = Place::new();
    let scenario = r#"
        [node]
        kind = "btcd"
        nodes = 2
        [[phases]]
        profile = "constant"
        rate = "100/s"
        duration = "4s"
        [settings]
        workload = "bitcoin"
        [settings.bitcoin]
        batch = 10
        mine_every = "500ms"
    "#;
    place.write("btcd.toml", scenario);
    let ended = place.txgen("run btcd.toml --out run");
    let summary = place.run("run").summary();
    ended.ends_as_judged(0, &summary);
    summary.assert_all_committed(400);
    assert_eq!(
        summary.count("reconnects.broken"),
        0,
        "each answer ends its connection"
    );
    ended.prints("funded ");
    place.txgen("analyse run").expect(0).prints("accepted ");
}

#[test]
fn a_node_is_observed_among_its_peers_while_its_rpc_takes_the_load() {
    let place = Place::new();
    let node = node(&place, |config| {
        config.sections.change(|own: &mut BitcoinConfig| {
            own.p2p_listen = Some(([127, 0, 0, 1], 0).into());
            own.trickle = Duration::from_millis(5);
        });
    });
    let peers = format!("bitcoin-p2p://{}", node.address(PEERS).unwrap());
    let ended = place.txgen(&format!(
            "constant --rate 50/s --duration 3s --workload bitcoin --endpoints {} --observe among={peers} --out run",
            url(&node)
        ));
    let run = place.run("run");
    ended.ends_as_judged(0, &run.summary());
    run.summary().assert_all_committed(150);
    let sights = run.text("sights.csv");
    assert!(sights.contains("among"), "{sights}");
    let nodes = run.text("nodes.csv");
    assert!(nodes.contains("among"), "{nodes}");
}

#[test]
fn a_load_over_the_protocol_of_peers_is_refused_with_what_to_use_instead() {
    let place = Place::new();
    place
        .txgen("flood --count 5 --concurrency 1 --workload bitcoin --endpoints bitcoin-p2p://127.0.0.1:1")
        .expect(2)
        .says("give the node's JSON-RPC")
        .says("--observe");
}
