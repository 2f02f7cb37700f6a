//! The node's time: how many writes may wait for an answer, and over how many connections.

use control::{Bound, Demand, PaceMode, PaceSettings, Pacer};
use pacing::Nanos;

use crate::model::node::NodeKind;
use crate::model::proxy::pace;
use crate::model::run;
use crate::pace::{FLOOD, many, pacer};

/// The node's time: while answers take long, few are under way, and the bound says so.
#[test]
fn writes_queue_here_and_not_in_the_nodes_socket() {
    let kind = NodeKind {
        check_secs: 1.5e-3,
        ..NodeKind::steady()
    };
    let (_, proxy) = run(kind, 10_000, 30, |_| 3_000.0);
    // 20 ms of work on each of the two connections that were tried.
    assert!(proxy.under_way <= 30, "{}", proxy.under_way);
    assert_eq!(proxy.usual_bound(), "in_flight_cap");
    // A fast node has more under way, and nothing is held back by its time most of the time.
    let (_, proxy) = run(NodeKind::steady(), 10_000, 30, FLOOD);
    assert_ne!(proxy.usual_bound(), "in_flight_cap");
}

/// Each write of a few was a write to the node's socket, and a wake-up of the node.
#[test]
fn room_that_answers_make_is_given_out_in_groups_of_2_ms() {
    let mut pacer = pacer(100_000, &pace(PaceMode::Adaptive));
    pacer.learn(100_000, None);
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

/// At 5ff2818 the bound followed the time of answers down to 8 writes, while the node waited for a core.
#[test]
fn stalls_of_the_node_do_not_look_like_a_queue_of_ours() {
    let mut pacer = pacer(100_000, &PaceSettings::default());
    pacer.learn(100_000, None);
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

/// Checks that an application makes at once, but answers in order on each connection, get more
/// connections; checks that are made one after the other do not.
#[test]
fn concurrent_checks_get_more_connections() {
    let connections = |concurrent| {
        let kind = NodeKind {
            check_secs: 30e-3,
            concurrent,
            ..NodeKind::steady()
        };
        run(kind, 10_000, 30, FLOOD).1.pacer.connections()
    };
    // The flood has ten connections, the polite client one.
    assert!((8..=11).contains(&connections(true)));
    assert!(connections(false) <= 2);
}
