//! `txmesh` from outside: small meshes of real processes, and what they leave.
//!
//! What depends on the machine's speed (rates, latencies, which of them gave first) is asserted nowhere:
//! an exit with 98 is the generator's lateness on a busy machine.

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::{Ended, Place, Running, wait_until};

/// The form of `summary.json`, as it is documented.
const SCHEMA: &str = include_str!("../../../../docs/mesh-summary.schema.json");

pub(crate) fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_txmesh"), "TXMESH_")
}

pub(crate) const SMALL: &str = "--seed 1 --drain-timeout 60s --connect-timeout 60s";

pub(crate) fn summary(place: &Place, run: &str) -> Value {
    let text = fs::read_to_string(place.path().join(run).join("summary.json")).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors = validator.iter_errors(&value);
    let errors: Vec<String> = errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert_eq!(errors, Vec::<String>::new());
    value
}

pub(crate) fn assert_ended_well(ended: &Ended) {
    ended.fits_a_terminal();
    assert!(
        matches!(ended.code, Some(0 | 98)),
        "{:?}: {}{}",
        ended.code,
        ended.out,
        ended.err
    );
}

pub(crate) fn count(summary: &Value, pointer: &str) -> u64 {
    let value = summary.pointer(pointer);
    value
        .and_then(Value::as_u64)
        .unwrap_or_else(|| panic!("{pointer} in {summary}"))
}

#[test]
fn a_small_mesh_sees_every_message_on_every_node_and_its_account_adds_up() {
    let place = place();
    for protocol in ["v9", "v10", "v11"] {
        let line = format!(
            "constant --nodes 3 --rate 20/s --duration 2s --protocol {protocol} --out {protocol} {SMALL}"
        );
        let ended = place.run_to_end(&line);
        assert_ended_well(&ended);
        assert!(ended.printed("came back of 20/s offered"), "{}", ended.out);
        let summary = summary(&place, protocol);
        assert_eq!(summary["format"], "tidegate.mesh/4");
        assert_eq!(summary["conservation"]["violations"], serde_json::json!([]));
        assert_eq!(summary["verdict"]["undrained"], Value::Null, "{protocol}");
        let due = count(&summary, "/conservation/sights_due");
        assert_eq!(
            count(&summary, "/conservation/sights"),
            due,
            "every node saw every message"
        );
        assert_eq!(count(&summary, "/offered/offered"), 40, "20/s for 2 s");
        let written = count(&summary, "/conservation/written");
        assert_eq!(written, count(&summary, "/conservation/read"));
        assert_eq!(
            count(&summary, "/reach/followed"),
            count(&summary, "/reach/seen_by_all")
        );
        assert_eq!(
            count(&summary, "/total/entries"),
            3 * 40,
            "each node counts each entry once"
        );
    }
}

#[test]
fn batches_and_announcements_lose_nothing_and_announcements_send_less() {
    let place = place();
    let run = |name: &str, flags: &str| {
        let line =
            format!("constant --nodes 4 --rate 20/s --duration 2s --out {name} {flags} {SMALL}");
        assert_ended_well(&place.run_to_end(&line));
        let summary = summary(&place, name);
        assert_eq!(
            summary["conservation"]["violations"],
            serde_json::json!([]),
            "{name}"
        );
        assert_eq!(count(&summary, "/total/entries"), 4 * 40, "{name}");
        count(&summary, "/total/bytes_out")
    };
    let flooded = run("flood", "");
    run("batch", "--batch");
    let announced = run("announce", "--announce");
    assert!(
        announced * 2 < flooded,
        "{announced} against {flooded} bytes"
    );
}

/// 64 KiB at 1 Mbit/s take 524 ms; the delay comes on top, and a busy machine only adds to both.
/// One message of 64 KiB is a transaction.
fn large_messages(place: &Place) -> PathBuf {
    place.write(
        "large.toml",
        "name = \"large\"\n[[messages]]\nname = \"page\"\ntype = 1\nsize = 65536\nentries = 1\n\
         [[transactions]]\nname = \"page\"\nweight = 1.0\nmessages = [\"page\"]\n",
    )
}

/// Milliseconds until each of two nodes has seen half of the large messages, under these settings; nothing is lost.
fn delays_of_large_messages(settings: &str) -> [f64; 2] {
    let place = place();
    let mix = large_messages(&place);
    let line = format!(
        "constant --nodes 2 --rate 1/s --duration 2s {settings} --mix {} --out run {SMALL}",
        mix.display()
    );
    assert_ended_well(&place.run_to_end(&line));
    let summary = summary(&place, "run");
    assert_eq!(summary["conservation"]["violations"], serde_json::json!([]));
    assert_eq!(count(&summary, "/total/entries"), 2 * 2);
    [0, 1].map(|node| {
        let millis = &summary["nodes"][node]["latency_ms"]["p50"];
        millis.as_f64().unwrap()
    })
}

#[test]
fn all_nodes_share_a_switch_and_a_slow_one_loses_nothing() {
    let [back, once] = delays_of_large_messages("--switch 1Mbit/s --node-cpu 1=50%");
    assert!(once > 520.0, "once from node 0: {once}");
    assert!(back > 1_040.0, "and back through the same switch: {back}");
}

#[test]
fn a_rate_and_a_delay_of_a_node_hold_back_what_it_writes_and_lose_nothing() {
    let [back, once] = delays_of_large_messages("--node-rate 1Mbit/s,1=2Mbit/s --delay 50ms");
    assert!(once > 570.0, "once from node 0: {once}");
    assert!(back > 880.0, "and back at twice the rate: {back}");
}

#[test]
fn the_run_folder_has_a_row_for_each_second_and_node_and_a_report() {
    let place = place();
    let line = format!("constant --nodes 2 --rate 10/s --duration 2s --out run {SMALL}");
    assert_ended_well(&place.run_to_end(&line));
    let folder = place.path().join("run");
    let series = fs::read_to_string(folder.join("series.csv")).unwrap();
    let mut lines = series.lines();
    let heading: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| heading.iter().position(|it| *it == name).unwrap();
    let (node, offered) = (column("node"), column("offered"));
    let mut of_nodes = [0, 0];
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), heading.len(), "{line}");
        let node: usize = fields[node].parse().unwrap();
        of_nodes[node] += fields[offered].parse::<u64>().unwrap();
    }
    assert_eq!(of_nodes, [20, 0], "node 0 is the generator");
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    for part in [
        "EPS by node",
        "stacked",
        "Parcels and write calls",
        "Duplicates",
        "Evidence",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(folder.join("node-1.log").exists());
}

#[test]
fn a_node_that_is_killed_is_in_the_account_with_what_was_lost() {
    let place = place();
    let line =
        "constant --nodes 3 --rate 50/s --duration 6s --out run --seed 1 --drain-timeout 60s";
    let running = place.start(line);
    // Its first row is there: the load has begun.
    wait_until("a row", || running.err_so_far().contains("EPS host"));
    let err = running.err_so_far();
    let words = err
        .lines()
        .find(|line| line.starts_with("node 2: process "))
        .unwrap();
    let pid: i32 = words.split([' ', ',']).nth(3).unwrap().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let ended = running.wait();
    assert_ended_well(&ended);
    assert!(ended.err.contains("node 2 ended at"), "{}", ended.err);
    let summary = summary(&place, "run");
    assert!(summary["nodes"][2]["ended_s"].is_number());
    assert_eq!(summary["nodes"][1]["ended_s"], Value::Null);
    assert!(
        count(&summary, "/conservation/lost") > 0,
        "what was written to it"
    );
    assert_eq!(summary["conservation"]["violations"], serde_json::json!([]));
    assert_eq!(count(&summary, "/offered/offered"), 300, "the load goes on");
}

/// Where a node of a mesh that has begun to offer listens.
fn address(running: &Running, node: usize) -> SocketAddr {
    wait_until("a row", || running.err_so_far().contains("EPS host"));
    let err = running.err_so_far();
    let head = format!("node {node}: ");
    let words = err.lines().find(|line| line.starts_with(&head)).unwrap();
    words.rsplit(", ").next().unwrap().trim().parse().unwrap()
}

#[test]
fn ten_thousand_connections_that_say_nonsense_or_nothing_do_not_disturb_a_mesh() {
    let place = place();
    let line = format!("constant --nodes 2 --rate 50/s --duration 6s --out run {SMALL}");
    let running = place.start(&line);
    let address = address(&running, 1);
    let mut strangers = Vec::new();
    for number in 0..10_000_u32 {
        let Ok(mut stream) = TcpStream::connect(address) else {
            continue;
        };
        // A length of 4 GiB, a truncated handshake, nothing at all.
        let words: &[u8] = match number % 3 {
            0 => b"pbuf\xff\xff\xff\xff",
            1 => b"pbuf\0\0\0\x1b\x08",
            _ => b"",
        };
        // The node may have closed it already.
        let _ = stream.write_all(words);
        // Some stay for as long as the node lets them.
        if number < 300 {
            strangers.push(stream);
        }
    }
    let ended = running.wait();
    assert_ended_well(&ended);
    let summary = summary(&place, "run");
    assert_eq!(summary["conservation"]["violations"], serde_json::json!([]));
    assert_eq!(
        count(&summary, "/total/entries"),
        2 * 300,
        "the mesh saw everything"
    );
    let refused = count(&summary, "/total/refused");
    assert!(refused > 0, "only so many may be without a handshake");
}

/// Parcels dropped in a second, from its line; none where it is another line.
fn dropped(line: &str) -> u64 {
    let is_second = line
        .trim_start()
        .starts_with(|first: char| first.is_ascii_digit());
    let count = line.split_whitespace().rev().nth(1);
    count
        .filter(|_| is_second)
        .and_then(|count| count.parse().ok())
        .unwrap_or_default()
}

#[test]
fn a_peer_that_never_reads_costs_a_bounded_queue_and_nobody_else_misses_anything() {
    let place = place();
    let mix = place.write(
        "large.toml",
        "name = \"large\"\n[[messages]]\nname = \"page\"\ntype = 1\nsize = 65536\nentries = 1\n\
         [[transactions]]\nname = \"page\"\nweight = 1.0\nmessages = [\"page\"]\n",
    );
    let line = format!(
        "constant --nodes 2 --rate 60/s --duration 6s --queue 200 --mix {} --out run {SMALL}",
        mix.display()
    );
    let running = place.start(&line);
    let mut silent = TcpStream::connect(address(&running, 1)).unwrap();
    // The handshake of a V11 node with number 99 that listens on 9211; then it only keeps the socket.
    let handshake =
        b"pbuf\0\0\0\x13\x08\x08\x10\xc7\x96\xc0\x07\x18\x0b\x20\x63\x2a\x049211\x30\x07";
    silent.write_all(handshake).unwrap();
    wait_until("parcels dropped", || {
        running.err_so_far().lines().any(|line| dropped(line) > 0)
    });
    drop(silent);
    let ended = running.wait();
    assert_ended_well(&ended);
    let summary = summary(&place, "run");
    assert_eq!(summary["conservation"]["violations"], serde_json::json!([]));
    assert_eq!(count(&summary, "/total/entries"), 2 * 360);
    // 360 pages of 64 KiB are 24 MB: more than sockets and a queue of 200 take.
    assert!(count(&summary, "/total/dropped_full") > 0);
}

/// The command line of each of two machines: addresses of 127.0.0.0/8 that no other test has.
fn machines(rate: u32) -> [String; 2] {
    let number = std::process::id();
    let host = |last: u32| format!("127.{}.{}.{last}", 128 + number % 100, number / 100 % 250);
    let start = std::time::SystemTime::now() + std::time::Duration::from_secs(8);
    let start = start
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    [1, 2].map(|part| {
        format!(
            "constant --nodes 4 --rate {rate}/s --duration 2s --hosts {},{} --port 9200 --start-at {start} \
             --shard {part}/2 --out part-{part} --drain-timeout 60s --connect-timeout 60s",
            host(1),
            host(2)
        )
    })
}

#[test]
fn the_parts_of_two_machines_are_one_run_whose_account_adds_up() {
    let place = place();
    let parts = machines(20).map(|line| place.start(&line));
    for (number, part) in (1..).zip(parts) {
        let ended = part.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert!(ended.printed("txmesh merge"), "{}", ended.out);
        let folder = place.path().join(format!("part-{number}"));
        assert!(
            !folder.join("summary.json").exists(),
            "a part does not know what became of its messages"
        );
    }
    let once = place.run_to_end("merge part-1 part-1 --out twice");
    assert_eq!(once.code, Some(2));
    assert!(
        once.err.contains("overlap: both are shard 1/2"),
        "{}",
        once.err
    );
    assert_ended_well(&place.run_to_end("merge part-2 part-1 --out whole"));
    let summary = summary(&place, "whole");
    assert_eq!(summary["conservation"]["violations"], serde_json::json!([]));
    assert_eq!(summary["nodes"].as_array().unwrap().len(), 4);
    assert_eq!(summary["plan"]["hosts"].as_array().unwrap().len(), 2);
    assert_eq!(count(&summary, "/offered/offered"), 40, "20/s for 2 s");
    assert_eq!(
        count(&summary, "/total/entries"),
        4 * 40,
        "on both machines"
    );
    assert_eq!(
        count(&summary, "/conservation/sights"),
        count(&summary, "/conservation/sights_due")
    );
    assert_eq!(
        count(&summary, "/reach/followed"),
        count(&summary, "/reach/seen_by_all")
    );
    assert!(place.path().join("whole/report.html").exists());
}

#[test]
fn parts_of_different_loads_and_runs_of_one_machine_are_not_merged() {
    let place = place();
    let line = format!("constant --nodes 2 --rate 10/s --duration 1s --out whole {SMALL}");
    assert_ended_well(&place.run_to_end(&line));
    let refused = place.run_to_end("merge whole whole --out twice");
    assert_eq!(refused.code, Some(2));
    assert!(
        refused
            .err
            .contains("is no part of a mesh over several machines"),
        "{}",
        refused.err
    );
}
