//! Unequal clients, long breaks, clients that leave, and the end.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use rpc::BroadcastMethod;
use sentinel::config::{Config, PaceMode};

use crate::support::load::{Progress, committed, places, tx, wait_for, write};
use crate::support::websocket::WebSocket;
use crate::support::{Node, Proxy, broadcast};

/// A fixed pace, so that the machine's speed does not matter.
fn paced(config: &mut Config, per_second: u64) {
    config.fair.max_req = pacing::Rate::per_second(per_second).unwrap();
    config.pace.mode = PaceMode::Fixed;
}

/// The value of an operator's metric; a line that starts with `name`.
fn metric(proxy: &Proxy, name: &str) -> f64 {
    let text = proxy.admin().get("/metrics").unwrap().text();
    let line = text.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.rsplit(' ').next());
    value.unwrap_or("0").parse().unwrap()
}

#[test]
fn the_greedy_share_equally_and_the_small_get_all_they_ask_for() {
    let node = Node::start();
    let proxy = Proxy::with(&node.url(), |config| paced(config, 400));
    let (much, some) = (Progress::default(), Progress::default());
    let (of_much, of_some, small) = thread::scope(|scope| {
        let at_work = [&much, &some].map(Progress::at_work);
        let writers = [(2, 800, &much), (3, 100, &some)].map(|(client, window, progress)| {
            let address = proxy.address;
            scope.spawn(move || write(client, address, window, progress))
        });
        much.reach(150);
        some.reach(150);
        let count = || [&much, &some].map(|progress| progress.accepted.load(Ordering::Relaxed));
        let (before, mut waits) = (count(), Vec::new());
        let from = std::net::IpAddr::from([127, 0, 0, 4]);
        let mut socket = WebSocket::connect_from(from, proxy.address);
        for sequence in 0..30 {
            let start = Instant::now();
            let body = broadcast(sequence, BroadcastMethod::Sync, tx(4, sequence).as_bytes());
            let answer = socket.ask(std::str::from_utf8(&body).unwrap());
            assert!(answer.contains(r#""result":{"code":0"#), "{answer}");
            waits.push(start.elapsed());
            thread::sleep(Duration::from_millis(100).saturating_sub(start.elapsed()));
        }
        let after = count();
        drop(at_work);
        for (client, writer) in [2, 3].into_iter().zip(writers) {
            let written = writer.join().unwrap();
            assert!(written.errors.is_empty(), "{client}: {:?}", written.errors);
        }
        waits.sort();
        (after[0] - before[0], after[1] - before[1], waits)
    });
    let apart = of_much.abs_diff(of_some);
    assert!(apart * 10 <= of_much, "{of_much} and {of_some}");
    // The greedy wait for everything before them in their queues (a quarter of a second and more);
    // the small one waits for its turn.
    let median = small[small.len() / 2];
    assert!(median < Duration::from_millis(200), "{small:?}");
    let txs = committed_soon(&node, proxy);
    let places = places(&txs);
    for client in [2, 3, 4] {
        let order: Vec<usize> = (0..)
            .map_while(|sequence| places.get(tx(client, sequence).as_str()).copied())
            .collect();
        assert!(
            order.len() >= 30 && order.is_sorted(),
            "{client}: {order:?}"
        );
    }
}

/// Ends the proxy and waits until all it forwarded is in blocks.
fn committed_soon(node: &Node, proxy: Proxy) -> Vec<String> {
    proxy.stop();
    wait_for("an empty mempool", || node.node.snapshot().mempool_txs == 0);
    committed(node.node.rpc_address())
}

#[test]
fn case_26_a_break_longer_than_the_deadline_is_a_clean_refusal() {
    let node = Node::start();
    let proxy = Proxy::with(&node.url(), |config| {
        paced(config, 500);
        config.fair.queue_timeout = Duration::from_secs(1);
        config.pause.interval = Some(Duration::from_millis(500));
        config.pause.length = Duration::from_secs(6);
    });
    let progress = Progress::default();
    let (answer, written) = thread::scope(|scope| {
        let at_work = progress.at_work();
        let writer = scope.spawn(|| write(2, proxy.address, 20, &progress));
        wait_for("a break", || {
            metric(&proxy, "sentinel_controller_state{state=\"paused\"}") > 0.0
        });
        let body = broadcast(7, BroadcastMethod::Sync, b"late=1");
        let answer = proxy.http().post("/", &body).unwrap();
        drop(at_work);
        (answer, writer.join().unwrap())
    });
    assert!(matches!(answer.status, 429 | 503), "{}", answer.text());
    let after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&after), "{after}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("x-sentinel-reason"), Some("queue_timeout"));
    let errors = written
        .errors
        .iter()
        .chain([&answer.text()])
        .cloned()
        .collect::<Vec<_>>();
    for error in errors {
        let value: serde_json::Value = serde_json::from_str(&error).unwrap();
        assert!(value["id"].is_u64(), "{error}");
        assert_eq!(value["error"]["code"], -32_603, "{error}");
        let data = value["error"]["data"].as_str().unwrap();
        assert!(data.starts_with("mempool is full: "), "{data}");
        assert!(data.contains("reason: queue_timeout"), "{data}");
        assert!(data.ends_with("not forwarded)"), "{data}");
    }
    let accounts = proxy.stop();
    // What was refused is in no block; what was accepted is.
    wait_for("an empty mempool", || node.node.snapshot().mempool_txs == 0);
    let txs = committed(node.node.rpc_address());
    assert_eq!(txs.len(), written.accepted.len());
    assert_eq!(accounts.forwarded, written.accepted.len() as u64);
}

#[test]
fn case_52_writes_of_a_client_that_left_are_not_sent() {
    const COUNT: u64 = 60;
    let node = Node::start();
    let proxy = Proxy::with(&node.url(), |config| paced(config, 20));
    let mut socket = WebSocket::connect(proxy.address);
    for sequence in 0..COUNT {
        let tx = tx(5, sequence);
        socket.send(&broadcast(sequence, BroadcastMethod::Sync, tx.as_bytes()));
    }
    wait_for("a queue", || metric(&proxy, "sentinel_queue_depth") >= 40.0);
    drop(socket);
    wait_for("an empty queue", || {
        metric(&proxy, "sentinel_queue_depth") < 1.0
    });
    let accounts = proxy.stop();
    assert_eq!(accounts.admitted, COUNT, "{accounts:?}");
    assert!(accounts.cancelled >= 20, "{accounts:?}");
    assert_eq!(
        accounts.forwarded + accounts.cancelled,
        COUNT,
        "{accounts:?}"
    );
    assert_eq!(node.node.snapshot().broadcasts, accounts.forwarded);
}

#[test]
fn what_was_acknowledged_is_forwarded_before_the_end() {
    const COUNT: u64 = 100;
    let node = Node::start();
    let proxy = Proxy::with(&node.url(), |config| {
        paced(config, 50);
        config.shutdown.drain = Duration::from_secs(30);
    });
    let mut socket = WebSocket::connect(proxy.address);
    for sequence in 0..COUNT {
        let tx = tx(6, sequence);
        socket.send(&broadcast(sequence, BroadcastMethod::Async, tx.as_bytes()));
    }
    for _ in 0..COUNT {
        let answer = socket.text();
        assert!(answer.contains(r#""result":{"code":0"#), "{answer}");
    }
    let accounts = proxy.stop();
    assert_eq!(accounts.lost, 0, "{accounts:?}");
    assert_eq!(accounts.forwarded, COUNT, "{accounts:?}");
    assert_eq!(node.node.snapshot().broadcasts, COUNT);
}

/// `check_tx` was a read: 5,196 were served in 12 s beside a pace of 100 writes a second.
#[test]
fn case_60_what_makes_the_node_check_has_its_turn_among_the_writes_in_every_form() {
    let node = Node::start();
    let proxy = Proxy::with(&node.url(), |config| {
        paced(config, 1);
        // One leaves now, and the next one in a quarter of an hour.
        config.fair.max_req = pacing::Rate::from_f64(0.001).unwrap();
        config.fair.queue_timeout = Duration::from_secs(1);
        config.reads.refuse_methods = Vec::new();
    });
    let call = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#)
    };
    let check = call("check_tx", r#"{"tx":"YT0x"}"#);
    let post = |body: &str| proxy.http().post("/", body.as_bytes()).unwrap().text();
    let get = |target: &str| proxy.http().get(target).unwrap().text();
    let first = post(&check);
    assert!(first.contains(r#""id":7,"result":{"code":0"#), "{first}");
    let write = String::from_utf8(broadcast(7, BroadcastMethod::Sync, b"b=1")).unwrap();
    let evidence = call("broadcast_evidence", r#"{"evidence":{}}"#);
    let status = call("status", "{}");
    let mixed = format!("[{status},{check}]");
    let spelt = check.replace("check_tx", r"check\u005ftx");
    let forms: [&(dyn Fn() -> String + Sync); 7] = [
        &|| post(&write),
        &|| post(&check),
        &|| post(&spelt),
        &|| post(&evidence),
        &|| get("/check_tx?tx=\"a=1\""),
        &|| post(&mixed),
        &|| WebSocket::connect(proxy.address).ask(&check),
    ];
    let answers: Vec<String> = thread::scope(|scope| {
        let asked: Vec<_> = forms.map(|form| scope.spawn(form)).into();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for (place, answer) in answers.iter().enumerate() {
        let is_late = ["waited for its turn", "not be served in time"];
        let is_late = is_late.iter().any(|text| answer.contains(text));
        assert!(
            is_late && !answer.contains(r#""code":0"#),
            "{place}: {answer}"
        );
    }
    // Other calls of a batch are answered, and reads wait for nothing.
    assert!(answers[5].contains("node_info"), "{}", answers[5]);
    assert!(post(&status).contains("node_info"));
}
