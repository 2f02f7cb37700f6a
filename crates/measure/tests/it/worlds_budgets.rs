//! A short census, held to its budgets; `cargo bench --bench calibration` prints a long one.

use base::Random;
use measure::{Bar, Finding, LimitedBy};

use crate::worlds::census::Conclusion;
use crate::worlds::{Census, Part, Ranges, World};

/// How many of so many may be wrong: the budget, and two standard deviations of chance.
fn most(conclusion: Conclusion, made: u32) -> u32 {
    let (share, made) = (conclusion.budget(), f64::from(made));
    (share * made + 2.0 * (share * (1.0 - share) * made).sqrt()).floor() as u32
}

fn assert_budgets(ranges: Ranges) {
    let census = Census::of(0..8, ranges);
    for (conclusion, count) in &census.counts {
        assert!(
            count.wrong <= most(*conclusion, count.made),
            "{conclusion:?}: {count:?}\n{}",
            census.wrong.join("\n")
        );
    }
    let made = |conclusion| census.counts[&conclusion].made;
    assert!(
        made(Conclusion::Knee) >= 5 && made(Conclusion::Bracket) >= 5,
        "{census}"
    );
    assert!(
        made(Conclusion::Point) >= 30 && made(Conclusion::Outage) >= 3,
        "{census}"
    );
}

#[test]
fn what_is_said_of_worlds_that_were_looked_at_is_as_right_as_it_claims() {
    assert_budgets(Ranges::SEEN);
}

#[test]
fn what_is_said_of_worlds_that_were_not_looked_at_is_too() {
    assert_budgets(Ranges::HELD_BACK);
}

/// A census that finds nothing wrong in a world that is not what it is held to be would find nothing wrong in any.
#[test]
fn a_census_finds_what_is_wrong() {
    let mut census = Census::default();
    census.add(Conclusion::Knee, 1, Some(false), "100 of 200");
    census.add(Conclusion::Knee, 2, None, "cannot tell");
    let count = census.counts[&Conclusion::Knee];
    assert_eq!((count.made, count.wrong, count.open), (1, 1, 1));
    assert_eq!(census.wrong.len(), 1);
    assert_eq!(most(Conclusion::Knee, 100), 16);
    assert_eq!(most(Conclusion::Node, 4), 0);
}

/// Every conclusion on a node that lacks the processor; and on the same one where its neighbours leave it enough.
#[test]
fn a_node_whose_processor_others_have_is_not_blamed_and_one_beside_quiet_neighbours_is() {
    let mut drawn = (0..).map(|seed| World::drawn(seed, Ranges::SEEN));
    // One whose capacity is a matter of the processor.
    let drawn = drawn.find(|it| it.capacity().1 == Part::Execution);
    let world = World {
        neighbours: (0.8, 0.5),
        ..drawn.unwrap()
    };
    let capacity = world.capacity().0;
    let (trial, played) = world.point(0.9 * capacity, 60.0, 0, &mut Random::new(1));
    let summary = &played.summary;
    assert_eq!(
        summary.verdict.bars,
        [Bar::Machine],
        "{:?}",
        summary.verdict
    );
    assert_eq!(
        summary.limited_by,
        LimitedBy::Machine,
        "{:?}",
        summary.evidence
    );
    assert_eq!((&summary.knee, trial.finding), (&None, Finding::Unusable));
    // What it does take is said, however little it gets.
    let (trial, played) = world.point(0.3 * capacity, 60.0, 0, &mut Random::new(1));
    assert_eq!(played.summary.limited_by, LimitedBy::Nothing);
    assert_eq!(trial.finding, Finding::Held);
    let beside = World {
        neighbours: (0.4, 0.0),
        ..world
    };
    let (trial, played) = beside.point(1.4 * capacity, 60.0, 0, &mut Random::new(1));
    assert_eq!(played.summary.limited_by, LimitedBy::Node);
    assert_eq!(trial.finding, Finding::Broken);
}

/// Of 100 transactions that were all committed in time 88 were in no block when the offering ended, because one block fell
/// into it: that was "broken", and the search looked for the knee below.
#[test]
fn a_short_point_is_not_broken_by_what_its_next_block_commits() {
    for seed in [9003, 50_010, 50_039] {
        let world = World::drawn(seed, Ranges::HELD_BACK);
        let rate = 0.5 * world.capacity().0;
        for repeat in 0..10 {
            let (trial, _) = world.point(rate, 10.0, 0, &mut Random::new(repeat));
            assert_ne!(trial.finding, Finding::Broken, "{seed} {repeat}");
        }
        // What is far too much is, however few blocks show it.
        let (trial, _) = world.point(6.0 * rate, 40.0, 0, &mut Random::new(1));
        assert_eq!(trial.finding, Finding::Broken, "{seed}");
    }
}
