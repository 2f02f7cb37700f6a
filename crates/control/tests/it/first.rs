//! The first window: what may be at a node whose blocks have shown nothing yet, and how it grows with what they show.

use control::PaceMode;
use pacing::Nanos;

use crate::model::Wants;
use crate::model::node::{Node, NodeKind};
use crate::model::proxy::{Proxy, Visible};
use crate::pace::World;

/// The window before a block has shown more.
const FIRST: u64 = 64;
/// The same at most where the chain's limits are known.
const MOST_FIRST: u64 = 1_024;

/// A node that takes everything gets four times as much with each block.
#[test]
fn blocks_that_take_everything_widen_the_window() {
    let mut world = World::adaptive();
    for expected in [FIRST, 256, 1_024, 4_096, 16_384] {
        assert_eq!(world.fill(), expected);
        world.block(u64::MAX);
    }
}

/// What left before a block says what waits how long only once the window is found: a burst into an empty window of 64 was
/// refused as if 64 left before each block for ever.
#[test]
fn waits_are_not_reckoned_with_what_a_guess_let_out() {
    let mut world = World::adaptive();
    for _ in 0..3 {
        world.fill();
        world.block(u64::MAX);
        assert_eq!(world.pacer.served(), world.pacer.rate());
    }
    for _ in 0..20 {
        world.fill();
        world.block(1_000);
    }
    assert!(world.pacer.served() < world.pacer.rate());
}

/// Case 48: what the chain's blocks held, or may hold, is known before the first burst.
#[test]
fn pacing_48_the_first_window_is_what_the_chain_showed_or_allows() {
    for (history, limit, expected) in [
        (0, None, FIRST),
        (20, None, FIRST),
        (2_000, None, 4_000),
        (0, Some(230), 230),
        (0, Some(1_000_000), MOST_FIRST),
        (2_000, Some(1_000_000), 4_000),
        (0, Some(40), 40),
        (2_000, Some(230), 230),
        (0, Some(0), 8),
    ] {
        let mut world = World::adaptive();
        world.pacer.learn(history, limit);
        assert_eq!(world.fill(), expected);
    }
    // Once blocks have shown more they alone count.
    let mut world = World::adaptive();
    for _ in 0..20 {
        world.fill();
        world.block(1_000);
    }
    world.pacer.learn(50_000, None);
    assert_eq!((world.fill(), world.own), (1_000, 2_000));
}

/// Case 48: empty blocks show nothing. After any number of them the first window is the guess, or what the chain's
/// earlier blocks held, and writes that waited here in the meantime do not make it smaller.
#[test]
fn pacing_48_empty_blocks_teach_nothing() {
    for (waits, history, expected) in [
        (false, 0, FIRST),
        (false, 2_000, 4_000),
        (true, 0, FIRST),
        (true, 2_000, 4_000),
    ] {
        let mut world = World::adaptive();
        for _ in 0..100 {
            let mut demand = world.demand();
            // Nothing can be sent: the connections are down, or a recovery holds the writes.
            demand.most = 0;
            demand.waiting *= usize::from(waits);
            world.pacer.grant(world.now, demand);
            world.block(0);
        }
        world.pacer.learn(history, None);
        assert_eq!(world.fill(), expected);
    }
}

/// Case 48: what the chain has shown stays shown where another node of it takes the writes, where the node is restarted,
/// and after an hour without writes; of another chain nothing is known.
#[test]
fn pacing_48_what_a_chain_has_shown_counts_at_each_of_its_nodes() {
    let taught = || {
        let mut world = World::adaptive();
        for _ in 0..20 {
            world.fill();
            world.block(1_000);
        }
        // The rest is committed, which shows that a block may hold more, and nothing of ours is at a node.
        world.block(1_000);
        assert_eq!(world.own, 0);
        world
    };
    let mut world = taught();
    world.pacer.node_changed(world.now);
    assert_eq!(world.fill(), 4_000);
    let mut world = taught();
    for _ in 0..3_600 {
        world.pacer.grant(world.now, control::Demand::default());
        world.block(0);
    }
    assert_eq!(world.fill(), 4_000);
    let mut world = taught();
    world.pacer.chain_replaced(world.now);
    assert_eq!(world.fill(), FIRST);
}

/// Case 48: a chain that makes no block while nothing waits is not one that shows none. With a window without a bound after
/// ten seconds of silence its mempool was filled by the first burst.
#[test]
fn pacing_48_a_chain_that_was_idle_gets_the_first_window() {
    for depth in [true, false] {
        for after_secs in [1, 9, 11, 60, 3_600] {
            let kind = NodeKind {
                empty_blocks: false,
                block: 40,
                told: None,
                ..NodeKind::steady()
            };
            let mut node = Node::new(kind);
            let deepest = deepest(&mut node, 1, after_secs, depth);
            assert!(deepest <= 4 * 40, "{deepest}, {after_secs} s, {depth}");
        }
    }
}

/// Case 48: an attacker with 60 writes under way at a chain of 40 transactions a block, which nobody had used before, had
/// 463 of them in the mempool after a second, 11.6 blocks, and all others waited until that was down again.
#[test]
fn pacing_48_a_chain_that_has_shown_nothing_gets_few_blocks() {
    for (block, proxies) in [
        (10, 1),
        (40, 1),
        (40, 2),
        (40, 4),
        (100, 1),
        (230, 2),
        (1_000, 1),
    ] {
        let mut node = Node::new(NodeKind {
            block,
            told: None,
            ..NodeKind::steady()
        });
        let deepest = deepest(&mut node, proxies, 5, true);
        // The guess of each, or twice the N + 1 blocks that N hold later: a block that took all may have taken twice as much.
        let most = (proxies * FIRST as usize + 10).max(2 * (proxies + 1) * block);
        assert!(deepest <= most, "{deepest} of {block}, {proxies} proxies");
        assert_eq!(node.refused, 0);
    }
}

/// The deepest mempool in a minute of so many proxies, whose clients begin at a second; the node may not tell the depth.
fn deepest(node: &mut Node, proxies: usize, after_secs: u64, depth: bool) -> usize {
    let wants = Wants {
        flood: |_| 1_000.0,
        ..Wants::default()
    };
    let visible = Visible {
        blocks: true,
        depth,
    };
    let mut proxies: Vec<Proxy> = (0..proxies)
        .map(|number| Proxy::new(number, wants, 2_000, PaceMode::Adaptive, node).seeing(visible))
        .collect();
    let mut most = 0;
    let (from, until) = (after_secs, after_secs + 60);
    for now in (0..until * 1_000).map(Nanos::from_millis) {
        node.step(now);
        for proxy in &mut proxies {
            if now < Nanos::from_secs(from) {
                proxy.look(now, node);
            } else {
                proxy.step(now, node);
            }
        }
        most = most.max(node.depth());
    }
    most
}

/// Case 48: at a chain of which its limits alone are known four clients with 1,000 writes a second in all waited up to 1.6 s:
/// with a window of 64 that grows by four times with a block, their writes of three blocks' time stood here.
#[test]
fn pacing_48_a_steady_load_on_an_idle_chain_waits_for_no_block() {
    for (timeout_secs, empty_blocks, rate) in [
        (1.0, true, 900.0),
        (1.0, false, 900.0),
        (0.2, true, 900.0),
        (6.0, true, 150.0),
    ] {
        let mut node = Node::new(NodeKind {
            timeout_secs,
            empty_blocks,
            ..NodeKind::steady()
        });
        let wants = Wants {
            flood: if rate > 500.0 { |_| 900.0 } else { |_| 150.0 },
            ..Wants::default()
        };
        let mut proxy = Proxy::new(0, wants, 10_000, PaceMode::Adaptive, &mut node);
        // 0.3 s after a block, and a long time after the start.
        for now in (0..40_000).map(Nanos::from_millis) {
            node.step(now);
            if now < Nanos::from_millis(13_300) {
                proxy.look(now, &node);
            } else {
                proxy.step(now, &mut node);
            }
        }
        let held: u64 = proxy.bounds[1..].iter().sum();
        assert!(
            held <= 270,
            "{held} ms of 26,700, {timeout_secs} s, {empty_blocks}"
        );
    }
}

/// Case 48: where blocks take less than the chain's limits say, the guesses of four fit into the default mempool, and they are
/// at N + 1 blocks as soon as those are made.
#[test]
fn pacing_48_limits_that_say_too_much_cost_no_refusal_and_pass() {
    for (block, proxies) in [(40, 1), (200, 1), (200, 4)] {
        let mut node = Node::new(NodeKind {
            block,
            ..NodeKind::steady()
        });
        let deepest = deepest(&mut node, proxies, 5, true);
        assert!(deepest <= (proxies * MOST_FIRST as usize + 10).max(2 * (proxies + 1) * block));
        assert_eq!(node.refused, 0);
        let left = node.depth();
        assert!(
            left <= (proxies + 1) * block + block / 2,
            "{left} of {block}, {proxies}"
        );
    }
}
