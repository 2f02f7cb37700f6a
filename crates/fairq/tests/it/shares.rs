//! Who gets how much: fairness cases 1 to 8, 13 and 14.
//!
//! What each client ought to get: weighted max-min, by filling with water.

use fairq::{Backlog, ClientKey, FairQueue, Gcra, Item, Popped, QueueLimits, Weight};
use pacing::Nanos;
use proptest::prelude::*;

use crate::sim::{SEED, Sim, Source, assert_near, client, roomy};

pub(crate) const CAPACITY: u64 = 2_000;

pub(crate) const fn secs(secs: u64) -> Nanos {
    Nanos::from_secs(secs)
}

#[test]
fn fairness_01_995_995_10() {
    let mut sim = Sim::new(roomy(), CAPACITY);
    for (n, rate) in [(2, 100_000.0), (3, 1_000.0), (4, 10.0)] {
        sim.offer(Source::new(client(n), rate));
    }
    sim.run(secs(2));
    sim.run(secs(12));
    assert_near(sim.served(&client(2)), 9_950.0, 0.0);
    assert_near(sim.served(&client(3)), 9_950.0, 0.0);
    assert_near(sim.served(&client(4)), 100.0, 0.0);
}

/// Lanes are the connections of which something waits.
#[test]
fn what_waits_is_counted_by_connection() {
    let mut queue = FairQueue::new(roomy(), SEED).unwrap();
    for (who, connection) in [(2, 1), (2, 1), (2, 2), (3, 3)] {
        let item = Item {
            bytes: 1,
            cost: 1,
            value: (),
        };
        let pushed = queue.push(client(who), connection, Weight::default(), item);
        assert!(pushed.is_ok());
    }
    assert_eq!(queue.lanes(), 3);
    while queue.pop().is_some() {}
    assert_eq!(queue.lanes(), 0);
}

#[test]
fn fairness_02_ten_thousand_clients_are_equal() {
    let mut sim = Sim::new(roomy(), CAPACITY);
    for n in 0..10_000 {
        sim.offer(Source::new(client(n), 1.0));
    }
    sim.run(secs(10));
    sim.run(secs(60));
    let counts: Vec<u64> = (0..10_000).map(|n| sim.served(&client(n))).collect();
    assert_eq!(counts.iter().sum::<u64>(), 100_000);
    // 10 each; a turn more or less at the edges.
    assert!(counts.iter().all(|&count| count.abs_diff(10) <= 1));
}

#[test]
fn fairness_03_an_elephant_and_ten_thousand_mice() {
    let mut sim = Sim::new(roomy(), CAPACITY);
    sim.offer(Source::new(client(0), 20_000.0));
    for n in 1..=10_000 {
        let mut mouse = Source::new(client(n), 0.1);
        // A prime apart, so that they come one by one.
        mouse.from = Nanos::from_micros(u64::from(n) * 997);
        sim.offer(mouse);
    }
    sim.run(secs(12));
    sim.run(secs(22));
    assert_near(sim.served(&client(0)), 10_000.0, 0.0);
    let mut all = sim.tally.remove(&client(1)).unwrap();
    for n in 2..=10_000 {
        all.waits.extend(&sim.tally[&client(n)].waits);
    }
    assert_near(all.waits.len() as u64, 10_000.0, 0.0);
    assert!(
        all.wait_at(0.99) <= Nanos::from_millis(5),
        "{}",
        all.wait_at(0.99)
    );
}

#[test]
fn fairness_04_a_square_wave_banks_no_credit() {
    let mut sim = Sim::new(roomy(), CAPACITY);
    sim.offer(Source::new(client(0), 4_000.0));
    // On for 300 ms, off for 700 ms, at a rate that lets its queue run dry in between.
    for cycle in 0..10 {
        let mut wave = Source::new(client(1), 2_000.0);
        wave.connection = cycle;
        wave.from = secs(cycle).saturating_add(Nanos::from_millis(100));
        wave.until = wave.from.saturating_add(Nanos::from_millis(300));
        sim.offer(wave);
    }
    sim.run(Nanos::from_millis(2_100));
    for cycle in 2..10 {
        let start = secs(cycle).saturating_add(Nanos::from_millis(100));
        // From its first item on it has one half, not more for having been away.
        sim.run(start.saturating_add(Nanos::from_millis(100)));
        assert_near(sim.served(&client(1)), 100.0, 1.0);
        assert_near(sim.served(&client(0)), 100.0, 1.0);
        sim.run(secs(cycle + 1).saturating_add(Nanos::from_millis(100)));
    }
}

/// Whenever its queue is empty, and so many pops have passed, the dancer pushes so many items. It
/// never does better than who stays.
#[test]
fn fairness_04_no_dance_gains_anything() {
    for honest in 1..5_u32 {
        for pause in 0..8 {
            for step in 1..4 {
                let mut queue = FairQueue::new(roomy(), SEED).unwrap();
                let dancer = client(99);
                let mut served = [0_u32; 2];
                let mut since = 0;
                for _ in 0..2_000 {
                    for n in 0..honest {
                        while queue.backlog(&client(n)).entries < 3 {
                            let _ = queue
                                .push(client(n), 1, Weight::ONE, Item::new((), 250))
                                .unwrap();
                        }
                    }
                    if queue.backlog(&dancer).entries == 0 {
                        since += 1;
                        if since > pause {
                            since = 0;
                            for _ in 0..step {
                                let _ = queue
                                    .push(dancer, 1, Weight::ONE, Item::new((), 250))
                                    .unwrap();
                            }
                        }
                    }
                    let whose = queue.pop().unwrap().client;
                    served[usize::from(whose == dancer)] += 1;
                }
                let share = f64::from(served[1]) * f64::from(honest) / f64::from(served[0]);
                assert!(share <= 1.01, "{share} of {honest} after {pause} by {step}");
            }
        }
    }
}

/// Who could send ten in each turn and sends one has nothing saved when it has more.
#[test]
fn fairness_04_turns_not_used_are_not_saved() {
    let mut queue = FairQueue::new(roomy(), SEED).unwrap();
    let ten = Weight::new(10).unwrap();
    for n in 0..2_000 {
        let _ = queue
            .push(client(0), 1, Weight::ONE, Item::new(n, 250))
            .unwrap();
    }
    for n in 0..1_000 {
        if queue.backlog(&client(1)).entries == 0 {
            let _ = queue.push(client(1), 1, ten, Item::new(n, 250)).unwrap();
        }
        queue.pop().unwrap();
    }
    for n in 0..200 {
        let _ = queue.push(client(1), 1, ten, Item::new(n, 250)).unwrap();
    }
    let mut served = [0_u32; 2];
    for _ in 0..110 {
        served[usize::from(queue.pop().unwrap().client == client(1))] += 1;
    }
    // Ten rounds of one and ten, from wherever the first of them begins.
    assert!(served[0].abs_diff(10) <= 1, "{served:?}");
}

/// A client that has a third of its share here, and the rest at other proxies, has a third of a turn.
#[test]
fn fairness_04_parts_of_a_share_are_kept_beside_whole_ones_and_whatever_a_write_costs() {
    let limits = QueueLimits {
        quantum: 16,
        ..roomy()
    };
    for (part, cost) in [(1.0 / 3.0, 16), (0.5, 16), (1.0 / 7.0, 100), (0.01, 16)] {
        let mut queue = FairQueue::new(limits, SEED).unwrap();
        for n in 0..4_000 {
            for (number, weight) in [(0, Weight::ONE), (1, Weight::ONE.part(part))] {
                let item = Item::new(n, 250);
                let _ = queue.push(client(number), 1, weight, item).unwrap();
            }
        }
        let mut served = [0_u32; 2];
        for _ in 0..4_000 {
            let popped = queue.pop_at(|_| cost).unwrap();
            served[usize::from(popped.client == client(1))] += 1;
        }
        let ratio = f64::from(served[1]) / f64::from(served[0]);
        // The largest error is that of a weight in 1,024ths, and of one write.
        let error = 1.0 / (1_024.0 * part) + 0.02;
        assert!((ratio / part - 1.0).abs() < error, "{part}: {served:?}");
    }
}

#[test]
fn fairness_05_joins_and_leaves_within_a_second() {
    let mut sim = Sim::new(roomy(), CAPACITY);
    let span = |n, rate, from, until| Source {
        from: secs(from),
        until: secs(until),
        ..Source::new(client(n), rate)
    };
    sim.offer(span(0, 5_000.0, 0, 20));
    sim.offer(span(1, 5_000.0, 4, 12));
    sim.offer(span(2, 300.0, 8, 20));
    // (from, until, rates) after a second for each change.
    let stretches = [
        (1, 4, [2_000.0, 0.0, 0.0]),
        (5, 8, [1_000.0, 1_000.0, 0.0]),
        (9, 12, [850.0, 850.0, 300.0]),
        (13, 20, [1_700.0, 0.0, 300.0]),
    ];
    for (from, until, rates) in stretches {
        sim.run(secs(from));
        sim.run(secs(until));
        for (n, rate) in (0..).zip(rates) {
            assert_near(sim.served(&client(n)), rate * (until - from) as f64, 1.0);
        }
        if until == 12 {
            // It leaves with all it had waiting.
            sim.queue
                .remove_connection(&client(1), 1, |_| false, |_| {});
        }
    }
}

#[test]
fn fairness_06_a_thousand_connections_are_one_client() {
    let mut sim = Sim::new(roomy(), CAPACITY);
    for connection in 0..1_000 {
        sim.offer(Source {
            connection,
            ..Source::new(client(1), 20.0)
        });
    }
    sim.offer(Source::new(client(2), 20_000.0));
    sim.run(secs(5));
    sim.run(secs(25));
    assert_near(sim.served(&client(1)), 20_000.0, 0.0);
    assert_near(sim.served(&client(2)), 20_000.0, 0.0);
}

#[test]
fn a_short_queue_beside_a_long_one_is_told() {
    let mut queue = FairQueue::new(roomy(), SEED).unwrap();
    let mut push = |who, count| {
        for n in 0..count {
            let _ = queue
                .push(client(who), 1, Weight::ONE, Item::new(n, 1))
                .unwrap();
        }
        let short = [1, 2].map(|who| queue.backlog(&client(who)).is_short());
        (queue.is_uneven(), short)
    };
    assert_eq!(push(1, 7), (false, [true, true]));
    assert_eq!(push(2, 7), (false, [true, true]));
    assert_eq!(push(2, 1), (true, [true, false]));
    assert_eq!(push(1, 1), (false, [false, false]));
}

#[test]
fn fairness_06_connections_of_one_client_take_turns() {
    let mut queue = FairQueue::new(roomy(), SEED).unwrap();
    for connection in [1, 2, 3] {
        for n in 0..100 {
            let _ = queue
                .push(client(1), connection, Weight::ONE, Item::new(n, 1))
                .unwrap();
        }
    }
    let _ = queue
        .push(client(1), 4, Weight::ONE, Item::new(0, 1))
        .unwrap();
    let turns: Vec<u64> = (0..8).map(|_| queue.pop().unwrap().connection).collect();
    assert_eq!(turns, [1, 2, 3, 4, 1, 2, 3, 1]);
}

#[test]
fn fairness_08_a_batch_of_ten_is_ten() {
    for (batch, cost) in [(10, 1), (1, 10)] {
        let mut sim = Sim::new(roomy(), CAPACITY);
        sim.offer(Source {
            batch,
            cost,
            ..Source::new(client(1), 500.0)
        });
        sim.offer(Source::new(client(2), 5_000.0));
        sim.run(secs(2));
        sim.run(secs(12));
        assert_near(sim.tally[&client(1)].cost, 10_000.0, 0.0);
        assert_near(sim.tally[&client(2)].cost, 10_000.0, 0.0);
    }
}

fn demands() -> impl Strategy<Value = Vec<(f64, u32)>> {
    // From 3/s to 3,000/s, as likely in each decade.
    let rate = (0.5_f64..3.5).prop_map(|exponent| 10_f64.powf(exponent));
    prop::collection::vec((rate, 1_u32..6), 1..16)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn fairness_13_any_demands_as_the_oracle_says(demands in demands()) {
        let mut sim = Sim::new(roomy(), CAPACITY);
        for (n, &(rate, weight)) in (0..).zip(&demands) {
            let weight = Weight::new(weight).unwrap();
            sim.offer(Source { weight, ..Source::new(client(n), rate) });
        }
        let wanted: Vec<Demand> = demands
            .iter()
            .map(|&(rate, weight)| Demand { rate, weight: f64::from(weight) })
            .collect();
        let wanted = max_min(&wanted, CAPACITY as f64);
        sim.run(secs(2));
        sim.run(secs(12));
        for (n, rate) in (0..).zip(wanted) {
            let weight = f64::from(demands[n as usize].1);
            let found = sim.served(&client(n)) as f64;
            let off = (found - rate * 10.0).abs();
            // A turn may lie on either side of an edge.
            prop_assert!(
                off <= rate * 10.0 / 100.0 + weight + 1.0,
                "client {n} got {found}, not {}", rate * 10.0
            );
        }
    }
}

#[test]
fn fairness_14_a_clock_that_jumps_gives_one_burst() {
    let mut queue = FairQueue::new(roomy(), SEED).unwrap();
    let mut emitter = Gcra::new("2000/s".parse().unwrap(), Nanos::from_millis(20));
    let refill = |queue: &mut FairQueue<()>| {
        for n in [1, 2] {
            while queue.backlog(&client(n)).entries < 500 {
                let _ = queue
                    .push(client(n), 1, Weight::ONE, Item::new((), 250))
                    .unwrap();
            }
        }
    };
    let mut pops = |queue: &mut FairQueue<()>, now: Nanos| {
        let grant = emitter.take_up_to(now, 10_000);
        let mut counts = [0_u32; 2];
        for _ in 0..grant {
            let whose = queue.pop().unwrap().client;
            counts[usize::from(whose == client(2))] += 1;
        }
        counts
    };
    refill(&mut queue);
    assert_eq!(pops(&mut queue, secs(1)), [20, 20]);
    // Suspended for an hour: the burst, shared as ever, and then the rate.
    refill(&mut queue);
    assert_eq!(pops(&mut queue, secs(3_601)), [20, 20]);
    assert_eq!(pops(&mut queue, secs(3_601)), [0, 0]);
    // Set back by a minute: nothing until it is where it was.
    assert_eq!(pops(&mut queue, secs(3_541)), [0, 0]);
    assert_eq!(pops(&mut queue, secs(3_601)), [0, 0]);
    refill(&mut queue);
    let [one, two] = pops(
        &mut queue,
        secs(3_601).saturating_add(Nanos::from_millis(10)),
    );
    assert_eq!((one, two), (10, 10));
}

/// One that may send has its turn past those that may not, who keep theirs.
#[test]
fn a_pop_of_those_that_may_send_leaves_the_turns_of_the_others() {
    let mut queue = FairQueue::new(QueueLimits::default(), [1, 2]).unwrap();
    let push = |queue: &mut FairQueue<u32>, who: u32, value| {
        let item = Item::new(value, 1);
        let pushed = queue.push(client(who), 1, Weight::ONE, item).unwrap();
        assert!(pushed.displaced.is_empty());
    };
    for who in [1, 2, 3] {
        for place in 0..3 {
            push(&mut queue, who, 10 * who + place);
        }
    }
    let of = |who: u32| move |key: &ClientKey, _: &Backlog| *key == client(who);
    let value = |popped: Option<Popped<u32>>| popped.map(|popped| popped.item.value);
    assert_eq!(value(queue.pop()), Some(10));
    for place in 0..3 {
        assert_eq!(value(queue.pop_if(|_| 1, of(3))), Some(30 + place));
    }
    assert_eq!(value(queue.pop_if(|_| 1, of(3))), None);
    assert_eq!(
        value(queue.pop_if(|_| 1, |_, waiting| waiting.entries > 2)),
        Some(20)
    );
    let rest: Vec<u32> = std::iter::from_fn(|| value(queue.pop())).collect();
    assert_eq!(rest, [11, 21, 12, 22]);
}

/// Demand and weight of one client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    pub(crate) rate: f64,
    pub(crate) weight: f64,
}

/// The max-min fair rates under a capacity: nobody gets more than it asks for, and who gets less has
/// at least as much per weight as anybody else.
pub(crate) fn max_min(demands: &[Demand], capacity: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    let level = |demand: &Demand| demand.rate / demand.weight;
    order.sort_by(|&a, &b| level(&demands[a]).total_cmp(&level(&demands[b])));
    let mut left = capacity;
    let mut weights: f64 = demands.iter().map(|demand| demand.weight).sum();
    let mut rates = vec![0.0; demands.len()];
    for client in order {
        let Demand { rate, weight } = demands[client];
        rates[client] = rate.min(left * weight / weights);
        left -= rates[client];
        weights -= weight;
    }
    rates
}

#[test]
fn the_example_of_the_design() {
    let demands = [100_000.0, 1_000.0, 10.0].map(|rate| Demand { rate, weight: 1.0 });
    assert_eq!(max_min(&demands, 2_000.0), [995.0, 995.0, 10.0]);
}

#[test]
fn weights_count_only_where_it_is_tight() {
    let demand = |rate, weight| Demand { rate, weight };
    let demands = [
        demand(9_000.0, 3.0),
        demand(9_000.0, 1.0),
        demand(100.0, 7.0),
    ];
    assert_eq!(max_min(&demands, 900.0), [600.0, 200.0, 100.0]);
    assert_eq!(max_min(&demands, 90_000.0), [9_000.0, 9_000.0, 100.0]);
}
