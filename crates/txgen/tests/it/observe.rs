//! Many nodes recorded on the run's clock, with a load and without.

use std::collections::BTreeSet;
use std::fs;

use chain_bitcoin::fixture::{BitcoinConfig, BitcoinKind};
use devnode::Blueprint;
use rustix::process::Signal;
use testkit::{CometBft, CometOptions};

use crate::support::{Node, Place, quick, wait_until};

/// A Bitcoin node that pays its blocks to the wallet with the default seed.
fn bitcoin(place: &Place) -> Node {
    let address = place.txgen("bitcoin address");
    let config = quick().with(BitcoinConfig {
        mining_address: Some(address.expect(0).out.trim().to_owned()),
        ..BitcoinConfig::default()
    });
    Node::start(Blueprint::from(config).for_kind(&BitcoinKind))
}

fn url(node: &Node) -> String {
    format!("http://txgen:txgen@{}", node.rpc_address())
}

#[test]
fn a_load_shows_at_the_node_it_goes_to_and_not_at_one_of_another_network() {
    let place = Place::new();
    let (loaded, other) = (bitcoin(&place), bitcoin(&place));
    let ended = place.txgen(&format!(
        "constant --rate 500/s --duration 4s --workload bitcoin --batch 20 --out run --endpoints {} \
         --observe loaded={},pid={} --observe other={}",
        url(&loaded),
        url(&loaded),
        std::process::id(),
        url(&other)
    ));
    let run = place.run("run");
    ended.ends_as_judged(0, &run.summary());
    ended
        .prints("observed     loaded: ")
        .prints("observed     other: ");
    let nodes = run.table("nodes.csv");
    let of = |node: &str, column: &str| -> Vec<String> {
        let rows = nodes.column("node").zip(nodes.column(column));
        rows.filter(|(name, _)| *name == node)
            .map(|(_, field)| field.to_owned())
            .collect()
    };
    assert!(
        of("loaded", "cpu")
            .iter()
            .skip(1)
            .all(|cores| !cores.is_empty()),
        "its process is this one"
    );
    assert!(
        of("other", "cpu").iter().all(String::is_empty),
        "nobody said which its process is"
    );
    assert_eq!(of("loaded", "second"), of("other", "second"));
    let sights = run.table("sights.csv");
    let seen = |kind: &str| -> BTreeSet<&str> {
        let rows = sights.column("kind").zip(sights.column("node"));
        rows.filter(|(what, _)| *what == kind)
            .map(|(_, node)| node)
            .collect()
    };
    assert_eq!(seen("block"), BTreeSet::from(["loaded", "other"]));
    assert_eq!(seen("tx"), BTreeSet::from(["loaded"]));
    let manifest = run.manifest();
    let observed = manifest["plan"]["observe"].as_array().unwrap();
    assert_eq!(observed.len(), 2);
    assert!(
        !observed[0].to_string().contains("txgen:txgen"),
        "passwords stay out: {observed:?}"
    );
    assert!(run.text("report.html").contains("Rates at loaded"));
    place
        .txgen("analyse run")
        .expect(0)
        .prints("admitted by loaded")
        .prints("first sight loaded");
}

#[test]
fn nodes_are_recorded_without_a_load() {
    let place = Place::new();
    let node = Node::quick();
    let line = format!("record --observe a={} --duration 3s --out idle", node.url());
    place
        .txgen(&line)
        .expect(0)
        .prints("a: ")
        .prints("written to idle");
    let recorded = place.run("idle");
    let rows = recorded.table("nodes.csv");
    assert!(rows.numbers("second").len() >= 2);
    assert!(rows.sum("answered") > 0 && rows.sum("blocks") > 0);
    place
        .txgen("analyse idle")
        .expect(0)
        .prints("first sight a: ");
    place
        .txgen("record")
        .expect(2)
        .says("there is nothing to observe");
    // The rows of both would be those of one.
    place
        .txgen(&format!(
            "record --observe a={0} --observe a={0}",
            node.url()
        ))
        .expect(2)
        .says("names two nodes a; give each its own name");
}

/// The page of a recording: written with it, and made again from its files.
#[test]
fn a_recording_has_a_page_of_its_nodes_beside_one_another() {
    let place = Place::new();
    let (one, two) = (Node::quick(), Node::quick());
    place
        .txgen(&format!(
            "record --observe one={},pid={} --observe two={} --duration 3s --out idle",
            one.url(),
            std::process::id(),
            two.url()
        ))
        .expect(0)
        .prints("report: idle/report.html");
    let page = place.run("idle").text("report.html");
    for part in [
        "Recorded: one, two",
        "<b>2 nodes</b> recorded for 3",
        "In each node",
        "Rates at two",
        "Processors at one",
        "Blocks: later than at the first node",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(
        !page.contains("Processors at two"),
        "nobody said which its process is"
    );
    fs::remove_file(place.path().join("idle/report.html")).unwrap();
    place
        .txgen("report idle")
        .expect(0)
        .prints("idle/report.html");
    assert_eq!(place.run("idle").text("report.html"), page);
    place
        .txgen("report idle --format md")
        .expect(2)
        .says("its report is a page; leave --format out");
    place
        .txgen("compare idle idle")
        .expect(2)
        .says("it is a recording without a load");
    // A recording that was killed has written no end.
    let note = place.path().join("idle/record.json");
    let text = fs::read_to_string(&note).unwrap();
    let mut killed: serde_json::Value = serde_json::from_str(&text).unwrap();
    killed.as_object_mut().unwrap().remove("lasted_s");
    fs::write(&note, killed.to_string()).unwrap();
    place.txgen("report idle").expect(0);
    let page = place.run("idle").text("report.html");
    assert!(page.contains("the recording was killed"), "{page}");
    // `analyse` looked at the tables alone.
    killed["format"] = "tidegate-record/9".into();
    for (text, phrase) in [
        (killed.to_string(), "is of format \"tidegate-record/9\""),
        (String::new(), "in idle/record.json"),
    ] {
        fs::write(&note, text).unwrap();
        place.txgen("analyse idle").expect(2).says(phrase);
        place
            .txgen("analyse idle --with idle")
            .expect(2)
            .says(phrase);
        place.txgen("report idle").expect(1).says(phrase);
    }
}

/// The folder of a recording that could not begin was left behind, and refused when the node was there.
#[test]
fn a_recording_that_cannot_begin_leaves_no_folder() {
    let place = Place::new();
    place
        .txgen("record --observe a=http://127.0.0.1:9 --duration 1s --out rec")
        .expect(1)
        .says("does not answer");
    assert_eq!(place.contents(), Vec::<String>::new());
}

/// Two observers of one machine, as on two machines, of a load that is neither's.
#[test]
fn observers_without_a_load_sample_the_same_transactions_and_are_put_on_one_clock() {
    let place = Place::new();
    let node = bitcoin(&place);
    let start = |out: &str| {
        place.start(&format!(
            "record --target bitcoin --observe a={} --out {out}",
            url(&node)
        ))
    };
    let observers = [start("one"), start("two")];
    let rows = |run: &str, kind: &str| -> BTreeSet<String> {
        let text =
            fs::read_to_string(place.path().join(run).join("sights.csv")).unwrap_or_default();
        let of_kind = text.lines().filter(|line| line.starts_with(kind));
        of_kind
            .map(|line| line.split(',').nth(1).unwrap().to_owned())
            .collect()
    };
    let both = |kind: &str| rows("one", kind).len().min(rows("two", kind).len());
    wait_until("blocks at both", || both("block") > 2);
    place
        .txgen(&format!(
            "flood --count 640 --concurrency 8 --workload bitcoin --out load --endpoints {}",
            url(&node)
        ))
        .expect(0);
    let txs = place.run("load").table("txs.csv");
    let own: BTreeSet<String> = txs.column("txid").map(str::to_owned).collect();
    let sampled = |id: &&String| {
        let bytes: Vec<u64> = (0..8)
            .map(|at| u64::from_str_radix(&id[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | byte)
            .is_multiple_of(64)
    };
    let wanted: BTreeSet<String> = own.iter().filter(sampled).cloned().collect();
    wait_until("all that is sampled of the load at both", || {
        ["one", "two"]
            .iter()
            .all(|observer| wanted.is_subset(&rows(observer, "tx")))
    });
    for observer in observers {
        observer.signal(Signal::INT);
        observer.wait();
    }
    for observer in ["one", "two"] {
        let seen = rows(observer, "tx");
        assert!(seen.iter().all(|id| sampled(&id)), "{seen:?}");
    }
    place
        .txgen("analyse one --with two --max-clock-offset 1h")
        .expect(0)
        .prints("blocks that nodes showed to both");
    place
        .txgen("analyse load --with idle")
        .expect(2)
        .says("it is no folder of a run or of txgen record");
}

#[test]
fn what_cannot_be_observed_is_said_before_anything_is_sent() {
    let place = Place::new();
    let node = Node::quick();
    let run = |observe: &str| {
        let line = format!(
            "constant --rate 10/s --duration 1s --endpoints {} {observe}",
            node.url()
        );
        place.txgen(&line)
    };
    run("--observe a=http://127.0.0.1:1")
        .expect(1)
        .says("the node a that is to be observed does not answer");
    run(&format!("--observe a={0} --observe a={0}", node.url()))
        .expect(2)
        .says("names two nodes a");
    run("--observe a")
        .expect(2)
        .says("name=URL[,peer=bitcoin-p2p://HOST:PORT][,pid=PID][,metrics=URL]");
    run(&format!("--observe a={},pid=4194305", node.url()))
        .expect(1)
        .says("has no process 4194305");
    assert!(node.committed().is_empty());
    place
        .txgen("constant --rate 10/s --duration 1s --discover 2")
        .expect(2)
        .says("give --endpoints");
}

const NETWORK: &str = r#"
    [node]
    kind = "KIND"
    nodes = 3
    [node.cometbft]
    [[phases]]
    profile = "constant"
    rate = "100/s"
    duration = "6s"
    [settings]
    workload = "WORKLOAD"
"#;

/// All nodes of a network that a scenario starts are recorded, with their processes.
fn network(kind: &str, workload: &str, more: &str) {
    let place = Place::new();
    let text = NETWORK.replace("KIND", kind).replace("WORKLOAD", workload);
    place.write("network.toml", format!("{text}{more}"));
    let ended = place.txgen("run network.toml --out run --no-tui");
    let run = place.run("run");
    ended.ends_as_judged(0, &run.summary());
    run.summary().assert_all_committed(600);
    let names = BTreeSet::from(["node-0", "node-1", "node-2"]);
    let nodes = run.table("nodes.csv");
    assert_eq!(nodes.column("node").collect::<BTreeSet<_>>(), names);
    assert!(nodes.column("rss_bytes").all(|bytes| !bytes.is_empty()));
    let sights = run.table("sights.csv");
    let rows = sights.column("kind").zip(sights.column("node"));
    let blocks: BTreeSet<&str> = rows
        .filter(|(kind, _)| *kind == "block")
        .map(|(_, node)| node)
        .collect();
    assert_eq!(blocks, names, "each has every block");
    for number in 0..3 {
        assert!(fs::metadata(run.path().join(format!("node-{number}.log"))).is_ok());
    }
    place
        .txgen("analyse run")
        .expect(0)
        .prints("first sight node-2: ");
}

#[test]
#[ignore = "needs cometbft"]
fn validators_of_a_scenario_are_recorded_each() {
    network("cometbft", "kvstore", "");
}

#[test]
#[ignore = "needs btcd"]
fn btcds_of_a_scenario_are_recorded_each() {
    network(
        "btcd",
        "bitcoin",
        "[settings.bitcoin]\nbatch = 10\nmine_every = \"500ms\"\n",
    );
}

/// Three validators find one another through `net_info` of the first.
#[test]
#[ignore = "needs cometbft"]
fn a_network_is_found_from_one_of_its_nodes() {
    let network = CometBft::network(&CometOptions::default(), 3).unwrap();
    let place = Place::new();
    let first = network[0].rpc_url();
    place
        .txgen(&format!(
            "record --from {first} --discover 3 --duration 2s --out found"
        ))
        .expect(0)
        .prints("node-2: ");
}
