//! Rates of the offering and of the blocks.

use measure::{Cause, Reply};

use super::story::{Course, Story, accepted_at, every_second, healthy};
use crate::support::constant;

#[test]
fn what_left_after_the_end_is_not_in_the_rate_that_was_sent() {
    // 1,200/s for 5 s, of which a node that is slow lets 720/s out; the rest follows in the drain.
    let story = Story::of(constant("1200/s", "5s"), |index, due| {
        let at = index * 1_000 / 720;
        Course::Sent {
            at: at.max(due),
            cause: Cause::Node,
            answer: Some((at.max(due) + 2, Reply::Accepted)),
        }
    });
    let story = Story {
        ended: 9_000,
        ..story
    };
    let summary = story.with_blocks(every_second(9), usize::MAX).summary();
    assert_eq!(summary.offered.sent, 6_000);
    assert_eq!(summary.rate.planned_tps, Some(1_200.0));
    let sent = summary.rate.sent_tps.unwrap();
    assert!((sent - 720.0).abs() < 1.0, "{sent}");
    assert_eq!(healthy().summary().rate.sent_tps, Some(200.0));
}

#[test]
fn a_steady_200_a_second_in_blocks_is_committed_at_200_a_second() {
    let summary = healthy().summary();
    let committed = summary.rate.committed_tps.unwrap();
    assert_eq!(committed.mean, 200.0);
    assert_eq!(committed.max, 200.0);
    // The warm-up is left out, wherever it cuts between two blocks.
    let warm = Story {
        warmup: 3_700,
        ..healthy()
    };
    assert_eq!(warm.summary().rate.committed_tps.unwrap().mean, 200.0);
}

#[test]
fn a_load_too_short_for_two_blocks_has_no_committed_rate() {
    let story = Story::of(constant("200/s", "1s"), |_, due| accepted_at(due));
    let short = story.with_blocks([1_200, 2_200], usize::MAX).summary();
    assert_eq!(short.fate.committed, 200);
    assert_eq!(short.rate.committed_tps, None, "it cannot be told");
    // A chain that is fast enough can be measured in the same time.
    let story = Story::of(constant("200/s", "1s"), |_, due| accepted_at(due));
    let fast = story.with_blocks((1..20).map(|tenth| tenth * 100), usize::MAX);
    assert_eq!(fast.summary().rate.committed_tps.unwrap().mean, 200.0);
}
