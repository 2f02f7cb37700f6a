//! A node as the source of a follower's blocks; the laws of every follower are tested in `rpc`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chain_cometbft::follow;
use pacing::Nanos;
use rpc::{FollowError, FollowEvent, FollowOptions, FollowedBlock, Follower, Height};
use sha2::{Digest, Sha256};
use testkit::{FakeNode, Upgrades};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

/// A follower with its worker, and the laws that hold for every stream of events.
pub struct Following {
    follower: Follower,
    worker: JoinHandle<()>,
    shutdown: CancellationToken,
    deadline: Instant,
    clock: Arc<AtomicU64>,
    last_observed: Nanos,
    watermark: Nanos,
    pub blocks: Vec<FollowedBlock>,
}

impl Following {
    pub fn start(url: &str, options: FollowOptions) -> Self {
        let clock = Arc::new(AtomicU64::new(1));
        let shutdown = CancellationToken::new();
        let ticking = {
            let clock = Arc::clone(&clock);
            move || Nanos::new(clock.fetch_add(1, Ordering::Relaxed))
        };
        let endpoint = url.parse().unwrap();
        let (follower, worker) = follow(&endpoint, options, ticking, shutdown.clone()).unwrap();
        Self {
            follower,
            worker: tokio::spawn(worker.run()),
            shutdown,
            deadline: Instant::now() + LIMIT,
            clock,
            last_observed: Nanos::ZERO,
            watermark: Nanos::ZERO,
            blocks: Vec::new(),
        }
    }

    /// The next event, checked against the laws; `None` at the end.
    pub async fn event(&mut self) -> Option<FollowEvent> {
        let event = timeout_at(self.deadline, self.follower.next())
            .await
            .expect("all that the test waits for in time")?;
        match &event {
            FollowEvent::Block(block) => {
                assert!(block.observed >= self.watermark, "a watermark was broken");
                assert!(block.observed >= self.last_observed);
                self.last_observed = block.observed;
                self.blocks.push(block.clone());
            }
            FollowEvent::Watermark(instant) => {
                assert!(*instant > self.watermark);
                assert!(instant.as_nanos() <= self.clock.load(Ordering::Relaxed));
                self.watermark = *instant;
            }
            _ => {}
        }
        Some(event)
    }

    /// The next event that is neither a block nor a watermark.
    pub async fn news(&mut self) -> FollowEvent {
        loop {
            match self.event().await.expect("the follower goes on") {
                FollowEvent::Block(_) | FollowEvent::Watermark(_) => {}
                event => return event,
            }
        }
    }

    pub async fn until(&mut self, wanted: impl Fn(&FollowEvent) -> bool) {
        while !wanted(&self.event().await.expect("the follower goes on")) {}
    }

    pub async fn until_height(&mut self, height: u64) {
        while self.blocks.last().is_none_or(|block| block.height < height) {
            self.event().await.expect("the follower goes on");
        }
    }

    pub async fn failure(&mut self) -> FollowError {
        loop {
            let event = self.event().await.expect("the follower says why it ends");
            if let FollowEvent::Failed(error) = event {
                return error;
            }
        }
    }

    pub async fn stop(mut self) -> Vec<FollowedBlock> {
        self.shutdown.cancel();
        while self.event().await.is_some() {}
        self.worker.await.unwrap();
        self.blocks
    }
}

/// For a whole test: watermarks go on for ever.
const LIMIT: Duration = Duration::from_secs(120);

fn options(from: Height) -> FollowOptions {
    let quick = Duration::from_millis(10);
    FollowOptions {
        from,
        poll_interval: quick,
        watermark_interval: Duration::from_millis(1),
        max_backoff: quick,
        ..Default::default()
    }
}

/// Every height from `first` once, in order, with the content the chain has.
fn check_blocks(blocks: &[FollowedBlock], first: u64, counts: &[usize]) {
    let heights: Vec<_> = blocks.iter().map(|block| block.height).collect();
    let expected: Vec<_> = (first..first + counts.len() as u64).collect();
    assert_eq!(heights, expected);
    for (block, count) in blocks.iter().zip(counts) {
        let txs: Vec<_> = (0..*count)
            .map(|at| {
                (
                    Sha256::digest(FakeNode::tx(block.height as usize, at)).into(),
                    Some(FakeNode::code(at)),
                )
            })
            .collect();
        assert_eq!(block.txs().collect::<Vec<_>>(), txs);
        assert!(block.codes_known);
        let bytes: usize = (0..*count)
            .map(|at| FakeNode::tx(block.height as usize, at).len())
            .sum();
        assert_eq!(block.bytes, bytes as u64);
    }
}

#[tokio::test]
async fn every_block_once_in_order_as_announced() {
    let node = FakeNode::with_blocks();
    node.grow([3, 4]);
    let mut following = Following::start(&node.url(), options(Height::Next));
    following
        .until(|event| matches!(event, FollowEvent::CaughtUp { height: 2 }))
        .await;
    let counts: Vec<_> = (0..60).map(|at| (at * 5) % 23).collect();
    for (at, count) in counts.iter().enumerate() {
        node.grow([*count]);
        if at % 3 == 0 {
            following.until_height(3 + at as u64).await;
        }
    }
    following.until_height(62).await;
    let blocks = following.stop().await;
    check_blocks(&blocks, 3, &counts);
    assert_eq!(blocks[0].header_time.nanos, 500_000_000);
    assert_eq!(blocks[0].proposer, "A5");
    // Nothing was asked twice or in vain.
    assert_eq!(
        node.change(|chain| chain.asked.clone()),
        (3..=62).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn polling_does_without_a_subscription() {
    let node = FakeNode::with_blocks();
    node.change(|chain| chain.upgrades = Upgrades::Refused);
    node.grow([7, 0, 8]);
    let mut following = Following::start(&node.url(), options(Height::At(1)));
    assert_eq!(
        following.news().await,
        FollowEvent::Connected {
            next: 1,
            subscribed: false
        }
    );
    following
        .until(|event| match event {
            FollowEvent::Unsubscribed { reason } => !reason.is_empty(),
            _ => false,
        })
        .await;
    following.until_height(3).await;
    node.grow([9, 0, 0]);
    following.until_height(6).await;
    // How much earlier the node may have had them is known from the poll before.
    let found = &following.blocks[3..];
    assert!(
        found
            .iter()
            .all(|block| block.resolution.is_some_and(|span| !span.is_zero()))
    );
    check_blocks(&following.stop().await, 1, &[7, 0, 8, 9, 0, 0]);
}

#[tokio::test]
async fn announced_blocks_have_no_resolution_and_a_lost_subscription_is_told() {
    let node = FakeNode::with_blocks();
    node.grow([1]);
    let only_announced = FollowOptions {
        quiet_interval: Duration::from_secs(3_600),
        ..options(Height::Next)
    };
    let mut following = Following::start(&node.url(), only_announced);
    let subscribed = |event: &FollowEvent| {
        matches!(
            event,
            FollowEvent::Connected {
                subscribed: true,
                ..
            }
        )
    };
    following.until(subscribed).await;
    // A question of the time around the subscription may see a block before its announcement comes. There is one
    // before it and one after it.
    for height in 2..=4 {
        node.grow([1]);
        following.until_height(height).await;
    }
    let polled = |block: &FollowedBlock| block.resolution.is_some();
    let seen = following.blocks.iter().filter(|block| polled(block));
    assert!(seen.count() <= 2, "{:?}", following.blocks);
    node.change(|chain| chain.upgrades = Upgrades::Refused);
    following
        .until(|event| matches!(event, FollowEvent::Disconnected { .. }))
        .await;
    following
        .until(|event| matches!(event, FollowEvent::Unsubscribed { .. }))
        .await;
    node.grow([5]);
    following.until_height(5).await;
    assert!(following.blocks.last().is_some_and(polled));
}

#[tokio::test]
async fn a_restart_of_the_node_leaves_no_gap() {
    let node = FakeNode::with_blocks();
    node.grow([1, 2]);
    let mut following = Following::start(&node.url(), options(Height::At(1)));
    following.until_height(2).await;
    node.change(|chain| chain.up = false);
    following
        .until(|event| matches!(event, FollowEvent::Disconnected { .. }))
        .await;
    node.grow([3, 4, 5]);
    node.change(|chain| chain.up = true);
    let connected = |event: &FollowEvent| matches!(event, FollowEvent::Connected { next: 3, .. });
    following.until(connected).await;
    following.until_height(5).await;
    // And the announcements come back by themselves.
    following
        .until(|event| matches!(event, FollowEvent::CaughtUp { height: 5 }))
        .await;
    node.grow([6]);
    following.until_height(6).await;
    check_blocks(&following.stop().await, 1, &[1, 2, 3, 4, 5, 6]);
}

/// A proxy that lets `status` pass and not `block`: nothing was told, and the chain seemed to stand still.
#[tokio::test]
async fn a_block_that_a_node_has_and_does_not_give_is_told() {
    let node = FakeNode::with_blocks();
    node.change(|chain| chain.withheld = Some(2));
    node.grow([1, 2, 3]);
    let mut following = Following::start(&node.url(), options(Height::At(1)));
    following
        .until(|event| match event {
            FollowEvent::Disconnected { reason, unread, .. } => {
                assert!(*unread, "{reason}");
                assert!(
                    reason.contains("it has block 2 and does not give it"),
                    "{reason}"
                );
                assert!(reason.contains("access denied"), "{reason}");
                true
            }
            _ => false,
        })
        .await;
    node.change(|chain| chain.withheld = None);
    following
        .until(|event| matches!(event, FollowEvent::CaughtUp { height: 3 }))
        .await;
    check_blocks(&following.stop().await, 1, &[1, 2, 3]);
}

#[tokio::test]
async fn a_replaced_chain_is_an_end_even_when_it_is_longer() {
    let node = FakeNode::with_blocks();
    node.grow([1, 1]);
    let mut following = Following::start(&node.url(), options(Height::At(1)));
    following.until_height(2).await;
    node.change(|chain| chain.salt = 1);
    node.grow([1]);
    assert_eq!(
        following.failure().await,
        FollowError::Replaced { height: 3 }
    );

    let mut following = Following::start(&node.url(), options(Height::At(1)));
    following.until_height(3).await;
    node.change(|chain| {
        chain.chain_id = "other".into();
        chain.blocks.push(Vec::new());
    });
    let (before, now) = ("fake".into(), "other".into());
    assert_eq!(
        following.failure().await,
        FollowError::OtherChain {
            before,
            now,
            latest: 4
        }
    );
}

#[tokio::test]
async fn pruned_heights_are_named_and_passed() {
    let node = FakeNode::with_blocks();
    node.grow([1, 2, 3, 4, 5]);
    node.change(|chain| chain.earliest = 4);
    let mut following = Following::start(&node.url(), options(Height::At(2)));
    following
        .until(|event| *event == FollowEvent::Missing { first: 2, last: 3 })
        .await;
    following.until_height(5).await;
    check_blocks(&following.stop().await, 4, &[4, 5]);
}

#[tokio::test]
async fn blocks_of_50_000_transactions_pass() {
    let node = FakeNode::with_blocks();
    let mut following = Following::start(&node.url(), options(Height::At(1)));
    node.grow([50_000, 1, 50_000, 0]);
    following.until_height(4).await;
    check_blocks(&following.stop().await, 1, &[50_000, 1, 50_000, 0]);
}

#[tokio::test]
async fn the_worker_ends_with_its_reader() {
    let node = FakeNode::with_blocks();
    node.grow([1]);
    let mut following = Following::start(&node.url(), options(Height::At(1)));
    following.until_height(1).await;
    let Following {
        follower, worker, ..
    } = following;
    drop(follower);
    timeout(LIMIT, worker).await.unwrap().unwrap();
}

#[tokio::test]
async fn results_that_come_late_are_waited_for() {
    let node = FakeNode::with_blocks();
    node.change(|chain| chain.refuse_results = 3);
    node.grow([10]);
    let mut following = Following::start(&node.url(), options(Height::At(1)));
    following.until_height(1).await;
    check_blocks(&following.stop().await, 1, &[10]);
}

#[tokio::test]
async fn results_that_never_come_are_named() {
    let node = FakeNode::with_blocks();
    node.change(|chain| chain.refuse_results = u32::MAX);
    node.grow([10, 10]);
    let mut following = Following::start(&node.url(), options(Height::At(1)));
    let unavailable =
        |event: &FollowEvent| matches!(event, FollowEvent::CodesUnavailable { height: 1, .. });
    following.until(unavailable).await;
    following.until_height(2).await;
    let blocks = following.stop().await;
    assert_eq!(blocks.len(), 2);
    assert!(
        blocks
            .iter()
            .all(|block| !block.codes_known && block.hashes.len() == 10)
    );
}

/// The heights whose results were asked for by a follower of these blocks.
async fn results_asked(node: &FakeNode, counts: &[usize]) -> (Vec<u64>, Vec<FollowedBlock>) {
    node.grow(counts.iter().copied());
    let mut following = Following::start(&node.url(), options(Height::At(1)));
    following.until_height(counts.len() as u64).await;
    let blocks = following.stop().await;
    (node.change(|chain| chain.results_asked.clone()), blocks)
}

#[tokio::test]
async fn the_next_header_shows_that_all_of_a_large_block_succeeded() {
    let node = FakeNode::with_blocks();
    node.change(|chain| chain.succeed = true);
    let (asked, blocks) = results_asked(&node, &[65, 1_000, 3, 4_097, 0]).await;
    assert_eq!(asked, [3], "only the results of the small block");
    assert!(
        blocks
            .iter()
            .all(|block| block.codes_known && block.codes.is_empty())
    );
}

#[tokio::test]
async fn the_results_are_asked_for_when_the_next_header_shows_a_failure() {
    let node = FakeNode::with_blocks();
    let (asked, blocks) = results_asked(&node, &[65, 1_000, 3, 0]).await;
    assert_eq!(asked, [1, 2, 3]);
    check_blocks(&blocks, 1, &[65, 1_000, 3, 0]);
}

#[tokio::test]
async fn the_results_of_the_last_block_of_a_chain_are_asked_for_without_a_next_header() {
    let node = FakeNode::with_blocks();
    node.change(|chain| chain.succeed = true);
    let (asked, blocks) = results_asked(&node, &[65]).await;
    assert_eq!(asked, [1]);
    assert!(blocks[0].codes_known);
}

#[tokio::test]
async fn results_in_an_unknown_form_are_named_at_once_and_no_transaction_counts_as_successful() {
    let node = FakeNode::with_blocks();
    node.change(|chain| chain.results_name = "results_of_transactions");
    node.grow([7, 2]);
    let mut following = Following::start(&node.url(), options(Height::At(1)));
    following
        .until(|event| match event {
            FollowEvent::CodesUnavailable { height: 1, reason } => {
                assert!(
                    reason.contains("neither txs_results nor results.DeliverTx"),
                    "{reason}"
                );
                assert!(reason.contains("block_results in another form"), "{reason}");
                true
            }
            _ => false,
        })
        .await;
    // Without results only the next header can tell, and it shows a failure.
    node.grow([0]);
    following.until_height(3).await;
    let asked = node.change(|chain| chain.results_asked.clone());
    assert_eq!(asked, [1], "asked once");
    let blocks = following.stop().await;
    let codes = |block: &FollowedBlock| block.txs().map(|(_, code)| code).collect::<Vec<_>>();
    assert_eq!(codes(&blocks[0]), [None; 7]);
    assert_eq!(
        codes(&blocks[1]),
        [Some(0); 2],
        "shown by the header of block 3"
    );
}
