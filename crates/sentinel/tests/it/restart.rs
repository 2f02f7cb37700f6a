//! The node dies under load and comes back. Case 24 of `docs/attacks.md`.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use testkit::{CometBft, CometOptions};

use crate::support::load::{Progress, Written, committed_at_least, places, tx, write};
use crate::support::{Node, Proxy};

/// Writes from four addresses under way at any time.
const WINDOW: u64 = 40;
const CLIENTS: [u8; 4] = [2, 3, 4, 5];

/// Clients write through a proxy over so many connections while `kill` ends the node and starts it again, twice.
fn survives(node: SocketAddr, connections: usize, mut kill: impl FnMut()) {
    let proxy = Proxy::with(&format!("http://{node}"), |config| {
        config.fair.max_req = pacing::Rate::per_second(1_000).unwrap();
        config.upstream.connections = connections;
    });
    let progress = Progress::default();
    let written: Vec<(u8, Written)> = thread::scope(|scope| {
        let writers = CLIENTS.map(|client| {
            let (progress, address) = (&progress, proxy.address);
            scope.spawn(move || (client, write(client, address, WINDOW, progress)))
        });
        for accepted in [500, 1_500] {
            progress.reach(accepted);
            kill();
        }
        progress.reach(2_500);
        progress.stop();
        writers.map(|writer| writer.join().unwrap()).into()
    });
    let total: u64 = written.iter().map(|(_, one)| one.sent).sum();
    for (client, one) in &written {
        assert!(one.errors.is_empty(), "{client}: {:?}", one.errors);
        assert_eq!(one.accepted.len() as u64, one.sent);
    }
    // Every acknowledged write is in a block in the end, and in one only.
    let txs = committed_at_least(node, usize::try_from(total).unwrap());
    let places = places(&txs);
    for (client, one) in &written {
        for sequence in &one.accepted {
            let tx = tx(*client, *sequence);
            assert!(places.contains_key(tx.as_str()), "{tx} is in no block");
        }
    }
    assert_eq!(txs.len() as u64, total);
    let accounts = proxy.stop();
    assert_eq!(accounts.admitted, total, "{accounts:?}");
    let ended = accounts.forwarded
        + accounts.displaced
        + accounts.expired
        + accounts.cancelled
        + accounts.lost;
    assert_eq!(accounts.admitted, ended, "{accounts:?}");
    assert_eq!(accounts.forwarded, total, "{accounts:?}");
}

#[test]
fn case_24_a_node_that_loses_its_mempool_loses_no_acknowledged_write() {
    let node = Node::start();
    survives(node.node.rpc_address(), 1, || {
        node.node.faults().restart(Duration::from_millis(500));
    });
}

/// All connections break at once, and come back one by one.
#[test]
fn case_78_a_restart_loses_no_acknowledged_write_over_many_connections() {
    let node = Node::start();
    survives(node.node.rpc_address(), 8, || {
        node.node.faults().restart(Duration::from_millis(500));
    });
}

/// The node lives on, and nothing is offered twice that it has.
#[test]
fn case_78_connections_that_break_lose_no_acknowledged_write() {
    let node = Node::start();
    survives(node.node.rpc_address(), 8, || {
        node.node.faults().drop_connections();
    });
}

#[test]
#[ignore = "needs cometbft"]
fn case_24_a_real_node_that_is_killed_loses_no_acknowledged_write() {
    let options = CometOptions::default().set("consensus.timeout_commit", "200ms");
    let mut node = CometBft::start(options).unwrap();
    survives(node.address(), 1, || {
        node.kill();
        node.restart().unwrap();
    });
}
