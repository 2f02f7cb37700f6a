//! Clients that ask for little beside one that takes all it gets.

use control::{Demand, Load, PaceMode};
use pacing::Nanos;

use crate::model::node::{Node, NodeKind};
use crate::model::proxy::Proxy;
use crate::model::{Wants, run_from, ten_a_second};
use crate::pace::World;

/// Blocks of so many transactions, and seconds between them.
const BLOCKS: [(usize, f64); 4] = [(40, 1.0), (200, 1.0), (1_000, 1.0), (20, 0.2)];

/// Two minutes of an adaptive proxy before a node with blocks of such a size.
fn proxy((block, timeout_secs): (usize, f64), wants: Wants) -> Proxy {
    let kind = NodeKind {
        block,
        timeout_secs,
        ..NodeKind::steady()
    };
    let new = |node: &mut Node| Proxy::new(0, wants, 50_000, PaceMode::Adaptive, node);
    run_from(Node::new(kind), new, 120).1
}

/// Those who always have writes waiting beside a client with these writes: 60 clients, or a flood.
fn greedy(polite: fn(u64) -> usize) -> [Wants; 2] {
    let sixty = Wants {
        connections: 0,
        closed: 60,
        polite,
        ..Wants::default()
    };
    let flood = Wants {
        flood: |_| 10_000.0,
        polite,
        ..Wants::default()
    };
    [sixty, flood]
}

/// Fails if 99 of 100 writes of a client take longer beside greedy ones than twice the time they take alone.
fn keeps_places_for(polite: fn(u64) -> usize) {
    let quiet = Wants {
        polite,
        ..Wants::default()
    };
    for blocks in BLOCKS {
        let p99_ms = |wants| proxy(blocks, wants).polite.quantile(0.99);
        let quiet = p99_ms(quiet);
        for wants in greedy(polite) {
            let beside = p99_ms(wants);
            assert!(beside <= 2 * quiet, "{blocks:?}: {beside} ms for {quiet}");
        }
    }
}

/// A client with 60 writes always waiting, or a flood, took each place as soon as a block freed it: the others' p99 was
/// 166 ms with blocks of 40 transactions, 335 with 200, 244 with 1,000 and 51 with 20 a fifth of a second.
#[test]
fn pacing_53_one_client_that_always_has_writes_waiting_leaves_places_for_the_others() {
    keeps_places_for(ten_a_second);
}

/// While places were kept for what earlier blocks had shown alone, a client that came after seconds without any found
/// one: with blocks of 40 transactions the p99 of who comes for ten seconds in twenty was 542 ms, its first writes took up
/// to 782.
#[test]
fn pacing_53_places_are_kept_for_clients_that_come_for_the_first_time() {
    keeps_places_for(|ms| if ms < 20_000 { 0 } else { ten_a_second(ms) });
    keeps_places_for(|ms| (ms / 10_000 % 2) as usize * ten_a_second(ms));
    keeps_places_for(|ms| usize::from(ms % 9_700 == 9_000));
}

/// A large write that began below what was kept left whole, and took what was kept for hundreds of small ones; and no places
/// were kept while a long block was read: beside eight connections with writes of 60 kB four clients with 1,000 small ones
/// a second waited 90 to 170 ms before each block.
#[test]
fn pacing_53_large_writes_take_no_places_that_are_kept_for_small_ones() {
    let often: fn(u64) -> usize = |ms| usize::from(ms > 20_000 && ms.is_multiple_of(7));
    let always: fn(u64) -> usize = |ms| usize::from(ms > 20_000);
    for (block_bytes, largest, polite) in [
        (22_020_096, 60_000, always),
        (22_020_096, 60_000, often),
        (4 << 20, 750_000, often),
        (4 << 20, 750_000, ten_a_second),
        (1 << 20, 60_000, often),
        (1 << 20, 300_000, often),
        (1 << 20, 300_000, ten_a_second),
    ] {
        for jitter in [0.0, 0.2] {
            // The mean of sizes that are even in the logarithm.
            let mean = f64::from(largest - 250) / (f64::from(largest) / 250.0).ln();
            let kind = NodeKind {
                block_bytes,
                jitter,
                told: Some(block_bytes / mean as u64),
                mempool: 100_000,
                locked: 0.0,
                read_nanos_a_byte: 6,
                ..NodeKind::steady()
            };
            let wants = Wants {
                flood: |_| 10_000.0,
                bytes: (250, largest),
                polite,
                ..Wants::default()
            };
            let new = |node: &mut Node| Proxy::new(0, wants, 50_000, PaceMode::Adaptive, node);
            let (node, proxy) = run_from(Node::new(kind), new, 120);
            // There and back takes 2 ms.
            let p99_ms = proxy.polite.quantile(0.99);
            assert!(p99_ms <= 5, "{p99_ms} ms, {block_bytes}, {largest}");
            let full = node.bytes_of(0) as f64 / (node.blocks.len() as u64 * block_bytes) as f64;
            assert!(full > 0.9, "{full}, {block_bytes}, {largest}");
        }
    }
}

/// Once a block was later than the longest of the last four, as one in five is, a single place stayed kept, and large writes
/// took what was free: the small ones waited for the block.
#[test]
fn pacing_53_places_stay_kept_while_a_block_is_late() {
    let sizes = Wants {
        flood: |_| 10_000.0,
        bytes: (60_000, 60_000),
        polite_bytes: 250,
        ..Wants::default()
    };
    let often: fn(u64) -> usize = |ms| usize::from(ms > 20_000);
    for (timeout_secs, jitter, polite) in [
        (1.0, 0.8, often),
        (1.0, 0.3, often),
        (0.4, 0.3, often),
        (2.0, 0.5, often),
        (1.0, 0.8, ten_a_second),
    ] {
        let kind = NodeKind {
            block_bytes: 22_020_096,
            timeout_secs,
            jitter,
            told: Some(367),
            mempool: 100_000,
            locked: 0.0,
            read_nanos_a_byte: 6,
            ..NodeKind::steady()
        };
        let wants = Wants { polite, ..sizes };
        let new = |node: &mut Node| Proxy::new(0, wants, 50_000, PaceMode::Adaptive, node);
        let (node, proxy) = run_from(Node::new(kind), new, 240);
        let p99_ms = proxy.polite.quantile(0.99);
        assert!(p99_ms <= 5, "{p99_ms} ms, {timeout_secs} s, {jitter} s");
        let full = node.bytes_of(0) as f64 / (node.blocks.len() * 22_020_096) as f64;
        assert!(full > 0.9, "{full}, {timeout_secs} s, {jitter} s");
    }
}

/// While others wait all the time each token of the ceiling was theirs, so that a write at a ceiling of 100 a second
/// waited for the next one, 10 ms: `check_tx` without end, or a flood.
#[test]
fn pacing_53_one_token_of_the_ceiling_is_kept_for_clients_that_ask_for_little() {
    for (mode, max_req) in [
        (PaceMode::Fixed, 100),
        (PaceMode::Fixed, 500),
        (PaceMode::Adaptive, 100),
        (PaceMode::Adaptive, 300),
    ] {
        let of = |flood| {
            let wants = Wants {
                flood,
                polite: |ms| usize::from(ms > 5_000 && ms % 137 == 0),
                ..Wants::default()
            };
            let new = |node: &mut Node| Proxy::new(0, wants, max_req, mode, node);
            run_from(Node::new(NodeKind::steady()), new, 60).1
        };
        let [quiet, beside] = [of(|_| 0.0), of(|_| 10_000.0)];
        let [p99_quiet, p99_ms] = [&quiet, &beside].map(|proxy| proxy.polite.quantile(0.99));
        assert!(
            p99_ms <= 2 * p99_quiet,
            "{p99_ms} ms for {p99_quiet}, {mode:?}, {max_req}"
        );
        // Nothing of the ceiling is lost, and no more than it leaves.
        let all = max_req * 60;
        assert!((all - max_req..=all + max_req / 50).contains(&beside.sent));
    }
}

/// Places that were kept and not taken counted as places for which writes came too slowly, so that the pace became eight
/// times the even one, and all that a block frees was taken at its beginning.
#[test]
fn pacing_53_places_that_are_kept_make_the_pace_no_faster() {
    for wants in greedy(|_| 0) {
        let rate = proxy(BLOCKS[0], wants).rates.last().unwrap().1;
        assert!(rate <= 1.3 * 40.0, "{rate}");
    }
}

/// After an hour without a block as many places as small clients had sent before four blocks stayed kept for an hour.
#[test]
fn pacing_53_an_hour_without_a_block_keeps_no_places_for_an_hour() {
    let mut world = World::adaptive();
    for _ in 0..20 {
        world.fill();
        let little = Load {
            txs: 100,
            ..Load::default()
        };
        world.pacer.sent_for_light(world.now, 0, little);
        world.block(1_000);
    }
    // The rest is committed, and then nothing waits and no block is made.
    world.block(2_000);
    world.pacer.grant(world.now, Demand::default());
    world.now = world.now.saturating_add(Nanos::from_secs(3_600));
    world.block(0);
    let grants = (0..100).map(|_| {
        world.now = world.now.saturating_add(Nanos::from_millis(20));
        let grant = world.pacer.grant(world.now, world.demand());
        world.own += grant.now as u64;
        grant
    });
    let last = grants.last().unwrap();
    assert_eq!((last.now, last.light), (0, 1));
}
