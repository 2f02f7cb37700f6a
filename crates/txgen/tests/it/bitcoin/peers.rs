//! The same among peers, where nothing is answered: `--target bitcoin-p2p`.

use std::env;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use devnode::Config;
use servers::{Btcd, BtcdOptions, Wait};

use super::{node, take_back_what_is_committed, url};
use crate::support::{Node, Place};

/// A node that listens for peers too, and its URL for them.
pub(crate) fn peered(place: &Place, change: impl FnOnce(&mut Config)) -> (Node, String) {
    let node = node(place, |config| {
        config.bitcoin.p2p_listen = Some(([127, 0, 0, 1], 0).into());
        config.bitcoin.trickle = Duration::from_millis(5);
        change(config);
    });
    let peers = format!("bitcoin-p2p://{}", node.peers_address().unwrap());
    (node, peers)
}

#[test]
fn a_load_among_peers_needs_nothing_but_the_target_and_loses_no_satoshi() {
    let place = Place::new();
    for (run, more) in [
        ("one", ""),
        ("parallel", "--admission parallel --validators 2"),
        ("chains", "--chain-depth 5 --shape 1in1out"),
    ] {
        let ended = place.txgen(&format!(
            "flood --count 200 --concurrency 4 --workload bitcoin --target bitcoin-p2p --out {run} {more}"
        ));
        ended.expect(0).says("over bitcoin-p2p").prints("funded ");
        assert!(!ended.printed("NOT conserved"), "{ended}");
        place.run(run).summary().assert_all_committed(200);
        let manifest = place.run(run).manifest();
        let acceptance = manifest["plan"]["acceptance"].as_str().unwrap();
        assert!(
            acceptance.contains("first announcement (inv)"),
            "{acceptance}"
        );
    }
    place
        .txgen("flood --count 20 --concurrency 4 --workload bitcoin --out answered")
        .expect(0);
    let answered = place.run("answered").manifest();
    assert!(
        answered["plan"].get("acceptance").is_none(),
        "there are answers: {answered}"
    );
}

#[test]
fn among_peers_what_is_never_announced_is_no_refusal_of_the_node() {
    let place = Place::new();
    let (node, peers) = peered(&place, |_| ());
    let ended = place.txgen(&format!(
        "flood --count 300 --concurrency 1 --workload bitcoin --conflict-ratio 20% --seed 4 --drain-timeout 4s \
         --endpoints {peers} --bitcoin-rpc {} --out run",
        url(&node)
    ));
    assert!(!ended.printed("NOT conserved"), "{ended}");
    let summary = place.run("run").summary();
    let (accepted, unanswered) = (
        summary.count("fate.accepted"),
        summary.count("fate.unanswered"),
    );
    assert_eq!(
        (accepted + unanswered, summary.count("fate.rejected")),
        (300, 0)
    );
    assert!(
        (30..=90).contains(&unanswered),
        "{unanswered} of 300 with 20 % conflicts"
    );
    assert_eq!(summary.count("fate.committed"), accepted);
    // The node said so, too, on the connection that sends.
    ended.prints("0x12: output already spent in mempool");
    // The winners of conflicts are in blocks: nothing is unknown of any coin.
    assert!(
        !place
            .run("run")
            .text("wallet-after.csv")
            .contains(",doubtful")
    );
}

#[test]
fn among_peers_a_reorganisation_takes_committed_transactions_back() {
    let place = Place::new();
    let (node, peers) = peered(&place, |_| ());
    let running = place.start(&format!(
        "constant --rate 50 --duration 6s --workload bitcoin --report-interval 200ms --out run --endpoints {peers} \
         --bitcoin-rpc {}",
        url(&node)
    ));
    take_back_what_is_committed(&node, || running.out_so_far());
    let ended = running.wait();
    let summary = place.run("run").summary();
    assert!(summary.count("recorder.reorganised_blocks") > 0, "{ended}");
    assert_eq!(
        summary.count("fate.committed"),
        300,
        "all are in the new blocks"
    );
}

#[test]
fn a_load_among_peers_says_what_it_needs_json_rpc_for() {
    let place = Place::new();
    let (node, peers) = peered(&place, |_| ());
    let load = |more: &str| {
        place.txgen(&format!(
            "flood --count 20 --concurrency 2 --workload bitcoin --out run --endpoints {more}"
        ))
    };
    load(&peers)
        .expect(2)
        .says("peers cannot be asked for any: give --wallet");
    load(&format!("{peers} --wallet w.csv --mine-every 1s"))
        .expect(2)
        .says("--mine-every needs the node's JSON-RPC");
    load(&format!("{peers} --batch 5 --bitcoin-rpc {}", url(&node)))
        .expect(2)
        .says("peers send transactions one by one");
    load(&format!("{} --bitcoin-rpc {}", url(&node), url(&node)))
        .expect(2)
        .says("--bitcoin-rpc applies to loads on bitcoin-p2p:// endpoints");
    load(&format!("{} --target bitcoin-p2p", url(&node)))
        .expect(2)
        .says("takes bitcoin-p2p:// endpoints alone");
    place
        .txgen(&format!(
            "bitcoin prepare --endpoints {peers} --utxos 10 --wallet w.csv"
        ))
        .expect(2)
        .says("use the URL of its JSON-RPC");
    // A wallet that was prepared over JSON-RPC is all that it needs.
    place
        .txgen(&format!(
            "bitcoin prepare --endpoints {} --utxos 40 --wallet w.csv",
            url(&node)
        ))
        .expect(0);
    load(&format!("{peers} --wallet w.csv"))
        .expect(0)
        .prints("funded ");
    place.run("run").summary().assert_all_committed(20);
}

/// A load among peers on nodes that a scenario starts: their coins come from their JSON-RPC.
fn among_peers_of_a_scenario(node: &str) {
    let place = Place::new();
    let scenario = format!(
        r#"
        [node]
        {node}
        [[phases]]
        profile = "constant"
        rate = "100/s"
        duration = "4s"
        [settings]
        workload = "bitcoin"
        target = "bitcoin-p2p"
        [settings.bitcoin]
        mine_every = "500ms"
    "#
    );
    place.write("peers.toml", scenario);
    let ended = place.txgen("run peers.toml --out run");
    let run = place.run("run");
    ended.ends_as_judged(0, &run.summary()).prints("funded ");
    let endpoint = run.manifest()["endpoints"][0].to_string();
    assert!(endpoint.contains("bitcoin-p2p://"), "{endpoint}");
    run.summary().assert_all_committed(400);
}

#[test]
fn a_built_in_node_that_runs_share_takes_loads_among_peers() {
    among_peers_of_a_scenario("fresh = false\nbuiltin.block_interval = \"200ms\"");
}

#[test]
#[ignore = "needs btcd"]
fn a_btcd_of_a_scenario_takes_loads_among_peers() {
    among_peers_of_a_scenario("kind = \"btcd\"");
}

/// btcd 0.26 announces what it accepts each 10 s unless `--trickleinterval` says otherwise, to the connection that only listens as to any peer.
#[test]
#[ignore = "needs btcd"]
fn a_btcd_takes_a_load_among_peers_and_announces_what_it_accepts() {
    let place = Place::new();
    let address = place.txgen("bitcoin address");
    let options = BtcdOptions {
        binary: env::var_os("BTCD_BIN")
            .map(PathBuf::from)
            .expect("BTCD_BIN names a btcd"),
        mining_address: address.out.trim().to_owned(),
        ..BtcdOptions::default()
    };
    let node = Btcd::start(
        &options,
        &mut Wait {
            timeout: Duration::from_secs(60),
            is_ready: &mut |address| TcpStream::connect(address).is_ok(),
            is_cancelled: &|| false,
        },
    )
    .unwrap();
    let rpc = format!("http://txgen:txgen@{}", node.address());
    let ended = place.txgen(&format!(
        "constant --rate 100/s --duration 4s --workload bitcoin --conflict-ratio 5% --mine-every 1s --out run \
         --endpoints bitcoin-p2p://{} --bitcoin-rpc {rpc}",
        node.peers()
    ));
    assert!(!ended.printed("NOT conserved"), "{ended}");
    let summary = place.run("run").summary();
    let (committed, unanswered) = (
        summary.count("fate.committed"),
        summary.count("fate.unanswered"),
    );
    assert_eq!(committed + unanswered, 400, "{ended}");
    assert!((5..=60).contains(&unanswered), "{ended}");
    assert_eq!(summary.count("reconnects.broken"), 0, "{ended}");
    ended.prints("already spent");
    // The port of its RPC is no place for peers.
    let ended = place.txgen(&format!(
        "flood --count 10 --concurrency 1 --workload bitcoin --out other --endpoints bitcoin-p2p://{} --bitcoin-rpc {rpc}",
        node.address()
    ));
    ended
        .expect(2)
        .says("did not finish the handshake of peers in");
}
