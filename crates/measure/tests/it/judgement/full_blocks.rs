//! Blocks that were full, by transactions or by gas, and what follows from that.

use measure::{Cause, EvidenceKind, LimitedBy, Reply, Summary};

use super::story::{Course, Story, accepted_at, every_second, first, found, healthy};
use crate::support::constant;

/// 600/s offered, 300 a block; the mempool is full with 2,000 and refuses then.
pub(super) fn full_and_refusing() -> Summary {
    let mut waiting = 0_i64;
    let mut taken = 0;
    let schedule = constant("600/s", "20s");
    let courses: Vec<Course> = schedule
        .iter()
        .map(|due| {
            let due = due.at.as_millis();
            while taken * 1_000 + 500 <= due {
                waiting = (waiting - 300).max(0);
                taken += 1;
            }
            if waiting < 2_000 {
                waiting += 1;
                return accepted_at(due);
            }
            Course::Sent {
                at: due,
                cause: Cause::OnTime,
                answer: Some((due + 2, Reply::RpcError { code: -32_603 })),
            }
        })
        .collect();
    let story = Story::of(schedule, |index, _| courses[index as usize]);
    let mut story = story.with_blocks(every_second(40), 300);
    let depth = |second: u64| (300 + second * 300).min(2_000);
    // The last sample of a second is taken after its block: of those alone it was said not to grow beyond 1,700.
    story.mempool = (0..20)
        .flat_map(|second| {
            let at = second * 1_000;
            let after = depth(second).saturating_sub(300);
            [(at + 450, depth(second)), (at + 550, after)]
        })
        .collect();
    Story {
        ended: 40_000,
        ..story
    }
    .summary()
}

#[test]
fn full_blocks_a_full_mempool_and_refusals_are_a_chain_of_causes_in_time() {
    let summary = full_and_refusing();
    assert_eq!(summary.limited_by, LimitedBy::Node);
    let since = |kind| found(&summary, kind).unwrap().from_s.unwrap();
    let full = since("blocks_full");
    let mempool = since("mempool_full");
    let refused = since("refused");
    assert!(
        full < mempool && mempool <= refused + 1.0,
        "{full} {mempool} {refused}"
    );
    let mempool = &found(&summary, "mempool_full").unwrap().kind;
    assert_eq!(*mempool, EvidenceKind::MempoolFull { limit: 2_000 });
    let healthy = healthy().summary();
    for kind in ["blocks_full", "mempool_full", "refused"] {
        assert_eq!(found(&healthy, kind), None);
    }
}

/// 200/s to two endpoints in turn, in blocks of 100 a second: of one chain that takes no more, or of the first
/// endpoint's chain, which the second one is no node of.
pub(super) fn blocks_of_100(of_two_chains: bool) -> Summary {
    let mut story = Story::of(constant("200/s", "20s"), |_, due| accepted_at(due));
    story.endpoint = |index| (index % 2) as u16;
    let is_known = |index: &u64| !of_two_chains || index.is_multiple_of(2);
    let most = if of_two_chains { usize::MAX } else { 100 };
    story = story.with_blocks(every_second(60), most);
    for (_, txs) in &mut story.blocks {
        txs.retain(is_known);
    }
    let story = Story {
        ended: 60_000,
        ..story
    };
    story.summary()
}

#[test]
fn blocks_of_100_of_an_even_load_are_not_called_full_because_something_else_waits() {
    let summary = blocks_of_100(true);
    assert_eq!(found(&summary, "blocks_full"), None);
    // What the other chain took is in no block of this one.
    assert_eq!(summary.fate.pending, 2_000);
    assert_eq!(first(&summary), "lost_after_accept");
    assert_eq!(summary.evidence[0].txs, 2_000);
    assert_eq!(summary.limited_by, LimitedBy::Node);
}

#[test]
fn blocks_of_100_that_leave_out_what_waits_are_full() {
    let summary = blocks_of_100(false);
    let full = found(&summary, "blocks_full").unwrap();
    assert_eq!(full.kind, EvidenceKind::BlocksFull { limit: 100 });
    assert_eq!(summary.fate.pending, 0);
}

/// 300 a block, and room for 300 by gas, or for many more.
#[test]
fn blocks_that_are_full_by_gas_are_told_from_blocks_that_are_full_by_something_else() {
    let summary = |limit| {
        let story = Story::of(constant("500/s", "20s"), |_, due| accepted_at(due));
        let story = Story {
            gas: Some((100_000, limit)),
            ended: 60_000,
            ..story
        };
        story.with_blocks(every_second(60), 300).summary()
    };
    let by_gas = summary(30_050_000);
    let found_gas = found(&by_gas, "blocks_out_of_gas").unwrap();
    let out_of_gas = EvidenceKind::BlocksOutOfGas {
        limit: 30_050_000,
        block_txs: 300,
    };
    assert_eq!(found_gas.kind, out_of_gas);
    assert_eq!(found(&by_gas, "blocks_full"), None);
    assert_eq!(by_gas.limited_by, LimitedBy::Node);
    // One more would fit by gas: something else keeps it out.
    let otherwise = summary(30_200_000);
    assert_eq!(found(&otherwise, "blocks_out_of_gas"), None);
    assert!(found(&otherwise, "blocks_full").is_some());
    // Full blocks that leave nothing behind hold nothing back.
    let story = Story::of(constant("300/s", "20s"), |_, due| accepted_at(due));
    let kept_up = Story {
        gas: Some((100_000, 30_050_000)),
        ended: 60_000,
        ..story
    };
    let kept_up = kept_up.with_blocks(every_second(60), 1_000).summary();
    assert_eq!(found(&kept_up, "blocks_out_of_gas"), None);
}
