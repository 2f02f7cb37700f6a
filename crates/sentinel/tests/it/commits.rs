//! `broadcast_tx_commit`: many wait, few connections and one follower serve them.

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::time::Duration;

use chain_cometbft::decode_answer;
use rpc::BroadcastMethod;
use sentinel::config::PaceMode;

use crate::support::load::{tx, wait_for};
use crate::support::websocket::{Received, WebSocket};
use crate::support::{Node, Proxy, broadcast};

/// A node that could not serve them one by one.
fn narrow_node() -> Node {
    Node::with(|config| {
        config.block_interval = Duration::from_millis(200);
        config.rpc.max_open_connections = 20;
        config.rpc.max_subscription_clients = 2;
    })
}

#[test]
fn three_hundred_commits_at_once_need_few_connections_and_one_subscription() {
    const COUNT: usize = 300;
    let node = narrow_node();
    let proxy = Proxy::with(&node.url(), |config| {
        // However slow the machine is.
        config.fair.queue_timeout = Duration::from_mins(10);
        config.fixed.commit_timeout = Duration::from_mins(2);
    });
    let mut clients: Vec<TcpStream> = (0..COUNT)
        .map(|_| TcpStream::connect(proxy.address).unwrap())
        .collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let number = number as u64;
        let body = broadcast(number, BroadcastMethod::Commit, tx(9, number).as_bytes());
        let head = format!(
            "POST / HTTP/1.1\r\nHost: node.test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(&body).unwrap();
    }
    for client in &mut clients {
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(r#""height":""#), "{answer}");
        assert!(!answer.contains(r#""height":"0""#), "{answer}");
    }
    // How many are still counted depends on the moment; that one for each client is not among them does not.
    // There are 64 for the lines of writes, and some for questions, more where blocks come while others are asked about.
    assert!(node.node.snapshot().connections < COUNT as u64 / 2);
    let accounts = proxy.stop();
    assert_eq!(accounts.forwarded, COUNT as u64);
}

/// A call whose block has many transactions asks for its own result, and for those of the block where the node
/// indexes none.
#[test]
fn case_93_a_commit_beside_many_others_is_told_its_result_with_and_without_an_index() {
    for tx_index in [true, false] {
        let node = Node::with(|config| {
            config.block_interval = Duration::from_secs(1);
            config.tx_index = tx_index;
        });
        let proxy = Proxy::start(&node.url());
        let mut socket = WebSocket::connect_from([127, 0, 0, 1].into(), proxy.address);
        for number in 0..60 {
            let method = match number {
                40 => BroadcastMethod::Commit,
                _ => BroadcastMethod::Sync,
            };
            socket.send(&broadcast(number, method, tx(7, number).as_bytes()));
        }
        let mut answers: Vec<String> = (0..60)
            .map(|_| match socket.receive(Duration::from_secs(20)) {
                Received::Text(text) => text,
                other => panic!("{other:?}"),
            })
            .collect();
        answers.retain(|answer| answer.contains(r#""height":""#));
        assert_eq!(answers.len(), 1);
        assert!(
            answers[0].contains(r#""tx_result":{"code":0,"#),
            "{answers:?}"
        );
        proxy.stop();
    }
}

/// Before, the program ended while the results of the last block were asked for, and its calls had no answer.
#[test]
fn case_93_a_commit_whose_block_comes_while_the_program_ends_is_told_its_result() {
    let node = Node::with(|config| config.block_interval = Duration::from_secs(1));
    let proxy = Proxy::start(&node.url());
    let mut socket = WebSocket::connect(proxy.address);
    socket.send(&broadcast(1, BroadcastMethod::Commit, b"a=1"));
    wait_for("the write at the node", || {
        node.node.snapshot().broadcasts == 1
    });
    std::thread::scope(|scope| {
        let ending = scope.spawn(move || proxy.stop());
        let answer = socket.text();
        assert!(answer.contains(r#""tx_result":{"code":0,"#), "{answer}");
        assert_eq!(ending.join().unwrap().forwarded, 1);
    });
}

#[test]
fn ten_thousand_commits_at_once_are_each_told_their_block() {
    const CLIENTS: u8 = 10;
    const EACH: u64 = 1_000;
    let node = narrow_node();
    let proxy = Proxy::with(&node.url(), |config| {
        // All of them at once, however slow the machine is.
        config.fair.max_req = pacing::Rate::per_second(20_000).unwrap();
        config.fixed.commit_timeout = Duration::from_secs(60);
        // The adaptive pace takes up to 16 connections, and as many beside the old ones, from a slow node.
        config.pace.mode = PaceMode::Off;
    });
    let address = proxy.address;
    // Each client has a thread: a socket that waits for its turn would be one that takes nothing.
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                let from = IpAddr::from([127, 0, 1, client + 1]);
                let mut socket = WebSocket::connect_from(from, address);
                for number in 0..EACH {
                    let tx = tx(client, number);
                    socket.send(&broadcast(number, BroadcastMethod::Commit, tx.as_bytes()));
                }
                let mut answered = HashSet::new();
                for _ in 0..EACH {
                    let Received::Text(text) = socket.receive(Duration::from_secs(90)) else {
                        panic!("client {client} has {} answers", answered.len());
                    };
                    assert!(text.contains(r#""height":""#), "{text}");
                    assert!(!text.contains(r#""height":"0""#), "{text}");
                    let answer = decode_answer(text.as_bytes()).unwrap();
                    assert!(
                        answered.insert(answer.id.as_u64()),
                        "answered twice: {text}"
                    );
                }
            });
        }
    });
    // A hundredth of the calls that wait: none of them has a connection of its own.
    assert!(node.node.snapshot().connections <= 100);
    let accounts = proxy.stop();
    assert_eq!(accounts.forwarded, u64::from(CLIENTS) * EACH);
}
