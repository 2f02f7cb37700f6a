//! What the figures of a run do not cover.

use measure::{Cause, Reply, ScheduleVerdict};

use super::story::{Course, Story, every_second, healthy};
use crate::support::constant;

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
