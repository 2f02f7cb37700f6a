//! The first window: what may be at a node whose blocks have shown nothing yet, and how it grows with what they show.

use control::{BlockSeen, Demand, Load, PaceMode, Pacer, Unit};
use pacing::Nanos;

use crate::model::node::{Node, NodeKind};
use crate::model::proxy::{Proxy, Visible};
use crate::model::{Wants, go_on, run_from};
use crate::pace::{World, many, pacer};

/// The window before a block has shown more.
const FIRST: u64 = 64;
/// The same at most where the chain's limits are known.
const MOST_FIRST: u64 = 1_024;

/// A transaction.
const ONE: Load = Load {
    txs: 1,
    bytes: 250,
    gas: 1,
};

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
        let limits = limit.map(|gas| Load {
            txs: u64::MAX,
            bytes: u64::MAX,
            gas,
        });
        world.pacer.learn(history, limits, ONE);
        assert_eq!(world.fill(), expected);
    }
    // Once blocks have shown more they alone count.
    let mut world = World::adaptive();
    for _ in 0..20 {
        world.fill();
        world.block(1_000);
    }
    world.pacer.learn(50_000, None, ONE);
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
        world.pacer.learn(history, None, ONE);
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
        world.pacer.grant(world.now, Demand::default());
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

/// Of 22 MB and 40 million gas.
const LIMITS: Option<Load> = Some(Load {
    txs: u64::MAX,
    bytes: 22_020_096,
    gas: 40_000_000,
});
const LARGE: Load = Load {
    txs: 1,
    bytes: 60_000,
    gas: 20_000,
};
const SMALL: Load = Load {
    txs: 1,
    bytes: 250,
    gas: 1_000,
};
/// As large in gas alone.
const COSTLY: Load = Load {
    gas: 100_000,
    ..SMALL
};

/// Of 1,000: some are kept for clients that come for the first time.
const MOST: usize = 950;

/// A chain that takes what there is, and writes of several sizes.
struct Sizes {
    pacer: Pacer,
    now: Nanos,
    own: Load,
}

impl Sizes {
    fn new() -> Self {
        Self {
            pacer: pacer(1_000_000, PaceMode::Adaptive),
            now: Nanos::ZERO,
            own: Load::default(),
        }
    }

    /// So many of a size come: how many may leave before the next block.
    fn send(&mut self, count: usize, one: Load, limits: Option<Load>) -> usize {
        let mut sent = 0;
        let until = self.now.saturating_add(Nanos::from_millis(900));
        while sent < count && self.now < until {
            self.pacer.learn(0, limits, one);
            let demand = Demand {
                waiting: count - sent,
                own: self.own,
                ..many(0)
            };
            let now = self.pacer.grant(self.now, demand).now;
            (0..now).for_each(|_| self.own = self.own + one);
            (0..now).for_each(|_| self.pacer.answered(self.now, self.now));
            sent += now;
            self.now = self.now.saturating_add(Nanos::from_millis(1));
        }
        sent
    }

    /// The next block takes so many of a size, and the chain is short of that.
    fn block(&mut self, count: usize, one: Load, unit: Unit) {
        let txs = (count as u64).min(self.own.txs);
        let of = |amount| amount * txs;
        let ours = Load {
            txs,
            bytes: of(one.bytes),
            gas: of(one.gas),
        };
        self.own = self.own.less(ours);
        let second = self.now.as_secs() + 1;
        self.now = Nanos::from_secs(second);
        let seen = BlockSeen {
            height: second,
            all: ours,
            ours,
            observed: self.now,
        };
        self.pacer.block(self.now, &seen, unit, self.own);
    }

    /// Blocks of so many of a size each, of which each takes all.
    fn blocks(&mut self, count: usize, one: Load, limits: Option<Load>) {
        for _ in 0..20 {
            self.send(count, one, limits);
            self.block(count, one, Unit::Transactions);
        }
    }
}

/// Case 48: blocks of which each took the 98 large writes that there were taught a window of 392 transactions, and of 1,000
/// small ones that came then most waited until that had doubled twice.
#[test]
fn pacing_48_blocks_with_room_for_large_writes_say_nothing_of_small_ones() {
    for large in [LARGE, COSTLY] {
        // The limits are known from the first write on, or not until now.
        for limits in [LIMITS, None] {
            for changes in [false, true] {
                let mut sizes = Sizes::new();
                sizes.blocks(98, large, limits);
                if changes {
                    sizes.pacer.node_changed(sizes.now);
                }
                assert!(sizes.send(1_000, SMALL, LIMITS) >= MOST);
            }
        }
        // Blocks were full for a while, of bytes or of gas, and what was scarce was not known at the first of them.
        for unit in [Unit::Bytes, Unit::Gas] {
            let mut sizes = Sizes::new();
            let full = if large == LARGE { 367 } else { 400 };
            for second in 0..10 {
                sizes.send(10_000, large, LIMITS);
                let unit = if second < 2 { Unit::Transactions } else { unit };
                sizes.block(full, large, unit);
            }
            while sizes.own.txs > 0 {
                sizes.block(full, large, unit);
            }
            sizes.block(0, SMALL, Unit::Transactions);
            assert!(sizes.send(1_000, SMALL, LIMITS) >= MOST);
        }
    }
}

/// Case 48: a window of thousands of small writes was one of thousands of large ones, of dozens of blocks.
#[test]
fn pacing_48_no_more_than_two_blocks_of_large_writes_leave_where_small_ones_left() {
    let mut sizes = Sizes::new();
    sizes.blocks(2_000, SMALL, LIMITS);
    let sent = sizes.send(10_000, LARGE, LIMITS);
    // What is kept for others is reckoned with small ones until the next block.
    assert!((367 / 2..=2 * 367).contains(&sent), "{sent}");
}

/// Case 83: who names all the gas there is closes the window for nobody.
#[test]
fn pacing_83_gas_that_one_client_names_closes_no_window_that_blocks_have_shown() {
    let mut sizes = Sizes::new();
    sizes.blocks(2_000, SMALL, LIMITS);
    let greedy = Load {
        gas: 1 << 63,
        ..SMALL
    };
    assert_eq!(sizes.send(1, greedy, LIMITS), 1);
    assert!(sizes.send(1_000, SMALL, LIMITS) >= MOST);
}

/// Before, bytes alone bounded the first window: 8,000 transactions where the gas of a block is enough for 100.
#[test]
fn pacing_48_a_block_by_its_limits_is_bounded_by_bytes_and_by_gas() {
    let limits = |gas| {
        Some(Load {
            txs: u64::MAX,
            bytes: 400_000,
            gas,
        })
    };
    for (bytes, gas, of_block, expected) in [
        (500, 100_000, 10_000_000, 100),
        (500, 50_000, 10_000_000, 200),
        // The bytes, where the gas is little, or not bounded.
        (500, 1, 10_000_000, 800),
        (500, 0, u64::MAX, 800),
        (0, 1, u64::MAX, MOST_FIRST as usize),
        // Nothing is known of the gas.
        (500, 0, 10_000_000, FIRST as usize),
        // No sender names more than there is.
        (500, u64::MAX, 10_000_000, 8),
    ] {
        let mut sizes = Sizes::new();
        let one = Load { txs: 1, bytes, gas };
        let sent = sizes.send(2_000, one, limits(of_block));
        // The rest is kept for clients that come for the first time.
        assert!(
            (expected * 9 / 10 - 1..=expected).contains(&sent),
            "{sent} {one:?}"
        );
    }
}

/// Case 48: the same on nodes: writes of 60 kB, 120 a second, and then small ones; several sentinels at a slow node stay at
/// N + 1 blocks whatever the sizes were before.
#[test]
fn pacing_48_small_writes_after_large_ones_wait_for_no_block() {
    let wants = |flood, bytes| Wants {
        flood,
        bytes,
        ..Wants::default()
    };
    let large = wants(|_| 120.0, (60_000, 60_000));
    let kind = NodeKind {
        block_bytes: 22_020_096,
        told: Some(u64::MAX),
        ..NodeKind::steady()
    };
    let new = |node: &mut Node| Proxy::new(0, large, 10_000, PaceMode::Adaptive, node);
    let (mut node, mut proxy) = run_from(Node::new(kind), new, 30);
    let held = |proxy: &Proxy| proxy.bounds[1..].iter().sum::<u64>();
    let before = held(&proxy);
    proxy.want(wants(|_| 1_000.0, (250, 250)));
    go_on(&mut node, &mut proxy, 30, 40);
    assert!(held(&proxy) - before <= 100, "{} ms", held(&proxy) - before);
    for proxies in [1, 2, 4] {
        let mut node = Node::new(NodeKind { block: 200, ..kind });
        let new = |number| Proxy::new(number, large, 10_000, PaceMode::Adaptive, &mut node);
        let mut all: Vec<Proxy> = (0..proxies).map(new).collect();
        for second in 0..120 {
            let (flood, bytes): (fn(f64) -> f64, _) = match second / 15 % 2 {
                0 => (|_| 20.0, (60_000, 60_000)),
                _ => (|_| 1_000.0, (250, 250)),
            };
            all.iter_mut().for_each(|it| it.want(wants(flood, bytes)));
            for ms in 1_000 * second..1_000 * (second + 1) {
                let now = Nanos::from_millis(ms);
                node.step(now);
                all.iter_mut().for_each(|proxy| proxy.step(now, &mut node));
                // Once they know what a block takes.
                let deepest = 200 * (proxies + 1) + 100;
                assert!(
                    ms < 30_000 || node.depth() <= deepest,
                    "{} {proxies}",
                    node.depth()
                );
            }
        }
        assert_eq!(node.refused, 0);
    }
}
