//! The pace: its bounds, how fast it finds what a node takes, and how steady it is.

use control::{BlockSeen, Bound, Demand, Load, PaceMode, Pacer, Refused, Unit};
use pacing::{Nanos, Rate};
use proptest::prelude::*;

use crate::model::node::{Node, NodeKind, STEP};
use crate::model::proxy::Proxy;
use crate::model::{Wants, adaptive, go_on, run};

/// More than any node takes.
pub(crate) const FLOOD: fn(f64) -> f64 = |_| 10_000.0;

/// So many transactions of a gas each, whose bytes do not matter.
pub(crate) fn of_txs(txs: u64) -> Load {
    Load {
        txs,
        bytes: 0,
        gas: txs,
    }
}

pub(crate) fn pacer(max_req: u64, mode: PaceMode) -> Pacer {
    Pacer::new(Nanos::ZERO, Rate::per_second(max_req).unwrap(), mode)
}

/// So many are under way, and more wait than can be sent.
pub(crate) fn many(under_way: usize) -> Demand {
    Demand {
        waiting: 1_000_000,
        first: Load::default(),
        under_way,
        own: of_txs(under_way as u64),
        most: 512,
        connections: 1,
        lines: 1,
    }
}

pub(crate) fn block(height: u64, txs: u64, observed: Nanos) -> BlockSeen {
    BlockSeen {
        height,
        all: of_txs(txs),
        ours: of_txs(txs),
        observed,
    }
}

/// The pacer, what is own, and the time.
pub(crate) struct World {
    pub(crate) pacer: Pacer,
    pub(crate) own: u64,
    pub(crate) now: Nanos,
    height: u64,
    /// The earliest instant of the next block.
    pub(crate) due: Nanos,
}

impl World {
    fn new(mode: PaceMode) -> Self {
        Self {
            pacer: pacer(1_000_000, mode),
            own: 0,
            now: Nanos::ZERO,
            height: 0,
            due: Nanos::from_secs(1),
        }
    }

    pub(crate) fn adaptive() -> Self {
        Self::new(PaceMode::Adaptive)
    }

    /// More wait than can be sent, and none is under way.
    pub(crate) fn demand(&self) -> Demand {
        Demand {
            own: of_txs(self.own),
            ..many(0)
        }
    }

    /// Takes what is granted until something else than the rate bounds it, and has it accepted at once.
    pub(crate) fn fill(&mut self) -> u64 {
        let before = self.own;
        loop {
            let grant = self.pacer.grant(self.now, self.demand());
            // In the end clients that ask for little take the place that is kept for them.
            let kept = match (grant.now, grant.next) {
                (0, None) => grant.light,
                _ => 0,
            };
            self.pacer.sent_for_light(self.now, kept, Load::default());
            let count = grant.now + kept;
            self.own += count as u64;
            for _ in 0..count {
                self.pacer.answered(self.now, self.now);
                self.pacer.accepted();
            }
            match grant.next {
                Some(next) => self.now = next,
                None if count > 0 => self.now = self.now.saturating_add(Nanos::from_millis(1)),
                None => return self.own - before,
            }
        }
    }

    /// A block, a second after the last or more, takes so many, if there are so many.
    pub(crate) fn block(&mut self, most: u64) {
        self.height += 1;
        self.now = self.now.max(self.due);
        self.due = self.now.saturating_add(Nanos::from_secs(1));
        let taken = most.min(self.own);
        self.own -= taken;
        let seen = block(self.height, taken, self.now);
        self.pacer
            .block(self.now, &seen, Unit::Transactions, of_txs(self.own));
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
        proxy.is_in_break = second == 50;
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
        let mut pacer = pacer(2_000, PaceMode::Adaptive);
        let (mut now, mut height) = (Nanos::ZERO, 0);
        let mut left: Vec<(Nanos, usize)> = Vec::new();
        for (kind, step_ms, number) in events {
            now = now.saturating_add(Nanos::from_millis(step_ms));
            match kind {
                0 => pacer.accepted(),
                1 => pacer.refused(Refused::Full { max: Some(number) }),
                2 => pacer.refused(Refused::Full { max: None }),
                3 => pacer.mempool(now, now, number),
                4 => {
                    height += 1;
                    let unit = [Unit::Transactions, Unit::Bytes, Unit::Gas][number % 3];
                    let all = Load { txs: number as u64, bytes: 250 * number as u64, gas: number as u64 };
                    let seen = BlockSeen { height, all, ours: Load::default(), observed: now };
                    pacer.block(now, &seen, unit, all);
                }
                5 => {
                    let demand = Demand { waiting: number, most: 0, ..many(3) };
                    prop_assert_eq!(pacer.grant(now, demand).now, 0);
                }
                6 => pacer.node_changed(now),
                7 => pacer.answered(now, now.saturating_sub(Nanos::from_micros(number as u64))),
                _ => {
                    let demand = Demand { waiting: number, ..many(number % 512) };
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
    let mut world = World::adaptive();
    let sent: Vec<u64> = (0..20)
        .map(|_| {
            let sent = world.fill();
            let bound = world.pacer.bound();
            assert!(matches!(bound, Bound::Window { .. }), "{bound:?}");
            world.block(1_000);
            sent
        })
        .collect();
    // The first window is a guess, and its blocks are taken whole; from then on it is two blocks.
    assert_eq!(sent[..4], [64, 256, 1_024, 3_976]);
    assert_eq!((world.own, sent[19]), (1_000, 1_000));
}

/// The window is in the unit that the chain is short of.
#[test]
fn a_chain_short_of_bytes_has_a_window_of_bytes() {
    let mut world = World::adaptive();
    let of = |txs: u64| Load {
        txs,
        bytes: txs * 1_000,
        gas: 0,
    };
    for height in 1..=8 {
        let seen = BlockSeen {
            height,
            all: of(100),
            ours: of(100),
            observed: Nanos::from_secs(height),
        };
        let at = Nanos::from_secs(height);
        // Writes wait all the time.
        world.pacer.grant(
            at,
            Demand {
                own: of(150),
                ..many(0)
            },
        );
        world.pacer.block(at, &seen, Unit::Bytes, of(100));
    }
    assert_eq!(world.pacer.unit(), Unit::Bytes);
    let demand = Demand {
        own: of(199),
        ..many(0)
    };
    let grant = world.pacer.grant(Nanos::from_secs(9), demand);
    assert!(grant.now <= 1 && grant.amount <= 1_000, "{grant:?}");
    let demand = Demand {
        own: of(200),
        ..many(0)
    };
    assert_eq!(world.pacer.grant(Nanos::from_secs(9), demand).now, 0);
    let window = Bound::Window {
        own: 200_000,
        limit: 200_000,
        unit: Unit::Bytes,
    };
    assert_eq!(world.pacer.bound(), window);
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

/// Case 22: a burst of refusals halves the window once, and the next block restores it.
#[test]
fn controller_22_full_and_rechecking_bursts_halve_once_a_block() {
    let mut world = World::adaptive();
    assert_eq!(world.fill(), 64);
    for _ in 0..300 {
        world.pacer.refused(Refused::TimedOut);
    }
    assert_eq!(world.pacer.grant(world.now, world.demand()).now, 0);
    let halved = Bound::Window {
        own: 64,
        limit: 32,
        unit: Unit::Transactions,
    };
    assert_eq!(world.pacer.bound(), halved);
    world.block(u64::MAX);
    assert_eq!(world.fill(), 256);
}

/// A node that states how much its mempool holds is filled to nearly that from then on.
#[test]
fn controller_22_the_size_of_the_mempool_is_learnt_from_the_first_refusal() {
    let mut world = World::adaptive();
    world.own = 15;
    world.pacer.grant(world.now, world.demand());
    world.pacer.refused(Refused::Full { max: Some(15) });
    world.block(15);
    assert_eq!(world.fill(), 14);
    let room = Bound::Mempool {
        own: 14,
        others: 0,
        limit: 14,
    };
    assert_eq!(world.pacer.bound(), room);
}

/// Case 77: one write at a time asks a full mempool for room; the first that it takes opens the room before the block is
/// seen.
#[test]
fn controller_77_a_full_mempool_is_asked_by_one_write_at_a_time() {
    let full = Refused::Full { max: Some(5_000) };
    let mut pacer = pacer(100_000, PaceMode::Adaptive);
    pacer.refused(full);
    for second in 1..9 {
        let now = Nanos::from_secs(second);
        assert_eq!(pacer.grant(now, many(0)).now, 1);
        assert_eq!(pacer.grant(now, many(1)).now, 0);
        pacer.refused(full);
    }
    pacer.accepted();
    // Now the in-flight cap bounds them, which no answer has raised yet.
    assert_eq!(pacer.grant(Nanos::from_secs(9), many(1)).now, 7);
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

/// *fixed* and *off* know no window; *off* knows no rate either.
#[test]
fn fixed_keeps_its_rate_and_off_keeps_nothing_back() {
    let sent = |mode| {
        let mut node = Node::new(NodeKind::steady());
        let wants = Wants {
            flood: FLOOD,
            ..Wants::default()
        };
        let mut proxy = Proxy::new(0, wants, 1_000, mode, &mut node);
        go_on(&mut node, &mut proxy, 0, 10);
        (proxy.sent, proxy.pacer.bound())
    };
    let (fixed, bound) = sent(PaceMode::Fixed);
    assert!((9_990..=10_020).contains(&fixed), "{fixed}");
    assert_eq!(bound, Bound::Ceiling(Rate::per_second(1_000).unwrap()));
    assert!(sent(PaceMode::Off).0 > 40_000);
}
