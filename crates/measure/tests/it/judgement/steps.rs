//! Which steps of a ramp were sustained, and the rates of the offering and of the blocks.

use measure::{Cause, EvidenceKind, LimitedBy, Reply, Strength, Summary};
use pacing::{Arrivals, Profile, Schedule};

use super::story::{Course, Story, accepted_at, every_second, found, healthy, ramp, strong};
use crate::support::{constant, ms};

#[test]
fn answers_that_come_after_the_edge_of_a_step_are_counted_in_it() {
    let profile = Profile::steps(
        "100/s".parse().unwrap(),
        "100/s".parse().unwrap(),
        ms(2_000),
        Some("300/s".parse().unwrap()),
    );
    let schedule = Schedule::new(profile.unwrap(), Arrivals::Even);
    let story = Story::of(schedule, |_, due| Course::Sent {
        at: due,
        cause: Cause::OnTime,
        answer: Some((due + 120, Reply::Accepted)),
    });
    let summary = story.with_blocks(every_second(8), usize::MAX).summary();
    assert_eq!(
        summary.steps[0].counts.accepted, 188,
        "94 % within the step"
    );
    assert_eq!(summary.steps[0].cohort.due_accepted, 200);
    assert!(
        summary.knee_reason.starts_with("every step was sustained:"),
        "{}",
        summary.knee_reason
    );
}

/// The node gives no sign from `from` to `until`, then answers everything at once.
fn stalling(steps: u64, from: u64, until: u64) -> Summary {
    let story = Story::of(ramp(steps), |_, due| {
        let answer = if (from..until).contains(&(due + 2)) {
            until
        } else {
            due + 2
        };
        Course::Sent {
            at: due,
            cause: Cause::OnTime,
            answer: Some((answer, Reply::Accepted)),
        }
    });
    let blocks = every_second(steps * 5 + 2).filter(|at| !(from..until).contains(at));
    story
        .with_blocks(blocks.collect::<Vec<_>>(), usize::MAX)
        .summary()
}

#[test]
fn a_stall_in_one_step_does_not_hide_that_the_later_ones_were_sustained() {
    let summary = stalling(8, 17_000, 22_600);
    assert_eq!(summary.knee, None);
    assert_eq!(
        summary.knee_reason,
        "every step was sustained, except step 3 (stall of 3.4 s): the knee lies above the highest rate offered"
    );
}

#[test]
fn a_stall_that_the_node_makes_up_for_within_its_step_costs_nothing() {
    let summary = stalling(4, 11_000, 13_000);
    assert!(
        summary.knee_reason.starts_with("every step was sustained:"),
        "{}",
        summary.knee_reason
    );
}

#[test]
fn steps_beyond_a_chains_capacity_are_not_sustained_although_all_is_committed_in_the_end() {
    // 300 a block and a second.
    let story = Story::of(ramp(6), |_, due| accepted_at(due));
    let story = Story {
        ended: 60_000,
        ..story
    };
    let summary = story.with_blocks(every_second(60), 300).summary();
    assert_eq!(summary.fate.pending, 0);
    let knee = summary.knee.as_ref().unwrap();
    let bracket = (knee.rate_tps, knee.below_tps);
    assert_eq!(bracket, (300.0, Some(400.0)), "{}", summary.knee_reason);
    assert_eq!(summary.limited_by, LimitedBy::Node);
    assert!(strong(&summary).contains(&"steps_failed".to_owned()));
    let full = found(&summary, "blocks_full").unwrap();
    assert_eq!(full.kind, EvidenceKind::BlocksFull { limit: 300 });
}

/// A ramp of 50/s more every five seconds, on a chain that takes so many transactions into its block a second,
/// `phase` milliseconds after the full one.
fn short_steps(to: &str, most: usize, phase: u64) -> Summary {
    let (from, step) = ("50/s".parse().unwrap(), "50/s".parse().unwrap());
    let profile = Profile::steps(from, step, ms(5_000), Some(to.parse().unwrap()));
    let schedule = Schedule::new(profile.unwrap(), Arrivals::Even);
    let story = Story {
        ended: 100_000,
        ..Story::of(schedule, |_, due| accepted_at(due))
    };
    let instants = (0..90).map(|second| second * 1_000 + phase);
    story.with_blocks(instants, most).summary()
}

#[test]
fn on_steps_of_five_seconds_a_capacity_of_350_is_not_said_to_sustain_400() {
    // At 400/s 250 are left behind: with what waits for the next block no more than a block and a half. Where that is
    // the last step there is none after it in which the backlog would show.
    for (to, phase) in ["500/s", "400/s"].into_iter().flat_map(|to| {
        let phases = [50, 300, 500, 700, 950];
        phases.map(|phase| (to, phase))
    }) {
        let summary = short_steps(to, 350, phase);
        let words = format!("{to} {phase}: {}", summary.knee_reason);
        assert!(words.contains("sustained up to step 6 (350/s)"), "{words}");
        // 12.5 % of five blocks may be in the next one: then 400/s is no end of the bracket, and 450/s is.
        let bracket = summary.knee.map(|knee| (knee.rate_tps, knee.below_tps));
        let is_known = bracket == Some((350.0, Some(400.0)));
        let is_wider = bracket == Some((350.0, Some(450.0))).filter(|_| to == "500/s");
        assert!(is_known || is_wider, "{bracket:?} {words}");
    }
}

#[test]
fn on_steps_of_five_seconds_a_node_that_keeps_up_is_not_called_saturated() {
    for phase in [50, 300, 500, 700, 950] {
        let summary = short_steps("500/s", usize::MAX, phase);
        assert_eq!(summary.knee, None, "{phase}");
        assert!(
            summary.knee_reason.starts_with("every step was sustained:"),
            "{phase}: {}",
            summary.knee_reason
        );
    }
}

#[test]
fn transactions_that_all_fail_in_their_blocks_were_not_kept_up_with() {
    let failing = Story {
        code: 7,
        ..healthy()
    }
    .summary();
    assert_eq!(failing.fate.commit_failed, 2_000);
    assert_eq!(failing.limited_by, LimitedBy::Workload);
    assert_eq!(
        failing.knee_reason,
        "already the first step (200/s) was not sustained: 100.0 % of offered was committed with an error code"
    );
    let found = found(&failing, "failed_in_blocks").unwrap();
    assert_eq!((found.txs, found.strength), (2_000, Strength::Strong));
    let healthy = healthy().summary();
    assert_eq!(healthy.limited_by, LimitedBy::Nothing);
    assert!(healthy.knee_reason.contains("every step was sustained"));
}

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
