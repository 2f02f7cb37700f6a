//! Subscriptions through the whole proxy.

use std::time::Duration;

use crate::support::websocket::{Received, WebSocket};
use crate::support::{Node, Proxy};

const TXS: usize = 2_000;

fn subscribe(socket: &mut WebSocket, query: &str) {
    let request = format!(r#"{{"id":1,"method":"subscribe","params":{{"query":"{query}"}}}}"#);
    let answer = socket.ask(&request);
    assert_eq!(answer, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
}

fn next(socket: &mut WebSocket) -> String {
    match socket.receive(Duration::from_secs(20)) {
        Received::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

/// At 2b52556 subscribers of transactions got 25 to 200 events of a block of 500, and were cut off.
#[test]
fn ws_95_subscribers_of_transactions_get_all_of_a_block() {
    let node = Node::with(|config| {
        config.block_interval = Duration::from_millis(200);
        // What the node itself holds for a subscriber is not in question.
        config.rpc.subscription_buffer_size = 2 * TXS;
    });
    let proxy = Proxy::start(&node.url());
    let mut sockets: Vec<_> = (0..2).map(|_| WebSocket::connect(proxy.address)).collect();
    for socket in &mut sockets {
        subscribe(socket, "tm.event='Tx'");
    }
    node.node.faults().halt();
    let mut writer = WebSocket::connect(node.node.rpc_address());
    for number in 0..TXS {
        let tx = base64_simd::STANDARD.encode_to_string(format!("k{number}=1"));
        let write = format!(r#"{{"id":1,"method":"broadcast_tx_sync","params":{{"tx":"{tx}"}}}}"#);
        assert!(writer.ask(&write).contains(r#""code":0"#));
    }
    node.node.faults().resume();
    for socket in &mut sockets {
        for _ in 0..TXS {
            let event = next(socket);
            assert!(event.contains("tendermint/event/Tx"), "{event}");
        }
    }
    drop(sockets);
    proxy.stop();
}

/// At 2b52556 each of these subscribed at the node over a connection of the client's own, past all limits.
#[test]
fn json_96_whatever_it_is_called_a_subscription_is_shared() {
    let node = Node::with(|config| {
        config.block_interval = Duration::from_millis(50);
        // One subscriber for the follower, and one for all clients: another one is refused.
        config.rpc.max_subscription_clients = 2;
    });
    let proxy = Proxy::start(&node.url());
    let mut sockets = Vec::new();
    for name in [
        "params",
        "paramſ",
        r"param\u017f",
        "PARAMS",
        "Params",
        r"\u0070arams",
    ] {
        let mut socket = WebSocket::connect(proxy.address);
        let answer = socket.ask(&format!(
            r#"{{"id":1,"method":"subscribe","params":{{}},"{name}":["tm.event='NewBlock'"]}}"#
        ));
        assert_eq!(answer, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "{name}");
        sockets.push(socket);
    }
    for socket in &mut sockets {
        assert!(next(socket).contains("tendermint/event/NewBlock"));
    }
    drop(sockets);
    proxy.stop();
}

/// A client that subscribes again when it is told to goes on with the next block after any restart.
#[test]
fn ws_97_subscriptions_are_made_again_after_a_restart_of_the_node() {
    let node = Node::start();
    let proxy = Proxy::start(&node.url());
    let mut socket = WebSocket::connect(proxy.address);
    subscribe(&mut socket, "tm.event='NewBlock'");
    for _ in 0..2 {
        assert!(next(&mut socket).contains("tendermint/event/NewBlock"));
        node.node.faults().restart(Duration::from_millis(100));
        while !next(&mut socket).contains("subscription was canceled (reason: ") {}
        subscribe(&mut socket, "tm.event='NewBlock'");
    }
    assert!(next(&mut socket).contains("tendermint/event/NewBlock"));
    let metrics = proxy.admin().get("/metrics").unwrap().text();
    let ended = "sentinel_ws_dropped_events_total 2";
    assert!(metrics.contains(ended), "{metrics}");
    drop(socket);
    proxy.stop();
}
