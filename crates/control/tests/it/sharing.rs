//! Several proxies in front of one node, and others beside them.

use control::PaceMode;
use pacing::Nanos;

use crate::model::{Node, NodeKind, Proxy, STEP, pace};

/// Proxies that start at these seconds, each with more demand than the node takes, and others who
/// send so many a second past them. What each committed in the last third.
fn share(starts: &[u64], others: f64, seconds: u64, kind: NodeKind) -> (Node, Vec<usize>) {
    let mut node = Node::new(kind);
    let mut proxies: Vec<Proxy> = (0..starts.len())
        .map(|source| Proxy::new(source, 10_000, &pace(PaceMode::Adaptive)))
        .collect();
    let mut now = Nanos::ZERO;
    let mut owed = 0.0;
    while now < Nanos::from_secs(seconds) {
        node.step(now);
        for (proxy, start) in proxies.iter_mut().zip(starts) {
            if now >= Nanos::from_secs(*start) {
                proxy.step(now, &mut node, 10_000.0);
            }
        }
        owed += others * STEP.as_secs_f64();
        node.offer(7, owed as usize);
        owed -= owed.floor();
        now = now.saturating_add(STEP);
    }
    let from = Nanos::from_secs(seconds - seconds / 3);
    let late = || node.blocks.iter().filter(|made| made.at >= from);
    let shares = (0..starts.len())
        .map(|source| late().map(|made| made.by_source[source]).sum())
        .collect();
    (node, shares)
}

/// Case 27: together they do not overload the node, waste nothing, and come to equal shares, also
/// the one that starts when the node is full.
#[test]
fn controller_27_several_proxies_share_one_node() {
    let (alone, _) = share(&[0], 0.0, 120, NodeKind::steady());
    let (node, shares) = share(&[0, 0], 0.0, 120, NodeKind::steady());
    let committed = |node: &Node| node.committed_between(Nanos::ZERO, Nanos::MAX) as f64;
    assert!(committed(&node) > 0.93 * committed(&alone));
    assert!(shares[1] as f64 > 0.7 * shares[0] as f64, "{shares:?}");
    assert!(
        (node.refused as f64) < 0.01 * committed(&node),
        "{}",
        node.refused
    );

    let (_, shares) = share(&[0, 20, 40], 0.0, 240, NodeKind::steady());
    let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
    assert!(*least as f64 > 0.6 * *most as f64, "{shares:?}");
}

#[test]
fn controller_27_proxies_share_capped_blocks() {
    let kind = NodeKind {
        block: 2_000,
        ..NodeKind::steady()
    };
    let (node, shares) = share(&[0, 30], 0.0, 210, kind);
    assert!(shares[1] as f64 > 0.6 * shares[0] as f64, "{shares:?}");
    assert!(node.depth() < 4_950, "{}", node.depth());
}

/// What others send past the proxy is part of what fills the node: they lose little by it.
#[test]
fn others_beside_the_proxy_keep_most_of_theirs() {
    let (node, shares) = share(&[0], 1_000.0, 90, NodeKind::steady());
    let mine = shares[0] as f64 / 30.0;
    assert!((2_700.0..3_600.0).contains(&mine), "{mine}");
    let others: usize = node.blocks.iter().map(|made| made.by_source[7]).sum();
    assert!(others as f64 > 0.75 * 90_000.0, "{others}");
}
