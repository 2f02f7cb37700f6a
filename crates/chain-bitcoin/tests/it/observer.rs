//! What a node reports to an observer: announcements, blocks and reorganisations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bitcoin::blockdata::constants::genesis_block;
use bitcoin::hashes::Hash as _;
use bitcoin::p2p::message::NetworkMessage;
use bitcoin::p2p::message_blockdata::Inventory;
use bitcoin::{Block, BlockHash, Network, Txid};
use chain_bitcoin::{PEER_NETWORKS, follow_bitcoin_peer};
use pacing::Nanos;
use rpc::{Endpoint, FollowEvent, FollowOptions, Follower};
use tokio_util::sync::CancellationToken;

use super::{REGTEST, node, runtime};

/// A chain behind the first block of regtest; `name` tells branches apart.
fn branch(previous: &Block, count: u32, name: u32) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for number in 0..count {
        let mut block = genesis_block(Network::Regtest);
        block.header.prev_blockhash = blocks.last().unwrap_or(previous).block_hash();
        block.header.nonce = name * 1_000 + number;
        block.txdata[0].version.0 = (name * 1_000 + number).cast_signed();
        blocks.push(block);
    }
    blocks
}

/// What a scripted node has, and whom it tells.
#[derive(Default)]
struct Chain {
    blocks: Vec<Block>,
    /// Of branches that are not the best.
    beside: Vec<Block>,
    to_announce: Vec<Vec<Inventory>>,
}

/// A node with this chain.
fn chain_node(chain: &Arc<Mutex<Chain>>) -> Endpoint {
    let chain = Arc::clone(chain);
    node(REGTEST, move |mut session| {
        let theirs = session.greet(true).unwrap();
        assert!(theirs.relay, "an observer wants announcements");
        while let Some(message) = session.receive() {
            let announcements = std::mem::take(&mut chain.lock().unwrap().to_announce);
            for inventory in announcements {
                session.send(NetworkMessage::Inv(inventory));
            }
            let chain = chain.lock().unwrap();
            let find = |hash: &BlockHash| {
                chain
                    .blocks
                    .iter()
                    .position(|block| block.block_hash() == *hash)
            };
            match message {
                NetworkMessage::GetHeaders(asked) => {
                    let from = asked
                        .locator_hashes
                        .iter()
                        .find_map(find)
                        .map_or(0, |at| at + 1);
                    let headers = chain.blocks[from..].iter().map(|block| block.header);
                    session.send(NetworkMessage::Headers(headers.collect()));
                }
                NetworkMessage::GetData(wanted) => {
                    let Some(Inventory::Block(hash)) = wanted.first() else {
                        continue;
                    };
                    let mut all = chain.blocks.iter().chain(&chain.beside);
                    match all.find(|block| block.block_hash() == *hash) {
                        Some(block) => session.send(NetworkMessage::Block(block.clone())),
                        None => session.send(NetworkMessage::NotFound(wanted)),
                    }
                }
                _ => {}
            }
        }
    })
}

async fn next(follower: &mut Follower, wanted: impl Fn(&FollowEvent) -> bool) -> FollowEvent {
    loop {
        let event = follower.next().await.unwrap();
        assert!(
            !matches!(event, FollowEvent::Disconnected { .. }),
            "{event:?}"
        );
        if wanted(&event) {
            return event;
        }
    }
}

#[test]
fn an_observer_tells_of_announced_transactions_of_blocks_and_of_reorganisations() {
    let genesis = genesis_block(Network::Regtest);
    let old = branch(&genesis, 3, 1);
    let chain = Arc::new(Mutex::new(Chain {
        blocks: old.clone(),
        ..Chain::default()
    }));
    let endpoint = chain_node(&chain);
    let ticks = Arc::new(AtomicU64::new(0));
    let clock = {
        let ticks = Arc::clone(&ticks);
        move || Nanos::from_nanos(ticks.fetch_add(1, Ordering::SeqCst))
    };
    let options = FollowOptions::default();
    let shutdown = CancellationToken::new();
    let network = PEER_NETWORKS[0];
    let (mut follower, task) =
        follow_bitcoin_peer(&endpoint, network, options, clock, shutdown.clone());
    runtime().block_on(async {
        let task = tokio::spawn(task);
        let connected = next(&mut follower, |event| {
            matches!(event, FollowEvent::Connected { .. })
        })
        .await;
        assert_eq!(
            connected,
            FollowEvent::Connected {
                next: 4,
                subscribed: false
            }
        );
        chain.lock().unwrap().to_announce.push(vec![
            Inventory::Transaction(Txid::from_byte_array([1; 32])),
            Inventory::Transaction(Txid::from_byte_array([2; 32])),
        ]);
        let accepted = next(&mut follower, |event| {
            matches!(event, FollowEvent::Accepted { .. })
        })
        .await;
        let FollowEvent::Accepted { observed, txs } = accepted else {
            unreachable!()
        };
        assert_eq!(txs, [[1; 32], [2; 32]]);
        // The fourth block, of a branch that leaves the chain below the third.
        {
            let mut chain = chain.lock().unwrap();
            let fork = branch(&old[1], 3, 2);
            let tip = fork[2].block_hash();
            chain.blocks.truncate(2);
            chain.blocks.extend(fork);
            chain.to_announce.push(vec![Inventory::Block(tip)]);
        }
        let taken = next(&mut follower, |event| {
            matches!(
                event,
                FollowEvent::Reorganised { .. } | FollowEvent::Block(_)
            )
        })
        .await;
        assert!(
            matches!(&taken, FollowEvent::Reorganised { blocks, .. } if blocks.len() == 1),
            "{taken:?}"
        );
        let mut heights = Vec::new();
        let mut last = observed;
        while heights.len() < 2 {
            if let FollowEvent::Block(block) = next(&mut follower, |_| true).await {
                assert!(
                    block.observed >= last,
                    "never earlier than what was told before"
                );
                last = block.observed;
                heights.push((block.height, block.hashes.len()));
            }
        }
        assert_eq!(
            heights,
            [(4, 2), (5, 1)],
            "what the third height has now comes with the fourth"
        );
        shutdown.cancel();
        task.await.unwrap();
    });
}

/// Two miners' blocks at one height: each arrives when it is announced, by its own hash, whichever wins.
#[test]
fn a_block_beside_the_best_chain_arrives_once_and_at_its_announcement() {
    let genesis = genesis_block(Network::Regtest);
    let (best, beside) = (branch(&genesis, 2, 1), branch(&genesis, 1, 2));
    let chain = Arc::new(Mutex::new(Chain {
        blocks: best[..1].to_vec(),
        beside,
        ..Chain::default()
    }));
    let endpoint = chain_node(&chain);
    let ticks = Arc::new(AtomicU64::new(0));
    let clock = move || Nanos::from_nanos(ticks.fetch_add(1, Ordering::SeqCst));
    let shutdown = CancellationToken::new();
    let (mut follower, task) = follow_bitcoin_peer(
        &endpoint,
        PEER_NETWORKS[0],
        FollowOptions::default(),
        clock,
        shutdown.clone(),
    );
    runtime().block_on(async {
        let task = tokio::spawn(task);
        next(&mut follower, |event| {
            matches!(event, FollowEvent::Connected { .. })
        })
        .await;
        {
            let mut chain = chain.lock().unwrap();
            let other = Inventory::Block(chain.beside[0].block_hash());
            let tip = Inventory::Block(best[1].block_hash());
            chain.to_announce.extend([vec![other], vec![other, tip]]);
            chain.blocks.push(best[1].clone());
        }
        let mut arrived = Vec::new();
        let mut delivered = 0;
        while arrived.len() < 2 || delivered == 0 {
            match follower.next().await.unwrap() {
                FollowEvent::Arrived(block) => {
                    arrived.push((block.height, block.hash, block.resolution));
                }
                FollowEvent::Block(block) => {
                    assert_eq!(block.height, 2);
                    delivered += 1;
                }
                FollowEvent::Disconnected { reason, .. } => panic!("{reason}"),
                _ => {}
            }
        }
        arrived.sort_unstable();
        let shown = |block: &Block| {
            let mut hash = block.block_hash().to_byte_array();
            hash.reverse();
            hash
        };
        let beside = shown(&chain.lock().unwrap().beside[0]);
        assert_eq!(arrived[0], (1, beside, None));
        assert_eq!(arrived[1].1, shown(&best[1]));
        shutdown.cancel();
        task.await.unwrap();
    });
}

#[test]
fn no_watermark_passes_an_acceptance_that_is_told_later() {
    let genesis = genesis_block(Network::Regtest);
    let chain = Arc::new(Mutex::new(Chain {
        blocks: branch(&genesis, 1, 1),
        ..Chain::default()
    }));
    let endpoint = chain_node(&chain);
    let ticks = Arc::new(AtomicU64::new(0));
    let clock = move || Nanos::from_nanos(ticks.fetch_add(1, Ordering::SeqCst));
    let shutdown = CancellationToken::new();
    let (mut follower, task) = follow_bitcoin_peer(
        &endpoint,
        PEER_NETWORKS[0],
        FollowOptions::default(),
        clock,
        shutdown.clone(),
    );
    runtime().block_on(async {
        let task = tokio::spawn(task);
        let (mut watermark, mut told) = (Nanos::ZERO, 0_u8);
        while told < 20 {
            match follower.next().await.unwrap() {
                FollowEvent::Watermark(at) => {
                    watermark = at;
                    // With each question of the follower come a transaction and the announcement of a block.
                    let tx = Inventory::Transaction(Txid::from_byte_array([told; 32]));
                    let block = Inventory::Block(BlockHash::all_zeros());
                    chain.lock().unwrap().to_announce.push(vec![tx, block]);
                }
                FollowEvent::Accepted { observed, .. } => {
                    assert!(observed >= watermark, "{observed} after {watermark}");
                    told += 1;
                }
                _ => {}
            }
        }
        shutdown.cancel();
        task.await.unwrap();
    });
}

#[test]
fn a_node_that_answers_no_headers_is_told_of_with_why() {
    let endpoint = node(REGTEST, |mut session| {
        session.greet(true);
        while session.receive().is_some() {}
    });
    let shutdown = CancellationToken::new();
    let options = FollowOptions {
        timeout: Duration::from_millis(50),
        ..FollowOptions::default()
    };
    let (mut follower, task) = follow_bitcoin_peer(
        &endpoint,
        PEER_NETWORKS[0],
        options,
        || Nanos::ZERO,
        shutdown.clone(),
    );
    runtime().block_on(async {
        let task = tokio::spawn(task);
        let FollowEvent::Disconnected { reason, .. } = follower.next().await.unwrap() else {
            panic!("it cannot have connected")
        };
        assert!(
            reason.contains("a block of the last 24 hours; mine one"),
            "{reason}"
        );
        shutdown.cancel();
        task.await.unwrap();
    });
}
