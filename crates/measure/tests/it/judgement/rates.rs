//! Rates of the offering and of the blocks.

use measure::{Cause, Reply};
use pacing::{Arrivals, Profile, Schedule};

use super::story::{Course, Story, accepted_at, every_second, healthy};
use crate::support::{constant, ms};

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

/// Of 6,000 transactions 900 were committed, in 10 s of 60; between the blocks that was 100/s, and a threshold of
/// `rate.committed_tps>90/s` held.
#[test]
fn a_chain_that_halts_does_not_keep_the_rate_that_it_had() {
    let story = || Story::of(constant("100/s", "60s"), |_, due| accepted_at(due));
    let halted = story().with_blocks(every_second(10), usize::MAX).summary();
    let committed = halted.rate.committed_tps.unwrap();
    assert!((committed.mean - 900.0 / 59.5).abs() < 0.5, "{committed:?}");
    // In a short load only the drain shows that the chain halted, and did not only take its time.
    let short = || Story::of(constant("100/s", "4s"), |_, due| accepted_at(due));
    let mean = |story: Story| story.summary().rate.committed_tps.unwrap().mean;
    let halted = short().with_blocks(every_second(2), usize::MAX);
    let halted = Story {
        ended: 8_000,
        ..halted
    };
    assert!((mean(halted) - 100.0 / 3.5).abs() < 0.5);
    let late = short().with_blocks([500, 1_500, 4_100], usize::MAX);
    assert_eq!(mean(late), 100.0);
    // One that makes a block every 8 s is not halted 4 s after the last one.
    let slow = story().with_blocks((1..=7).map(|block| block * 8_000), usize::MAX);
    assert_eq!(slow.summary().rate.committed_tps.unwrap().mean, 100.0);
    // Nor is one that makes no blocks because there is nothing to commit.
    let (busy, idle) = (ms(10_000), ms(50_000));
    let profile = Profile::phases([
        Profile::constant("100/s".parse().unwrap(), Some(busy)).unwrap(),
        Profile::pause(idle).unwrap(),
    ]);
    let schedule = Schedule::new(profile.unwrap(), Arrivals::Even);
    let idle = Story::of(schedule, |_, due| accepted_at(due));
    let idle = idle.with_blocks(every_second(11), usize::MAX).summary();
    // The last of the eleven has what half a second accepted.
    assert_eq!(idle.rate.committed_tps.unwrap().mean, 95.0);
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
