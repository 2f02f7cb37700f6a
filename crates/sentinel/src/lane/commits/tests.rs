use std::net::IpAddr;
use std::task::{Context, Poll, Waker};

use fairq::KeyScheme;

use super::*;
use crate::lane::testing::write;

/// A write of the transaction that is this one byte, whose block is awaited.
fn job(tx: u8, outbox: &Arc<Outbox>, tag: u64) -> Job {
    let mut job = write(vec![tx]);
    let outbox = Arc::clone(outbox);
    job.recipient = Recipient::Client { outbox, tag };
    job
}

fn commits(capacity: usize, timeout: Nanos) -> Commits {
    let budget = Budget::new(&crate::config::Config::default(), [1, 2]);
    Commits::new(budget, capacity, timeout)
}

fn answers(outbox: &Outbox) -> Vec<(u64, String)> {
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(taken) = outbox.poll_take(&mut context) else {
        return Vec::new();
    };
    let text = |answer| match answer {
        WriteAnswer::Member(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    };
    taken
        .into_iter()
        .map(|one| (one.tag, text(one.answer)))
        .collect()
}

#[test]
fn every_call_of_a_transaction_is_answered_once() {
    let outbox = Outbox::new();
    let mut commits = commits(8, Nanos::from_secs(10));
    let check = Bytes::from_static(br#""result":{"code":0,"hash":""}"#);
    let calls = [(1, 1, 0), (1, 2, 1), (2, 3, 2), (2, 4, 3)];
    for (tx, tag, secs) in calls {
        let job = job(tx, &outbox, tag);
        let now = Nanos::from_secs(secs);
        assert!(commits.admit(&job).is_ok());
        commits.add(&job, check.clone(), now, now);
    }
    assert!(commits.admit(&job(3, &outbox, 5)).is_err());
    let hash = job(1, &outbox, 0).hash();
    assert_eq!(commits.take(&hash).len(), 2);
    assert_eq!((commits.take(&hash).len(), commits.len()), (0, 2));
    commits.expire(Nanos::from_secs(11));
    assert_eq!(answers(&outbox), []);
    for tag in [3, 4] {
        commits.expire(Nanos::from_secs(9 + tag));
        let answered = answers(&outbox);
        assert_eq!((answered.len(), answered[0].0), (1, tag));
        let text = "timed out waiting for tx to be included in a block";
        assert!(answered[0].1.contains(text));
    }
    assert!(commits.admit(&job(3, &outbox, 5)).is_ok() && commits.is_empty());
}

/// At 2b52556 one WebSocket took all places: 40 of 44 commits of another client were refused.
#[test]
fn sharing_93_one_client_leaves_others_room_to_wait_for_their_blocks() {
    const ALL: usize = 200;
    let outbox = Outbox::new();
    let mut commits = commits(ALL, Nanos::from_secs(10));
    let of = |commits: &Commits, address: IpAddr, most: usize| {
        let commit = |tag| {
            let mut job = job(1, &outbox, tag);
            job.client = KeyScheme::default().key(address);
            job
        };
        let jobs = (0..most as u64).map(commit);
        jobs.take_while(|job| commits.admit(job).is_ok())
            .collect::<Vec<_>>()
    };
    let client = |last: u8| IpAddr::from([192, 0, 2, last]);
    let greedy = of(&commits, client(1), ALL);
    assert_eq!(greedy.len(), 94);
    // Under way they count already, and waiting they count until they are answered.
    let waits = |commits: &mut Commits, job: &Job| {
        let now = Nanos::from_secs(1);
        commits.add(job, Bytes::new(), now, now);
    };
    greedy.iter().for_each(|job| waits(&mut commits, job));
    drop(greedy);
    assert_eq!(of(&commits, client(1), 1).len(), 0);
    let polite: Vec<_> = (2..12).map(|last| of(&commits, client(last), 5)).collect();
    assert!(polite.iter().all(|places| places.len() == 5));
    // The networks of one /48 are a few clients.
    let network = |net: u16| IpAddr::from([0x2001, 0xdb8, 7, net, 0, 0, 0, 1]);
    let crowd: Vec<_> = (0..ALL as u16)
        .flat_map(|net| of(&commits, network(net), 1))
        .collect();
    assert!(crowd.len() < 50, "{}", crowd.len());
    assert_eq!(of(&commits, client(20), 2).len(), 2);
    drop((polite, crowd));
    commits.expire(Nanos::from_secs(100));
    assert_eq!(of(&commits, client(1), ALL).len(), 94);
}

/// While a node answered slowly, each block with a call that waited took one more connection to it.
#[tokio::test]
async fn case_93_results_are_asked_for_over_a_few_connections() {
    let outbox = Outbox::new();
    let mut commits = commits(100, Nanos::from_secs(10));
    let now = Nanos::from_secs(1);
    // Two calls for each of 20 blocks, and a last block with 40.
    for tx in 0..80_u8 {
        commits.add(&job(tx, &outbox, tx.into()), Bytes::new(), now, now);
        let hash = job(tx, &outbox, 0).hash();
        let at = BlockPlace {
            node: 0,
            height: u64::from(tx / 2).min(20),
            place: 0,
            txs: 100,
        };
        commits.due.push((at, hash));
    }
    let ask = |commits: &mut Commits| {
        let blocks = commits.take_due();
        for _ in 0..blocks.len() {
            commits.answering.spawn(std::future::pending());
        }
        let calls: usize = blocks.values().map(Vec::len).sum();
        (blocks.len(), calls)
    };
    assert_eq!(ask(&mut commits), (16, 32));
    assert_eq!(ask(&mut commits), (0, 0));
    assert_eq!((commits.len(), commits.due.len()), (48, 48));
    commits.answering.shutdown().await;
    assert_eq!(ask(&mut commits), (5, 48));
    assert_eq!((commits.len(), commits.due.len()), (0, 0));
}

#[test]
fn case_93_a_few_calls_of_a_large_block_ask_for_their_own_results() {
    for (calls, txs, few) in [
        (1, 1, false),
        (1, 15, false),
        (1, 3_000, true),
        (8, 128, true),
        (9, 3_000, false),
    ] {
        assert_eq!(are_few(calls, txs), few, "{calls} of {txs}");
    }
}

/// A block is read on another connection than the answers, and may come before them.
#[test]
fn acknowledged_67_a_block_that_comes_before_the_answer_is_found() {
    let outbox = Outbox::new();
    let at = Nanos::from_secs;
    let mut commits = commits(4, at(60));
    let hash = job(1, &outbox, 0).hash();
    let block = |height| FollowedBlock {
        height,
        hashes: vec![[0; 32], hash],
        observed: at(height),
        ..FollowedBlock::default()
    };
    let sent_and_added = |commits: &mut Commits, sent| {
        commits.add(&job(1, &outbox, 0), Bytes::new(), sent, at(60));
        commits.take(&hash);
        std::mem::take(&mut commits.due)
    };
    // Nothing was under way that is older than the block.
    commits.block(&block(5), 0, None);
    commits.block(&block(6), 0, Some(at(7)));
    assert_eq!(sent_and_added(&mut commits, at(4)), []);
    commits.block(&block(10), 2, Some(at(9)));
    let place = BlockPlace {
        node: 2,
        height: 10,
        place: 1,
        txs: 2,
    };
    assert_eq!(sent_and_added(&mut commits, at(9)), [(place, hash)]);
    assert!(commits.has_shown(&hash, at(9)) && !commits.has_shown(&hash, at(11)));
    // Sent after the block: a later one will show it.
    assert_eq!(sent_and_added(&mut commits, at(11)), []);
    // Everything older is answered: the block is forgotten.
    commits.block(&block(20), 2, Some(at(21)));
    assert_eq!(commits.early.len(), 0);
    for height in 30..40 + BLOCKS as u64 {
        commits.block(&block(height), 2, Some(at(1)));
    }
    assert_eq!(commits.early.len(), BLOCKS);
    // Those of large blocks have another bound.
    let large = |number: usize| {
        let mut hash = [1; 32];
        hash[..8].copy_from_slice(&number.to_le_bytes());
        hash
    };
    let large = FollowedBlock {
        hashes: (1..HASHES).map(large).collect(),
        ..block(1_000)
    };
    commits.block(&large, 2, Some(at(1)));
    assert_eq!(commits.early.len(), 1);
}

fn passive_block(height: u64, txs: usize) -> FollowedBlock {
    FollowedBlock {
        height,
        hashes: vec![[7; 32]; txs],
        ..FollowedBlock::default()
    }
}

#[test]
fn acknowledged_67_blocks_of_a_passive_node_are_kept_for_a_failover() {
    let mut passive = PassiveBlocks::default();
    for height in 1..=300 {
        passive.note(1, passive_block(height, 0));
    }
    let heights: Vec<u64> = passive
        .take()
        .iter()
        .map(|(_, block)| block.height)
        .collect();
    assert_eq!(heights, (45..=300).collect::<Vec<_>>());
    for height in 1..=4 {
        passive.note(1, passive_block(height, HASHES / 3));
    }
    assert_eq!(passive.take().len(), 3);
    assert_eq!(passive.take().len(), 0);
}
