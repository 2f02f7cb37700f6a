//! Clients that ask for little beside one that takes all it gets.

use control::PaceMode;

use crate::model::clients::Wants;
use crate::model::node::{Node, NodeKind};
use crate::model::proxy::{Proxy, pace};
use crate::model::run_from;

/// Milliseconds within which 99 of 100 writes of a client with ten a second are accepted, in two minutes.
fn polite_p99_ms(kind: NodeKind, wants: Wants) -> u64 {
    let new = |node: &mut Node| Proxy::new(0, wants, 50_000, &pace(PaceMode::Adaptive), node);
    let (_, proxy) = run_from(Node::new(kind), new, 120);
    proxy.polite.quantile(0.99)
}

/// A client with 60 writes always waiting, or a flood, took each place as soon as a block freed it: the others' p99 was
/// 166 ms with blocks of 40 transactions, 335 with 200, 244 with 1,000 and 51 with 20 a fifth of a second.
#[test]
fn pacing_53_one_client_that_always_has_writes_waiting_leaves_places_for_the_others() {
    let sixty = Wants {
        connections: 0,
        closed: 60,
        ..Wants::default()
    };
    let flood = Wants {
        flood: |_| 10_000.0,
        ..Wants::default()
    };
    for (block, timeout_secs) in [(40, 1.0), (200, 1.0), (1_000, 1.0), (20, 0.2)] {
        let kind = NodeKind {
            block,
            timeout_secs,
            ..NodeKind::steady()
        };
        let quiet = polite_p99_ms(kind, Wants::default());
        for wants in [sixty, flood] {
            let beside = polite_p99_ms(kind, wants);
            assert!(beside <= 2 * quiet, "{kind:?}: {beside} ms for {quiet}");
        }
    }
}
