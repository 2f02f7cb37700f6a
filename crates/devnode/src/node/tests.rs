//! What goes on when a client does not wait for it, and on which threads.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use futures_util::poll;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use wire::jsonrpc::BroadcastMethod;

use super::*;
use crate::app::kvstore::KvStore;
use crate::config::Config;
use crate::rpc::{broadcast, get};

const HOUR: Duration = Duration::from_secs(3600);

fn client() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7))
}

fn node_on(app: Arc<dyn App>, config: Config) -> Arc<Node> {
    let host = Host::new(config, Vec::new(), CancellationToken::new());
    Node::new(&Arc::new(host), app)
}

fn node(config: Config) -> Arc<Node> {
    node_on(Arc::new(KvStore::new(10)), config)
}

/// An application that takes an hour for each check.
fn slow_checks() -> Config {
    Config {
        check_cost: HOUR,
        ..Config::default()
    }
}

/// An application that is a process of its own.
#[derive(Debug)]
struct BehindSocket;

impl App for BehindSocket {
    fn check(&self, _tx: &Tx) -> Option<u32> {
        None
    }

    fn is_behind_socket(&self) -> bool {
        true
    }

    fn app_hash(&self) -> Vec<u8> {
        Vec::new()
    }

    fn finalize(&self, _block: Execution<'_>) -> Finalized {
        unreachable!("no block is made")
    }
}

async fn send(node: &Arc<Node>, method: BroadcastMethod, tx: &str) -> Result<Vec<u8>, String> {
    broadcast(node, method, tx.as_bytes().to_vec(), client()).await
}

/// Sends a transaction and leaves before the answer.
async fn send_and_leave(node: &Arc<Node>, tx: &str) {
    let sending = send(node, BroadcastMethod::Sync, tx);
    let answer = timeout(Duration::from_secs(1), sending).await;
    assert!(answer.is_err(), "the check takes an hour");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_before_its_answer_leaves_its_transaction_to_the_check() {
    let node = node(slow_checks());
    send_and_leave(&node, "a=1").await;
    tokio::time::sleep(2 * HOUR).await;
    assert_eq!(node.mempool.depth().txs, 1);
    let again = send(&node, BroadcastMethod::Sync, "a=1").await;
    assert_eq!(again.unwrap_err(), "tx already exists in cache");
}

#[tokio::test(start_paused = true)]
async fn checks_are_bounded_though_their_clients_leave() {
    let mut config = slow_checks();
    config.rpc.max_open_connections = 2;
    let node = node(config);
    for tx in ["a=1", "b=1", "c=1"] {
        send_and_leave(&node, tx).await;
    }
    tokio::time::sleep(4 * HOUR).await;
    assert_eq!(node.mempool.depth().txs, 2);
}

#[tokio::test(start_paused = true)]
async fn async_waits_for_the_check_of_an_application_inside_the_node_but_not_behind_a_socket() {
    let apps: [(Arc<dyn App>, u64); 2] =
        [(Arc::new(KvStore::new(10)), 1), (Arc::new(BehindSocket), 0)];
    for (app, hours) in apps {
        let node = node_on(app, slow_checks());
        let start = Instant::now();
        send(&node, BroadcastMethod::Async, "a=1").await.unwrap();
        assert_eq!(
            start.elapsed().as_secs() / HOUR.as_secs(),
            hours,
            "{node:?}"
        );
        // What the queue's side of the mempool refuses is refused at once by both.
        let again = send(&node, BroadcastMethod::Async, "a=1").await;
        assert_eq!(again.unwrap_err(), "tx already exists in cache");
    }
}

/// The one thread for long work is busy, so a request that reads a whole block has to wait, and the thread
/// that serves goes on.
#[test]
fn whole_blocks_are_not_read_on_the_threads_that_serve() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    for name in ["block", "block_results", "tx"] {
        let (release, held) = std::sync::mpsc::channel::<()>();
        runtime.block_on(async {
            let node = node(Config::default());
            let holding = tokio::task::spawn_blocking(move || held.recv());
            let ask = |name: &'static str| get(&node, client(), name);
            let mut asking = pin!(ask(name));
            assert!(poll!(asking.as_mut()).is_pending(), "{name}");
            assert!(poll!(pin!(ask("status"))).is_ready());
            release.send(()).unwrap();
            holding.await.unwrap().unwrap();
            assert!(!asking.await.is_empty());
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_block_is_announced_after_its_transactions_were_executed_one_after_the_other() {
    let node = node(Config {
        execute_cost: Duration::from_millis(100),
        ..Config::default()
    });
    for tx in ["a=1", "b=2"] {
        send(&node, BroadcastMethod::Sync, tx).await.unwrap();
    }
    let begin = Instant::now();
    assert_eq!(Arc::clone(&node).commit_block().await, 2);
    let took = begin.elapsed();
    let expected = Duration::from_millis(200)..Duration::from_millis(250);
    assert!(expected.contains(&took), "{took:?}");
    let begin = Instant::now();
    assert_eq!(Arc::clone(&node).commit_block().await, 0);
    assert!(begin.elapsed() < Duration::from_millis(50));
}
