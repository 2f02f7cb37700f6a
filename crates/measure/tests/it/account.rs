//! What becomes of single transactions, and the rows they leave.

use measure::{
    BlockSeen, BlockTx, Cause, Codespace, EvidenceKind, Failure, LimitedBy, RecorderConfig, Reply,
    SchedulePlan, ScheduleVerdict, UNKNOWN_CODE, Unsent, UnsentReason,
};
use pacing::Nanos;

use crate::support::{
    FOLLOWER, Folder, ORIGIN_UNIX_NS, SENDER, answered, block, constant, end, hash, ms, sent,
    steady_run,
};

fn config() -> RecorderConfig {
    RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1)
}

fn one_second() -> SchedulePlan {
    SchedulePlan::new(constant("1/s", "1s"))
}

#[test]
fn a_steady_run_is_valid_and_adds_up() {
    let folder = Folder::new();
    let finished = steady_run(&folder);
    assert!(finished.error.is_none());
    let summary = finished.summary;
    assert_eq!(summary.verdict.schedule, ScheduleVerdict::Valid);
    assert_eq!(summary.verdict.reasons, Vec::<String>::new());
    assert!(summary.conservation.holds, "{:?}", summary.conservation);
    assert_eq!(summary.limited_by, LimitedBy::Nothing);
    assert_eq!(
        (
            summary.fate.accepted,
            summary.fate.committed,
            summary.fate.pending
        ),
        (3_000, 3_000, 0)
    );
    assert_eq!(summary.blocks.own_txs, 3_000);
    assert_eq!(summary.recorder.late_events, 0);
    let lateness = &summary.latency_ms.lateness;
    assert_eq!((lateness.count, lateness.max), (3_000, Some(0.02)));
    let service = summary.latency_ms.accept_service.p50.unwrap();
    assert!((service - 1.98).abs() < 0.002, "{service}");
    let accepted = summary.rate.accepted_tps.unwrap();
    assert_eq!((accepted.seconds, accepted.max), (3, 1_000.0));
    assert_eq!(folder.txs.rows().len(), 3_000);
    assert_eq!(folder.steps.rows().len(), 1);
}

#[test]
fn the_row_of_a_committed_transaction_has_every_stamp() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), one_second());
    recorder.sent(&sent(0, ms(0), ms(1)));
    recorder.answered(&answered(0, ms(3), Reply::Accepted));
    recorder.block(block(7, ms(900), &[0]));
    recorder.finish(end(1, ms(1_000), ms(1_000)));
    // The origin is …800.123456789 s: 1 ms later it is …801 in the third decimal of a second.
    let expected = format!(
        "txid,size,ts_send,ts_accept,ts_commit,ts_error,due_ns,sent_ns,accepted_ns,committed_ns,height,code,endpoint,step,codespace\n\
         {},250,1795132800124.456,1795132800126.456,1795132801023.456,,0,1000000,3000000,900000000,7,0,0,0,\n",
        hash(0)
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect::<String>()
    );
    assert_eq!(folder.txs.text(), expected);
}

#[test]
fn a_commit_may_be_seen_before_its_answer() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), one_second());
    recorder.sent(&sent(0, ms(0), ms(1)));
    recorder.block(block(7, ms(500), &[0]));
    recorder.watermark(SENDER, ms(600));
    recorder.watermark(FOLLOWER, ms(600));
    assert_eq!(folder.txs.rows().len(), 0, "its answer is still to come");
    recorder.answered(&answered(0, ms(700), Reply::Accepted));
    let summary = recorder.finish(end(1, ms(1_000), ms(1_000))).summary;
    assert_eq!((summary.fate.accepted, summary.fate.committed), (1, 1));
    assert_eq!(folder.txs.column("accepted_ns"), ["700000000"]);
    assert_eq!(folder.txs.column("committed_ns"), ["500000000"]);
    let from_accepted = summary.latency_ms.commit_from_accepted;
    assert_eq!((from_accepted.count, from_accepted.max), (1, Some(0.0)));
}

#[test]
fn a_block_waits_for_the_transactions_that_are_still_in_a_batch() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), one_second());
    recorder.block(block(7, ms(500), &[0]));
    recorder.watermark(FOLLOWER, ms(800));
    recorder.watermark(SENDER, ms(499));
    recorder.sent(&sent(0, ms(0), ms(400)));
    recorder.watermark(SENDER, ms(800));
    let summary = recorder.finish(end(1, ms(1_000), ms(1_000))).summary;
    assert_eq!((summary.blocks.own_txs, summary.blocks.foreign_txs), (1, 0));
}

#[test]
fn a_transaction_without_an_answer_may_be_committed_all_the_same() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("3/s", "1s")));
    for index in 0..3 {
        recorder.sent(&sent(index, ms(0), ms(1)));
    }
    recorder.answered(&answered(0, ms(100), Reply::Failed(Failure::Closed)));
    recorder.answered(&answered(1, ms(100), Reply::Failed(Failure::Timeout)));
    recorder.block(block(1, ms(500), &[0, 2]));
    let summary = recorder.finish(end(3, ms(1_000), ms(1_000))).summary;
    let fate = &summary.fate;
    assert_eq!((fate.errors, fate.unanswered, fate.committed), (2, 1, 0));
    assert_eq!(fate.committed_anyway.errors, 1);
    assert_eq!(fate.committed_anyway.unanswered, 1);
    assert_eq!(fate.errors_by_kind["closed"], 1);
    assert_eq!(summary.blocks.own_txs, 2);
    assert!(summary.conservation.holds);
    let rows = folder.txs.rows();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0][4..6].iter().filter(|ts| !ts.is_empty()).count(), 2);
}

#[test]
fn rejections_are_counted_by_code_and_end_at_once() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("2/s", "1s")));
    recorder.sent(&sent(0, ms(0), ms(1)));
    recorder.sent(&sent(1, ms(500), ms(501)));
    let space = Codespace::named("sdk");
    recorder.answered(&answered(0, ms(3), Reply::Rejected { code: 5, space }));
    recorder.answered(&answered(1, ms(503), Reply::RpcError { code: -32603 }));
    assert_eq!(recorder.live().pending, 0);
    let summary = recorder.finish(end(2, ms(1_000), ms(1_000))).summary;
    assert_eq!(summary.fate.rejected, 2);
    assert_eq!(summary.fate.rejected_by_code["sdk/5"], 1);
    assert_eq!(summary.fate.rejected_by_code["-32603"], 1);
    assert_eq!(folder.txs.column("code"), ["5", "-32603"]);
    assert_eq!(folder.txs.column("codespace"), ["sdk", ""]);
    let answers = folder.answers.column("answer");
    assert_eq!(answers, ["code -32603", "code sdk/5"]);
    assert_eq!(folder.txs.column("ts_accept"), ["", ""]);
    assert!(
        folder
            .txs
            .column("ts_error")
            .iter()
            .all(|ts| !ts.is_empty())
    );
    assert_eq!(summary.limited_by, LimitedBy::Node);
}

#[test]
fn an_execution_that_fails_is_a_failed_commit() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), one_second());
    recorder.sent(&sent(0, ms(0), ms(1)));
    recorder.answered(&answered(0, ms(3), Reply::Accepted));
    let mut failed = block(7, ms(900), &[]);
    failed.txs = vec![BlockTx {
        hash: hash(0),
        code: 5,
        space: Codespace::named("sdk"),
    }];
    recorder.block(failed);
    let summary = recorder.finish(end(1, ms(1_000), ms(1_000))).summary;
    assert_eq!((summary.fate.committed, summary.fate.commit_failed), (0, 1));
    assert_eq!(summary.fate.commit_failed_by_code["sdk/5"], 1);
    assert_eq!(folder.txs.column("code"), ["5"]);
    assert_eq!(folder.txs.column("codespace"), ["sdk"]);
    let failed = summary.evidence.iter();
    let failed: Vec<_> = failed
        .filter(|it| it.kind == EvidenceKind::FailedInBlocks)
        .collect();
    assert_eq!((failed.len(), failed[0].txs), (1, 1));
    assert_eq!(folder.blocks.column("own_failed"), ["1"]);
}

/// The node has lost the results, or writes them in an unknown form.
#[test]
fn a_transaction_in_a_block_without_results_is_not_committed() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), one_second());
    recorder.sent(&sent(0, ms(0), ms(1)));
    recorder.answered(&answered(0, ms(3), Reply::Accepted));
    let mut unknown = block(7, ms(900), &[]);
    unknown.txs = vec![BlockTx {
        hash: hash(0),
        code: UNKNOWN_CODE,
        space: Codespace::NONE,
    }];
    recorder.block(unknown);
    let summary = recorder.finish(end(1, ms(1_000), ms(1_000))).summary;
    let fate = &summary.fate;
    assert_eq!((fate.committed, fate.commit_failed), (0, 0));
    assert_eq!((fate.unverified, fate.pending), (1, 0));
    assert!(summary.conservation.holds);
    assert_eq!(summary.verdict.schedule, ScheduleVerdict::Degraded);
    let reasons = summary.verdict.reasons.join("; ");
    assert!(
        reasons.contains("whether they succeeded is unknown"),
        "{reasons}"
    );
    // Neither a row nor a column calls it committed.
    assert_eq!(folder.txs.column("code"), [""]);
    assert_eq!(folder.blocks.column("own_unverified"), ["1"]);
    assert_eq!(
        (
            folder.series.sum("committed"),
            folder.series.sum("unverified")
        ),
        (0, 1)
    );
    assert_eq!(folder.series.column("backlog"), ["0"]);
}

#[test]
fn the_resolution_of_polled_blocks_is_in_the_summary_and_announced_ones_have_none() {
    let run = |resolutions: [Option<Nanos>; 3]| {
        let folder = Folder::new();
        let mut recorder = folder.recorder(config(), one_second());
        for (height, resolution) in (1..).zip(resolutions) {
            recorder.block(BlockSeen {
                resolution,
                ..block(height, ms(height * 200), &[])
            });
        }
        let summary = recorder.finish(end(0, ms(1_000), ms(1_000))).summary;
        (summary.blocks, folder.blocks.column("resolution_ms"))
    };
    let (blocks, column) = run([Some(ms(20)), None, Some(ms(240))]);
    assert_eq!(column, ["20.000", "", "240.000"]);
    assert_eq!(blocks.polled, 2);
    assert_eq!(
        blocks.resolution().unwrap(),
        "Commits seen by polling (2 of 3 blocks), resolution 130 ms (mean), 240 ms (max)"
    );
    let (blocks, _) = run([None; 3]);
    assert_eq!((blocks.polled, blocks.resolution()), (0, None));
}

#[test]
fn transactions_with_one_hash_are_told_apart_by_their_index() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("2/s", "1s")));
    for index in [0, 1] {
        let mut twin = sent(index, ms(0), ms(1 + index));
        twin.hash = hash(0);
        recorder.sent(&twin);
    }
    let mut second = answered(1, ms(10), Reply::rejected(1));
    second.hash_prefix = measure::hash_prefix(&hash(0));
    recorder.answered(&second);
    recorder.answered(&answered(0, ms(11), Reply::Accepted));
    recorder.block(block(1, ms(500), &[0]));
    let summary = recorder.finish(end(2, ms(1_000), ms(1_000))).summary;
    assert_eq!((summary.fate.rejected, summary.fate.committed), (1, 1));
    assert_eq!(summary.recorder.stray_answers, 0);
}

#[test]
fn second_answers_and_unknown_ids_are_counted_as_stray() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), one_second());
    recorder.sent(&sent(0, ms(0), ms(1)));
    recorder.answered(&answered(0, ms(3), Reply::Accepted));
    recorder.answered(&answered(0, ms(4), Reply::Accepted));
    recorder.answered(&answered(99, ms(4), Reply::Accepted));
    let summary = recorder.finish(end(1, ms(1_000), ms(1_000))).summary;
    assert_eq!(summary.fate.accepted, 1);
    assert_eq!(summary.recorder.stray_answers, 2);
}

#[test]
fn two_followers_give_each_block_once_with_its_earliest_observation() {
    let folder = Folder::new();
    let mut config = config();
    config.followers = 2;
    let mut recorder = folder.recorder(config, one_second());
    recorder.sent(&sent(0, ms(0), ms(1)));
    recorder.answered(&answered(0, ms(3), Reply::Accepted));
    recorder.block(block(1, ms(400), &[0]));
    recorder.block(block(1, ms(350), &[0]));
    recorder.watermark(SENDER, ms(600));
    recorder.watermark(FOLLOWER, ms(600));
    recorder.watermark(measure::SourceId(2), ms(600));
    recorder.block(block(1, ms(700), &[0]));
    recorder.block(block(3, ms(800), &[]));
    let summary = recorder.finish(end(1, ms(1_000), ms(1_000))).summary;
    assert_eq!((summary.blocks.count, summary.blocks.missing), (2, 1));
    assert_eq!(folder.blocks.column("height"), ["1", "3"]);
    assert_eq!(folder.txs.column("committed_ns"), ["350000000"]);
    assert_eq!(
        summary.verdict.schedule,
        ScheduleVerdict::Degraded,
        "a height is missing"
    );
}

#[test]
fn the_generators_own_lateness_costs_the_verdict_and_the_nodes_does_not() {
    let verdict = |cause: Cause, late: u64, late_ms: u64, strict: bool| {
        let folder = Folder::new();
        let config = RecorderConfig {
            strict,
            followers: 0,
            ..config()
        };
        let mut recorder = folder.recorder(config, SchedulePlan::new(constant("100/s", "1s")));
        for index in 0..100 {
            let due = ms(index * 10);
            let is_late = index < late;
            let lateness = ms(if is_late { late_ms } else { 0 });
            let mut event = sent(index, due, due.saturating_add(lateness));
            event.cause = if is_late { cause } else { Cause::OnTime };
            recorder.sent(&event);
            let at = event.sent.saturating_add(ms(1));
            recorder.answered(&answered(index, at, Reply::Accepted));
        }
        let summary = recorder.finish(end(100, ms(1_000), ms(1_100))).summary;
        (summary.verdict.schedule, summary.limited_by)
    };
    use LimitedBy::{Nothing, Source};
    use ScheduleVerdict::{Degraded, Invalid, Valid};
    // A millisecond is in the latencies; the load is the load.
    assert_eq!(verdict(Cause::Schedule, 1, 5, false), (Valid, Nothing));
    assert_eq!(verdict(Cause::Schedule, 2, 5, false), (Degraded, Nothing));
    assert_eq!(verdict(Cause::Schedule, 60, 5, false), (Degraded, Nothing));
    assert_eq!(verdict(Cause::Source, 6, 1_001, false), (Invalid, Source));
    assert_eq!(verdict(Cause::Source, 5, 1_001, false), (Degraded, Source));
    assert_eq!(verdict(Cause::Source, 6, 5, true), (Invalid, Nothing));
    assert_eq!(verdict(Cause::Node, 100, 5, false), (Valid, Nothing));
    // Of the last six the node let go after the second in which they were due.
    let held_up = verdict(Cause::Node, 100, 60, false);
    assert_eq!(held_up, (Valid, LimitedBy::Node));
}

#[test]
fn too_few_connections_are_the_generators_limit_and_the_verdict_says_what_lifts_it() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("100/s", "1s")));
    for index in 0..100 {
        let due = ms(index * 10);
        // One connection, 20 ms for an answer: half the rate.
        let mut event = sent(index, due, ms(index * 20));
        event.cause = match index {
            0 => Cause::OnTime,
            _ => Cause::Connection,
        };
        recorder.sent(&event);
        let at = event.sent.saturating_add(ms(20));
        recorder.answered(&answered(index, at, Reply::Accepted));
    }
    let verdict = recorder
        .finish(end(100, ms(1_000), ms(2_100)))
        .summary
        .verdict;
    assert_eq!(verdict.schedule, ScheduleVerdict::Invalid);
    let reason = &verdict.reasons[0];
    assert!(
        reason.contains("for lack of a free connection: 100/s x 20.0 ms")
            && reason.contains("= 2 connections needed; give -c 4 or ws://"),
        "{reason}"
    );
}

#[test]
fn what_is_not_sent_costs_the_verdict_and_stays_in_the_account() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("2/s", "1s")));
    recorder.sent(&sent(0, ms(0), ms(1)));
    recorder.answered(&answered(0, ms(3), Reply::Accepted));
    recorder.unsent(&Unsent {
        index: 1,
        due: ms(500),
        at: ms(501),
        step: 0,
        reason: UnsentReason::MaxInFlight,
    });
    let summary = recorder.finish(end(2, ms(1_000), ms(1_000))).summary;
    assert!(summary.conservation.holds);
    assert_eq!(summary.offered.unsent_by_reason["max_in_flight"], 1);
    assert_eq!(summary.verdict.schedule, ScheduleVerdict::Invalid);
    assert!(
        summary.verdict.reasons[0].contains("max_in_flight 1"),
        "{:?}",
        summary.verdict
    );
    // The node did not keep anything from being sent: that is another reason.
    assert_eq!(summary.limited_by, LimitedBy::Connection);
}

#[test]
fn a_transaction_that_is_neither_sent_nor_given_up_is_missed() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("2/s", "1s")));
    recorder.sent(&sent(0, ms(0), ms(1)));
    let summary = recorder.finish(end(2, ms(1_000), ms(1_000))).summary;
    assert!(!summary.conservation.holds);
    assert_eq!(summary.verdict.schedule, ScheduleVerdict::Invalid);
    let broken: Vec<String> = summary
        .conservation
        .broken()
        .map(ToString::to_string)
        .collect();
    assert_eq!(broken, ["planned = sent + unsent: 2 ≠ 1"]);
}
