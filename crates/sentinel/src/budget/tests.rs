use std::sync::atomic::Ordering;

use fairq::KeyScheme;

use super::*;
use crate::config::Config;

impl Budget {
    /// Reads of a client under way.
    pub(crate) fn reads_of(&self, client: ClientKey) -> usize {
        self.held_by(client, Kind::Read)
    }

    /// The work that is left until the runtime looks at its sockets.
    pub(crate) fn work_left(&self) -> i64 {
        self.0.work.free.load(Ordering::Relaxed)
    }
}

fn client(last: u8) -> ClientKey {
    KeyScheme::default().key([192, 0, 2, last].into())
}

fn slots(connections: usize) -> Budget {
    slots_with(connections, |_| {})
}

fn slots_with(connections: usize, change: impl FnOnce(&mut Config)) -> Budget {
    let mut config = Config::default();
    config.fixed.most_connections = connections;
    config.fixed.connect_rate_per_client = "1000000/s".parse().unwrap();
    change(&mut config);
    Budget::new(&config, [1, 2])
}

/// Three connections at once, and two a second.
fn slow_slots() -> Budget {
    slots_with(1_000, |config| {
        config.fixed.connect_rate_per_client = "2/s".parse().unwrap();
        config.fixed.connect_burst = Duration::from_millis(1_500);
    })
}

#[test]
fn one_client_is_bounded_and_others_are_not_its_problem() {
    let slots = slots(4);
    let first = slots.connect(client(1)).unwrap();
    let second = slots.connect(client(1)).unwrap();
    assert!(slots.connect(client(1)).is_err());
    let other = slots.connect(client(2)).unwrap();
    drop(first);
    let third = slots.connect(client(1)).unwrap();
    assert_eq!(
        (slots.connections(), slots.connections_of(client(1))),
        (3, 2)
    );
    drop((second, third, other));
    assert_eq!(slots.connections(), 0);
}

#[test]
fn sharing_88_the_connections_of_a_client_shrink_as_others_need_some() {
    let slots = slots(64);
    let mut take = |from: u8| {
        let held: Vec<_> = std::iter::from_fn(|| slots.connect(client(from)).ok()).collect();
        let count = held.len();
        std::mem::forget(held);
        count
    };
    let taken: Vec<_> = (0..8).map(&mut take).collect();
    assert_eq!(taken, [30, 15, 7, 4, 2, 2, 2, 2]);
    let proxied = std::iter::from_fn(|| slots.connect_proxy().ok());
    assert_eq!(proxied.map(std::mem::forget).count(), 0);
    assert!(slots.connect(client(200)).is_err());
}

#[test]
fn a_proxied_client_is_charged_without_counting_twice() {
    let slots = slots(6);
    let _proxy = slots.connect_proxy().unwrap();
    let charges = [(); 4].map(|()| slots.request(client(1)).unwrap());
    assert!(slots.request(client(1)).is_err());
    assert_eq!(slots.connections(), 1);
    drop(charges);
    assert_eq!(slots.connections_of(client(1)), 0);
}

#[test]
fn only_so_many_are_told() {
    let slots = slots(1);
    let telling: Vec<_> = std::iter::from_fn(|| slots.refuse()).collect();
    assert_eq!(telling.len(), REFUSED_AT_ONCE);
    drop(telling);
    assert!(slots.refuse().is_some());
}

#[test]
fn sharing_64_a_48_gets_no_more_connections_than_a_client() {
    let slots = slots(64);
    let client = |net: u16| KeyScheme::default().key([0x2001, 0xdb8, 1, net, 0, 0, 0, 1].into());
    let held: Vec<_> = (0..100)
        .filter_map(|net| slots.connect(client(net)).ok())
        .collect();
    assert_eq!(held.len(), 30);
    assert!(slots.request(client(101)).is_err());
    drop(held);
}

/// At 2b52556 each network of a /48 had a rate of its own, 65,536 of them.
#[tokio::test(start_paused = true)]
async fn sharing_86_the_connections_of_a_48_come_at_the_rate_of_a_few_clients() {
    let slots = slow_slots();
    let client = |net: u16| KeyScheme::default().key([0x2001, 0xdb8, 1, net, 0, 0, 0, 1].into());
    let came = (0..1_000).filter(|net| slots.connect(client(*net)).is_ok());
    assert_eq!(came.count(), 3 * ClientKey::SITE_CLIENTS);
    tokio::time::advance(Duration::from_millis(500)).await;
    let came = (1_000..2_000).filter(|net| slots.connect(client(*net)).is_ok());
    assert_eq!(came.count(), ClientKey::SITE_CLIENTS);
}

#[tokio::test(start_paused = true)]
async fn sharing_85_work_is_paid_for_by_its_client_and_its_48() {
    let slots = slots(1_000);
    let start = Instant::now();
    let paid = |client, units| {
        let at = slots.work(client, units);
        at.map_or(0, |at| (at - start).as_millis())
    };
    assert_eq!(paid(client(1), 1_000), 0);
    // What is not there is owed; each who takes some waits for its own.
    assert_eq!((paid(client(1), 1), paid(client(1), 4)), (1, 5));
    assert_eq!(paid(client(2), 1_000), 0);
    let of_site = |net: u16| {
        let client = KeyScheme::default().key([0x2001, 0xdb8, 1, net, 0, 0, 0, 1].into());
        paid(client, 1_000)
    };
    let owed: Vec<_> = (0..6).map(of_site).collect();
    assert_eq!(owed, [0, 0, 0, 0, 250, 500]);
    tokio::time::advance(Duration::from_millis(900)).await;
    assert_eq!(paid(client(1), 890), 0);
    assert_eq!((work_of(0), work_of(1_023), work_of(750_000)), (1, 1, 733));
}

#[tokio::test(start_paused = true)]
async fn sharing_64_connections_come_at_a_rate() {
    let slots = slow_slots();
    for _ in 0..3 {
        drop(slots.connect(client(1)).unwrap());
    }
    assert!(slots.connect(client(1)).is_err());
    drop(slots.connect(client(2)).unwrap());
    tokio::time::advance(Duration::from_millis(500)).await;
    drop(slots.connect(client(1)).unwrap());
    assert!(slots.connect(client(1)).is_err());
}

#[test]
fn sharing_64_the_reads_of_a_48_are_those_of_a_few_clients() {
    let mut config = Config::default();
    config.fixed.reads_per_client = 8;
    config.reads.rate_per_client = "0.001/s".parse().unwrap();
    config.fixed.read_burst = Duration::from_secs(10_000);
    let limits = Budget::new(&config, [1, 2]);
    let client = |net: u16| KeyScheme::default().key([0x2001, 0xdb8, 7, net, 0, 0, 0, 1].into());
    let held: Vec<_> = (0..100)
        .filter_map(|net| limits.hold(client(net), Kind::Read, (256, 256)).ok())
        .collect();
    assert_eq!(held.len(), 8 * ClientKey::SITE_CLIENTS);
    drop(held);
    assert!(limits.hold(client(100), Kind::Read, (256, 256)).is_ok());
    let admitted = (0..100)
        .filter(|net| limits.admit(client(*net), 10).is_ok())
        .count();
    assert_eq!(admitted, ClientKey::SITE_CLIENTS);
}

/// At 2b52556 eight addresses held all 256 places.
#[test]
fn sharing_88_the_places_of_a_client_shrink_as_others_need_some() {
    let limits = Budget::new(&Config::default(), [1, 2]);
    let client = |last| KeyScheme::default().key([192, 0, 2, last].into());
    let mut held = Vec::new();
    let mut take = |from: u8| {
        let before = held.len();
        while let Ok(slot) = limits.hold(client(from), Kind::Read, (256 - held.len(), 256)) {
            held.push(slot);
        }
        held.len() - before
    };
    let taken: Vec<_> = (0..8).map(&mut take).collect();
    assert_eq!(taken, [32, 32, 32, 32, 32, 32, 24, 12]);
    // Whoever comes then still has some.
    assert_eq!((take(100), take(101), take(102)), (6, 3, 2));
}
