//! What a node accepted and no block has: lost, or still waiting.

use measure::{
    Cause, Codespace, EvidenceKind, Failure, LimitedBy, MempoolSample, RecorderConfig, Reply,
    SchedulePlan, Strength, Summary,
};

use super::story::{Course, Story, accepted_at, every_second, first, found};
use crate::support::{
    FOLLOWER, Folder, ORIGIN_UNIX_NS, SENDER, answered, block, constant, ms, sent,
};

/// 200/s; at 5 s the node crashes, its connections are down for 2 s, and it forgets what it had
/// accepted in the last 300 ms.
pub(super) fn crashing(forgets: bool) -> Summary {
    let story = Story::of(constant("200/s", "15s"), |_, due| match due {
        5_000..7_000 => Course::Sent {
            at: 7_000,
            cause: Cause::Connection,
            answer: Some((7_002, Reply::Accepted)),
        },
        _ => accepted_at(due),
    });
    let lost: Vec<u64> = (941..1_000).collect();
    let up = every_second(45).filter(|at| !(4_900..7_000).contains(at));
    let mut story = story.with_blocks(up.collect::<Vec<_>>(), usize::MAX);
    if forgets {
        for (_, txs) in &mut story.blocks {
            txs.retain(|index| !lost.contains(index));
        }
    }
    Story {
        ended: 45_000,
        ..story
    }
    .summary()
}

#[test]
fn accepted_transactions_that_a_node_lost_are_the_first_finding() {
    let summary = crashing(true);
    assert_eq!(summary.fate.pending, 59);
    assert_eq!(summary.limited_by, LimitedBy::Node);
    assert_eq!(first(&summary), "lost_after_accept");
    let lost = &summary.evidence[0];
    assert_eq!((lost.strength, lost.txs), (Strength::Decisive, 59));
    let connections = found(&summary, "short_of_connections").unwrap();
    assert_eq!(
        connections.strength,
        Strength::Remark,
        "they were down with the node"
    );
    let kept = crashing(false);
    assert_eq!(found(&kept, "lost_after_accept"), None);
}

/// `broadcast_tx_async` is answered before the check: what the check refuses was said to be lost.
#[test]
fn what_was_accepted_without_a_check_is_not_called_lost() {
    let lost = |checked| {
        let story = Story::of(constant("200/s", "10s"), |_, due| accepted_at(due));
        let mut story = Story {
            checked,
            ended: 20_000,
            ..story.with_blocks(every_second(20), usize::MAX)
        };
        let later = story.blocks.iter_mut().skip(5);
        later.for_each(|block| block.1.clear());
        story.summary()
    };
    let unchecked = lost(false);
    assert_eq!(found(&unchecked, "lost_after_accept"), None);
    let pending = found(&unchecked, "pending").unwrap();
    let unchecked = EvidenceKind::Pending {
        all_seen: true,
        checked: false,
    };
    assert_eq!(pending.kind, unchecked);
    assert!(found(&lost(true), "lost_after_accept").is_some());
}

/// A double spend that came first makes the other one invalid in the mempool, and a recheck drops it without a word.
#[test]
fn what_a_recheck_may_have_dropped_is_no_loss_of_the_nodes() {
    let run = |code, fails, is_dropped: fn(u64) -> bool| {
        let story = Story::of(constant("200/s", "10s"), |_, due| accepted_at(due));
        let mut story = Story {
            code,
            space: Codespace::named("sdk"),
            fails,
            ended: 30_000,
            ..story.with_blocks(every_second(30), usize::MAX)
        };
        for (_, txs) in &mut story.blocks {
            txs.retain(|index| !is_dropped(*index));
        }
        story.summary()
    };
    let lost = |summary: &Summary| {
        let lost = found(summary, "lost_after_accept").unwrap();
        (lost.points_to, lost.strength == Strength::Decisive)
    };
    let one_in_five = |index| index % 5 == 0;
    let few = |index| index % 100 == 3;
    let dropped = run(5, one_in_five, few);
    assert_eq!(lost(&dropped), (LimitedBy::Workload, false));
    assert_eq!(dropped.limited_by, LimitedBy::Workload);
    assert_eq!(found(&dropped, "backlog"), None, "blocks took all");
    // Nothing failed; more were lost than failed; they failed for the node's sake.
    let many = |index| index % 4 == 3;
    for summary in [
        run(5, |_| false, few),
        run(5, one_in_five, many),
        run(32, one_in_five, few),
    ] {
        let node = (LimitedBy::Node, true);
        assert_eq!(lost(&summary), node, "{:?}", summary.evidence);
    }
}

/// Others fill the blocks from 5 s on: what is accepted stays in the mempool.
pub(super) fn left_in_the_mempool() -> Summary {
    let story = Story::of(constant("200/s", "10s"), |_, due| accepted_at(due));
    let mut story = story.with_blocks(every_second(5), usize::MAX);
    story
        .blocks
        .extend((5..40).map(|second| (second * 1_000 + 500, Vec::new())));
    story.mempool = (0..40)
        .map(|second| (second * 1_000 + 600, 1_200))
        .collect();
    Story {
        ended: 40_000,
        ..story
    }
    .summary()
}

#[test]
fn what_still_waits_in_the_mempool_is_not_lost() {
    let summary = left_in_the_mempool();
    assert_eq!(found(&summary, "lost_after_accept"), None);
    let pending = found(&summary, "pending").unwrap();
    assert_eq!(
        (pending.strength, summary.limited_by),
        (Strength::Strong, LimitedBy::Node)
    );
}

/// A node's last sample was taken for what it held to the end: one that stood still with 979 transactions had "lost" the
/// rest, and held the fullest mempool of all for ever.
#[test]
fn what_a_node_holds_that_is_no_longer_sampled_is_neither_lost_nor_known_to_wait() {
    let samples =
        |seconds: std::ops::Range<u64>, txs| seconds.map(move |at| (at * 1_000 + 600, txs));
    let is_lost = |first: Vec<(u64, u64)>, second: Vec<(u64, u64)>| {
        let story = Story::of(constant("200/s", "10s"), |_, due| accepted_at(due));
        let mut story = Story {
            mempool: first,
            second_mempool: second,
            endpoint: |index| (index % 2) as u16,
            ended: 40_000,
            ..story.with_blocks(every_second(5), usize::MAX)
        };
        let empty = every_second(40).skip(5).map(|at| (at, Vec::new()));
        story.blocks.extend(empty);
        let summary = story.summary();
        assert!(summary.fate.pending > 1_000, "{:?}", summary.fate);
        let lost = found(&summary, "lost_after_accept").is_some();
        assert_ne!(lost, found(&summary, "pending").is_some());
        lost
    };
    let empty = || samples(0..40, 0).collect::<Vec<_>>();
    let full = || samples(0..9, 979).collect::<Vec<_>>();
    assert!(is_lost(empty(), empty()), "both had room for it");
    assert!(
        !is_lost(empty(), full()),
        "it stands still with a full mempool"
    );
    assert!(!is_lost(full(), empty()), "whichever it is");
    assert!(!is_lost(full(), full()), "both stand still");
    let stopped = samples(0..9, 0).collect();
    assert!(
        !is_lost(empty(), stopped),
        "it took some after its last sample"
    );
    assert!(!is_lost(empty(), Vec::new()), "it was never sampled");
    let back = full().into_iter().chain(samples(20..40, 0)).collect();
    assert!(is_lost(empty(), back), "it came back without them");
    assert!(is_lost(Vec::new(), Vec::new()), "blocks alone tell");
}

/// What a run of 100 transactions sees after the last answer, at 0.1 s. Each event is at a tenth of a second.
#[derive(Clone, Copy)]
enum Seen {
    /// The mempools hold so many.
    Mempool(u64),
    /// A block, announced within so many tenths before.
    Block(u64),
    /// A block with what the node kept.
    Own,
    /// All blocks announced by so many tenths before were read.
    Read(u64),
}

/// Whether the drain is over after each event; `config` changes how the run is recorded, `answer` is the last one.
fn drained(events: &[(u64, Seen)], (checked, answer): (bool, Reply)) -> Vec<bool> {
    let config = RecorderConfig {
        checked,
        endpoints: vec!["http://10.0.0.1:26657".to_owned()],
        ..RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1)
    };
    let plan = SchedulePlan::new(constant("1000/s", "100ms"));
    let mut recorder = Folder::new().recorder(config, plan);
    for index in 0..100 {
        recorder.sent(&sent(index, ms(index), ms(index)));
        let reply = if index == 99 { answer } else { Reply::Accepted };
        recorder.answered(&answered(index, ms(100), reply));
    }
    recorder.retire(SENDER);
    let mut height = 0;
    let see = |(tenths, seen): &(u64, Seen)| {
        let at = ms(tenths * 100);
        let mut block = |txs: &[u64], resolution| {
            height += 1;
            let mut block = block(height, at, txs);
            block.resolution = resolution;
            recorder.block(block);
        };
        match *seen {
            Seen::Mempool(txs) => recorder.mempool(&MempoolSample {
                at,
                endpoint: 0,
                txs,
                bytes: 0,
            }),
            Seen::Block(before) => block(&[], (before > 0).then(|| ms(before * 100))),
            Seen::Own => block(&[7], None),
            Seen::Read(before) => recorder.watermark(FOLLOWER, ms((tenths - before) * 100)),
        }
        recorder.rest_is_lost()
    };
    events.iter().map(see).collect()
}

const CHECKED: (bool, Reply) = (true, Reply::Accepted);

/// Ninety-nine transactions that a mempool had dropped were waited for for 30 s at each point of a search.
#[test]
fn a_drain_ends_when_blocks_with_room_had_nothing_of_what_is_pending() {
    use Seen::{Block, Mempool, Own, Read};
    let lost = [
        (2, Mempool(0)),
        (10, Own),
        (11, Read(0)),
        (12, Mempool(0)),
        (20, Block(0)),
        (30, Block(0)),
        (40, Block(0)),
        (41, Read(0)),
        (42, Mempool(0)),
        (43, Read(0)),
    ];
    let mut expected = [false; 10];
    expected[9] = true;
    assert_eq!(drained(&lost, CHECKED), expected);
    // Without a check, and with one whose request failed and may still arrive.
    for how in [
        (false, Reply::Accepted),
        (true, Reply::Failed(Failure::Timeout)),
    ] {
        assert_eq!(drained(&lost, how), [false; 10]);
    }
}

#[test]
fn a_drain_goes_on_while_what_is_pending_may_still_come() {
    use Seen::{Block, Mempool, Own, Read};
    let blocks = [
        (20, Block(0)),
        (30, Block(0)),
        (40, Block(0)),
        (41, Read(0)),
    ];
    let ends = |before: &[(u64, Seen)], after: &[(u64, Seen)]| {
        let events = [before, &blocks, after].concat();
        drained(&events, CHECKED).contains(&true)
    };
    let read = [(42, Mempool(0)), (43, Read(0))];
    assert!(ends(&[(11, Mempool(0))], &read));
    // Mempools that hold something, that are not sampled, that were sampled before the last answer.
    assert!(!ends(&[(11, Mempool(1))], &read));
    assert!(!ends(&[], &read));
    assert!(!ends(&[(1, Mempool(0))], &read));
    // Something came into the mempool in between, and a block had one of the run's.
    assert!(!ends(&[(11, Mempool(0)), (12, Mempool(3))], &read));
    assert!(!ends(
        &[(11, Mempool(0))],
        &[(42, Own), (43, Mempool(0)), (44, Read(0))]
    ));
    // The node stands still, or makes no blocks without transactions: two came.
    let silent = [
        (11, Mempool(0)),
        (20, Block(0)),
        (30, Block(0)),
        (31, Read(0)),
    ];
    let later = (32..400)
        .step_by(2)
        .flat_map(|at| [(at, Mempool(0)), (at, Read(0))]);
    let events: Vec<_> = silent.into_iter().chain(later).collect();
    assert!(!drained(&events, CHECKED).contains(&true));
    // Blocks of before, found when the node was asked; and a follower that has not read the next one.
    let found = [(40, Block(35)); 3];
    let polled = |found: &[_]| [&[(11, Mempool(0))], found, &[(41, Read(0))], &read].concat();
    assert!(!drained(&polled(&found), CHECKED).contains(&true));
    let later = [(40, Block(5)); 3];
    assert!(drained(&polled(&later), CHECKED).contains(&true));
    let behind = [
        (42, Mempool(0)),
        (43, Read(3)),
        (50, Mempool(0)),
        (51, Read(11)),
    ];
    assert!(!ends(&[(11, Mempool(0))], &behind));
}
