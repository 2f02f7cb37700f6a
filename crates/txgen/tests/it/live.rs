//! What is seen of a run from outside while it goes on: metrics, and the view on a terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use testkit::{Exposition, Http};

use crate::support::{Behaviour, FakeNode, Place, Running, wait_until};

/// A minute on a built-in node with quick blocks; far longer than any test waits.
const LONG_RUN: &str = "[settings]\ndrain_timeout = \"20s\"\n\
     [builtin]\nblock_interval = \"100ms\"\n\
     [[phases]]\nprofile = \"constant\"\nrate = 300\nduration = \"60s\"\n";

const DOCUMENT: &str = include_str!("../../../../docs/live.md");

fn page(address: SocketAddr) -> String {
    let client = Http::new(address, Duration::from_secs(10));
    let answer = client.get("/metrics").unwrap();
    assert_eq!(answer.status, 200);
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    let text = answer.text();
    assert!(text.ends_with("# EOF\n"), "{text}");
    text
}

/// The metrics of an exposition; of a family the sum.
pub(crate) fn scrape(address: SocketAddr) -> BTreeMap<String, f64> {
    let text = page(address);
    let mut values = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let name = series.split('{').next().unwrap();
        *values.entry(name.to_owned()).or_default() += value.parse::<f64>().unwrap();
    }
    values
}

pub(crate) fn address(running: &Running) -> SocketAddr {
    let find = || {
        let text = running.err_so_far();
        let (_, rest) = text.split_once("metrics  http://")?;
        rest.split_once("/metrics")?.0.parse().ok()
    };
    wait_until("the address of the metrics", || find().is_some());
    find().unwrap()
}

#[test]
fn metrics_are_those_of_the_manual_and_follow_the_run() {
    let place = Place::new();
    place.write("scenario.toml", LONG_RUN);
    let running = place.start("run scenario.toml --out run --metrics 0");
    let address = address(&running);
    let committed = |values: &BTreeMap<String, f64>| {
        values
            .get("txgen_commit_from_due_seconds_count")
            .copied()
            .unwrap_or_default()
    };
    wait_until("commits of a second", || committed(&scrape(address)) > 0.0);
    let first = scrape(address);
    wait_until("more of them", || {
        committed(&scrape(address)) > committed(&first)
    });
    let second = scrape(address);
    for counter in ["sent", "accepted", "committed", "offered"] {
        let name = format!("txgen_{counter}_txs_total");
        assert!(second[&name] > first[&name] && first[&name] > 0.0, "{name}");
    }
    assert!(second["txgen_sent_txs_total"] >= second["txgen_accepted_txs_total"]);
    assert_eq!(second["txgen_planned_rate_txs_per_second"], 300.0);
    assert_eq!(second["txgen_planned_txs"], 18_000.0);
    assert_eq!(second["txgen_planned_duration_seconds"], 60.0);
    assert_eq!(second["txgen_run_state"], 1.0);
    assert_eq!(second["txgen_node_up"], 1.0);
    assert!(second["txgen_node_height"] > 0.0);
    let served: BTreeSet<&str> = second
        .keys()
        .map(|name| {
            let parts = ["_bucket", "_sum", "_count"];
            let whole = parts.iter().find_map(|part| name.strip_suffix(part));
            whole.unwrap_or(name)
        })
        .collect();
    let documented: BTreeSet<&str> = DOCUMENT
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .filter(|name| name.starts_with("txgen_") || name.starts_with("process_"))
        .collect();
    assert_eq!(served, documented);
    running.signal(Signal::INT);
    running.wait().expect(130);
}

#[test]
fn lines_say_when_offering_has_ended_and_how_long_the_rest_is_waited_for() {
    let node = FakeNode::always(Behaviour::Silence);
    let place = Place::new();
    let ended = place.txgen(&format!(
        "constant --rate 40 --duration 1s --no-follow --drain-timeout 2s --no-tui --out run --endpoints {}",
        node.ws_url()
    ));
    ended.says("draining: 40 pending, up to 2 s");
    let well = place.txgen(&format!(
        "constant --rate 40 --duration 1s --no-follow --no-tui --out well --endpoints {}",
        FakeNode::always(Behaviour::Accept).ws_url()
    ));
    assert!(
        !well.err.contains("draining"),
        "nothing is waited for: {well}"
    );
}

#[test]
fn stdout_has_nothing_but_json_lines_when_a_program_reads_them() {
    let place = Place::new();
    let ended = place.txgen("constant --rate 40 --duration 2s --report-interval 500ms --out run");
    ended.says("verdict");
    let lines: Vec<serde_json::Value> = ended
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert!(lines.len() >= 3, "{ended}");
    let times: Vec<f64> = lines
        .iter()
        .map(|line| line["at_s"].as_f64().unwrap())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    let sent = |line: &serde_json::Value| line["totals"]["sent"].as_u64().unwrap();
    assert!(
        lines
            .windows(2)
            .all(|pair| sent(&pair[0]) <= sent(&pair[1]))
    );
}

#[test]
fn the_dashboard_and_the_alerts_name_metrics_and_labels_that_there_are() {
    let dashboard = include_str!("../../../../config/grafana/txgen.json");
    let alerts = include_str!("../../../../config/prometheus/alerts.yml");
    let place = Place::new();
    place.write("scenario.toml", LONG_RUN);
    let running = place.start("run scenario.toml --out run --metrics 0");
    let address = address(&running);
    // The last to appear: it is queried once a second.
    let mempool = "txgen_node_mempool_bytes";
    wait_until("the mempool", || scrape(address).contains_key(mempool));
    let page = page(address);
    let exposition = Exposition::parse(&page);
    let none = Vec::<String>::new();
    assert_eq!(
        exposition.complaints_about_dashboard(dashboard, "txgen_"),
        none,
        "{page}"
    );
    assert_eq!(
        exposition.complaints_about_alerts(alerts, "txgen_"),
        none,
        "{page}"
    );
    running.signal(Signal::INT);
    running.wait().expect(130);
}

#[test]
fn only_reading_is_possible_there() {
    let place = Place::new();
    place.write("scenario.toml", LONG_RUN);
    let running = place.start("run scenario.toml --out run --metrics 127.0.0.1:0");
    let client = Http::new(address(&running), Duration::from_secs(10));
    assert_eq!(client.get("/").unwrap().status, 200);
    assert_eq!(client.get("/nothing").unwrap().status, 404);
    assert_eq!(client.post("/metrics", b"x").unwrap().status, 405);
    running.signal(Signal::INT);
    running.wait().expect(130);
}

#[test]
fn a_port_that_is_taken_is_said_before_anything_is_sent() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let place = Place::new();
    let ended = place.txgen(&format!(
        "constant --rate 5 --duration 1s --out run --metrics {address}"
    ));
    ended.expect(2);
    let message =
        format!("cannot serve metrics on {address}; free it, or give --metrics another port");
    assert!(ended.err.contains(&message), "{ended}");
    assert_eq!(place.contents(), Vec::<String>::new());
    place.txgen("constant --rate 5 --metrics nowhere").expect(2);
}

/// `txgen` on a terminal of its own, which util-linux's `script` makes.
#[test]
fn a_terminal_gets_a_picture_and_is_given_back() {
    let place = Place::new();
    place.write("scenario.toml", LONG_RUN);
    let line = format!(
        "stty rows 24 cols 80; {} run scenario.toml --out run; echo code $?; stty -a",
        env!("CARGO_BIN_EXE_txgen")
    );
    let mut child = Command::new("script")
        .args(["-q", "-e", "-c", &line, "/dev/null"])
        .current_dir(place.path())
        .env("TERM", "xterm-256color")
        .env_remove("TXGEN_ENDPOINTS")
        .env_remove("GITHUB_ACTIONS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keys = child.stdin.take().unwrap();
    let mut picture = child.stdout.take().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let reader = thread::spawn({
        let seen = Arc::clone(&seen);
        move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = picture.read(&mut buffer) {
                seen.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        }
    });
    let text = || String::from_utf8_lossy(&seen.lock().unwrap()).into_owned();
    wait_until("the picture", || text().contains("\x1b[?1049h"));
    wait_until("the first second", || text().contains("accept"));
    keys.write_all(b"m").unwrap();
    wait_until("the mark's message", || text().contains("s: mark 1"));
    keys.write_all(b"q").unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    let text = text();
    let (_, after) = text.rsplit_once("\x1b[?1049l").expect("given back");
    for expected in [
        "interrupted: no more is offered",
        "mark at",
        "verdict",
        "code 130",
        " icanon",
        " echo ",
    ] {
        assert!(after.contains(expected), "{expected:?} is not in {after}");
    }
    let series = std::fs::read_to_string(place.path().join("run/series.csv")).unwrap();
    assert!(
        series.lines().any(|line| line.contains(",mark 1,")),
        "{series}"
    );
}
