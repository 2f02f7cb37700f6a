//! Several proxies that share one limit, over a real NATS server.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use pacing::Rate;
use sentinel::config::PaceMode;
use testkit::Nats;

use crate::support::load::{Progress, wait_for, write_as};
use crate::support::{Node, Proxy};

const LIMIT: u64 = 300;
/// Each writer: its address, and the proxy that it uses.
const WRITERS: [(u8, usize); 5] = [(2, 0), (2, 1), (2, 2), (3, 0), (4, 1)];
/// More than a queue that drains at the limit ever lets run dry.
const WINDOW: u64 = 500;

/// Whether, of the next writes that were accepted, these writers had these parts, within 5 %.
fn has_parts(counts: &[Progress], expected: &[(&[usize], f64)]) -> bool {
    let read = || -> Vec<u64> {
        let counts = counts.iter().map(|it| it.accepted.load(Ordering::Relaxed));
        counts.collect()
    };
    let before = read();
    let all = || read().iter().sum::<u64>() - before.iter().sum::<u64>();
    wait_for("writes", || all() >= 2 * LIMIT);
    let (after, all) = (read(), all() as f64);
    expected.iter().all(|(writers, part)| {
        let had: u64 = writers.iter().map(|it| after[*it] - before[*it]).sum();
        (had as f64 / all / part - 1.0).abs() < 0.05
    })
}

/// The server that they meet at, and their key in its folder.
fn bus() -> Nats {
    let nats = Nats::start();
    std::fs::write(key(&nats), "a secret of all of them").unwrap();
    nats
}

fn key(nats: &Nats) -> PathBuf {
    nats.home().join("key")
}

/// One of those that share the limit.
fn proxy(node: &Node, nats: &Nats) -> Proxy {
    Proxy::with(&node.url(), |config| {
        config.fair.max_req = Rate::per_second(LIMIT).unwrap();
        config.pace.mode = PaceMode::Fixed;
        config.cluster.nats = Some(nats.url());
        config.cluster.key_file = Some(key(nats).display().to_string());
    })
}

#[test]
#[ignore = "needs nats-server"]
fn one_that_starts_holds_writes_and_sends_them_with_the_server_and_without() {
    let (node, mut nats) = (Node::start(), bus());
    for number in [10, 11] {
        let (proxy, progress) = (proxy(&node, &nats), Progress::default());
        thread::scope(|scope| {
            let _at_work = progress.at_work();
            scope.spawn(|| write_as(2, number, proxy.address, WINDOW, &progress));
            let accepted = || progress.accepted.load(Ordering::Relaxed);
            wait_for("writes", || accepted() >= LIMIT);
        });
        let ended = proxy.stop();
        assert_eq!((ended.refused, ended.lost), (0, 0));
        nats.stop();
    }
}

#[test]
#[ignore = "needs nats-server"]
fn a_client_on_three_proxies_has_one_share_and_without_the_bus_nobody_starves() {
    let (node, mut nats) = (Node::start(), bus());
    let proxies: Vec<Proxy> = (0..3).map(|_| proxy(&node, &nats)).collect();
    let counts = WRITERS.map(|_| Progress::default());
    let (begun, shared) = (
        Instant::now(),
        [
            (&[0, 1, 2][..], 1.0 / 3.0),
            (&[3], 1.0 / 3.0),
            (&[4], 1.0 / 3.0),
        ],
    );
    thread::scope(|scope| {
        let _at_work = counts.each_ref().map(Progress::at_work);
        for (number, (client, proxy)) in WRITERS.into_iter().enumerate() {
            let (to, progress) = (proxies[proxy].address, &counts[number]);
            scope.spawn(move || write_as(client, 10 + number as u8, to, WINDOW, progress));
        }
        wait_for("one share for each client", || has_parts(&counts, &shared));
        // Each proxy has a third of the limit, and shares that among its clients.
        nats.stop();
        let alone = [
            (&[0, 3][..], 1.0 / 3.0),
            (&[1, 4], 1.0 / 3.0),
            (&[2], 1.0 / 3.0),
        ];
        wait_for("an equal part of each proxy", || has_parts(&counts, &alone));
        let halves = [(&[0][..], 1.0 / 6.0), (&[3], 1.0 / 6.0)];
        wait_for("equal shares at a proxy", || has_parts(&counts, &halves));
        nats.restart();
        wait_for("one share again", || has_parts(&counts, &shared));
    });
    let accepted: u64 = counts
        .iter()
        .map(|it| it.accepted.load(Ordering::Relaxed))
        .sum();
    let most = 1.05 * LIMIT as f64 * begun.elapsed().as_secs_f64();
    assert!(accepted as f64 <= most, "{accepted} of at most {most}");
    for proxy in proxies {
        assert_eq!(proxy.stop().lost, 0);
    }
}
