//! The pace: its bounds, how fast it finds what a node takes, and how steady it is.

use control::{BlockSeen, Bound, Demand, PaceMode, PaceSettings, Pacer, Refused};
use pacing::{Nanos, Rate};
use proptest::prelude::*;

use crate::model::clients::Wants;
use crate::model::node::{Node, NodeKind, STEP};
use crate::model::proxy::{Proxy, Visible, pace};
use crate::model::{adaptive, go_on, run, run_from};

/// More than any node takes.
pub(crate) const FLOOD: fn(f64) -> f64 = |_| 10_000.0;

pub(crate) fn pacer(max_req: u64, settings: &PaceSettings) -> Pacer {
    Pacer::new(Nanos::ZERO, Rate::per_second(max_req).unwrap(), settings)
}

pub(crate) fn many(under_way: usize) -> Demand {
    Demand {
        waiting: 1_000_000,
        under_way,
        most: 512,
        connections: 1,
    }
}

fn block(height: u64, txs: usize, ours: usize, observed: Nanos) -> BlockSeen {
    BlockSeen {
        height,
        txs,
        ours: Some(ours),
        observed,
    }
}

/// Takes what is granted until something else than the rate bounds it, and has it accepted at once.
pub(crate) fn fill(pacer: &mut Pacer, mut now: Nanos) -> (usize, Nanos) {
    let mut sent = 0;
    loop {
        let grant = pacer.grant(now, many(0));
        sent += grant.now;
        for _ in 0..grant.now {
            pacer.answered(now, now);
        }
        pacer.accepted(grant.now);
        match grant.next {
            Some(next) => now = next,
            None if grant.now > 0 => now = now.saturating_add(Nanos::from_millis(1)),
            None => return (sent, now),
        }
    }
}

/// Case 15.
#[test]
fn pacing_15_never_more_than_max_req_and_a_burst_in_any_100_ms() {
    // Demand comes and goes, blocks stall, the mempool fills up, a break closes the gate.
    let mut node = Node::new(NodeKind {
        jitter: 0.5,
        ..NodeKind::default()
    });
    let flood = |t: f64| if t % 7.0 < 4.0 { 10_000.0 } else { 0.0 };
    let mut proxy = adaptive(2_000, flood, &mut node);
    let mut now = Nanos::ZERO;
    while now < Nanos::from_secs(60) {
        node.step(now);
        let second = now.as_secs();
        node.halted = (30..40).contains(&second);
        if second >= 50 {
            proxy
                .pacer
                .throttle(now, if second == 50 { 0.0 } else { 1.0 });
        }
        proxy.step(now, &mut node);
        now = now.saturating_add(STEP);
    }
    let departures = &proxy.departures;
    let (mut first, mut inside, mut most) = (0, 0, 0);
    for (at, count) in departures {
        inside += count;
        while departures[first].0.saturating_add(Nanos::from_millis(100)) <= *at {
            inside -= departures[first].1;
            first += 1;
        }
        most = most.max(inside);
    }
    // 2,000/s × 0.1 s, and 20 ms at once.
    assert!(most <= 240, "{most}");
    assert!(proxy.sent > 40_000, "{}", proxy.sent);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// For any events in any order the emitter's bound holds, the rate's bounds, and a bound is named
    /// whenever writes are held back.
    #[test]
    fn pacing_15_any_events(
        events in prop::collection::vec((0_u8..9, 0_u64..50, 0_usize..6_000), 1..400),
    ) {
        let mut pacer = pacer(2_000, &pace(PaceMode::Adaptive));
        let (mut now, mut height) = (Nanos::ZERO, 0);
        let mut left: Vec<(Nanos, usize)> = Vec::new();
        for (kind, step_ms, number) in events {
            now = now.saturating_add(Nanos::from_millis(step_ms));
            match kind {
                0 => pacer.accepted(number / 10),
                1 => pacer.refused(Refused::Full { max: Some(number) }),
                2 => pacer.refused(Refused::Full { max: None }),
                3 => pacer.mempool(now, number),
                4 => {
                    height += 1;
                    pacer.block(now, &BlockSeen {
                        height,
                        txs: number,
                        ours: (number % 2 == 0).then_some(number / 2),
                        observed: now,
                    });
                }
                5 => pacer.throttle(now, number as f64 / 3_000.0),
                6 => pacer.mempool_lost(now),
                7 => pacer.answered(now, now.saturating_sub(Nanos::from_micros(number as u64))),
                _ => {
                    let demand = Demand { waiting: number, under_way: number % 512, most: 512, connections: 1 };
                    let grant = pacer.grant(now, demand);
                    prop_assert!(grant.now <= 512.min(number));
                    prop_assert!(grant.next.is_none_or(|next| next >= now));
                    prop_assert_eq!(pacer.bound() == Bound::Nothing, grant.now == number);
                    left.push((now, grant.now));
                }
            }
            prop_assert!((50.0..=2_000.0).contains(&pacer.rate().as_f64()));
        }
        for (i, (from, _)) in left.iter().enumerate() {
            let until = from.saturating_add(Nanos::from_millis(100));
            let sum: usize =
                left[i..].iter().take_while(|(at, _)| *at < until).map(|(_, count)| count).sum();
            prop_assert!(sum <= 240);
        }
    }
}

/// Own transactions in no block stay below about two blocks; a block returns what it took.
#[test]
fn the_window_is_two_blocks_and_a_block_returns_what_it_took() {
    let mut pacer = pacer(1_000_000, &pace(PaceMode::Adaptive));
    let (mut own, mut now) = (0, Nanos::ZERO);
    let mut sent = Vec::new();
    for height in 1..=20 {
        let (more, later) = fill(&mut pacer, now);
        assert!(
            matches!(pacer.bound(), Bound::Window { .. }),
            "{:?}",
            pacer.bound()
        );
        own += more;
        sent.push(more);
        now = later.max(Nanos::from_secs(height));
        pacer.block(now, &block(height, 1_000, 1_000, now));
        own -= 1_000;
    }
    // The first window is a guess; from then on it is two blocks, of which one is returned each time.
    assert_eq!(sent[0], 5_000);
    assert_eq!((own, sent[19]), (1_000, 1_000));
}

/// A node that takes everything gets twice as much with each block.
#[test]
fn blocks_that_take_everything_double_the_window() {
    let mut pacer = pacer(1_000_000, &pace(PaceMode::Adaptive));
    let mut now = Nanos::ZERO;
    for height in 1..=5 {
        let (sent, later) = fill(&mut pacer, now);
        assert_eq!(sent, 5_000 << (height - 1));
        now = later.max(Nanos::from_secs(height));
        pacer.block(now, &block(height, sent, sent, now));
    }
}

/// Case 17: no blocks, so nothing more is sent than the window allows; when blocks come again
/// everything goes on as before.
#[test]
fn controller_17_a_halted_chain_keeps_its_transactions_here() {
    for mempool in [5_000, 1_000_000] {
        let kind = NodeKind {
            mempool,
            ..NodeKind::steady()
        };
        let (mut node, mut proxy) = run(kind, 4_000, 30, FLOOD);
        let refused = proxy.refused;
        node.halted = true;
        go_on(&mut node, &mut proxy, 30, 330);
        assert_eq!(proxy.refused, refused);
        assert!(!proxy.pacer.is_blind(Nanos::from_secs(330)));
        assert!(
            node.depth() < mempool && node.depth() < 30_000,
            "{}",
            node.depth()
        );
        let sent = proxy.sent;
        node.halted = false;
        go_on(&mut node, &mut proxy, 330, 360);
        assert!(proxy.sent > sent + 60_000);
    }
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
        let settings = pace(PaceMode::Adaptive);
        let mut proxies = [0, 1].map(|at| Proxy::new(at, wants, 10_000, &settings, &mut node));
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

/// Case 22: a burst of refusals halves the window once, and the next block restores it.
#[test]
fn controller_22_full_and_rechecking_bursts_halve_once_a_block() {
    let mut pacer = pacer(1_000_000, &pace(PaceMode::Adaptive));
    let (sent, mut now) = fill(&mut pacer, Nanos::ZERO);
    assert_eq!(sent, 5_000);
    for _ in 0..300 {
        pacer.refused(Refused::Rechecking);
    }
    assert_eq!(pacer.grant(now, many(0)).now, 0);
    assert_eq!(
        pacer.bound(),
        Bound::Window {
            own: 5_000,
            limit: 2_500
        }
    );
    now = Nanos::from_secs(1);
    pacer.block(now, &block(1, 5_000, 5_000, now));
    assert_eq!(fill(&mut pacer, now).0, 5_000);
}

/// A node that states how much its mempool holds is filled to nearly that from then on.
#[test]
fn controller_22_the_size_of_the_mempool_is_learnt_from_the_first_refusal() {
    let mut pacer = pacer(1_000_000, &pace(PaceMode::Adaptive));
    let mut now = Nanos::from_millis(1);
    for accepted in [8, 7] {
        assert_eq!(pacer.grant(now, many(0)).now, 8);
        pacer.accepted(accepted);
        now = now.saturating_add(Nanos::from_millis(1));
    }
    pacer.refused(Refused::Full { max: Some(15) });
    assert_eq!(pacer.mempool_size(), Some(15));
    now = Nanos::from_secs(1);
    pacer.block(now, &block(1, 15, 15, now));
    let (sent, _) = fill(&mut pacer, now);
    assert_eq!(sent, 14);
    let room = Bound::MempoolRoom {
        own: 14,
        others: 0,
        limit: 14,
    };
    assert_eq!(pacer.bound(), room);
}

/// Case 77. At 5ff2818 eight asked for the room that a block had left until the block was known, and a real
/// node beside a foreign flood gave own clients 23 % of it.
#[test]
fn controller_77_many_ask_for_the_room_that_others_race_for_until_one_is_refused() {
    let full = Refused::Full { max: Some(5_000) };
    let mut pacer = pacer(100_000, &PaceSettings::default());
    pacer.refused(full);
    let (mut now, mut under_way) = (Nanos::ZERO, 0);
    // The node commits a block and answers nothing.
    for asking in [8, 16, 32, 64] {
        under_way += pacer.grant(now, many(under_way)).now;
        assert_eq!(under_way, asking);
        now = pacer.grant(now, many(under_way)).next.unwrap();
    }
    // They are answered and others ask in their place, until the room is gone.
    assert_eq!(pacer.grant(now, many(100)).now, 28);
    for left in (0..128).rev() {
        pacer.refused(full);
        // Nothing is sent until all of them are answered.
        let held = Demand {
            most: 0,
            ..many(left)
        };
        assert_eq!(pacer.grant(now, held).now, 0);
    }
    assert_eq!(pacer.grant(now, many(0)).now, 8);
}

/// A fresh proxy in front of the model of a real node fills its blocks after four of them.
#[test]
fn a_fresh_start_fills_blocks_within_four() {
    let (node, proxy) = run(NodeKind::steady(), 10_000, 40, FLOOD);
    let settled = node.blocks.last().unwrap().txs() as f64;
    let fourth = node.blocks[4].txs() as f64;
    assert!(fourth > 0.95 * settled, "{fourth} {settled}");
    // The mempool is found by its first refusals; from then on there are none.
    assert!(proxy.refused < 300, "{}", proxy.refused);
    assert_eq!(proxy.pacer.mempool_size(), Some(5_000));
    // Below the capacity nothing has to be found but the ceiling.
    let (node, proxy) = run(NodeKind::steady(), 2_000, 10, FLOOD);
    assert_eq!((proxy.refused, node.refused), (0, 0));
    assert_eq!(proxy.usual_bound(), "ceiling");
}

/// The pace spreads what a block returns over the interval.
#[test]
fn writes_leave_over_most_of_the_interval() {
    let (_, proxy) = run(NodeKind::steady(), 10_000, 60, FLOOD);
    let late = proxy
        .departures
        .iter()
        .filter(|(at, _)| *at > Nanos::from_secs(30));
    let busy: Vec<_> = late.map(|(at, _)| at.as_millis() / 10).collect();
    let distinct = busy.iter().collect::<std::collections::BTreeSet<_>>().len();
    // Of 3,000 hundredths of a second.
    assert!(distinct > 2_000, "{distinct}");
    let rates: Vec<f64> = proxy.rates_from(Nanos::from_secs(30)).collect();
    assert!(
        rates.iter().all(|rate| (3_000.0..9_000.0).contains(rate)),
        "{rates:?}"
    );
}

/// A node whose blocks are seen neither in blocks nor in depths goes by answers and refusals.
#[test]
fn blind_the_pace_goes_by_answers_and_refusals() {
    let visible = Visible {
        blocks: false,
        depth: false,
    };
    let start = |node: &mut Node| adaptive(10_000, FLOOD, node).seeing(visible);
    let (node, proxy) = run_from(Node::new(NodeKind::steady()), start, 120);
    assert!(proxy.pacer.is_blind(Nanos::from_secs(120)));
    let committed = node.committed_between(Nanos::from_secs(60), Nanos::from_secs(120));
    assert!(committed as f64 > 60.0 * 2_500.0, "{committed}");
}

/// Blocks are made but not reported: the falling depth shows them.
#[test]
fn with_the_depth_alone_the_window_follows_it() {
    let visible = Visible {
        blocks: false,
        depth: true,
    };
    let start = |node: &mut Node| adaptive(10_000, FLOOD, node).seeing(visible);
    let (node, proxy) = run_from(Node::new(NodeKind::steady()), start, 120);
    assert!(!proxy.pacer.is_blind(Nanos::from_secs(120)));
    let committed = node.committed_between(Nanos::from_secs(60), Nanos::from_secs(120));
    assert!(committed as f64 > 60.0 * 2_500.0, "{committed}");
}

/// A restart of the node empties its mempool; the account follows.
#[test]
fn a_lost_mempool_does_not_close_the_window() {
    let mut pacer = pacer(1_000_000, &pace(PaceMode::Adaptive));
    let (_, now) = fill(&mut pacer, Nanos::ZERO);
    assert_eq!(pacer.grant(now, many(0)).now, 0);
    pacer.connection_lost();
    pacer.mempool_lost(now);
    pacer.connection_up(now);
    assert_eq!(fill(&mut pacer, now).0, 5_000);
}

/// *fixed* and *off* know no window; *off* knows no rate either.
#[test]
fn fixed_keeps_its_rate_and_off_keeps_nothing_back() {
    let sent = |mode| {
        let mut node = Node::new(NodeKind::steady());
        let wants = Wants {
            flood: FLOOD,
            ..Wants::default()
        };
        let mut proxy = Proxy::new(0, wants, 1_000, &pace(mode), &mut node);
        go_on(&mut node, &mut proxy, 0, 10);
        (proxy.sent, proxy.pacer.bound())
    };
    let (fixed, bound) = sent(PaceMode::Fixed);
    assert!((9_990..=10_020).contains(&fixed), "{fixed}");
    assert_eq!(
        bound,
        Bound::Ceiling {
            per_second: 1_000.0
        }
    );
    assert!(sent(PaceMode::Off).0 > 40_000);
}
