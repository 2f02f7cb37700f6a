//! What limited a run: nothing, the generator, its concurrency, or something that cannot be told; and whom
//! refusals and failures point to: a transaction is refused for what it is whenever that begins, and for the node's sake,
//! too.

use measure::{
    Cause, Codespace, EvidenceKind, Failure, LimitedBy, LoadModel, Reply, ScheduleVerdict, Summary,
};

use super::story::{Course, Story, accepted_at, every_second, found, healthy, strong};
use crate::support::constant;

#[test]
fn a_healthy_run_is_limited_by_nothing_and_no_evidence_speaks_against_anybody() {
    assert_eq!(healthy().summary().evidence, []);
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
    let pending = found(&early, "pending").unwrap();
    let not_all_seen = EvidenceKind::Pending {
        all_seen: false,
        checked: true,
    };
    assert_eq!(pending.kind, not_all_seen);
    assert_eq!(strong(&early), [""; 0]);
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
    assert_eq!(strong(&summary), [""; 0]);
    assert!(found(&summary, "ended_early").is_some());
    assert_eq!((summary.interrupted, summary.time.offered_s), (true, 6.0));
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
fn the_generators_own_limits_are_named() {
    let late_by = |cause: Cause, by: u64| {
        let story = Story::of(constant("200/s", "10s"), |_, due| Course::Sent {
            at: due + by,
            cause,
            answer: Some((due + by + 2, Reply::Accepted)),
        });
        story.with_blocks(every_second(12), usize::MAX).summary()
    };
    let late = |cause| late_by(cause, 1_100);
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
    // "Limited by the schedule", or by the node, of 2,000 transactions that were all committed.
    for cause in [
        Cause::Schedule,
        Cause::Source,
        Cause::Connection,
        Cause::Node,
    ] {
        let summary = late_by(cause, 20);
        assert_eq!(summary.fate.committed, 2_000);
        assert_eq!(
            summary.limited_by,
            LimitedBy::Nothing,
            "{:?}",
            summary.evidence
        );
        assert_ne!(summary.verdict.schedule, ScheduleVerdict::Invalid);
        assert!(summary.knee_reason.contains("every step was sustained"));
    }
}

fn sdk(code: u32) -> Reply {
    let space = Codespace::named("sdk");
    Reply::Rejected { code, space }
}

const FULL: Reply = Reply::RpcError { code: -32_603 };
const BEHIND_A_GAP: Reply = Reply::Failed(Failure::SequenceBroken);

/// From the sixth of ten seconds on one in two has the next one of these answers.
fn from_the_sixth_second(replies: &[Reply]) -> Summary {
    let story = Story::of(constant("200/s", "10s"), |index, due| {
        if due < 6_000 || index % 2 == 0 {
            return accepted_at(due);
        }
        let reply = replies[(index / 2) as usize % replies.len()];
        Course::Sent {
            at: due,
            cause: Cause::OnTime,
            answer: Some((due + 2, reply)),
        }
    });
    story.with_blocks(every_second(12), usize::MAX).summary()
}

/// Accounts that ran dry in mid-run were "limited by the node"; the same refusals from the first second on were not.
#[test]
fn what_is_refused_for_what_it_is_points_to_the_workload_whenever_it_begins() {
    let rpc = |code| Reply::RpcError { code };
    let by = |reply| from_the_sixth_second(&[reply]).limited_by;
    // No funds, out of gas, an application's own code, another's name space, a double spend.
    for reply in [sdk(5), sdk(11), Reply::rejected(7), rpc(-26), rpc(-27)] {
        assert_eq!(by(reply), LimitedBy::Workload, "{reply:?}");
    }
    // No room, a lost predecessor, a price that rose, an input that is gone, a fault, a limit in front of the node.
    for reply in [
        FULL,
        sdk(20),
        sdk(32),
        sdk(13),
        sdk(39),
        rpc(-25),
        rpc(-32_005),
        Reply::Rejected {
            code: 26,
            space: Codespace::named("mempool"),
        },
    ] {
        assert_eq!(by(reply), LimitedBy::Node, "{reply:?}");
    }
}

#[test]
fn of_two_kinds_of_refusals_the_greater_part_counts() {
    let by = |replies: &[Reply]| from_the_sixth_second(replies).limited_by;
    assert_eq!(by(&[sdk(5), sdk(5), FULL]), LimitedBy::Workload);
    assert_eq!(by(&[sdk(5), FULL, FULL]), LimitedBy::Node);
}

/// An account without funds breaks its sequences, and so does a full mempool.
#[test]
fn what_only_follows_from_a_refusal_points_to_where_that_does() {
    for (cause, limited_by) in [(sdk(5), LimitedBy::Workload), (FULL, LimitedBy::Node)] {
        let gap = [BEHIND_A_GAP; 3];
        let summary = from_the_sixth_second(&[cause, gap[0], gap[1], gap[2]]);
        assert_eq!(summary.limited_by, limited_by, "{:?}", summary.evidence);
        let behind = found(&summary, "no_usable_answer").unwrap();
        assert_eq!((behind.points_to, behind.txs), (limited_by, 300));
    }
    // No answer at all follows from nothing.
    let silent = from_the_sixth_second(&[sdk(5), Reply::Failed(Failure::Timeout)]);
    let unanswered = found(&silent, "no_usable_answer").unwrap();
    assert_eq!(unanswered.points_to, LimitedBy::Node);
}

#[test]
fn what_fails_in_its_block_for_what_it_is_points_to_the_workload() {
    let failing = |code, space| {
        let story = Story {
            code,
            space: Codespace::named(space),
            ..healthy()
        };
        story.summary().limited_by
    };
    assert_eq!(failing(7, ""), LimitedBy::Workload);
    assert_eq!(failing(5, "sdk"), LimitedBy::Workload);
    // The one before it was lost.
    assert_eq!(failing(32, "sdk"), LimitedBy::Node);
}
