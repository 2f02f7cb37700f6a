//! A short census, held to its budgets; `cargo bench --bench calibration` prints a long one.

use crate::worlds::census::Conclusion;
use crate::worlds::{Census, Ranges};

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
