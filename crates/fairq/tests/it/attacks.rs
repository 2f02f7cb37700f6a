//! Holding, giving back, making room, and expectations.

use fairq::{Age, Backlog, ClientKey, FairQueue, Item, QueueLimits, Refusal, Weight};
use pacing::{Nanos, Rate};

use crate::sim::{SEED, client, roomy};

fn queue(limits: QueueLimits) -> FairQueue<u32> {
    FairQueue::new(limits, SEED).unwrap()
}

fn push(queue: &mut FairQueue<u32>, who: u32, value: u32, bytes: u32) -> Vec<(ClientKey, u32)> {
    let pushed = queue
        .push(client(who), 1, Weight::ONE, Item::new(value, bytes))
        .unwrap();
    let displaced = pushed.displaced.into_iter();
    displaced
        .map(|popped| (popped.client, popped.item.value))
        .collect()
}

fn cost(backlog: &Backlog) -> f64 {
    backlog.cost as f64
}

fn refusal(queue: &mut FairQueue<u32>, who: u32, bytes: u32) -> Refusal {
    queue
        .push(client(who), 1, Weight::ONE, Item::new(0, bytes))
        .unwrap_err()
        .reason
}

#[test]
fn ever_new_clients_do_not_starve_an_old_one() {
    let mut queue = queue(roomy());
    for n in 0..1_000 {
        push(&mut queue, 0, n, 250);
    }
    let mut own = 0;
    for n in 0..17_000 {
        // Two strangers for each pop: the queue of new ones never ends.
        push(&mut queue, 2 * n + 1, 0, 250);
        push(&mut queue, 2 * n + 2, 0, 250);
        own += u32::from(queue.pop().unwrap().client == client(0));
    }
    assert!(own >= 999, "{own}");
}

#[test]
fn the_newest_of_the_longest_makes_room() {
    let mut queue = queue(QueueLimits {
        entries: 10,
        ..roomy()
    });
    for n in 0..7 {
        push(&mut queue, 1, n, 250);
    }
    for n in 0..3 {
        push(&mut queue, 2, n, 250);
    }
    assert_eq!(push(&mut queue, 3, 0, 250), [(client(1), 6)]);
    assert_eq!(push(&mut queue, 2, 3, 250), [(client(1), 5)]);
    // Five and four: one more for the second would only turn things round.
    assert_eq!(refusal(&mut queue, 2, 250), Refusal::Entries);
    assert_eq!(refusal(&mut queue, 1, 250), Refusal::Entries);
    assert_eq!(queue.len(), 10);
    // The one that lost its newest still sends the others in order.
    let mut values = Vec::new();
    while let Some(popped) = queue.pop() {
        if popped.client == client(1) {
            values.push(popped.item.value);
        }
    }
    assert_eq!(values, [0, 1, 2, 3, 4]);
}

#[test]
fn several_small_ones_make_room_for_a_large_one() {
    let mut queue = queue(QueueLimits {
        bytes: 10_000,
        ..roomy()
    });
    for n in 0..10 {
        push(&mut queue, 1, n, 900);
    }
    let displaced = push(&mut queue, 2, 0, 3_500);
    assert_eq!(displaced, [(client(1), 9), (client(1), 8), (client(1), 7)]);
    assert_eq!(queue.bytes(), 7 * 900 + 3_500);
    // A larger one would be the longest itself, and one beyond the bound never fits.
    assert_eq!(refusal(&mut queue, 3, 6_000), Refusal::Bytes);
    assert_eq!(refusal(&mut queue, 3, 10_001), Refusal::Bytes);
    assert_eq!(queue.bytes(), 7 * 900 + 3_500);
}

#[test]
fn a_client_has_a_bound_of_its_own() {
    let mut queue = queue(QueueLimits {
        per_client: 3,
        ..roomy()
    });
    for n in 0..3 {
        push(&mut queue, 1, n, 250);
    }
    assert_eq!(refusal(&mut queue, 1, 250), Refusal::QueueFull);
    push(&mut queue, 2, 0, 250);
    assert_eq!(queue.backlog(&client(1)).entries, 3);
}

#[test]
fn a_connection_goes_with_what_nobody_waits_for() {
    let mut queue = queue(roomy());
    for n in 0..10 {
        let _ = queue
            .push(client(1), u64::from(n % 2), Weight::ONE, Item::new(n, 250))
            .unwrap();
    }
    let mut removed = Vec::new();
    // Those that were acknowledged stay.
    queue.remove_connection(&client(1), 1, |&n| n >= 7, |item| removed.push(item.value));
    assert_eq!(removed, [1, 3, 5]);
    queue.remove_connection(&client(1), 9, |_| false, |_| unreachable!("nobody's"));
    let mut left: Vec<u32> = std::iter::from_fn(|| queue.pop())
        .map(|p| p.item.value)
        .collect();
    left.sort_unstable();
    assert_eq!(left, [0, 2, 4, 6, 7, 8, 9]);
}

#[test]
fn shares_and_waits_as_the_backlog_says() {
    let total: Rate = "2000/s".parse().unwrap();
    let mut queue = queue(roomy());
    let share = |queue: &FairQueue<u32>, who| queue.fair_share(&client(who), Weight::ONE, total);
    assert!((share(&queue, 1) - 2_000.0).abs() < 1e-9);
    assert_eq!(
        queue.wait_estimate(&client(1), Weight::ONE, total, cost),
        Nanos::ZERO
    );
    for n in 0..1_000 {
        push(&mut queue, 1, n, 250);
    }
    for n in 0..100 {
        push(&mut queue, 2, n, 250);
    }
    assert!((share(&queue, 1) - 1_000.0).abs() < 1e-9);
    // Who comes now is the third.
    assert!((share(&queue, 3) - 2_000.0 / 3.0).abs() < 1e-9);
    let wait =
        |queue: &FairQueue<u32>, who| queue.wait_estimate(&client(who), Weight::ONE, total, cost);
    assert_eq!(wait(&queue, 2), Nanos::from_millis(100));
    // The long one is done when all are, not after 1,000 at half the rate.
    assert_eq!(wait(&queue, 1), Nanos::from_millis(550));
    assert_eq!(
        queue.wait_estimate(&client(1), Weight::ONE, Rate::ZERO, cost),
        Nanos::MAX
    );
    let heavy = Weight::new(3).unwrap();
    let _ = queue.push(client(3), 1, heavy, Item::new(0, 250)).unwrap();
    assert!((share(&queue, 3) - 1_200.0).abs() < 1e-9);
    assert!((share(&queue, 1) - 400.0).abs() < 1e-9);
}

#[test]
fn the_longest_come_first() {
    let mut queue = queue(roomy());
    for who in 0..30 {
        for n in 0..=who * who {
            push(&mut queue, who, n, 250);
        }
    }
    let found: Vec<_> = (queue.longest())
        .map(|(who, load)| (who, load.entries))
        .collect();
    let all: Vec<_> = (0..30)
        .rev()
        .map(|who| (client(who), (who * who + 1) as usize))
        .collect();
    assert_eq!(found, all);
}

#[test]
fn the_oldest_go_first_whosever_they_are() {
    let mut queue = queue(roomy());
    for n in 0..10 {
        push(&mut queue, n % 3, n, 250);
    }
    let mut remove = |age: fn(&mut u32) -> Age| {
        let mut removed = Vec::new();
        queue.remove_oldest(age, |who, item| removed.push((who, item.value)));
        (removed, queue.len())
    };
    let age = |n: &mut u32| if *n < 4 { Age::Over } else { Age::Young };
    let wanted = [(0, 0), (1, 1), (2, 2), (0, 3)].map(|(who, n)| (client(who), n));
    assert_eq!(remove(age), (wanted.to_vec(), 6));
    // One that is renewed keeps nobody behind it, and is the youngest from then on.
    let age = |n: &mut u32| match n {
        4 | 6 => Age::Renewed,
        5 | 7 => Age::Over,
        _ => Age::Young,
    };
    let wanted = [(2, 5), (1, 7)].map(|(who, n)| (client(who), n));
    assert_eq!(remove(age), (wanted.to_vec(), 4));
    let wanted = [(2, 8), (0, 9), (1, 4), (0, 6)].map(|(who, n)| (client(who), n));
    assert_eq!(remove(|_| Age::Over), (wanted.to_vec(), 0));
    // However many are renewed, each is looked at once.
    for n in 0..10 {
        push(&mut queue, n % 3, n, 250);
    }
    let mut looks = 0;
    let renew = |_: &mut u32| {
        looks += 1;
        Age::Renewed
    };
    queue.remove_oldest(renew, |_, _| {});
    assert_eq!((looks, queue.len()), (10, 10));
}
