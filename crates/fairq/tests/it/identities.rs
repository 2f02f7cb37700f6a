//! Clients with many names, and tables that are full: fairness cases 9 to 11.

use core::net::{IpAddr, Ipv6Addr};

use fairq::{ClientKey, FairQueue, Item, KeyScheme, Order, QueueLimits, Weight};

use crate::sim::{SEED, address, client, roomy};

fn queue(limits: QueueLimits) -> FairQueue<u32> {
    FairQueue::new(limits, Order::Connection, SEED).unwrap()
}

fn push(queue: &mut FairQueue<u32>, client: ClientKey, value: u32) {
    let pushed = queue
        .push(client, 1, Weight::ONE, Item::new(value, 250))
        .unwrap();
    assert!(pushed.displaced.is_empty());
}

/// Keeps a client's queue filled and counts its part of the pops.
fn part_of(
    queue: &mut FairQueue<u32>,
    honest: ClientKey,
    pops: u32,
    mut attack: impl FnMut(&mut FairQueue<u32>),
) -> f64 {
    let mut own = 0;
    for n in 0..pops {
        while queue.backlog(&honest).entries < 4 {
            push(queue, honest, n);
        }
        attack(queue);
        own += u32::from(queue.pop().unwrap().client == honest);
    }
    f64::from(own) / f64::from(pops)
}

#[test]
fn fairness_09_all_collide_in_one_overflow_flow() {
    let mut queue = queue(QueueLimits {
        clients: 1,
        overflow_flows: 1,
        hand: 1,
        ..roomy()
    });
    push(&mut queue, client(0), 0);
    // One of them has far more waiting than the others.
    for n in 0..2_000 {
        push(&mut queue, client(1), n);
    }
    for n in 0..5 {
        for other in 2..200 {
            push(&mut queue, client(other), n);
        }
    }
    assert_eq!((queue.flows(), queue.overflow_clients()), (1, 199));
    let mut next = [0_u32; 200];
    // Five rounds of 199, and the one with a flow of its own.
    for _ in 0..5 * 199 + 1 {
        let popped = queue.pop().unwrap();
        let who = (0..200).find(|&n| client(n) == popped.client).unwrap();
        assert_eq!(popped.item.value, next[who as usize], "out of order");
        next[who as usize] += 1;
    }
    assert!(next[1..].iter().all(|&count| count == 5), "{next:?}");
    assert_eq!(queue.backlogged_clients(), 1);
}

#[test]
fn fairness_09_an_elephant_in_the_overflow_harms_few() {
    let mut queue = queue(QueueLimits {
        clients: 1,
        ..roomy()
    });
    push(&mut queue, client(0), 0);
    for n in 0..4_000 {
        push(&mut queue, client(1), n);
    }
    // Those who come after it have three other flows to choose from at least.
    for other in 2..1_000 {
        push(&mut queue, client(other), 0);
    }
    let early: Vec<ClientKey> = (0..2_000).map(|_| queue.pop().unwrap().client).collect();
    assert!((2..1_000).all(|other| early.contains(&client(other))));
}

#[test]
fn fairness_10_a_million_addresses_of_one_64_are_one_client() {
    let mut queue = queue(roomy());
    let prefix = 0x2001_0db8_0001_0002_u128 << 64;
    let mut host = 0_u128;
    let part = part_of(&mut queue, client(1), 1_000_000, |queue| {
        host += 0x1234_5678_9abc_def1;
        let attacker = address(IpAddr::V6(Ipv6Addr::from_bits(
            prefix | (host & u128::from(u64::MAX)),
        )));
        if queue.backlog(&attacker).entries < 4_096 {
            push(queue, attacker, 0);
        }
    });
    assert!((part - 0.5).abs() < 0.005, "{part}");
    assert_eq!(queue.flows(), 2);
}

#[test]
fn fairness_10_the_owner_of_a_48_gets_few_shares() {
    let site = 0x2001_0db8_0001_u128 << 80;
    let mut subnet = 0_u128;
    // It offers from each of its 65,536 networks in turn, twice for each pop.
    let attack = |queue: &mut FairQueue<u32>, scheme: KeyScheme, subnet: u128| {
        let bits = site | (subnet & 0xffff) << 64;
        let attacker = scheme.key(IpAddr::V6(Ipv6Addr::from_bits(bits)));
        if queue.backlog(&attacker).entries < 100 {
            push(queue, attacker, 0);
        }
    };
    let limits = roomy();
    let mut by_64 = queue(limits);
    let part = part_of(&mut by_64, client(1), 300_000, |queue| {
        for _ in 0..2 {
            subnet += 1;
            attack(queue, KeyScheme::default(), subnet);
        }
    });
    // One share of as many as a site may have: its own flows, and a hand of shared ones.
    let shares = limits.per_site + limits.hand + 1;
    assert!(part > 0.95 / shares as f64, "{part}");
    assert!(by_64.flows() <= limits.per_site + 1);
    // Its neighbours are not with it in the overflow.
    let neighbour = address("2001:db8:2::1".parse().unwrap());
    push(&mut by_64, neighbour, 7);
    assert_eq!(by_64.flows(), limits.per_site + 2);
    // Where a /48 is one client, it has one share.
    let wide = KeyScheme::new(32, 48).unwrap();
    let mut by_48 = queue(limits);
    let part = part_of(&mut by_48, client(1), 100_000, |queue| {
        subnet += 1;
        attack(queue, wide, subnet);
    });
    assert!((part - 0.5).abs() < 0.005, "{part}");
}

#[test]
fn fairness_10_mapped_ipv4_is_ipv4() {
    assert_eq!(
        address("::ffff:10.0.0.7".parse().unwrap()),
        address("10.0.0.7".parse().unwrap())
    );
}

#[test]
fn fairness_11_who_owes_is_not_forgotten_by_a_full_table() {
    let limits = QueueLimits {
        clients: 8,
        ..roomy()
    };
    let mut queue = queue(limits);
    let debtor = client(0);
    // It sends one item of the cost of a thousand, and its queue is empty again.
    let dear = Item {
        value: 0,
        bytes: 250,
        cost: 1_000,
    };
    let _ = queue.push(debtor, 1, Weight::ONE, dear).unwrap();
    assert_eq!(queue.pop().unwrap().client, debtor);
    assert!(queue.is_empty());
    // Hundreds of others come and go; more than the table holds have items waiting.
    let rounds = 20;
    for n in 0..rounds {
        for other in 1..20 {
            push(&mut queue, client(other), n);
        }
        for _ in 1..20 {
            assert_ne!(queue.pop().unwrap().client, debtor);
        }
    }
    // Also if all others that the table has no place for shared one flow there were 12 turns a round: it owes
    // more than seven hundred still.
    for n in 0..100 {
        for other in 1..8 {
            push(&mut queue, client(other), rounds + n);
        }
    }
    push(&mut queue, debtor, 1);
    let before = (0..)
        .take_while(|_| queue.pop().unwrap().client != debtor)
        .count();
    assert_eq!(before, 700);
}

#[test]
fn fairness_11_a_full_table_refuses_nobody() {
    let mut queue = queue(QueueLimits {
        clients: 50,
        ..roomy()
    });
    // Attackers hold every flow, with hundreds of items each.
    for attacker in 0..50 {
        for n in 0..300 {
            push(&mut queue, client(attacker), n);
        }
    }
    let newcomer = client(77);
    push(&mut queue, newcomer, 1);
    assert_eq!((queue.flows(), queue.overflow_clients()), (50, 1));
    // It comes before their second items, but for those that every seventeenth turn is for.
    let turn = (0..)
        .take_while(|_| queue.pop().unwrap().client != newcomer)
        .count();
    assert!(turn <= 50 + 50 / 16, "{turn}");
}

#[test]
fn fairness_11_flows_that_sat_out_their_turn_make_place() {
    let mut queue = queue(QueueLimits {
        clients: 50,
        ..roomy()
    });
    for n in 0..10_000 {
        push(&mut queue, client(n), n);
        assert_eq!(queue.overflow_clients(), 0);
        assert_eq!(queue.pop().unwrap().item.value, n);
    }
    assert!(queue.flows() <= 2);
}
