//! What recording costs, in memory and in time.

use std::time::Instant;

use measure::{BlockSeen, Cause, RecorderConfig, Reply, SchedulePlan, Sent};
use pacing::Nanos;

use crate::support::{
    FOLLOWER, Folder, ORIGIN_UNIX_NS, SENDER, answered, block, constant, end, hash, ms, sent,
};

const MILLION: u64 = 1_000_000;

#[test]
fn a_million_pending_transactions_fit_in_150_megabytes() {
    let folder = Folder::new();
    let config = RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1);
    let mut recorder = folder.recorder(config, SchedulePlan::new(constant("100000/s", "20s")));
    let empty = recorder.bytes();
    for index in 0..MILLION {
        let due = Nanos::from_micros(index * 10);
        recorder.sent(&sent(index, due, due));
        recorder.answered(&answered(index, due, Reply::Accepted));
        if index % 1_000 == 0 {
            recorder.watermark(SENDER, due);
            recorder.watermark(FOLLOWER, due);
        }
    }
    assert_eq!(recorder.live().pending, MILLION);
    let bytes = recorder.bytes();
    let each = (bytes - empty) / MILLION as usize;
    println!("{bytes} bytes in all, {each} for each pending transaction");
    assert!(bytes <= 150_000_000, "{bytes}");
    // While the table doubles, the half-full old one is still there: five more bytes a slot.
    let table_growing = (1 << 20) * 5;
    assert!(bytes + table_growing <= 150_000_000);

    let summary = recorder
        .finish(end(MILLION, ms(10_000), ms(10_000)))
        .summary;
    assert_eq!(summary.recorder.pending_peak, MILLION);
    assert_eq!(summary.fate.pending, MILLION);
    assert_eq!(folder.txs.rows().len(), MILLION as usize);
}

/// Prints nanoseconds for each transaction through all of its stages, its row included.
#[test]
#[ignore = "measures time: run with --release and --nocapture"]
fn nanoseconds_for_each_transaction() {
    let folder = Folder::new();
    let writers = measure::RunFolderWriters {
        txs: std::io::sink(),
        answers: std::io::sink(),
        series: std::io::sink(),
        steps: std::io::sink(),
        blocks: std::io::sink(),
        hlog: std::io::sink(),
    };
    drop(folder);
    let config = RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1);
    let plan = SchedulePlan::new(constant("50000/s", "40s"));
    let mut recorder = measure::Recorder::new(config, plan, writers);
    let hashes: Vec<_> = (0..2 * MILLION).map(hash).collect();
    let block_of = |number: u64| {
        let txs: Vec<u64> = (number * 50_000..(number + 1) * 50_000).collect();
        block(number + 1, ms((number + 1) * 1_000), &txs)
    };
    let mut blocks: Vec<BlockSeen> = (0..40).map(block_of).rev().collect();
    let began = Instant::now();
    for index in 0..2 * MILLION {
        let due = Nanos::from_micros(index * 20);
        let at = due.saturating_add(Nanos::from_nanos(20_000 + index % 1_000 * 31));
        recorder.sent(&Sent {
            index,
            hash: hashes[index as usize],
            size: 250,
            due,
            sent: at,
            endpoint: 0,
            step: 0,
            cause: Cause::OnTime,
            own_late: false,
        });
        let mut answer = answered(
            index,
            at.saturating_add(Nanos::from_micros(300 + index % 777)),
            Reply::Accepted,
        );
        answer.hash_prefix = measure::hash_prefix(&hashes[index as usize]);
        recorder.answered(&answer);
        if index % 50_000 == 49_999 {
            recorder.block(blocks.pop().unwrap());
        }
        if index % 500 == 499 {
            recorder.watermark(SENDER, due);
            recorder.watermark(FOLLOWER, due);
        }
    }
    let finished = recorder.finish(end(2 * MILLION, ms(40_000), ms(41_000)));
    let each = began.elapsed().as_nanos() / u128::from(2 * MILLION);
    println!("{each} ns for each transaction");
    assert_eq!(finished.summary.fate.committed, 2 * MILLION);
    assert!(finished.summary.conservation.holds);
}
