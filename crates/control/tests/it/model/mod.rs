//! A node on a simulated clock, clients of it, and proxies in front of it.

pub(crate) mod clients;
pub(crate) mod node;
pub(crate) mod proxy;

use control::PaceMode;
use pacing::Nanos;

use self::clients::Wants;
use self::node::{Node, NodeKind, STEP};
use self::proxy::{Proxy, pace};

/// Runs one adaptive proxy in front of a node, with a flood as a function of time.
pub(crate) fn run(
    kind: NodeKind,
    max_req: u64,
    seconds: u64,
    flood: fn(f64) -> f64,
) -> (Node, Proxy) {
    run_from(
        Node::new(kind),
        |node| adaptive(max_req, flood, node),
        seconds,
    )
}

pub(crate) fn adaptive(max_req: u64, flood: fn(f64) -> f64, node: &mut Node) -> Proxy {
    let wants = Wants {
        flood,
        ..Wants::default()
    };
    Proxy::new(0, wants, max_req, &pace(PaceMode::Adaptive), node)
}

pub(crate) fn run_from(
    mut node: Node,
    proxy: impl FnOnce(&mut Node) -> Proxy,
    seconds: u64,
) -> (Node, Proxy) {
    let mut proxy = proxy(&mut node);
    go_on(&mut node, &mut proxy, 0, seconds);
    (node, proxy)
}

pub(crate) fn go_on(node: &mut Node, proxy: &mut Proxy, from: u64, to: u64) {
    let mut now = Nanos::from_secs(from);
    while now < Nanos::from_secs(to) {
        node.step(now);
        proxy.step(now, node);
        now = now.saturating_add(STEP);
    }
}
