//! What a run may be concluded from, and that no conclusion goes beyond it: what its figures do not cover.

use measure::judge::{BrokenLimit, Point, PointJudgement};
use measure::{Bar, Cause, Codespace, Finding, LimitedBy, Reply, ScheduleVerdict, Summary};
use pacing::Nanos;

use super::story::{Course, Story, accepted_at, every_second, found, healthy, ramp};
use crate::support::constant;

/// What a search makes of the run as its point.
fn searched(summary: &Summary, broken_limits: &[BrokenLimit]) -> PointJudgement {
    let point = Point {
        summary,
        blocks: &[],
        schedule: None,
        rate: 200.0,
        warmup: Nanos::ZERO,
        followed: true,
        broken_limits,
    };
    point.judge()
}

/// Every conclusion of a run that says nothing of the node.
fn says_nothing(summary: &Summary, bar: Bar) {
    let verdict = &summary.verdict;
    assert_eq!(verdict.schedule, ScheduleVerdict::Invalid, "{verdict:?}");
    assert_eq!(verdict.bars, [bar], "{verdict:?}");
    assert_ne!(
        summary.limited_by,
        LimitedBy::Node,
        "{:?}",
        summary.evidence
    );
    assert_eq!(summary.knee, None);
    let judged = searched(summary, &[]);
    assert_eq!(judged.finding, Finding::Unusable, "{:?}", judged.reasons);
    assert!(!judged.reasons[0].is_empty());
}

/// Answers that come 2 ms after the due time: `share` in a hundred of them this one.
fn refused(share: u64, reply: Reply) -> Summary {
    let story = Story::of(constant("200/s", "10s"), |index, due| {
        if index % 100 < share {
            Course::Sent {
                at: due,
                cause: Cause::OnTime,
                answer: Some((due + 2, reply)),
            }
        } else {
            accepted_at(due)
        }
    });
    story.with_blocks(every_second(12), usize::MAX).summary()
}

/// The default workload against a Cosmos chain: "no rate held: already 1/s, the lowest allowed, broke", exit code 0.
#[test]
fn a_workload_that_the_application_refuses_says_nothing_of_what_the_node_takes() {
    let sdk = |code| Reply::Rejected {
        code,
        space: Codespace::named("sdk"),
    };
    let refusals = [
        sdk(2),
        sdk(19),
        Reply::rejected(7),
        Reply::RpcError { code: -26 },
    ];
    for reply in refusals {
        for share in [96, 100] {
            let summary = refused(share, reply);
            says_nothing(&summary, Bar::Workload);
            assert_eq!(summary.limited_by, LimitedBy::Workload);
            assert!(
                summary.knee_reason.starts_with("cannot tell: "),
                "{}",
                summary.knee_reason
            );
        }
        // Some of it, from the start: the node takes the rest.
        for share in [2, 10] {
            let summary = refused(share, reply);
            assert_ne!(summary.verdict.schedule, ScheduleVerdict::Invalid);
            assert_eq!(summary.limited_by, LimitedBy::Workload, "{share} %");
        }
    }
    // A mempool that is full is the node's.
    for reply in [sdk(20), Reply::RpcError { code: -32_603 }] {
        for share in [2, 100] {
            let summary = refused(share, reply);
            assert_eq!(summary.limited_by, LimitedBy::Node);
            assert_eq!(summary.verdict.bars, []);
        }
    }
}

/// A follower slower than the chain: "2670 accepted transactions were in no block, limited by the node", exit code 0.
#[test]
fn blocks_that_were_announced_and_not_read_say_nothing_of_what_was_committed() {
    let behind = |signs_until: u64| {
        let story = healthy();
        Story {
            unwatched_from: 3_000,
            is_behind: true,
            mempool: (0..signs_until).map(|second| (second * 1_000, 1)).collect(),
            ..story
        }
        .summary()
    };
    let summary = behind(12);
    says_nothing(&summary, Bar::Commits);
    assert!(
        summary.recorder.unread_ms >= 6_000,
        "{:?}",
        summary.recorder
    );
    assert_eq!(summary.limited_by, LimitedBy::Unknown);
    // All is in blocks that were read: what is in later ones does not matter.
    let late = Story {
        unwatched_from: 11_000,
        is_behind: true,
        ..healthy()
    };
    assert_eq!(late.summary().verdict.schedule, ScheduleVerdict::Valid);
}

/// A run whose transactions leave so many milliseconds late, and are answered one after that.
fn late_by(cause: Cause, late: u64) -> Summary {
    let story = Story::of(constant("200/s", "10s"), |_, due| Course::Sent {
        at: due + late,
        cause,
        answer: Some((due + late + 1, Reply::Accepted)),
    });
    story.with_blocks(every_second(12), usize::MAX).summary()
}

#[test]
fn lateness_bounds_what_a_latency_means_and_no_more() {
    let summary = late_by(Cause::Schedule, 3);
    assert_eq!(summary.limited_by, LimitedBy::Nothing);
    let accept = summary.latency_ms.accept_response.figure("p99").unwrap();
    let within = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 0.01;
    assert!(within(accept.millis, 4.0), "{accept:?}");
    assert!(within(accept.without_own.unwrap(), 1.0), "{accept:?}");
    // Three of some five hundred are none.
    let commit = summary.latency_ms.commit_from_due.figure("p50").unwrap();
    assert_eq!(commit.without_own, None, "{commit:?}");
    let step = summary.steps[0].figure("accept_p99_ms").unwrap();
    assert!(within(step.without_own.unwrap(), 1.0), "{step:?}");
    // What the node held up is a result, but for the millisecond of which nobody asks the cause.
    let summary = late_by(Cause::Node, 30);
    let accept = summary.latency_ms.accept_response.figure("p99").unwrap();
    assert_eq!(accept.without_own, None, "{accept:?}");
}

/// A generator that pauses: "knee 2.20/s, 1.90 to 2.30 with 90 %" of a node that takes 5,000/s.
#[test]
fn a_latency_that_may_be_the_generators_own_breaks_no_point() {
    let limit = |unresolved| BrokenLimit {
        text: "accept.p99<3ms".into(),
        value: "1 ms to 4 ms".into(),
        unresolved,
    };
    let summary = late_by(Cause::Schedule, 3);
    let judged = searched(&summary, &[limit(true)]);
    assert_eq!(judged.finding, Finding::Unusable, "{judged:?}");
    let judged = searched(&summary, &[limit(true), limit(false)]);
    assert_eq!(judged.finding, Finding::Broken, "{judged:?}");
}

/// Where nothing was lost and no block shows a trend, any wait for a processor explained what a step showed of the node, and
/// so did none: "unusable: only 94.5 % of offered was accepted".
#[test]
fn what_a_step_shows_of_the_node_breaks_a_point_whose_backlog_is_not_seen() {
    let slow = |_, due| Course::Sent {
        at: due,
        cause: Cause::OnTime,
        answer: Some((due + 4_000, Reply::Accepted)),
    };
    let story = Story::of(constant("200/s", "10s"), slow);
    let mut summary = story.with_blocks(every_second(20), usize::MAX).summary();
    assert_eq!(summary.fate.accepted, 2_000);
    for lack_s in [0.0, 1.0] {
        summary.steps[0].node_lack_s = lack_s;
        let judged = searched(&summary, &[]);
        assert_eq!(judged.finding, Finding::Broken, "{judged:?}");
    }
}

/// Of 1,000 transactions that all failed in their blocks, "commit from due p50 0.5 s, count 1,000", and `commit.p99<5s` held.
#[test]
fn what_failed_in_its_block_has_no_latency_of_a_commit() {
    let failing = Story {
        code: 7,
        ..healthy()
    };
    let latency = failing.summary().latency_ms;
    for figures in [
        latency.commit_from_due,
        latency.commit_from_sent,
        latency.commit_from_accepted,
    ] {
        assert_eq!((figures.count, figures.p99), (0, None));
    }
    assert_eq!(healthy().summary().latency_ms.commit_from_due.count, 2_000);
}

/// Of 12,600 accepted and 12,600 committed on a ramp: "accepted 70.0/s mean, committed 76.2/s mean".
#[test]
fn as_much_is_committed_as_was_accepted_in_the_same_time() {
    let story = Story::of(ramp(6), |_, due| accepted_at(due));
    let rate = story
        .with_blocks(every_second(32), usize::MAX)
        .summary()
        .rate;
    let (accepted, committed) = (rate.accepted_tps.unwrap(), rate.committed_tps.unwrap());
    // Half a block's growth from the first to the last one.
    assert!(
        (committed.mean / accepted.mean - 1.0).abs() < 0.01,
        "{accepted:?} {committed:?}"
    );
}

#[test]
fn a_healthy_run_bars_nothing() {
    let summary = healthy().summary();
    assert_eq!(summary.verdict.bars, []);
    assert!(found(&summary, "refused").is_none());
}

#[test]
fn accepted_of_async_without_blocks_says_that_nothing_was_checked() {
    let reasons = |checked, followed| {
        let mut story = healthy();
        (story.checked, story.followed) = (checked, followed);
        if !followed {
            story.blocks.clear();
        }
        story.summary().verdict.reasons
    };
    let blind = reasons(false, false);
    assert_eq!(blind.len(), 1);
    assert!(
        blind[0].starts_with("accepted means received:"),
        "{blind:?}"
    );
    assert_eq!(
        reasons(true, false),
        [""; 0],
        "sync answers after the check"
    );
    assert_eq!(reasons(false, true), [""; 0], "blocks say what was valid");
}

#[test]
fn a_run_that_ends_within_its_warm_up_measured_nothing() {
    let ends = |warmup| {
        Story {
            warmup,
            ..healthy()
        }
        .summary()
        .verdict
    };
    assert_eq!(ends(10_000).schedule, ScheduleVerdict::Invalid);
    assert!(ends(10_000).reasons[0].contains("before the warm-up of 10.0 s was over"));
    assert_eq!(ends(9_000).schedule, ScheduleVerdict::Valid);
}

#[test]
fn what_waited_at_the_limit_in_flight_instead_of_being_dropped_is_said() {
    // The node answers nothing from 4 s to 6 s, and what falls due then leaves at 6 s.
    let frozen = |waits_at| {
        let story = Story::of(constant("200/s", "10s"), |_, due| {
            let held = (4_000..6_000).contains(&due);
            Course::Sent {
                at: if held { 6_000 } else { due },
                cause: if held { Cause::Node } else { Cause::OnTime },
                answer: Some((due.max(if held { 6_000 } else { 0 }) + 2, Reply::Accepted)),
            }
        });
        let story = story.with_blocks(every_second(12), usize::MAX);
        Story { waits_at, ..story }.summary().verdict.reasons
    };
    let reasons = frozen(Some(50));
    let words =
        "what fell due while 50 transactions were in flight waited and left later, in its order";
    assert!(
        reasons.iter().any(|reason| reason.starts_with(words)),
        "{reasons:?}"
    );
    // Without the limit the node's freeze delays as many, and nothing waits at a limit.
    assert!(
        !frozen(None)
            .iter()
            .any(|reason| reason.contains("in flight waited"))
    );
    let kept_up = Story {
        waits_at: Some(50),
        ..healthy()
    };
    assert_eq!(kept_up.summary().verdict.reasons, [""; 0]);
}
