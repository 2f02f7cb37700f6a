//! The node dies under load and comes back. Case 24 of `docs/attacks.md`.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use rpc::BroadcastMethod;
use sentinel::config::PaceMode;
use testkit::{Behaviour, CometBft, CometOptions, FakeChain, FakeNode};

use crate::support::load::{Progress, Written, committed_at_least, places, tx, wait_for, write};
use crate::support::websocket::WebSocket;
use crate::support::{Node, Proxy, broadcast};

/// Writes from four addresses under way at any time.
const WINDOW: u64 = 40;
const CLIENTS: [u8; 4] = [2, 3, 4, 5];

/// Clients write through a proxy, over one connection in a fixed pace and over several in the adaptive one, while `kill`
/// ends the node and starts it again, twice.
fn survives(node: SocketAddr, mode: PaceMode, mut kill: impl FnMut()) {
    let proxy = Proxy::with(&format!("http://{node}"), |config| {
        config.fair.max_req = pacing::Rate::per_second(1_000).unwrap();
        config.pace.mode = mode;
    });
    let progress = Progress::default();
    let written: Vec<(u8, Written)> = thread::scope(|scope| {
        let at_work = progress.at_work();
        let writers = CLIENTS.map(|client| {
            let (progress, address) = (&progress, proxy.address);
            scope.spawn(move || (client, write(client, address, WINDOW, progress)))
        });
        for accepted in [500, 1_500] {
            progress.reach(accepted);
            kill();
        }
        progress.reach(2_500);
        drop(at_work);
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
    survives(node.node.rpc_address(), PaceMode::Fixed, || {
        node.node.faults().restart(Duration::from_millis(500));
    });
}

/// All connections break at once, and come back one by one.
#[test]
fn case_78_a_restart_loses_no_acknowledged_write_over_many_connections() {
    let node = Node::start();
    survives(node.node.rpc_address(), PaceMode::Adaptive, || {
        node.node.faults().restart(Duration::from_millis(500));
    });
}

/// The node lives on, and nothing is offered twice that it has.
#[test]
fn case_78_connections_that_break_lose_no_acknowledged_write() {
    let node = Node::start();
    survives(node.node.rpc_address(), PaceMode::Adaptive, || {
        node.node.faults().drop_connections();
    });
}

/// A node with one empty block that does this with the first broadcasts, and takes the later ones. What it does with the last
/// of those it does when it is told to.
fn scripted<const N: usize>(first: [Behaviour; N]) -> (FakeNode, Sender<()>) {
    let chain = FakeChain {
        blocks: vec![vec![]],
        ..FakeChain::default()
    };
    let (told, wait) = channel();
    let wait = Mutex::new(wait);
    let node = FakeNode::start(chain, move |number| {
        if number + 1 == N {
            // It is told by the end of the test as well.
            let _ = wait.lock().unwrap().recv();
        }
        first.get(number).copied().unwrap_or(Behaviour::Accept)
    });
    (node, told)
}

/// Commits a transaction, and waits until the proxy has seen that.
fn commit(node: &FakeNode, proxy: &Proxy, tx: &[u8]) {
    node.change(|chain| chain.blocks.push(vec![tx.to_vec()]));
    wait_for("the block", || {
        let text = proxy.admin().get("/metrics").unwrap().text();
        text.contains("sentinel_committed_txs_total 1\n")
    });
}

/// Before, a write whose block came before its answer was offered again when its connection broke: a node that had been
/// started again, and had forgotten it, committed it twice (28 of 33,192 under a schedule of faults).
#[test]
fn case_24_what_a_block_has_shown_is_not_offered_again_though_its_answer_is_lost() {
    let (node, break_off) = scripted([Behaviour::Close]);
    let proxy = Proxy::start(&node.url());
    let mut socket = WebSocket::connect(proxy.address);
    socket.send(&broadcast(1, BroadcastMethod::Sync, b"a=1"));
    wait_for("the write", || node.broadcasts() == 1);
    commit(&node, &proxy, b"a=1");
    break_off.send(()).unwrap();
    assert!(socket.text().contains(r#""id":1,"result":{"code":0,"#));
    socket.send(&broadcast(2, BroadcastMethod::Sync, b"b=1"));
    assert!(socket.text().contains(r#""id":2,"result":{"code":0,"#));
    let received = node.change(|chain| chain.received.clone());
    assert_eq!(received, [b"a=1", b"b=1"]);
    proxy.stop();
}

/// Before, a write that was offered a second time, was shown by a block and was then answered "already exists in cache"
/// waited for another block to show it, until its deadline.
#[test]
fn case_24_what_a_block_has_shown_ends_whatever_the_second_answer_is() {
    let (node, answer) = scripted([Behaviour::Close, Behaviour::Duplicate]);
    let proxy = Proxy::start(&node.url());
    let mut socket = WebSocket::connect(proxy.address);
    socket.send(&broadcast(1, BroadcastMethod::Sync, b"a=1"));
    wait_for("its second offer", || node.broadcasts() == 2);
    commit(&node, &proxy, b"a=1");
    answer.send(()).unwrap();
    assert!(socket.text().contains(r#""id":1,"result":{"code":0,"#));
    proxy.stop();
}

/// Before, a node was believed to have lost what it had accepted as soon as any block came, or one interval of a block had
/// passed: what it had committed before it was started again, in blocks that were still to be read, was committed twice.
#[test]
fn case_24_what_is_in_blocks_still_to_be_read_is_not_offered_again() {
    let chain = FakeChain {
        blocks: vec![vec![]],
        ..FakeChain::default()
    };
    let node = FakeNode::start(chain, |_| Behaviour::Accept);
    let proxy = Proxy::with(&node.url(), |config| {
        config.fair.queue_timeout = Duration::from_secs(600);
    });
    let is_ready = || proxy.admin().get("/readyz").unwrap().status == 200;
    let mut socket = WebSocket::connect(proxy.address);
    socket.send(&broadcast(1, BroadcastMethod::Sync, b"a=1"));
    assert!(socket.text().contains(r#""id":1,"result""#));
    // It commits the write, is started again, and has its blocks read late.
    node.change(|chain| chain.up = false);
    wait_for("the node's end", || !is_ready());
    node.change(|chain| {
        chain.blocks.extend([vec![], vec![b"a=1".to_vec()]]);
        chain.withheld = Some(2);
        chain.up = true;
    });
    wait_for("the node", is_ready);
    socket.send(&broadcast(2, BroadcastMethod::Sync, b"b=1"));
    // The pauses between these questions are longer than the shortest time for which a block is awaited.
    wait_for("questions for block 2", || {
        node.change(|chain| chain.withheld_asked) > 6
    });
    assert_eq!(node.broadcasts(), 1);
    node.change(|chain| chain.withheld = None);
    wait_for("block 3", || node.change(|chain| chain.asked.contains(&3)));
    node.grow([0]);
    assert!(socket.text().contains(r#""id":2,"result""#));
    let received = node.change(|chain| chain.received.clone());
    assert_eq!(received, [b"a=1", b"b=1"]);
    proxy.stop();
}

/// The standby knows nothing of what was under way at the active one, and need not: the node knows its transactions.
#[test]
fn what_is_sent_again_through_a_standby_is_committed_once() {
    let node = Node::start();
    let (active, standby) = (Proxy::start(&node.url()), Proxy::start(&node.url()));
    let mut socket = WebSocket::connect(active.address);
    socket.send(&broadcast(1, BroadcastMethod::Sync, b"a=1"));
    assert!(socket.text().contains(r#""id":1,"result":{"code":0,"#));
    wait_for("its block", || node.node.snapshot().committed == 1);
    // The next one is in the node's mempool, and nobody has its answer when the active one is gone.
    node.node.faults().halt();
    node.node.faults().slow_answers(Duration::from_secs(3_600));
    socket.send(&broadcast(2, BroadcastMethod::Sync, b"b=1"));
    wait_for("the write", || node.node.snapshot().mempool_txs == 1);
    drop(active);
    node.node.faults().clear();
    let mut socket = WebSocket::connect(standby.address);
    for (id, tx, answer) in [
        (1, b"a=1", "already exists in cache"),
        (2, b"b=1", "already exists in cache"),
        (3, b"c=1", r#""result":{"code":0,"#),
    ] {
        socket.send(&broadcast(id, BroadcastMethod::Sync, tx));
        let text = socket.text();
        assert!(text.contains(answer), "{id}: {text}");
    }
    node.node.faults().resume();
    wait_for("the blocks", || node.node.snapshot().mempool_txs == 0);
    let committed = committed_at_least(node.node.rpc_address(), 3);
    assert_eq!(committed, ["a=1", "b=1", "c=1"]);
    standby.stop();
}

#[test]
#[ignore = "needs cometbft"]
fn case_24_a_real_node_that_is_killed_loses_no_acknowledged_write() {
    let options = CometOptions::default().set("consensus.timeout_commit", "200ms");
    let mut node = CometBft::start(options).unwrap();
    survives(node.address(), PaceMode::Fixed, || {
        node.kill();
        node.restart().unwrap();
    });
}
