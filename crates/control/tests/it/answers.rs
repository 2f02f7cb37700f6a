//! The node's time: how many writes may wait for an answer, and over how many connections.

use control::{Bound, Demand, Load, PaceMode, Pacer, Unit};
use pacing::Nanos;

use crate::model::node::{Node, NodeKind};
use crate::model::proxy::Proxy;
use crate::model::{Wants, go_on, run, run_from};
use crate::pace::{FLOOD, block, many, pacer};

/// The node's time: while answers take long, few are under way, and the bound says so.
#[test]
fn writes_queue_here_and_not_in_the_nodes_socket() {
    let kind = NodeKind {
        check_secs: 1.5e-3,
        ..NodeKind::steady()
    };
    let (_, proxy) = run(kind, 10_000, 30, |_| 3_000.0);
    // 20 ms of work, and one for each line.
    assert!(proxy.under_way <= 30, "{}", proxy.under_way);
    assert_eq!(proxy.usual_bound(), "in_flight_cap");
    // A fast node has more under way, and nothing is held back by its time most of the time.
    let (_, proxy) = run(NodeKind::steady(), 10_000, 30, FLOOD);
    assert_ne!(proxy.usual_bound(), "in_flight_cap");
}

/// Each write of a few was a write to the node's socket, and a wake-up of the node.
#[test]
fn room_that_answers_make_is_given_out_in_groups_of_2_ms() {
    let mut pacer = pacer(100_000, PaceMode::Adaptive);
    pacer.learn(100_000, None, Load::default());
    // 5,000 answers a second, 10 in 2 ms.
    let mut now = Nanos::ZERO;
    for _ in 0..200 {
        now = now.saturating_add(Nanos::from_millis(1));
        for _ in 0..5 {
            pacer.answered(now, now.saturating_sub(Nanos::from_millis(10)));
        }
    }
    pacer.grant(now, many(512));
    let Bound::InFlightCap { limit, .. } = pacer.bound() else {
        panic!("{:?}", pacer.bound());
    };
    assert!((100..512).contains(&limit), "{limit}");
    assert_eq!(pacer.grant(now, many(limit - 9)).now, 0);
    assert_eq!(pacer.grant(now, many(limit - 10)).now, 10);
    // Nobody waits for a group that does not come about.
    let few = Demand {
        waiting: 3,
        ..many(limit - 9)
    };
    assert_eq!(pacer.grant(now, few).now, 3);
}

/// Before, who had as many writes under way as may be left none for the others until the node answered.
#[test]
fn pacing_53_a_place_of_the_in_flight_cap_is_kept_for_clients_that_ask_for_little() {
    for (mode, most, expected) in [
        (PaceMode::Adaptive, 512, (8, 1)),
        // No more than the settings say: what is kept is a part of it.
        (PaceMode::Adaptive, 8, (7, 1)),
        (PaceMode::Fixed, 8, (8, 0)),
    ] {
        let mut pacer = pacer(1_000_000, mode);
        let demand = |under_way| Demand {
            waiting: 1_000,
            under_way,
            most,
            connections: 1,
            lines: 1,
            ..Demand::default()
        };
        let mut sent = 0;
        for ms in 0..100 {
            let now = Nanos::from_millis(ms);
            sent += pacer.grant(now, demand(sent)).now;
        }
        let last = pacer.grant(Nanos::from_millis(100), demand(sent));
        assert_eq!(
            (sent, last.now, last.light),
            (expected.0, 0, expected.1),
            "{mode:?}"
        );
        // It is taken, and the next one only after an answer.
        let now = Nanos::from_millis(101);
        pacer.sent_for_light(now, last.light, Load::default());
        assert_eq!(pacer.grant(now, demand(sent)).light, 0);
        pacer.answered(now, now);
        assert_eq!(pacer.grant(now, demand(sent)).light, expected.1);
        assert_eq!(pacer.grant(now, demand(sent + 1)).light, 0);
    }
}

/// At 5ff2818 the bound followed the time of answers down to 8 writes, while the node waited for a core.
#[test]
fn stalls_of_the_node_do_not_look_like_a_queue_of_ours() {
    let mut pacer = pacer(100_000, PaceMode::Adaptive);
    pacer.learn(100_000, None, Load::default());
    let limit = |pacer: &mut Pacer, now| {
        pacer.grant(now, many(10_000));
        match pacer.bound() {
            Bound::InFlightCap { limit, .. } => limit,
            other => panic!("{other:?}"),
        }
    };
    let mut now = Nanos::ZERO;
    let mut answered_after = |pacer: &mut Pacer, ms| {
        let sent = pacer.grant(now, many(0)).now;
        let at = now.saturating_add(Nanos::from_millis(ms));
        for _ in 0..sent {
            pacer.answered(at, now);
        }
        now = at;
        at
    };
    let mut at = Nanos::ZERO;
    for _ in 0..500 {
        at = answered_after(&mut pacer, 1);
    }
    let before = limit(&mut pacer, at);
    assert!(before > 100, "{before}");
    for _ in 0..20 {
        at = answered_after(&mut pacer, 100);
    }
    assert_eq!(limit(&mut pacer, at), before);
}

/// With the least time of all the cap of a node whose way has become longer was what the short one had needed, for good.
#[test]
fn a_node_that_is_further_away_is_known_by_a_write_that_is_sent_alone() {
    let mut pacer = pacer(100_000, PaceMode::Adaptive);
    let mut now = Nanos::ZERO;
    for took_ms in [1, 100, 5] {
        let one = Demand {
            waiting: 1,
            ..many(0)
        };
        assert_eq!(pacer.grant(now, one).now, 1);
        let sent = now;
        now = now.saturating_add(Nanos::from_millis(took_ms));
        pacer.answered(now, sent);
        pacer.grant(now, many(8));
        let Bound::InFlightCap { unloaded, .. } = pacer.bound() else {
            panic!("{:?}", pacer.bound());
        };
        assert_eq!(unloaded, std::time::Duration::from_millis(took_ms));
        now = now.saturating_add(Nanos::from_secs(1));
    }
}

/// Checks that an application makes at once, but answers in order on each connection, keep a connection for each line;
/// checks that are made one after the other do not.
#[test]
fn concurrent_checks_keep_a_connection_for_each_line() {
    let connections = |concurrent| {
        let kind = NodeKind {
            check_secs: 3e-3,
            concurrent,
            ..NodeKind::steady()
        };
        run(kind, 10_000, 60, FLOOD).1.pacer.connections()
    };
    // The flood has ten connections, the polite client one.
    assert_eq!(connections(true), 11);
    assert!(connections(false) <= 2);
}

/// One write of each of 120 clients stood in a node's socket that checks one after the other, and a polite client behind
/// all of them. Where answers do not wait for each other every line keeps its one, also after a start over one connection.
#[test]
fn more_lines_than_keep_a_node_busy_wait_here_and_not_at_the_node() {
    let most_under_way = |check_secs, concurrent, closed| {
        let kind = NodeKind {
            check_secs,
            concurrent,
            ..NodeKind::steady()
        };
        let wants = Wants {
            closed,
            ..Wants::default()
        };
        let new = |node: &mut Node| Proxy::new(0, wants, 10_000, PaceMode::Adaptive, node);
        let (mut node, mut proxy) = run_from(Node::new(kind), new, 30);
        (30..40)
            .map(|second| {
                go_on(&mut node, &mut proxy, second, second + 1);
                proxy.under_way
            })
            .max()
    };
    assert!(most_under_way(3e-3, false, 120) <= Some(12));
    assert!(most_under_way(30e-3, true, 60) >= Some(58));
}

/// What clients would have had directly is a connection for each.
fn lines(lines: usize, connections: usize) -> Demand {
    Demand {
        waiting: lines,
        connections,
        lines,
        ..many(0)
    }
}

/// More lines have more connections at once, and what waits goes over those that are up.
#[test]
fn there_are_as_many_connections_as_lines_at_once_and_writes_wait_for_none_of_them() {
    let mut pacer = pacer(100_000, PaceMode::Adaptive);
    for (ms, count, up) in [(100, 8, 1), (3_000, 9, 8)] {
        let now = Nanos::from_millis(ms);
        assert_eq!(pacer.grant(now, lines(count, up)).now, count);
        assert_eq!(pacer.bound(), Bound::Nothing);
        assert_eq!(pacer.connections(), count);
    }
}

/// A node with a block a second for so many lines; answers take as long as `takes` says of the connections. The number of
/// connections after each block.
fn settle(
    pacer: &mut Pacer,
    seconds: std::ops::Range<u64>,
    count: usize,
    takes: fn(usize) -> u64,
) -> Vec<usize> {
    let mut numbers = Vec::new();
    for second in seconds {
        let took = Nanos::from_millis(takes(pacer.connections()));
        let mut at = Nanos::from_secs(second);
        while at < Nanos::from_secs(second + 1) {
            pacer.grant(at, lines(count, pacer.connections()));
            at = at.saturating_add(took);
            for _ in 0..count {
                pacer.answered(at, at.saturating_sub(took));
            }
        }
        let seen = block(second + 1, 0, at);
        pacer.block(at, &seen, Unit::Transactions, Load::default());
        numbers.push(pacer.connections());
    }
    numbers
}

/// A node that answers as fast over one connection keeps one, until there are more lines, or for some time.
#[test]
fn fewer_connections_are_kept_where_answers_are_as_fast_until_there_are_more_lines() {
    let mut pacer = pacer(100_000, PaceMode::Adaptive);
    let numbers = settle(&mut pacer, 0..30, 8, |_| 10);
    let mut distinct = numbers.clone();
    distinct.dedup();
    assert_eq!(distinct, [8, 4, 2, 1]);
    // A line more may be a fluctuation; a quarter more are others.
    assert_eq!(settle(&mut pacer, 30..32, 9, |_| 10), [1, 1]);
    assert_eq!(settle(&mut pacer, 32..34, 16, |_| 10), [16, 16]);
    // Lines that are gone need none.
    assert_eq!(settle(&mut pacer, 34..40, 3, |_| 10).last(), Some(&3));
    // What was learnt is looked at again.
    let later = settle(&mut pacer, 40..400, 3, |_| 10);
    let again = later.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((1..=4).contains(&again), "{again}");
}

/// A node whose answers take twice as long over half the connections keeps one for each line, and trials become rare.
#[test]
fn as_many_connections_as_lines_are_kept_where_fewer_are_slower() {
    for slower in [
        |n: usize| 80 / n as u64,
        |n: usize| if n < 8 { 14 } else { 10 },
    ] {
        let mut pacer = pacer(100_000, PaceMode::Adaptive);
        let numbers = settle(&mut pacer, 0..600, 8, slower);
        let fewer = numbers.iter().filter(|number| **number < 8).count();
        assert!(numbers.iter().all(|number| [4, 8].contains(number)));
        // One round each, after 16, 16, 32, 64, 128 and 256.
        assert_eq!(fewer, 6);
        assert_eq!(numbers.last(), Some(&8));
    }
}

/// *fixed* and *off* have as many as are set.
#[test]
fn without_the_adaptive_pace_the_connections_are_those_that_are_set() {
    for mode in [PaceMode::Fixed, PaceMode::Off] {
        let mut pacer = pacer(100_000, mode);
        pacer.grant(Nanos::ZERO, lines(8, 1));
        assert_eq!(pacer.connections(), 1);
    }
}

/// On a chain that makes no empty blocks the connections of a rush stayed open until the next transaction.
#[test]
fn pacing_48_connections_are_given_back_where_no_block_comes() {
    let mut pacer = pacer(100_000, PaceMode::Adaptive);
    let lines = |lines| Demand {
        lines,
        ..Demand::default()
    };
    pacer.grant(Nanos::ZERO, lines(64));
    assert_eq!(pacer.connections(), 64);
    // While writes wait, or come now and then, they stay.
    for ms in (0..100_000).step_by(50) {
        pacer.grant(Nanos::from_millis(ms), lines(64 - (ms / 50 % 64) as usize));
    }
    assert_eq!(pacer.connections(), 64);
    for ms in (100_000..170_000).step_by(50) {
        pacer.grant(Nanos::from_millis(ms), lines(0));
    }
    assert_eq!(pacer.connections(), 1);
}
