//! Which stage of a node had all it could do, by its blocks, its answers and its own metrics.

use std::ops::Range;

use measure::{
    Cause, EvidenceKind, LimitedBy, NodeRow, Reply, Stage, StageEvidence, Strength, Summary, judge,
};

use super::full_blocks::{blocks_of_100, full_and_refusing};
use super::losses::{crashing, left_in_the_mempool};
use super::silences::standing_still;
use super::story::{Course, Story, accepted_at, every_second, first, found, healthy, kind, ramp};
use crate::support::constant;

/// A ramp to 1,200/s on a chain that takes a fifth of a second from block to block, and so much more for each
/// transaction as `execution` says in milliseconds.
fn slow_blocks(execution: u64, cost: fn(u64, u64) -> u64) -> Summary {
    slow_story(execution, cost).summary()
}

fn slow_story(execution: u64, cost: fn(u64, u64) -> u64) -> Story {
    let story = Story::of(ramp(12), |_, due| accepted_at(due));
    let story = Story {
        cost,
        ended: 200_000,
        ..story
    };
    let (mut at, mut before) = (500, 0);
    let mut instants = Vec::new();
    while at < 200_000 {
        instants.push(at);
        // 100/s more every 5 s.
        let txs = (at - before) * (at.min(60_000) / 5_000 + 1) / 10;
        (before, at) = (at, at + 200 + txs * execution);
    }
    story.with_blocks(instants, usize::MAX)
}

/// A node's clock was set back by an hour: its headers then came an hour before its blocks, which were larger by then, and
/// the hour was taken for what larger blocks cost.
#[test]
fn a_clock_that_is_set_while_a_run_goes_on_names_no_stage_and_is_told() {
    for ahead in [
        |height| if height > 60 { -3_600_000 } else { 0 },
        |height| if height > 60 { 3_600_000 } else { 0 },
    ] {
        for cost in [|txs, _| 5 + txs % 3, |txs, _| txs] {
            let story = slow_story(1, cost);
            let summary = Story { ahead, ..story }.summary();
            assert_eq!(found_stage(&summary), None);
            assert_eq!(summary.limited_by, LimitedBy::Node);
            let is_told = |reason: &String| reason.contains("a clock was set");
            assert!(summary.verdict.reasons.iter().any(is_told));
        }
    }
    // One that is off all the time touches nothing.
    let story = slow_story(1, |txs, _| txs);
    let off = Story {
        ahead: |_| -3_600_000,
        ..story
    };
    let summary = off.summary();
    assert_eq!(
        found_stage(&summary),
        found_stage(&slow_blocks(1, |txs, _| txs))
    );
    assert!(summary.verdict.reasons.is_empty());
}

#[test]
fn a_chain_whose_blocks_take_longer_the_more_they_hold_is_limited_by_execution() {
    let summary = slow_blocks(1, |txs, _| txs);
    let Some(StageEvidence::Blocks {
        stage,
        execution_ms,
        recheck_ms,
        ..
    }) = found_stage(&summary)
    else {
        panic!("{:?}", summary.evidence);
    };
    assert_eq!(*stage, Some(Stage::Execution));
    let hundredths = |ms: &f64| (ms * 100.0).round();
    assert_eq!(
        (hundredths(execution_ms), hundredths(recheck_ms)),
        (100.0, 0.0)
    );
    assert_eq!(summary.limited_by, LimitedBy::Node);
    assert_eq!(first(&summary), "serial_stage");
    // The same blocks, as late as before, whose transactions cost nothing: something else keeps them waiting.
    let idle = slow_blocks(1, |txs, _| 5 + txs % 3);
    assert_eq!(found_stage(&idle), None);
    // A chain that keeps up is not limited by what its blocks cost.
    let kept_up = slow_blocks(0, |txs, _| txs);
    assert_eq!(found_stage(&kept_up), None);
}

fn found_stage(summary: &Summary) -> Option<&StageEvidence> {
    match &found(summary, "serial_stage")?.kind {
        EvidenceKind::SerialStage(stage) => Some(stage),
        _ => None,
    }
}

/// 300 in a block, and a third of a second from one to the next, longer by a tenth of a millisecond for each transaction
/// that the block left behind; whether that is its recheck, or something else.
fn left_behind(is_recheck: bool) -> Summary {
    let story = Story::of(constant("1200/s", "30s"), |_, due| accepted_at(due));
    let mut story = Story {
        ended: 300_000,
        cost: if is_recheck {
            |_, left| left / 10
        } else {
            |_, left| left % 3
        },
        ..story
    };
    let (mut at, mut blocks) = (500_u64, 0);
    let mut instants = Vec::new();
    while at < 300_000 {
        instants.push(at);
        blocks += 1;
        let left = (at.min(30_000) * 12 / 10).saturating_sub(blocks * 300);
        story.mempool.push((at + 1, left));
        at += 300 + left / 10;
    }
    story.with_blocks(instants, 300).summary()
}

#[test]
fn a_chain_that_checks_again_what_its_blocks_leave_is_limited_by_recheck() {
    let summary = left_behind(true);
    let stage = found_stage(&summary).unwrap();
    let is_recheck = |it: &StageEvidence| {
        matches!(
            it,
            StageEvidence::Blocks {
                stage: Some(Stage::Recheck),
                ..
            }
        )
    };
    assert!(is_recheck(stage), "{stage:?}");
    assert_eq!(found_stage(&left_behind(false)), None);
}

/// A ramp to 1,000/s on a node that checks so many at a time, each for so long.
fn checking(servers: usize, each_ms: u64) -> Summary {
    let free = std::cell::RefCell::new(vec![0; servers]);
    let story = Story::of(ramp(10), |_, due| {
        let mut free = free.borrow_mut();
        let next = free.iter_mut().min().unwrap();
        *next = due.max(*next) + each_ms;
        Course::Sent {
            at: due,
            cause: Cause::OnTime,
            answer: Some((*next, Reply::Accepted)),
        }
    });
    let story = Story {
        ended: 120_000,
        ..story
    };
    story.with_blocks(every_second(120), usize::MAX).summary()
}

#[test]
fn a_node_that_checks_one_transaction_at_a_time_is_told_from_one_that_checks_several() {
    // As many a second, one or four at a time.
    for (servers, each_ms, least, most) in [(1, 2, 0.6, 1.8), (4, 8, 2.0, 8.0)] {
        let summary = checking(servers, each_ms);
        let Some(StageEvidence::Answers {
            most_tps, at_once, ..
        }) = found_stage(&summary)
        else {
            panic!("{:?}", summary.evidence);
        };
        assert_eq!(*most_tps, 500.0);
        assert!((least..most).contains(at_once), "{at_once}");
        assert_eq!(summary.limited_by, LimitedBy::Node);
        assert_eq!(first(&summary), "serial_stage");
    }
    // One at a time, and fast enough.
    assert_eq!(found_stage(&checking(1, 1)), None);
    assert_eq!(found_stage(&healthy().summary()), None);
}

/// What each second of a node with such a row says of the stages of [`slow_blocks`].
fn by_metrics(row: &NodeRow, seconds: Range<u64>) -> Summary {
    let mut summary = slow_blocks(1, |txs, _| txs);
    let rows: Vec<NodeRow> = seconds
        .map(|second| NodeRow {
            second,
            node: "a".into(),
            ..row.clone()
        })
        .collect();
    judge::name_stage(&mut summary, &rows);
    summary
}

/// A node that executes, and checks new and old transactions, for so many hundredths of each second.
fn busy(execute: u64, check: u64, recheck: u64) -> NodeRow {
    let seconds = |hundredths: u64| Some(hundredths as f64 / 100.0);
    NodeRow {
        // A millisecond each.
        checks: Some(10 * (check + recheck)),
        rechecks: Some(10 * recheck),
        checking_s: seconds(check + recheck),
        executing_s: seconds(execute),
        // What it takes to store a block, too.
        commit_step_s: seconds(execute + recheck + 5),
        ..NodeRow::default()
    }
}

#[test]
fn the_stage_that_a_node_s_own_metrics_show_at_work_takes_the_place_of_the_supposed_one() {
    for (row, busiest) in [
        (busy(80, 10, 5), Stage::Execution),
        (busy(10, 10, 70), Stage::Recheck),
        (busy(20, 75, 5), Stage::Check),
    ] {
        let summary = by_metrics(&row, 0..60);
        assert_eq!(summary.limited_by, LimitedBy::Node);
        assert_eq!(first(&summary), "serial_stage");
        assert_eq!(measured(&summary), Some(busiest));
    }
}

/// The stage that the node's metrics name.
fn measured(summary: &Summary) -> Option<Stage> {
    match found_stage(summary)? {
        StageEvidence::Metrics { stage, .. } => *stage,
        _ => None,
    }
}

/// Shares to a thousandth.
fn rounded(stage: Option<&StageEvidence>) -> Option<StageEvidence> {
    let thousandths = |share: f64| (share * 1e3).round() / 1e3;
    match stage?.clone() {
        StageEvidence::Metrics {
            node,
            stage,
            check,
            execution,
            recheck,
        } => Some(StageEvidence::Metrics {
            node,
            stage,
            check: check.map(thousandths),
            execution: thousandths(execution),
            recheck: thousandths(recheck),
        }),
        other => Some(other),
    }
}

/// What is concluded where the only node has a row like this in each of the first seconds.
fn beside(mut summary: Summary, row: &NodeRow) -> Summary {
    let rows: Vec<NodeRow> = (0..3)
        .map(|second| NodeRow {
            second,
            node: "a".into(),
            ..row.clone()
        })
        .collect();
    judge::name_stage(&mut summary, &rows);
    summary
}

/// Whether the stage that the node's metrics show at work comes after a finding of this kind, which was the first.
#[track_caller]
fn is_named_before_the_stage(before: &str, summary: Summary) -> bool {
    assert_eq!(summary.limited_by, LimitedBy::Node);
    assert_eq!(found_stage(&summary), None);
    assert!(found(&summary, before).is_some(), "{:?}", summary.evidence);
    let summary = beside(summary, &busy(10, 10, 70));
    assert_eq!(measured(&summary), Some(Stage::Recheck));
    let place = |wanted| summary.evidence.iter().position(|it| kind(it) == wanted);
    place(before) < place("serial_stage")
}

/// Rechecks take most of the time also because what full blocks leave is checked again after each.
#[test]
fn blocks_that_are_full_are_named_before_the_stage_that_a_node_s_own_metrics_show_at_work() {
    let full = "blocks_full";
    assert!(is_named_before_the_stage(full, blocks_of_100(false)));
    // Also where refusals, which follow from it, touched more.
    let refusing = full_and_refusing();
    assert_ne!(first(&refusing), full);
    assert!(is_named_before_the_stage(full, refusing));
}

/// A loss is decisive, and what is decisive did not count: the stage stood before it.
#[test]
fn lost_transactions_are_named_before_the_stage_that_a_node_s_own_metrics_show_at_work() {
    let lost = "lost_after_accept";
    assert!(is_named_before_the_stage(lost, crashing(true)));
    // What only waits may wait for that stage.
    let waiting = left_in_the_mempool();
    assert_eq!(first(&waiting), "pending");
    assert!(!is_named_before_the_stage("pending", waiting));
}

#[test]
fn silences_are_named_before_the_stage_that_a_node_s_own_metrics_show_at_work() {
    for (answers, silence) in [(true, "no_blocks"), (false, "no_answers")] {
        assert!(is_named_before_the_stage(silence, standing_still(answers)));
    }
    // Blocks that take ever longer are no silence.
    let slow = beside(slow_blocks(1, |txs, _| 5 + txs % 3), &busy(10, 10, 70));
    assert_eq!(found(&slow, "no_blocks"), None);
    assert_eq!(first(&slow), "serial_stage");
}

#[test]
fn a_stage_that_was_supposed_and_is_idle_by_the_node_s_own_metrics_is_named_no_more() {
    let idle = by_metrics(&busy(10, 10, 10), 0..60);
    let remark = found(&idle, "serial_stage").unwrap();
    assert_eq!(remark.strength, Strength::Remark);
    let shares = StageEvidence::Metrics {
        node: "a".into(),
        stage: None,
        check: Some(0.1),
        execution: 0.1,
        recheck: 0.1,
    };
    assert_eq!(
        format!("{:?}", rounded(found_stage(&idle))),
        format!("{:?}", Some(shares))
    );
    assert_ne!(first(&idle), "serial_stage");
    // Neither are seconds after the offering, too few of them, or a node that has no metrics.
    let supposed = found_stage(&slow_blocks(1, |txs, _| txs)).cloned();
    for (row, seconds) in [
        (busy(10, 10, 10), 500..600),
        (busy(10, 10, 10), 0..2),
        (NodeRow::default(), 0..60),
        // Calls that waited for each other all the time: nothing is known of CheckTx.
        (busy(10, 900, 0), 0..60),
    ] {
        let summary = by_metrics(&row, seconds);
        assert_eq!(found_stage(&summary).cloned(), supposed);
    }
    // A node that kept up is limited by nothing, however busy.
    let mut kept_up = slow_blocks(0, |txs, _| txs);
    judge::name_stage(
        &mut kept_up,
        &[busy(90, 0, 0), busy(90, 0, 0), busy(90, 0, 0)],
    );
    assert_eq!(found_stage(&kept_up), None);
}
