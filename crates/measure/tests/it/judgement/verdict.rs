//! What the figures of a run do not cover.

use measure::ScheduleVerdict;

use super::story::{Story, healthy};

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
