//! Breaks on a schedule: the node sees them, clients do not. Case 25 of `docs/attacks.md`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sentinel::config::PauseAction;

use crate::support::load::{Progress, Written, committed_at_least, places, tx, wait_for, write};
use crate::support::websocket::{Received, WebSocket};
use crate::support::{Node, Proxy};

const CLIENTS: [u8; 3] = [2, 3, 4];
const BREAK: Duration = Duration::from_millis(400);

/// What the node saw: how long nothing came, each time, and how many connections were made.
struct Seen {
    silences: Vec<Duration>,
    connections: u64,
}

/// Breaks under load until `count` have been.
fn breaks(action: PauseAction, count: u64) -> Seen {
    let node = Node::start();
    let proxy = Proxy::with(&node.url(), |config| {
        config.fair.max_req = pacing::Rate::per_second(500).unwrap();
        config.pause.action = action;
        config.pause.interval = Some(Duration::from_secs(1));
        config.pause.length = BREAK;
    });
    let (progress, subscribed) = (Progress::default(), Progress::default());
    let (written, heights, silences, connections) = thread::scope(|scope| {
        let (at_work, subscriber) = (progress.at_work(), subscribed.at_work());
        let heights = scope.spawn(|| heights(&proxy, &subscribed.stop));
        let silences = scope.spawn(|| silences(&node, &progress));
        let writers = CLIENTS.map(|client| {
            let (progress, address) = (&progress, proxy.address);
            scope.spawn(move || (client, write(client, address, 50, progress)))
        });
        progress.reach(100);
        let before = node.node.snapshot().connections;
        wait_for("breaks", || pauses(&proxy) >= count);
        // The one that is counted last has to end too.
        let accepted = progress.accepted.load(Ordering::Relaxed);
        progress.reach(accepted + 300);
        drop(at_work);
        let connections = node.node.snapshot().connections - before;
        let written = writers.map(|writer| writer.join().unwrap());
        drop(subscriber);
        let heights = heights.join().unwrap();
        (written, heights, silences.join().unwrap(), connections)
    });
    in_order(&node, &written);
    assert!(heights.len() > 5, "{heights:?}");
    for pair in heights.windows(2) {
        assert_eq!(pair[0] + 1, pair[1], "the subscription missed a height");
    }
    let total: u64 = written.iter().map(|(_, one)| one.sent).sum();
    let accounts = proxy.stop();
    assert_eq!((accounts.admitted, accounts.forwarded), (total, total));
    Seen {
        silences,
        connections,
    }
}

/// Nobody saw an error, and the blocks have each client's writes in the order they were sent.
#[track_caller]
fn in_order(node: &Node, written: &[(u8, Written)]) {
    let total: u64 = written.iter().map(|(_, one)| one.sent).sum();
    let address = node.node.rpc_address();
    let txs = committed_at_least(address, usize::try_from(total).unwrap());
    let places = places(&txs);
    for (client, one) in written {
        assert!(one.errors.is_empty(), "{client}: {:?}", one.errors);
        let order: Vec<usize> = (0..one.sent)
            .map(|sequence| places[tx(*client, sequence).as_str()])
            .collect();
        assert!(order.is_sorted(), "the writes of {client} were reordered");
    }
}

/// Heights that a subscription through the proxy tells.
fn heights(proxy: &Proxy, end: &AtomicBool) -> Vec<u64> {
    let mut socket = WebSocket::connect(proxy.address);
    let subscribe =
        r#"{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"query":"tm.event='NewBlock'"}}"#;
    assert_eq!(
        socket.ask(subscribe),
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#
    );
    let mut heights = Vec::new();
    while !end.load(Ordering::Relaxed) {
        let Received::Text(text) = socket.receive(Duration::from_millis(50)) else {
            continue;
        };
        let event: serde_json::Value = serde_json::from_str(&text).unwrap();
        let height = &event["result"]["data"]["value"]["block"]["header"]["height"];
        let height = height.as_str().unwrap_or_else(|| panic!("{text}"));
        heights.push(height.parse().unwrap());
    }
    heights
}

/// Times without any write at the node that are at least half a break long.
fn silences(node: &Node, progress: &Progress) -> Vec<Duration> {
    let mut silences = Vec::new();
    let mut last = (0, Instant::now());
    while !progress.stop.load(Ordering::Relaxed) {
        let writes = node.node.snapshot().broadcasts;
        if writes != last.0 {
            let silence = last.1.elapsed();
            if last.0 > 0 && silence > BREAK / 2 {
                silences.push(silence);
            }
            last = (writes, Instant::now());
        }
        thread::sleep(Duration::from_millis(5));
    }
    silences
}

/// Breaks until now, by the operator's metric.
fn pauses(proxy: &Proxy) -> u64 {
    let text = proxy.admin().get("/metrics").unwrap().text();
    text.lines()
        .filter(|line| line.starts_with("sentinel_pauses_total"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum()
}

#[test]
fn case_25_pauses_are_seen_by_the_node_and_by_nobody_else() {
    let seen = breaks(PauseAction::Pause, 2);
    let long = |silence: &&Duration| **silence >= BREAK * 3 / 4;
    let long = seen.silences.iter().filter(long).count();
    assert!(long >= 2, "{:?}", seen.silences);
}

#[test]
fn case_25_reconnects_are_seen_by_the_node_and_by_nobody_else() {
    let seen = breaks(PauseAction::Reconnect, 2);
    assert!(seen.connections >= 2, "{}", seen.connections);
    let long = |silence: &&Duration| **silence >= BREAK * 3 / 4;
    let long = seen.silences.iter().filter(long).count();
    assert!(long >= 2, "{:?}", seen.silences);
}
