//! Full disks, full tables, sources that break their promise, blocks that a reorganisation takes back, killed runs.

use std::collections::HashSet;

use measure::{BlockSeen, RecordError, RecorderConfig, Reply, SchedulePlan, ScheduleVerdict};

use crate::support::{
    FOLLOWER, File, Folder, ORIGIN_UNIX_NS, SENDER, answered, block, constant, end, ms, sent,
    steady_run,
};

fn config() -> RecorderConfig {
    RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1)
}

#[test]
fn a_full_disk_loses_rows_but_neither_counts_nor_summary() {
    let mut folder = Folder::new();
    folder.txs = File::with_room(100_000);
    let finished = steady_run(&folder);
    let Some(RecordError::Write { file, source }) = finished.error else {
        panic!("the error is handed back");
    };
    assert_eq!(
        (file, source.kind()),
        ("txs.csv", std::io::ErrorKind::StorageFull)
    );
    let summary = finished.summary;
    assert_eq!(summary.recorder.incomplete_files, ["txs.csv"]);
    assert_eq!(
        (summary.fate.committed, summary.conservation.holds),
        (3_000, true)
    );
    assert_eq!(summary.verdict.schedule, ScheduleVerdict::Valid);
    assert_eq!(folder.series.rows().len(), 4, "the other files are whole");
}

#[test]
fn the_first_write_error_is_known_while_the_run_goes_on() {
    let mut folder = Folder::new();
    folder.series = File::with_room(0);
    let recorder = folder.recorder(config(), SchedulePlan::new(constant("1/s", "1s")));
    let message = recorder.write_error().unwrap().to_string();
    assert!(message.starts_with("cannot write series.csv"), "{message}");
}

#[test]
fn a_killed_run_leaves_whole_rows_up_to_its_last_second() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("1000/s", "10s")));
    for index in 0..5_000 {
        recorder.sent(&sent(index, ms(index), ms(index)));
        recorder.answered(&answered(index, ms(index), Reply::rejected(1)));
        recorder.watermark(SENDER, ms(index));
        recorder.watermark(FOLLOWER, ms(index));
    }
    std::mem::forget(recorder);
    // Each of these asserts that the last row is complete.
    assert_eq!(folder.series.rows().len(), 4);
    assert!(folder.txs.rows().len() >= 4_000);
    assert_eq!(folder.steps.rows().len(), 0);
    assert!(folder.hlog.text().lines().count() >= 4);
}

#[test]
fn a_full_table_settles_the_oldest_answered_and_says_so() {
    let folder = Folder::new();
    let mut config = config();
    config.max_pending = 10;
    let mut recorder = folder.recorder(config, SchedulePlan::new(constant("100/s", "1s")));
    for index in 0..100 {
        recorder.sent(&sent(index, ms(index * 10), ms(index * 10)));
        recorder.answered(&answered(index, ms(index * 10 + 1), Reply::Accepted));
    }
    assert_eq!(recorder.live().pending, 10);
    let all: Vec<u64> = (0..100).collect();
    recorder.block(block(1, ms(999), &all));
    let summary = recorder.finish(end(100, ms(1_000), ms(1_000))).summary;
    assert_eq!(summary.recorder.settled_early, 90);
    assert_eq!(summary.verdict.schedule, ScheduleVerdict::Invalid);
    assert!(
        summary.verdict.reasons[0].starts_with("invalid: 90 transactions had to be given a fate"),
        "{:?}",
        summary.verdict
    );
    assert_eq!((summary.fate.committed, summary.fate.pending), (10, 90));
    assert_eq!(
        (summary.blocks.own_txs, summary.blocks.foreign_txs),
        (10, 90)
    );
    assert!(summary.conservation.holds);
    let ids: HashSet<String> = folder.txs.column("txid").into_iter().collect();
    assert_eq!(ids.len(), 100);
}

#[test]
fn events_behind_a_watermark_are_kept_and_counted_as_late() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("1/s", "3s")));
    recorder.watermark(SENDER, ms(2_000));
    recorder.watermark(FOLLOWER, ms(2_000));
    recorder.sent(&sent(0, ms(0), ms(500)));
    recorder.sent(&sent(1, ms(1_000), ms(2_100)));
    recorder.sent(&sent(2, ms(2_000), ms(2_200)));
    let summary = recorder.finish(end(3, ms(3_000), ms(3_000))).summary;
    assert_eq!(summary.recorder.late_events, 1);
    assert_eq!(summary.verdict.schedule, ScheduleVerdict::Degraded);
    assert_eq!(folder.series.column("sent"), ["0", "0", "3"]);
    assert!(summary.conservation.holds);
}

#[test]
fn a_run_in_which_nothing_happens_is_invalid_and_still_a_run() {
    let folder = Folder::new();
    let recorder = folder.recorder(config(), SchedulePlan::new(constant("1/s", "1s")));
    let summary = recorder.finish(end(0, ms(0), ms(0))).summary;
    assert_eq!(summary.verdict.schedule, ScheduleVerdict::Invalid);
    assert_eq!(summary.verdict.reasons, ["invalid: nothing was sent"]);
    assert_eq!(summary.rate.accepted_tps, None);
    assert_eq!(summary.latency_ms.lateness.p99, None);
}

#[test]
fn events_stamped_after_the_end_stretch_the_run() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("1/s", "1s")));
    recorder.sent(&sent(0, ms(0), ms(1)));
    recorder.answered(&answered(0, ms(2_300), Reply::Accepted));
    let summary = recorder.finish(end(1, ms(1_000), ms(2_000))).summary;
    assert_eq!(summary.latency_ms.accept_service.count, 1);
    assert_eq!(folder.series.column("accepted"), ["0", "0", "1"]);
    assert_eq!(folder.series.column("span_s"), ["1.000", "1.000", "0.300"]);
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
    let config = RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1);
    let plan = SchedulePlan::new(constant("100/s", "1s"));
    let mut recorder = folder.recorder(config, plan);
    for index in 0..10 {
        recorder.sent(&sent(index, ms(index * 10), ms(index * 10)));
        recorder.answered(&answered(index, ms(150), Reply::Accepted));
    }
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
