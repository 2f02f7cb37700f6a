//! Several sentinels at one node, and others beside them: nobody's window or connections grow because of somebody else.

use control::PaceMode;
use pacing::Nanos;

use crate::model::node::{Node, NodeKind, STEP};
use crate::model::proxy::Proxy;
use crate::model::{Direct, Wants, adaptive};
use crate::pace::FLOOD;

/// Case 48: own transactions are own however long the chain takes for them, and others never widen the window: N
/// sentinels hold N + 1 blocks, also where they are started one after the other. At 2b52556 own ones older than 16
/// blocks counted as others', which switched window and pace off: 14,000 to 21,000 refusals in 50 s on chains of 200
/// and 230 transactions a block. Later four of them held 9.5 blocks: each that was started last saw blocks that took
/// all it had sent, and took the largest of its parts of a block for its part.
#[test]
fn pacing_48_sentinels_alone_never_fill_the_mempool_of_a_slow_chain() {
    for (proxies, blocks_txs, timeout_secs) in [
        (1, 200, 1.0),
        (1, 230, 1.0),
        (2, 230, 1.0),
        (4, 230, 1.0),
        // Two blocks within a second are not what a block takes: with both of them a window of 80 became 130.
        (1, 40, 0.97),
        (1, 200, 0.97),
        (2, 200, 0.97),
    ] {
        for apart_ms in [0, 1_300] {
            let kind = NodeKind {
                block: blocks_txs,
                told: Some(blocks_txs as u64),
                timeout_secs,
                jitter: (1.0 - timeout_secs) * 0.5,
                ..NodeKind::steady()
            };
            let mut node = Node::new(kind);
            let (most, proxies) = alone(&mut node, proxies, apart_ms);
            assert_eq!(node.refused, 0);
            // In tenths of a block.
            let deepest = 10 * (proxies.len() + 1) + 5;
            assert!(
                10 * most <= deepest * blocks_txs,
                "{most} of {blocks_txs}, {} proxies",
                proxies.len()
            );
            let committed = node.committed_between(Nanos::from_secs(10), Nanos::MAX);
            assert!(committed >= 570 * blocks_txs, "{committed}");
            for proxy in &proxies {
                assert!(proxy.pacer.connections() <= 11);
            }
        }
    }
}

/// Ten minutes of so many proxies that are started so far apart and know what a block may hold: the deepest mempool.
fn alone(node: &mut Node, proxies: usize, apart_ms: u64) -> (usize, Vec<Proxy>) {
    let wants = Wants {
        flood: |_| 1_000.0,
        ..Wants::default()
    };
    let start = |number| Proxy::new(number, wants, 2_000, PaceMode::Adaptive, node);
    let mut proxies: Vec<Proxy> = (0..proxies).map(start).collect();
    let (mut now, mut most) = (Nanos::ZERO, 0);
    while now < Nanos::from_secs(600) {
        node.step(now);
        let is_started = |place: &usize| now >= Nanos::from_millis(apart_ms * *place as u64);
        for place in (0..proxies.len()).filter(is_started) {
            proxies[place].step(now, node);
        }
        most = most.max(node.depth());
        now = now.saturating_add(STEP);
    }
    (most, proxies)
}

/// Case 48: what a foreign burst widened is narrow again after it.
#[test]
fn pacing_48_connections_and_lead_come_back_after_a_foreign_burst() {
    let mut node = Node::new(NodeKind::steady());
    let closed = |seconds: f64| if seconds < 60.0 { 10_000.0 } else { 0.0 };
    let mut proxy = adaptive(50_000, closed, &mut node);
    let wants = Wants {
        flood: closed,
        ..Wants::default()
    };
    let mut foreign = Direct::new(6, wants, &mut node);
    let mut now = Nanos::ZERO;
    let mut most = 0;
    while now < Nanos::from_secs(120) {
        node.step(now);
        proxy.step(now, &mut node);
        foreign.step(now, &mut node);
        most = most.max(proxy.pacer.connections());
        now = now.saturating_add(STEP);
    }
    assert!(most > 4, "{most}");
    assert!(
        proxy.pacer.connections() <= 2,
        "{}",
        proxy.pacer.connections()
    );
}

/// Case 27: two proxies come to equal shares, also the one that starts when the node is full, whether the
/// mempool or the blocks are what is short.
#[test]
fn controller_27_several_proxies_share_one_node() {
    for block in [usize::MAX, 2_000] {
        let kind = NodeKind {
            block,
            ..NodeKind::steady()
        };
        let mut node = Node::new(kind);
        let wants = Wants {
            flood: FLOOD,
            ..Wants::default()
        };
        let mut proxies =
            [0, 1].map(|at| Proxy::new(at, wants, 10_000, PaceMode::Adaptive, &mut node));
        let mut now = Nanos::ZERO;
        while now < Nanos::from_secs(120) {
            node.step(now);
            for (proxy, start) in proxies.iter_mut().zip([0, 30]) {
                if now >= Nanos::from_secs(start) {
                    proxy.step(now, &mut node);
                }
            }
            now = now.saturating_add(STEP);
        }
        let late = node
            .blocks
            .iter()
            .filter(|made| made.at >= Nanos::from_secs(60));
        let shares = late.fold([0, 0], |[a, b], made| {
            [a + made.by_source[0], b + made.by_source[1]]
        });
        let (least, most) = (shares[0].min(shares[1]), shares[0].max(shares[1]));
        assert!(least as f64 > 0.8 * most as f64, "{shares:?}");
    }
}
