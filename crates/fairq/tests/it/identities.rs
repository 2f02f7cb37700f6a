//! Clients with many names, and tables that are full: fairness cases 9 to 11.

use core::net::{IpAddr, Ipv6Addr};

use fairq::{ClientKey, FairQueue, Item, KeyScheme, QueueLimits, Refusal, Weight};

use crate::sim::{SEED, address, client, roomy};

fn queue(limits: QueueLimits) -> FairQueue<u32> {
    FairQueue::new(limits, SEED).unwrap()
}

fn push(queue: &mut FairQueue<u32>, client: ClientKey, value: u32) {
    let pushed = queue
        .push(client, 1, Weight::ONE, Item::new(value, 250))
        .unwrap();
    assert!(pushed.displaced.is_empty());
}

fn refusal(queue: &mut FairQueue<u32>, client: ClientKey) -> Refusal {
    let refused = queue.push(client, 1, Weight::ONE, Item::new(0, 250));
    refused.unwrap_err().reason
}

/// Sends one item of this cost.
fn send(queue: &mut FairQueue<u32>, client: ClientKey, cost: u32) {
    let item = Item {
        value: 0,
        bytes: 250,
        cost,
    };
    let _ = queue.push(client, 1, Weight::ONE, item).unwrap();
    assert_eq!(queue.pop().unwrap().client, client);
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

/// At 2b52556 they shared the flows of others, picked by a hash: a flood in one of them delayed whoever was there.
#[test]
fn fairness_09_a_full_table_of_clients_that_wait_refuses_newcomers() {
    let mut queue = queue(QueueLimits {
        clients: 50,
        ..roomy()
    });
    for attacker in 0..50 {
        for n in 0..300 {
            push(&mut queue, client(attacker), n);
        }
    }
    for newcomer in 1_000..2_000 {
        assert_eq!(refusal(&mut queue, client(newcomer)), Refusal::Clients);
    }
    // Nothing of them is left, and who is in the table is served as ever.
    assert_eq!((queue.flows(), queue.backlogged_clients()), (50, 50));
    push(&mut queue, client(7), 300);
    let mut served = [0_u32; 50];
    for _ in 0..50 * 100 {
        let popped = queue.pop().unwrap();
        let who = (0..50).find(|&n| client(n) == popped.client).unwrap();
        served[who as usize] += 1;
    }
    // A turn may lie on either side of the end.
    assert!(
        served.iter().all(|count| count.abs_diff(100) <= 1),
        "{served:?}"
    );
    // One that has nothing waiting any more makes place.
    queue.remove_connection(&client(3), 1, |_| false, |_| {});
    push(&mut queue, client(1_000), 0);
    assert_eq!(refusal(&mut queue, client(1_001)), Refusal::Clients);
}

#[test]
fn fairness_09_a_full_48_refuses_its_own_newcomers_only() {
    let mut queue = queue(roomy());
    let of_site = |subnet: u16| address(Ipv6Addr::new(0x2001, 0xdb8, 1, subnet, 0, 0, 0, 1).into());
    let most = u16::try_from(queue.limits().per_site).unwrap();
    for subnet in 0..most {
        push(&mut queue, of_site(subnet), 0);
        push(&mut queue, of_site(subnet), 1);
    }
    assert_eq!(refusal(&mut queue, of_site(most)), Refusal::Clients);
    push(&mut queue, address("2001:db8:2::1".parse().unwrap()), 0);
    // All of it was served: its next clients are let in at once, though those before sit out a turn still.
    while queue.pop().is_some() {}
    push(&mut queue, of_site(most), 0);
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
            let _ = queue.push(attacker, 1, Weight::ONE, Item::new(0, 250));
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
    // One share of as many as a site may have.
    let shares = limits.per_site + 1;
    assert!(part > 0.95 / shares as f64, "{part}");
    assert!(by_64.flows() <= limits.per_site + 1);
    // Its neighbours are no part of it.
    let neighbour = address("2001:db8:2::1".parse().unwrap());
    push(&mut by_64, neighbour, 7);
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
    send(&mut queue, debtor, 1_000);
    assert!(queue.is_empty());
    // Hundreds of others come and go; more than the table holds have items waiting.
    for _ in 0..20 {
        for other in 1..8 {
            push(&mut queue, client(other), 0);
        }
        for other in 8..20 {
            assert_eq!(refusal(&mut queue, client(other)), Refusal::Clients);
        }
        for _ in 1..8 {
            assert_ne!(queue.pop().unwrap().client, debtor);
        }
    }
    for n in 0..100 {
        for other in 1..8 {
            push(&mut queue, client(other), n);
        }
    }
    push(&mut queue, debtor, 1);
    let before = (0..)
        .take_while(|_| queue.pop().unwrap().client != debtor)
        .count();
    assert_eq!(before, 700);
}

/// Who waits for nothing and owes nothing holds no place that another one needs.
#[test]
fn fairness_11_a_full_table_forgets_who_owes_nothing() {
    let mut queue = queue(QueueLimits {
        clients: 4,
        ..roomy()
    });
    let (debtor, busy) = (client(0), client(1));
    send(&mut queue, debtor, 1_000);
    for n in 0..100 {
        push(&mut queue, busy, n);
    }
    push(&mut queue, client(2), 0);
    push(&mut queue, client(3), 0);
    for _ in 0..3 {
        queue.pop().unwrap();
    }
    // Two sit out their turns, one waits and one owes.
    assert_eq!((queue.flows(), queue.backlogged_clients()), (4, 1));
    push(&mut queue, client(12), 0);
    push(&mut queue, client(13), 0);
    assert_eq!(refusal(&mut queue, client(14)), Refusal::Clients);
    // What it owes was not forgotten.
    push(&mut queue, debtor, 1);
    let before = (0..)
        .take_while(|_| queue.pop().unwrap().client != debtor)
        .count();
    assert_eq!(before, 99 + 2);
}

/// A table full of debtors is no reason to refuse anybody while nobody waits.
#[test]
fn fairness_11_debts_hold_no_place_while_nobody_waits() {
    let mut queue = queue(QueueLimits {
        clients: 3,
        ..roomy()
    });
    for (who, cost) in [(0, 300), (1, 100), (2, 200)] {
        send(&mut queue, client(who), cost);
    }
    assert_eq!((queue.flows(), queue.len()), (3, 0));
    for n in 0..150 {
        push(&mut queue, client(3), n);
    }
    // The least of them was forgotten, and the laps that it owed have passed for the others too.
    assert_eq!(refusal(&mut queue, client(1)), Refusal::Clients);
    push(&mut queue, client(2), 0);
    let before = (0..).take_while(|_| queue.pop().unwrap().client != client(2));
    assert_eq!(before.count(), 101);
}

#[test]
fn fairness_11_flows_that_sat_out_their_turn_make_place() {
    let mut queue = queue(QueueLimits {
        clients: 50,
        ..roomy()
    });
    for n in 0..10_000 {
        push(&mut queue, client(n), n);
        assert_eq!(queue.pop().unwrap().item.value, n);
    }
    assert!(queue.flows() <= 2);
}
