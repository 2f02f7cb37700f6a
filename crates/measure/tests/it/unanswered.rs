//! Acceptance that followers report, and blocks that a reorganisation takes back.

use measure::{
    AcceptanceSeen, BlockSeen, Finished, Recorder, RecorderConfig, SchedulePlan, ScheduleVerdict,
};
use pacing::Nanos;

use crate::support::{
    FOLLOWER, File, Folder, ORIGIN_UNIX_NS, SENDER, block, constant, end, hash, ms, sent,
};

/// A recorder of 100/s for a second, from a target without answers.
fn recorder(folder: &Folder, followers: u16) -> Recorder<File, SchedulePlan> {
    let config = RecorderConfig {
        answers: false,
        ..RecorderConfig::new(ORIGIN_UNIX_NS, 1, followers)
    };
    folder.recorder(config, SchedulePlan::new(constant("100/s", "1s")))
}

fn send(recorder: &mut Recorder<File, SchedulePlan>, indices: std::ops::Range<u64>) {
    for index in indices {
        recorder.sent(&sent(index, ms(index * 10), ms(index * 10)));
    }
}

fn accepted(observed: Nanos, numbers: impl IntoIterator<Item = u64>) -> AcceptanceSeen {
    AcceptanceSeen {
        observed,
        txs: numbers.into_iter().map(hash).collect(),
    }
}

fn finish(recorder: Recorder<File, SchedulePlan>) -> Finished {
    let finished = recorder.finish(end(100, ms(1_000), ms(2_000)));
    let summary = &finished.summary;
    assert!(summary.conservation.holds, "{:?}", summary.conservation);
    assert_eq!(summary.recorder.late_events, 0);
    finished
}

#[test]
fn an_acceptance_waits_for_every_watermark() {
    let folder = Folder::new();
    let mut recorder = recorder(&folder, 1);
    // The follower is ahead of the sender's batch.
    recorder.accepted_unanswered(accepted(ms(5), [0]));
    recorder.watermark(FOLLOWER, ms(900));
    recorder.watermark(SENDER, ms(0));
    send(&mut recorder, 0..1);
    assert_eq!(recorder.live().totals.accepted, 0);
    recorder.watermark(SENDER, ms(5));
    assert_eq!(recorder.live().totals.accepted, 1);
    assert_eq!(recorder.live().pending, 1, "it waits for a block");
    send(&mut recorder, 1..100);
    let service = finish(recorder).summary.latency_ms.accept_service;
    assert_eq!((service.count, service.censored), (1, 99));
    // The second one was sent at 10 ms, and the follower saw no acceptance of it until 900 ms.
    assert_eq!(service.max, Some(890.0));
}

#[test]
fn without_answers_every_transaction_has_one_fate() {
    let folder = Folder::new();
    let mut recorder = recorder(&folder, 1);
    send(&mut recorder, 0..100);
    // Seen twice, in a block before that, in a block only, and accepted only.
    recorder.accepted_unanswered(accepted(ms(400), 0..40));
    recorder.accepted_unanswered(accepted(ms(450), 20..40));
    recorder.block(block(1, ms(600), &(10..60).collect::<Vec<u64>>()));
    recorder.accepted_unanswered(accepted(ms(700), 50..70));
    recorder.watermark(SENDER, ms(1_500));
    recorder.watermark(FOLLOWER, ms(1_500));
    assert_eq!(recorder.live().pending, 10 + 10 + 30);
    let summary = finish(recorder).summary;
    let fate = &summary.fate;
    assert_eq!((fate.accepted, fate.unanswered, fate.errors), (70, 30, 0));
    assert_eq!((fate.committed, fate.pending), (50, 20));
    assert_eq!(fate.committed_anyway.total(), 0);
    let from_accepted = &summary.latency_ms.commit_from_accepted;
    assert_eq!((from_accepted.count, from_accepted.censored), (50, 20));
    // Ten of the pending were accepted at 400 ms and waited until the last watermark.
    assert_eq!(from_accepted.max, Some(1_100.0));
    assert_eq!(folder.series.sum("accepted"), 70);
    assert_eq!(folder.txs.rows().len(), 100);
}

#[test]
fn without_answers_and_followers_a_transaction_is_settled_once_it_is_sent() {
    let folder = Folder::new();
    let mut recorder = recorder(&folder, 0);
    send(&mut recorder, 0..100);
    assert_eq!(recorder.live().pending, 0);
    assert_eq!(finish(recorder).summary.fate.unanswered, 100);
}

/// What a follower of a chain with reorganisations does: a block is reported once it is `DEPTH` deep,
/// as observed then.
#[derive(Default)]
struct BestChain(Vec<BlockSeen>);

impl BestChain {
    fn extend(&mut self, block: BlockSeen) -> Option<BlockSeen> {
        let now = block.observed;
        self.0.retain(|kept| kept.height < block.height);
        self.0.push(block);
        let buried = self.0.len().checked_sub(DEPTH + 1)?;
        Some(BlockSeen {
            observed: now,
            ..self.0[buried].clone()
        })
    }
}

const DEPTH: usize = 2;

#[test]
fn a_block_that_a_reorganisation_takes_back_commits_nothing() {
    let folder = Folder::new();
    let mut recorder = recorder(&folder, 1);
    send(&mut recorder, 0..10);
    recorder.accepted_unanswered(accepted(ms(150), 0..10));
    let mut chain = BestChain::default();
    let seen = [
        block(1, ms(200), &[0, 1]),
        block(2, ms(300), &[2, 3, 4]),
        // In place of the one before it, without 4 and with 3 in the next.
        block(2, ms(400), &[2]),
        block(3, ms(20_000), &[3]),
        block(4, ms(30_000), &[]),
        block(5, ms(40_000), &[]),
    ];
    for block in seen {
        let now = block.observed;
        chain
            .extend(block)
            .into_iter()
            .for_each(|block| recorder.block(block));
        // The watermark does not wait for the blocks that are held back.
        recorder.watermark(SENDER, now);
        recorder.watermark(FOLLOWER, now);
    }
    let finished = recorder.finish(end(10, ms(100), ms(40_000)));
    let summary = finished.summary;
    assert!(summary.conservation.holds, "{:?}", summary.conservation);
    assert_eq!(summary.recorder.late_events, 0);
    assert_ne!(summary.verdict.schedule, ScheduleVerdict::Degraded);
    assert_eq!((summary.fate.committed, summary.fate.pending), (4, 6));
    assert_eq!(folder.blocks.column("height"), ["1", "2", "3"]);
    assert_eq!(folder.blocks.column("own_txs"), ["2", "1", "1"]);
}
