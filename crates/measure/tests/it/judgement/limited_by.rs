//! What limited a run.

use std::ops::Range;

use measure::{
    Cause, EvidenceKind, Failure, LimitedBy, LoadModel, NodeRow, Reply, ScheduleVerdict, Strength,
    Summary, UnsentReason, judge,
};

use super::story::{
    Course, ENDPOINTS, Story, accepted_at, every_second, found, healthy, ramp, strong,
};
use crate::support::constant;

#[test]
fn a_healthy_run_is_limited_by_nothing_and_no_evidence_speaks_against_anybody() {
    assert_eq!(healthy().summary().evidence, []);
}

#[test]
fn a_node_that_freezes_in_a_ramp_is_what_limited_it() {
    // From 12 s on no answer; after 13 s the sockets take nothing, and at 20 s the ramp ends.
    let story = Story::of(ramp(4), |_, due| match due {
        0..12_000 => accepted_at(due),
        12_000..13_000 => Course::Sent {
            at: due,
            cause: Cause::OnTime,
            answer: None,
        },
        _ => Course::Unsent {
            at: 20_000,
            reason: UnsentReason::Stopped,
        },
    });
    let story = Story {
        ended: 50_000,
        ..story
    };
    let summary = story.with_blocks(every_second(12), usize::MAX).summary();
    assert_eq!(summary.limited_by, LimitedBy::Node);
    let silence = found(&summary, EvidenceKind::NoAnswers).unwrap();
    assert_eq!((silence.from_s, silence.until_s), (Some(12.0), Some(50.0)));
    assert!(
        silence
            .text
            .starts_with("no answer from 12.0 s to 50.0 s while up to"),
        "{}",
        silence.text
    );
    assert_eq!(
        summary.knee.unwrap().rate_tps,
        200.0,
        "{}",
        summary.knee_reason
    );
}

#[test]
fn a_pause_of_the_generator_is_no_silence_of_the_node() {
    // The generator stands still from 4 s to 8 s, and catches up.
    let story = Story::of(constant("200/s", "12s"), |_, due| {
        let stalled = (4_000..8_000).contains(&due);
        let at = if stalled { 8_000 } else { due };
        Course::Sent {
            at,
            cause: if stalled {
                Cause::Schedule
            } else {
                Cause::OnTime
            },
            answer: Some((at + 2, Reply::Accepted)),
        }
    });
    let blocks: Vec<u64> = every_second(14)
        .filter(|at| !(4_000..8_000).contains(at))
        .collect();
    let story = Story {
        stall: 4_000,
        ..story.with_blocks(blocks, usize::MAX)
    };
    let summary = story.summary();
    assert_eq!(summary.limited_by, LimitedBy::Schedule);
    assert_eq!(found(&summary, EvidenceKind::NoAnswers), None);
    assert_eq!(found(&summary, EvidenceKind::NoBlocks), None);
    assert_eq!(summary.verdict.schedule, ScheduleVerdict::Invalid);
}

/// 200/s; at 5 s the node crashes, its connections are down for 2 s, and it forgets what it had
/// accepted in the last 300 ms.
fn crashing(forgets: bool) -> Summary {
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
    let first = &summary.evidence[0];
    assert_eq!(
        (first.kind, first.strength, first.txs),
        (EvidenceKind::LostAfterAccept, Strength::Decisive, 59)
    );
    let connections = found(&summary, EvidenceKind::ShortOfConnections).unwrap();
    assert_eq!(
        connections.strength,
        Strength::Remark,
        "they were down with the node"
    );
    let kept = crashing(false);
    assert_eq!(found(&kept, EvidenceKind::LostAfterAccept), None);
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
    assert_eq!(found(&unchecked, EvidenceKind::LostAfterAccept), None);
    let pending = found(&unchecked, EvidenceKind::Pending).unwrap();
    let words = "nothing says that they passed the node's check";
    assert!(pending.text.ends_with(words), "{}", pending.text);
    assert!(found(&lost(true), EvidenceKind::LostAfterAccept).is_some());
}

#[test]
fn what_still_waits_in_the_mempool_is_not_lost() {
    // Others fill the blocks: ours stay in the mempool.
    let story = Story::of(constant("200/s", "10s"), |_, due| accepted_at(due));
    let mut story = story.with_blocks(every_second(5), usize::MAX);
    story
        .blocks
        .extend((5..40).map(|second| (second * 1_000 + 500, Vec::new())));
    story.mempool = (0..40)
        .map(|second| (second * 1_000 + 600, 1_200))
        .collect();
    let summary = Story {
        ended: 40_000,
        ..story
    }
    .summary();
    assert_eq!(found(&summary, EvidenceKind::LostAfterAccept), None);
    let pending = found(&summary, EvidenceKind::Pending).unwrap();
    assert_eq!(
        (pending.strength, summary.limited_by),
        (Strength::Strong, LimitedBy::Node)
    );
}

/// A node came back as another chain, which took every transaction. Of the 70 % that were due later it was said that
/// they "were in no block", that the node had limited the run, and the exit code was 0.
#[test]
fn blocks_that_nobody_watched_say_nothing_of_what_was_in_them() {
    let unwatched = |unwatched_from| {
        let story = Story {
            unwatched_from,
            ..healthy()
        };
        story.summary()
    };
    let early = unwatched(3_000);
    assert_eq!(early.limited_by, LimitedBy::Unknown, "{:?}", early.evidence);
    assert_eq!(early.verdict.schedule, ScheduleVerdict::Invalid);
    let pending = found(&early, EvidenceKind::Pending).unwrap();
    let words = "accepted transactions were in no block that was seen (not all were)";
    assert!(pending.text.contains(words), "{}", pending.text);
    assert_eq!(strong(&early), []);
    // Of two that watch one may fail, or the one when all is in blocks: then all is known.
    let late = unwatched(11_800);
    assert_eq!(late.fate.pending, 0);
    assert_eq!(late.verdict.schedule, ScheduleVerdict::Degraded);
    assert_eq!(late.limited_by, LimitedBy::Nothing);
}

#[test]
fn a_run_that_its_user_aborted_blames_nobody() {
    let story = healthy();
    let aborted = Story {
        offered_until: 6_000,
        ended: 6_010,
        interrupted: true,
        courses: story.courses.iter().copied().take(1_200).collect(),
        blocks: story.blocks.iter().take(6).cloned().collect(),
        ..story
    };
    let summary = aborted.summary();
    assert_eq!(summary.limited_by, LimitedBy::Unknown);
    assert_eq!(strong(&summary), []);
    let ended = found(&summary, EvidenceKind::EndedEarly).unwrap();
    assert!(
        ended
            .text
            .starts_with("interrupted: the offering ended at 6.0 s"),
        "{}",
        ended.text
    );
    assert!(
        summary.fate.pending > 0,
        "the block in progress was not awaited"
    );
}

#[test]
fn a_flood_that_was_committed_whole_was_limited_by_its_concurrency() {
    let story = Story::of(constant("200/s", "10s"), |_, due| Course::Sent {
        at: due,
        cause: Cause::Node,
        answer: Some((due + 5, Reply::Accepted)),
    });
    let flood = Story {
        model: LoadModel::Closed,
        ..story
    };
    let summary = flood.with_blocks(every_second(12), usize::MAX).summary();
    assert_eq!(summary.fate.committed, 2_000);
    assert_eq!(summary.limited_by, LimitedBy::Concurrency);
    // One that the node refuses was limited by the node.
    let story = Story::of(constant("200/s", "10s"), |_, due| Course::Sent {
        at: due,
        cause: Cause::OnTime,
        answer: Some((due + 5, Reply::RpcError { code: -32_603 })),
    });
    let refused = Story {
        model: LoadModel::Closed,
        ..story
    };
    assert_eq!(refused.summary().limited_by, LimitedBy::Node);
}

#[test]
fn full_blocks_a_full_mempool_and_refusals_are_a_chain_of_causes_in_time() {
    // 600/s offered, 300 a block; the mempool is full with 2,000 and refuses then.
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
    let summary = Story {
        ended: 40_000,
        ..story
    }
    .summary();
    assert_eq!(summary.limited_by, LimitedBy::Node);
    let since = |kind| found(&summary, kind).unwrap().from_s.unwrap();
    let full = since(EvidenceKind::BlocksFull);
    let mempool = since(EvidenceKind::MempoolFull);
    let refused = since(EvidenceKind::Refused);
    assert!(
        full < mempool && mempool <= refused + 1.0,
        "{full} {mempool} {refused}"
    );
    assert!(
        found(&summary, EvidenceKind::MempoolFull)
            .unwrap()
            .text
            .contains("beyond 2000 transactions"),
        "{:?}",
        summary.evidence
    );
    let healthy = healthy().summary();
    for kind in [
        EvidenceKind::BlocksFull,
        EvidenceKind::MempoolFull,
        EvidenceKind::Refused,
    ] {
        assert_eq!(found(&healthy, kind), None);
    }
}

/// 200/s to two endpoints in turn, in blocks of 100 a second: of one chain that takes no more, or of the first
/// endpoint's chain, which the second one is no node of.
fn blocks_of_100(of_two_chains: bool) -> Summary {
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
    assert_eq!(found(&summary, EvidenceKind::BlocksFull), None);
    // What the other chain took is in no block of this one.
    assert_eq!(summary.fate.pending, 2_000);
    let first = &summary.evidence[0];
    assert_eq!(
        (first.kind, first.txs),
        (EvidenceKind::LostAfterAccept, 2_000)
    );
    assert_eq!(summary.limited_by, LimitedBy::Node);
}

#[test]
fn blocks_of_100_that_leave_out_what_waits_are_full() {
    let summary = blocks_of_100(false);
    let full = found(&summary, EvidenceKind::BlocksFull).unwrap();
    assert!(
        full.text.contains("full at 100 transactions"),
        "{}",
        full.text
    );
    assert_eq!(full.limit, Some(100));
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
    let found_gas = found(&by_gas, EvidenceKind::BlocksOutOfGas).unwrap();
    assert!(
        found_gas
            .text
            .contains("block.max_gas 30050000) at 300 transactions"),
        "{}",
        found_gas.text
    );
    assert_eq!(found_gas.limit, Some(30_050_000));
    assert_eq!(found(&by_gas, EvidenceKind::BlocksFull), None);
    assert_eq!(by_gas.limited_by, LimitedBy::Node);
    // One more would fit by gas: something else keeps it out.
    let otherwise = summary(30_200_000);
    assert_eq!(found(&otherwise, EvidenceKind::BlocksOutOfGas), None);
    assert!(found(&otherwise, EvidenceKind::BlocksFull).is_some());
    // Full blocks that leave nothing behind hold nothing back.
    let story = Story::of(constant("300/s", "20s"), |_, due| accepted_at(due));
    let kept_up = Story {
        gas: Some((100_000, 30_050_000)),
        ended: 60_000,
        ..story
    };
    let kept_up = kept_up.with_blocks(every_second(60), 1_000).summary();
    assert_eq!(found(&kept_up, EvidenceKind::BlocksOutOfGas), None);
}

#[test]
fn the_generators_own_limits_are_named() {
    let late = |cause: Cause| {
        let story = Story::of(constant("200/s", "10s"), |_, due| Course::Sent {
            at: due + 20,
            cause,
            answer: Some((due + 22, Reply::Accepted)),
        });
        story.with_blocks(every_second(12), usize::MAX).summary()
    };
    for (cause, limit) in [
        (Cause::Schedule, LimitedBy::Schedule),
        (Cause::Source, LimitedBy::Source),
        (Cause::Connection, LimitedBy::Connection),
    ] {
        let summary = late(cause);
        assert_eq!(summary.limited_by, limit);
        assert!(
            summary
                .knee_reason
                .contains("the generator could not offer it"),
            "{}",
            summary.knee_reason
        );
        assert_eq!(summary.knee, None);
    }
    assert_eq!(late(Cause::Node).limited_by, LimitedBy::Node);
}

/// 200/s for 20 s, every second transaction to each of two endpoints. What is sent to the second one from
/// 8 s on, at most eight at a time as over eight connections, is answered as `course` has it; the rest goes
/// to the first one.
fn second_endpoint_from_8_s(course: fn(u64) -> Course) -> Story {
    let story = Story::of(constant("200/s", "20s"), move |index, due| {
        match is_of_the_second(index) && index >= 1_600 {
            true => course(due),
            false => accepted_at(due),
        }
    });
    Story {
        endpoint: |index| u16::from(is_of_the_second(index)),
        ..story.with_blocks(every_second(22), usize::MAX)
    }
}

/// Eight in each five seconds from 8 s on.
fn is_of_the_second(index: u64) -> bool {
    index % 2 == 1 && (index < 1_600 || (index - 1_600) % 1_000 < 16)
}

fn chain_of_causes(summary: &Summary) -> Vec<String> {
    let onsets = judge::onsets(&summary.evidence);
    onsets.iter().map(ToString::to_string).collect()
}

#[test]
fn one_of_two_endpoints_that_freezes_for_good_is_named_and_since_when() {
    let never = |due| Course::Sent {
        at: due,
        cause: Cause::OnTime,
        answer: None,
    };
    let summary = second_endpoint_from_8_s(never).summary();
    let silent = found(&summary, EvidenceKind::EndpointSilent).unwrap();
    assert_eq!(silent.endpoint.as_deref(), Some(ENDPOINTS[1]));
    assert_eq!((silent.from_s, silent.until_s), (Some(8.0), Some(22.0)));
    assert_eq!(
        silent.text,
        "http://10.0.0.2:26657 gave no answer from 8.0 s to 22.0 s while up to 24 requests to it waited"
    );
    assert_eq!(
        chain_of_causes(&summary),
        ["no answer of 10.0.0.2:26657 for 14.0 s from 8 s"]
    );
    assert_eq!(found(&summary, EvidenceKind::NoAnswers), None);
}

#[test]
fn requests_that_are_given_up_and_sent_anew_do_not_end_the_silence_of_an_endpoint() {
    // Given up after 4 s; the connections are open again a second later.
    let given_up = |due: u64| Course::Sent {
        at: due,
        cause: Cause::OnTime,
        answer: Some((due + 4_000, Reply::Failed(Failure::Timeout))),
    };
    let summary = second_endpoint_from_8_s(given_up).summary();
    let silent = found(&summary, EvidenceKind::EndpointSilent).unwrap();
    assert_eq!((silent.from_s, silent.until_s), (Some(8.0), Some(22.1)));
}

#[test]
fn an_endpoint_that_is_slow_is_not_called_silent() {
    let slow = |due: u64| Course::Sent {
        at: due,
        cause: Cause::OnTime,
        answer: Some((due + 4_000, Reply::Accepted)),
    };
    let summary = second_endpoint_from_8_s(slow).summary();
    assert_eq!(found(&summary, EvidenceKind::EndpointSilent), None);
    assert_eq!(chain_of_causes(&summary), [""; 0]);
}

/// `"result": null` to every request, a millisecond later: it was said to have given no answer for two seconds.
#[test]
fn an_endpoint_whose_answers_are_unusable_is_not_called_silent() {
    let unusable = |due: u64| Course::Sent {
        at: due,
        cause: Cause::OnTime,
        answer: Some((due + 150, Reply::Failed(Failure::Malformed))),
    };
    let summary = second_endpoint_from_8_s(unusable).summary();
    assert_eq!(found(&summary, EvidenceKind::EndpointSilent), None);
    assert_eq!(summary.fate.errors, 24);
}

#[test]
fn an_endpoint_that_gets_no_requests_is_not_called_silent() {
    let story = Story::of(constant("200/s", "20s"), |_, due| accepted_at(due));
    let story = Story {
        endpoint: |index| u16::from(index % 2 == 1 && index < 1_600),
        ..story.with_blocks(every_second(22), usize::MAX)
    };
    assert_eq!(story.summary().evidence, []);
}

#[test]
fn endpoints_that_are_silent_together_are_the_whole_target() {
    let story = Story::of(constant("200/s", "20s"), |_, due| match due {
        0..8_000 => accepted_at(due),
        _ => Course::Sent {
            at: due,
            cause: Cause::OnTime,
            answer: None,
        },
    });
    let story = Story {
        endpoint: |index| u16::from(index % 2 == 1),
        ..story.with_blocks(every_second(22), usize::MAX)
    };
    let summary = story.summary();
    assert!(found(&summary, EvidenceKind::NoAnswers).is_some());
    assert_eq!(found(&summary, EvidenceKind::EndpointSilent), None);
}

/// A ramp to 1,200/s on a chain that takes a fifth of a second from block to block, and so much more for each
/// transaction as `execution` says in milliseconds.
fn slow_blocks(execution: u64, cost: fn(u64, u64) -> u64) -> Summary {
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
    story.with_blocks(instants, usize::MAX).summary()
}

#[test]
fn a_chain_whose_blocks_take_longer_the_more_they_hold_is_limited_by_execution() {
    let summary = slow_blocks(1, |txs, _| txs);
    let found = found(&summary, EvidenceKind::SerialStage).unwrap();
    assert!(
        found
            .text
            .starts_with("execution (FinalizeBlock) takes the time between blocks")
            && found
                .text
                .contains("costs 1.00 ms in its block and 0.00 ms"),
        "{}",
        found.text
    );
    assert_eq!(summary.limited_by, LimitedBy::Node);
    assert_eq!(summary.evidence[0].kind, EvidenceKind::SerialStage);
    // The same blocks, as late as before, whose transactions cost nothing: something else keeps them waiting.
    let idle = slow_blocks(1, |txs, _| 5 + txs % 3);
    assert_eq!(found_stage(&idle), None);
    // A chain that keeps up is not limited by what its blocks cost.
    let kept_up = slow_blocks(0, |txs, _| txs);
    assert_eq!(found_stage(&kept_up), None);
}

fn found_stage(summary: &Summary) -> Option<&str> {
    found(summary, EvidenceKind::SerialStage).map(|it| &*it.text)
}

/// 300 in a block, and a third of a second from one to the next, longer by a tenth of a millisecond for each transaction
/// that the block left behind; whether that is its recheck, or something else.
fn left_behind(is_recheck: bool) -> Summary {
    let story = Story::of(constant("1200/s", "30s"), |_, due| accepted_at(due));
    let mut story = Story {
        ended: 300_000,
        cost: match is_recheck {
            true => |_, left| left / 10,
            false => |_, left| left % 3,
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
    let text = found_stage(&summary).unwrap();
    assert!(
        text.starts_with("recheck (CheckTx of what a block left"),
        "{text}"
    );
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
    let serial = checking(1, 2);
    let text = found_stage(&serial).unwrap();
    assert!(
        text.starts_with("CheckTx takes one transaction at a time: 500/s were answered at most"),
        "{text}"
    );
    assert_eq!(serial.limited_by, LimitedBy::Node);
    // As many a second, four at a time.
    let parallel = checking(4, 8);
    assert_eq!(parallel.limited_by, LimitedBy::Node);
    assert_eq!(found_stage(&parallel), None);
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
    for (row, text) in [
        (
            busy(80, 10, 5),
            "execution (FinalizeBlock and Commit) was at work 80 % of the time: CheckTx 10 %",
        ),
        (
            busy(10, 10, 70),
            "recheck (CheckTx of what a block left in the mempool) was at work 70 % of the time",
        ),
        (
            busy(20, 75, 5),
            "CheckTx, which takes one transaction at a time, was at work 75 % of the time",
        ),
    ] {
        let summary = by_metrics(&row, 0..60);
        assert_eq!(summary.limited_by, LimitedBy::Node);
        assert_eq!(summary.evidence[0].kind, EvidenceKind::SerialStage);
        assert!(
            found_stage(&summary).unwrap().starts_with(text),
            "{:?}",
            found_stage(&summary)
        );
    }
}

/// Rechecks take most of the time also because what full blocks leave is checked again after each.
#[test]
fn blocks_that_are_full_are_named_before_the_stage_that_a_node_s_own_metrics_show_at_work() {
    let mut summary = blocks_of_100(false);
    let first = summary.evidence[0].kind;
    assert_eq!(first, EvidenceKind::BlocksFull);
    let rows: Vec<NodeRow> = (0..3)
        .map(|second| NodeRow {
            second,
            node: "a".into(),
            ..busy(10, 10, 70)
        })
        .collect();
    judge::name_stage(&mut summary, &rows);
    assert_eq!(summary.evidence[0].kind, first);
    let text = found_stage(&summary).unwrap();
    assert!(text.starts_with("recheck"), "{text}");
}

#[test]
fn a_stage_that_was_supposed_and_is_idle_by_the_node_s_own_metrics_is_named_no_more() {
    let idle = by_metrics(&busy(10, 10, 10), 0..60);
    let remark = found(&idle, EvidenceKind::SerialStage).unwrap();
    assert_eq!(remark.strength, Strength::Remark);
    let text = "no stage of the node was at work most of the time: CheckTx 10 %, execution 10 %, recheck 10 %, by the metrics of a";
    assert_eq!(remark.text, text);
    assert_ne!(idle.evidence[0].kind, EvidenceKind::SerialStage);
    // Neither are seconds after the offering, too few of them, or a node that has no metrics.
    let supposed = found_stage(&slow_blocks(1, |txs, _| txs)).map(str::to_owned);
    for (row, seconds) in [
        (busy(10, 10, 10), 500..600),
        (busy(10, 10, 10), 0..2),
        (NodeRow::default(), 0..60),
        // Calls that waited for each other all the time: nothing is known of CheckTx.
        (busy(10, 900, 0), 0..60),
    ] {
        let summary = by_metrics(&row, seconds);
        assert_eq!(found_stage(&summary).map(str::to_owned), supposed);
    }
    // A node that kept up is limited by nothing, however busy.
    let mut kept_up = slow_blocks(0, |txs, _| txs);
    judge::name_stage(
        &mut kept_up,
        &[busy(90, 0, 0), busy(90, 0, 0), busy(90, 0, 0)],
    );
    assert_eq!(found_stage(&kept_up), None);
}
