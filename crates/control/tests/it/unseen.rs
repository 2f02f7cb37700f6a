//! Blocks or depths that are not seen, or show less than there is.

use pacing::Nanos;

use crate::model::node::{Node, NodeKind};
use crate::model::proxy::Visible;
use crate::model::{adaptive, run_from};
use crate::pace::{FLOOD, World};

/// Blocks are made but not reported: the falling depth shows them; without it the pace goes by answers and refusals.
#[test]
fn blind_the_pace_goes_by_depths_or_by_answers_and_refusals() {
    for depth in [true, false] {
        let visible = Visible {
            blocks: false,
            depth,
        };
        let start = |node: &mut Node| adaptive(10_000, FLOOD, node).seeing(visible);
        let (node, proxy) = run_from(Node::new(NodeKind::steady()), start, 120);
        assert_eq!(proxy.pacer.is_blind(Nanos::from_secs(120)), !depth);
        let committed = node.committed_between(Nanos::from_secs(60), Nanos::from_secs(120));
        assert!(committed as f64 > 60.0 * 2_500.0, "{committed}");
    }
}

/// A node whose answers with blocks could not be read had 64 writes in each report of its depth for ten seconds, half of what
/// its clients sent, and from then on whatever its mempool took.
#[test]
fn blocks_that_cannot_be_read_are_known_by_the_falling_depth() {
    for (block, told, flood) in [
        (usize::MAX, Some(88_000), FLOOD),
        (usize::MAX, None, FLOOD),
        (200, None, FLOOD),
        (40, None, FLOOD),
        (200, Some(88_000), |_| 190.0),
        (200, None, |_| 190.0),
    ] {
        let run = |blocks| {
            let kind = NodeKind {
                block,
                told,
                ..NodeKind::steady()
            };
            let visible = Visible {
                blocks,
                depth: true,
            };
            let start = |node: &mut Node| adaptive(10_000, flood, node).seeing(visible);
            let (node, proxy) = run_from(Node::new(kind), start, 40);
            let committed =
                |from, to| node.committed_between(Nanos::from_secs(from), Nanos::from_secs(to));
            (committed(5, 20), committed(20, 40), proxy.refused)
        };
        let (seen, unseen) = (run(true), run(false));
        let text = format!("{block} {told:?}: {unseen:?} {seen:?}");
        assert!(unseen.0 as f64 >= 0.9 * seen.0 as f64, "{text}");
        assert!(unseen.1 as f64 >= 0.9 * seen.1 as f64, "{text}");
        // A full mempool is asked for room, as nothing tells of it.
        assert!(block > 5_000 || unseen.2 == 0, "{text}");
    }
}

/// A depth that fell once, or with each block, is no block beside those that are read.
#[test]
fn a_depth_that_falls_with_the_blocks_shows_nothing_more() {
    let run = |depth| {
        let mut world = World::adaptive();
        let mut sent = Vec::new();
        for _ in 0..20 {
            sent.push(world.fill());
            if depth {
                let asked = world.due;
                world.pacer.mempool(asked, asked, world.own as usize);
                let left = world.own.saturating_sub(1_000);
                world.pacer.mempool(asked, asked, left as usize);
            }
            world.block(1_000);
        }
        sent
    };
    assert_eq!(run(true), run(false));
}

/// A restart of the node empties its mempool; what it reports bounds what is counted as own there.
#[test]
fn a_lost_mempool_does_not_close_the_window() {
    let mut world = World::adaptive();
    assert_eq!(world.fill(), 64);
    assert_eq!(world.pacer.grant(world.now, world.demand()).now, 0);
    world.now = world.now.saturating_add(Nanos::from_secs(1));
    world.pacer.mempool(world.now, world.now, 0);
    assert_eq!(world.fill(), 64);
}
