//! The real node: what the crate believes of it, and that no block is missed.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use chain_cometbft::{AnswerId, Client, Outcome, decode_answer};
use rpc::{BroadcastMethod, ConnectionError, FollowEvent, FollowOptions, Height};
use sha2::{Digest, Sha256};
use testkit::{CometBft, CometOptions};

use crate::follower::Following;
use crate::peer::Peer;

/// Heights the follower is shown; a `/blockchain` page has at most 21.
const BLOCKS: u64 = 70;
/// Where the node is restarted.
const RESTART: u64 = 30;

fn hash(tx: &[u8]) -> [u8; 32] {
    Sha256::digest(tx).into()
}

/// Sends unique transactions over a new connection, until told to stop or the node goes away.
fn send(url: &str, prefix: &str, stop: &AtomicBool) -> Result<HashSet<[u8; 32]>, ConnectionError> {
    let mut peer = Peer::open(url);
    let mut accepted = HashSet::new();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let tx = format!("{prefix}{number}=v");
        peer.connection
            .queue_broadcast(number, BroadcastMethod::Sync, tx.as_bytes());
        peer.connection.flush()?;
        peer.received.clear();
        // The restart breaks connections; what was accepted until then counts.
        if peer.until(1).is_err() {
            break;
        }
        let answer = decode_answer(&peer.received[0].1).unwrap();
        assert_eq!(answer.id, AnswerId::Number(number as i64));
        match answer.outcome {
            Outcome::Broadcast {
                code: 0,
                hash: Some(found),
                ..
            } => {
                assert_eq!(found, hash(tx.as_bytes()));
                accepted.insert(found);
            }
            // A closed loop on two connections outruns the blocks; then the node says so.
            Outcome::Error { data, .. } if data.starts_with("mempool is full") => {}
            other => panic!("{other:?}"),
        }
    }
    Ok(accepted)
}

async fn follows_every_block(url: impl Fn(&CometBft) -> String) {
    let options = CometOptions::default().set("consensus.timeout_commit", "100ms");
    let mut node = CometBft::start(options).unwrap();
    let url = url(&node);
    let mut following = Following::start(
        &url,
        FollowOptions {
            from: Height::At(1),
            ..Default::default()
        },
    );
    let stop = Arc::new(AtomicBool::new(false));
    let sender = |url: String, prefix: &'static str| {
        let stop = Arc::clone(&stop);
        thread::spawn(move || send(&url, prefix, &stop))
    };
    let first = [
        sender(node.rpc_url(), "http-"),
        sender(node.ws_url(), "ws-"),
    ];
    following.until_height(RESTART).await;
    node.restart().unwrap();
    let connected = |event: &FollowEvent| matches!(event, FollowEvent::Connected { .. });
    following.until(connected).await;
    let second = [
        sender(node.rpc_url(), "http2-"),
        sender(node.ws_url(), "ws2-"),
    ];
    following.until_height(BLOCKS).await;
    stop.store(true, Ordering::Relaxed);
    let mut accepted = HashSet::new();
    for thread in first.into_iter().chain(second) {
        accepted.extend(thread.join().unwrap().unwrap_or_default());
    }
    let blocks = following.stop().await;

    let client = Client::new(&url.parse().unwrap(), Duration::from_secs(20)).unwrap();
    let (mut truth, mut counted) = (0, 0);
    let mut committed = HashSet::new();
    for (height, followed) in (1..).zip(&blocks) {
        let block = client.block(height).await.unwrap();
        assert_eq!((followed.height, &followed.hashes), (height, &block.hashes));
        assert_eq!(
            client.block_results(height).await.unwrap().count,
            block.hashes.len()
        );
        assert!(followed.codes_known && followed.codes.is_empty());
        truth += block.hashes.len();
        counted += followed.txs().len();
        committed.extend(followed.hashes.iter().copied());
    }
    assert!(blocks.len() as u64 >= BLOCKS);
    assert_eq!(counted, truth);
    assert!(
        counted > 100,
        "{counted} transactions are too few to show anything"
    );
    assert_eq!(committed.len(), counted, "no transaction twice");
    assert!(!accepted.is_disjoint(&committed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs cometbft"]
async fn follows_every_block_over_http_and_a_restart() {
    follows_every_block(CometBft::rpc_url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs cometbft"]
async fn follows_every_block_over_websocket_and_a_restart() {
    follows_every_block(CometBft::ws_url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs cometbft"]
async fn a_follower_begins_at_the_next_block() {
    let options = CometOptions::default().set("consensus.timeout_commit", "100ms");
    let node = CometBft::start(options).unwrap();
    let mut following = Following::start(&node.rpc_url(), FollowOptions::default());
    let first = loop {
        if let FollowEvent::Connected { next, .. } = following.news().await {
            break next;
        }
    };
    following.until_height(first + 10).await;
    let heights: Vec<_> = following
        .stop()
        .await
        .iter()
        .map(|block| block.height)
        .collect();
    assert_eq!(
        heights,
        (first..first + heights.len() as u64).collect::<Vec<_>>()
    );
}

#[test]
#[ignore = "needs cometbft"]
fn every_method_over_both_transports() {
    let options = CometOptions::default().set("consensus.timeout_commit", "100ms");
    let node = CometBft::start(options).unwrap();
    for url in [node.rpc_url(), node.ws_url()] {
        let mut peer = Peer::open(&url);
        for method in BroadcastMethod::ALL {
            let tx = format!("{method}-{}=v", url.len());
            let mut ask = |id: u64, tx: &[u8]| {
                peer.received.clear();
                peer.connection.queue_broadcast(id, method, tx);
                peer.connection.flush().unwrap();
                peer.until(1).unwrap();
                peer.received[0].clone()
            };
            let (status, body) = ask(1 << 52, tx.as_bytes());
            let answer = decode_answer(&body).unwrap();
            assert_eq!((status, answer.id.as_u64()), (200, Some(1 << 52)));
            match answer.outcome {
                Outcome::Broadcast {
                    code, hash: found, ..
                } => {
                    assert_eq!((code, found), (0, Some(hash(tx.as_bytes()))));
                }
                Outcome::Commit {
                    check_code,
                    tx_code,
                    hash: found,
                    height,
                    ..
                } => {
                    assert_eq!(method, BroadcastMethod::Commit);
                    assert_eq!((check_code, tx_code), (0, 0));
                    assert_eq!(found, Some(hash(tx.as_bytes())));
                    assert!(height > 0);
                }
                other => panic!("{other:?}"),
            }
            let (_, body) = ask(2, tx.as_bytes());
            match decode_answer(&body).unwrap().outcome {
                Outcome::Error { code, data, .. } => {
                    assert_eq!(code, -32603);
                    assert!(data.ends_with("tx already exists in cache"), "{data}");
                }
                other => panic!("{other:?}"),
            }
            if method == BroadcastMethod::Sync {
                let (_, body) = ask(3, b"not a pair");
                match decode_answer(&body).unwrap().outcome {
                    Outcome::Broadcast { code, .. } => assert_ne!(code, 0),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs cometbft"]
async fn queries_read_the_real_answers() {
    let options = CometOptions::default().set("consensus.timeout_commit", "100ms");
    let node = CometBft::start(options).unwrap();
    let client = Client::new(&node.ws_url().parse().unwrap(), Duration::from_secs(20)).unwrap();
    let status = client.status().await.unwrap();
    let genesis: serde_json::Value = client.call("genesis", "{}").await.unwrap();
    assert_eq!(status.chain_id, genesis["genesis"]["chain_id"]);
    assert_eq!(
        (status.version.as_str(), status.catching_up),
        ("0.38.17", false)
    );
    let reply = client
        .broadcast(BroadcastMethod::Commit, b"a=b")
        .await
        .unwrap();
    assert_eq!((reply.code, reply.hash.len()), (0, 64));
    let block = client.block(reply.height).await.unwrap();
    assert_eq!((block.hashes, block.bytes), (vec![hash(b"a=b")], 3));
    assert!(block.header_time.unix_seconds > 1_600_000_000);
    assert_eq!(client.num_unconfirmed_txs().await.unwrap().txs, 0);
}
