//! What turns cost, and what is held back: fairness cases 7, 73, 83 and 84.

use fairq::{FairQueue, Item, QueueLimits, Weight};
use proptest::prelude::*;

use crate::{
    shares::{CAPACITY, secs},
    sim::{SEED, Sim, Source, assert_near, client, roomy},
};

#[test]
fn fairness_07_big_items_pay_for_their_size() {
    let mut sim = Sim::new(roomy(), CAPACITY);
    let big = Source {
        cost: 17,
        ..Source::new(client(1), 500.0)
    };
    sim.offer(big);
    sim.offer(Source::new(client(2), 5_000.0));
    sim.offer(Source {
        cost: 257,
        ..Source::new(client(3), 50.0)
    });
    sim.run(secs(2));
    sim.run(secs(62));
    let cost = |n| sim.tally[&client(n)].cost;
    for n in 1..=3 {
        // An item of 257 may lie on either side of an edge.
        assert_near(cost(n), 40_000.0, 257.0);
    }
}

#[test]
fn fairness_73_what_is_scarce_may_change_while_items_wait() {
    let limits = QueueLimits {
        quantum: 16,
        per_client: 1 << 17,
        ..roomy()
    };
    let mut queue = FairQueue::new(limits, SEED).unwrap();
    // Both have their bytes as costs: 750 kB beside 128 bytes.
    for (who, count, cost) in [(1, 30, 11_719), (2, 60_000, 2)] {
        for _ in 0..count {
            let item = Item {
                value: (),
                bytes: 250,
                cost,
            };
            let _ = queue.push(client(who), 1, Weight::ONE, item).unwrap();
        }
    }
    let mut served = |pops: usize, price: fn(&Item<()>) -> u32| {
        let mut served = [0_i64; 2];
        for _ in 0..pops {
            let popped = queue.pop_at(price).unwrap();
            served[usize::from(popped.client == client(2))] += i64::from(price(&popped.item));
        }
        served[0] - served[1]
    };
    // Transactions are scarce: one for one. Then bytes are, for what came before as well.
    assert_eq!(served(20, |_| 16), 0);
    assert!(served(30_000, |item| item.cost).abs() <= 2 * 11_719);
}

/// Prices are made of what clients write. At 2b52556 a gas limit of 2^63 was a price of 2^32: the queue repaid it 16 at a
/// time, in 268 million turns of a loop under the lane's lock, for each such write.
#[test]
fn fairness_83_a_pop_repays_no_debt_by_turning() {
    let limits = QueueLimits {
        quantum: 16,
        per_client: 1 << 17,
        ..roomy()
    };
    let mut queue = FairQueue::new(limits, SEED).unwrap();
    let push = |queue: &mut FairQueue<u32>, who| {
        let pushed = queue.push(client(who), 1, Weight::ONE, Item::new(who, 250));
        let _ = pushed.unwrap();
    };
    // Alone, beside others that do the same, and beside one that is idle and owes.
    for clients in [1, 2, 100] {
        for n in 0..100_000 {
            push(&mut queue, n % clients);
        }
        let price = |_: &Item<u32>| u32::MAX;
        assert_eq!(
            (0..).take_while(|_| queue.pop_at(price).is_some()).count(),
            100_000
        );
    }
    // It is dear for its own client alone: what others send goes first until it has paid the rest of 16,384.
    push(&mut queue, 200);
    assert_eq!(queue.pop_at(|_| u32::MAX).unwrap().item.value, 200);
    for _ in 0..20_000 {
        push(&mut queue, 201);
    }
    push(&mut queue, 200);
    let before = (0..).take_while(|_| queue.pop_at(|_| 1).unwrap().item.value != 200);
    assert_eq!(before.count(), 16_384 - 16);
}

/// A write whose price was 0 did not end its flow's turn: at 2b52556 one client had 1,802 turns in 25 s, a busy one 62
/// and a polite one none.
#[test]
fn fairness_84_what_costs_nothing_ends_its_turn() {
    let limits = QueueLimits {
        quantum: 16,
        ..roomy()
    };
    let mut queue = FairQueue::new(limits, SEED).unwrap();
    for who in [1, 2] {
        for _ in 0..1_000 {
            let item = Item::new(who, 250);
            let _ = queue.push(client(who), 1, Weight::ONE, item).unwrap();
        }
    }
    let mut served = [0_u32; 2];
    for _ in 0..640 {
        let popped = queue.pop_at(|item| if item.value == 1 { 0 } else { 1 });
        served[popped.unwrap().item.value as usize - 1] += 1;
    }
    assert_eq!(served, [320; 2]);
}

/// Before, who ran empty owing less than a turn had a whole one when it came back, if nobody else was before it.
#[test]
fn fairness_83_what_a_flow_owes_is_not_forgiven_when_it_runs_empty() {
    let limits = QueueLimits {
        quantum: 16,
        ..roomy()
    };
    let mut queue = FairQueue::new(limits, SEED).unwrap();
    let push = |queue: &mut FairQueue<u32>, who, count| {
        for _ in 0..count {
            let item = Item::new(who, 250);
            let _ = queue.push(client(who), 1, Weight::ONE, item).unwrap();
        }
    };
    push(&mut queue, 1, 1);
    push(&mut queue, 2, 40);
    assert_eq!(queue.pop_at(|_| 31).unwrap().item.value, 1);
    push(&mut queue, 1, 40);
    let next: Vec<u32> = (0..33)
        .map(|_| queue.pop_at(|_| 1).unwrap().item.value)
        .collect();
    let wanted = [[2; 16].as_slice(), &[1], &[2; 16]].concat();
    assert_eq!(next, wanted);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the prices, those who wait all the time get the same for their weights, but for the last item of each
    /// and a turn on either side.
    #[test]
    fn fairness_83_any_prices_are_fair(
        weights in prop::collection::vec(1_u32..20, 1..9),
        prices in prop::collection::vec(
            prop_oneof![Just(0), 1_u32..40, Just(16), 0_u32..20_000, any::<u32>(), Just(u32::MAX)],
            50..600,
        ),
    ) {
        const QUANTUM: u32 = 16;
        const COST_MAX: u32 = 16_384;
        let limits = QueueLimits { quantum: QUANTUM, ..roomy() };
        let mut queue = FairQueue::new(limits, SEED).unwrap();
        let mut prices = prices.into_iter();
        let mut served = vec![0_u64; weights.len()];
        let mut next = || prices.next();
        loop {
            for (who, weight) in (0..).zip(&weights) {
                if queue.backlog(&client(who)).entries < 2 {
                    let weight = Weight::new(*weight).unwrap();
                    let item = Item::new(who as usize, 250);
                    let _ = queue.push(client(who), 1, weight, item).unwrap();
                }
            }
            let Some(price) = next() else { break };
            let who = queue.pop_at(|_| price).unwrap().item.value;
            served[who] += u64::from(price.clamp(1, COST_MAX));
            let level = |who: usize| served[who] as f64 / f64::from(weights[who]);
            for one in 0..weights.len() {
                let last = f64::from(COST_MAX) / f64::from(weights[one]);
                for other in 0..weights.len() {
                    let ahead = level(one) - level(other);
                    prop_assert!(ahead <= last + 2.0 * f64::from(QUANTUM), "{served:?} of {weights:?}");
                }
            }
        }
    }
}

/// What is held takes no turns, and neither what comes of it while it is; the others go on, and it comes back to its
/// share without being owed anything.
#[test]
fn what_is_held_costs_nobody_else_a_turn() {
    let mut queue = FairQueue::new(roomy(), SEED).unwrap();
    let push = |queue: &mut FairQueue<u32>, who, connection| {
        let pushed = queue.push(client(who), connection, Weight::default(), Item::new(0, 1));
        assert!(pushed.is_ok());
    };
    let pops = |queue: &mut FairQueue<u32>, count: usize| {
        let popped = (0..count).map_while(|_| queue.pop());
        let mut of = [0; 4];
        for one in popped {
            of[one.connection as usize] += 1;
        }
        of
    };
    queue.hold(client(2), Some(1));
    for _ in 0..500 {
        push(&mut queue, 2, 1);
        push(&mut queue, 2, 2);
        push(&mut queue, 3, 3);
    }
    assert_eq!(pops(&mut queue, 320), [0, 0, 160, 160]);
    // Its other connections may not go either.
    queue.hold(client(2), None);
    assert_eq!(pops(&mut queue, 160), [0, 0, 0, 160]);
    assert_eq!((queue.backlogged_clients(), queue.lanes()), (2, 3));
    queue.release(client(2), Some(1));
    assert_eq!(pops(&mut queue, 80), [0, 0, 0, 80]);
    queue.release(client(2), None);
    assert_eq!(pops(&mut queue, 160), [0, 40, 40, 80]);
    // Held once more, it loses what waits to a deadline, and is forgotten.
    queue.hold(client(2), None);
    queue.remove_connection(&client(2), 1, |_| false, drop);
    queue.remove_connection(&client(2), 2, |_| false, drop);
    assert_eq!(pops(&mut queue, 100), [0, 0, 0, 20]);
    push(&mut queue, 3, 3);
    while queue.pop().is_some() {}
    push(&mut queue, 2, 1);
    assert_eq!(pops(&mut queue, 1), [0; 4]);
    queue.release(client(2), None);
    assert_eq!(pops(&mut queue, 1), [0, 1, 0, 0]);
}
