//! A short census, held to its budgets; `cargo bench --bench calibration` prints a long one.

use base::Random;
use measure::{Bar, Finding, LimitedBy};

use crate::worlds::census::{Conclusion, Drifts};
use crate::worlds::{Census, Credits, PLENTY, Part, Ranges, Shift, World};

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

/// By how much the capacity of a world is not what its node commits where more is always ready, and the standard error of
/// that where blocks decide, as shares.
fn off(world: &World) -> (f64, f64) {
    const BLOCKS: usize = 4_000;
    let (truth, part) = world.capacity();
    let of_blocks = match part {
        Part::BlockSize | Part::Gas => {
            let in_block = (truth * world.interval_s).sqrt();
            (world.jitter.powi(2) + world.block_noise.powi(2) + (world.sizes / in_block).powi(2))
                .sqrt()
        }
        Part::Execution | Part::Check | Part::Front => 0.0,
    };
    let off = world.saturated(BLOCKS) / truth - 1.0;
    (off, of_blocks / (BLOCKS as f64).sqrt())
}

/// Five of nine intervals that missed "the capacity" of a world held what its node takes: executions had a pause that
/// their capacity did not count, pauses shorter than a check cost more than was counted, the transaction that did not fit
/// is a large one, and a part that was to have more did not in a tenth of the blocks.
#[test]
fn the_capacity_of_a_world_is_what_its_node_takes() {
    for ranges in [Ranges::SEEN, Ranges::HELD_BACK] {
        for seed in 9000..9040 {
            let drawn = World::drawn(seed, ranges);
            let even = World {
                jitter: 0.0,
                block_noise: 0.0,
                ..drawn
            };
            for world in [drawn, even] {
                let (off, error) = off(&world);
                let said = format!("{:.2} % off: {world:?}", 100.0 * off);
                assert!(off.abs() < 0.001 + 4.0 * error, "{said}");
            }
        }
    }
}

/// A sample of sizes that all runs of a search share would move all of them by its mean.
#[test]
fn each_run_has_sizes_of_its_own() {
    let world = World::drawn(9023, Ranges::SEEN);
    let mut random = Random::new(1);
    let mut bytes = || {
        let (_, played) = world.point(world.capacity().0 / 2.0, 20.0, 0, &mut random);
        played.summary.blocks.bytes
    };
    assert_ne!(bytes(), bytes());
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

/// Every conclusion on a node that lacks the processor; and on the same one where that is too short a time to explain what
/// it does not do.
#[test]
fn a_node_without_processor_is_not_blamed_and_one_that_lacks_it_for_a_moment_is() {
    let mut drawn = (0..).map(|seed| World::drawn(seed, Ranges::SEEN));
    // One whose capacity is a matter of the processor.
    let drawn = drawn.find(|it| it.capacity().1 == Part::Execution).unwrap();
    let capacity = drawn.capacity().0;
    let of = |neighbours, share| {
        let world = World {
            neighbours,
            ..drawn
        };
        let (trial, played) = world.point(share * capacity, 60.0, 0, &mut Random::new(1));
        (trial.finding, played.summary)
    };
    let (finding, short) = of((0.6, 0.5), 0.9);
    assert_eq!(short.verdict.bars, [Bar::Processor], "{:?}", short.verdict);
    assert_eq!(
        (finding, short.limited_by),
        (Finding::Unusable, LimitedBy::Unknown)
    );
    assert_eq!(short.knee, None);
    // What is a few percent too much is shown by the growth of the backlog, and as little.
    assert_eq!(of((0.1, 0.05), 0.98).0, Finding::Starved);
    // What it does take is said, however little it gets.
    let (finding, taken) = of((0.6, 0.5), 0.3);
    assert_eq!(
        (finding, taken.limited_by),
        (Finding::Held, LimitedBy::Nothing)
    );
    for lack in [0.0, 0.2] {
        let (finding, full) = of((lack, 0.0), 1.4);
        assert_eq!(
            (finding, full.limited_by),
            (Finding::Broken, LimitedBy::Node)
        );
    }
}

/// "Limited by nothing", of a run at 1.4 times the capacity, of which nothing could be told for lack of the processor.
#[test]
fn what_a_lack_of_the_processor_explains_is_not_limited_by_nothing() {
    let drawn = World::drawn(9030, Ranges::SEEN);
    let rate = 1.4 * drawn.capacity().0;
    for lack in [0.05, 0.1, 0.15, 0.18, 0.2, 0.3] {
        let world = World {
            neighbours: (lack, 0.0),
            ..drawn
        };
        let (_, played) = world.point(rate, 30.0, 0, &mut Random::new(9030));
        let by = played.summary.limited_by;
        assert!(
            matches!(by, LimitedBy::Node | LimitedBy::Unknown),
            "{lack}: {by:?}"
        );
    }
}

/// What was answered in the seconds after a run that limits itself by its checks counted for its pace: of 29 % that were
/// missing 19 % were, and a lack of the processor of 18 % explained them.
#[test]
fn a_lack_of_the_processor_explains_no_more_than_was_missing_in_its_time() {
    let drawn = World::drawn(9030, Ranges::SEEN);
    let (truth, part) = drawn.capacity();
    let run = |lack, seconds| {
        let world = World {
            neighbours: (lack, 0.0),
            ..drawn
        };
        let (_, played) = world.point(1.4 * truth, seconds, 0, &mut Random::new(9030));
        (played.summary.limited_by, part, played.summary.verdict.bars)
    };
    for lack in [0.05, 0.15, 0.18, 0.2, 0.24] {
        for seconds in [10.0, 30.0, 60.0] {
            let said = run(lack, seconds);
            assert_eq!(said.0, LimitedBy::Node, "{lack}, {seconds} s: {said:?}");
        }
    }
    let explained = run(0.4, 30.0);
    assert_eq!(explained.0, LimitedBy::Unknown, "{explained:?}");
}

/// "Knee 1,095/s" of a node of 1,000/s whose blocks nobody watched: what waited was answered within the second after each
/// point, or within its drain.
#[test]
fn without_blocks_a_rate_holds_only_if_it_is_answered_as_fast_as_it_is_offered() {
    let free = World {
        check_tps: PLENTY,
        front_tps: PLENTY,
        block_tps: PLENTY,
        gas_tps: PLENTY,
        execute_tps: PLENTY,
        pause_s: 0.0,
        run_noise: 0.0,
        link_s: 0.002,
        ..World::drawn(1, Ranges::SEEN)
    };
    let check = World {
        check_tps: 200.0,
        ..free
    };
    let front = World {
        front_tps: 200.0,
        ..free
    };
    let far = World {
        link_s: 0.6,
        ..check
    };
    for (name, world) in [("check", check), ("front", front), ("far", far)] {
        for seconds in [7.5, 10.0, 20.0] {
            for (rate, finding) in [
                (120.0, Finding::Held),
                (196.0, Finding::Held),
                (206.0, Finding::Broken),
                (220.0, Finding::Broken),
            ] {
                let judged = world.unfollowed(rate, seconds);
                let said = (name, seconds, rate, &judged);
                assert_eq!(judged.finding, finding, "{said:?}");
            }
        }
    }
    // What is over before five seconds were judged is not told.
    let judged = check.unfollowed(206.0, 4.0);
    assert_eq!(judged.finding, Finding::Undecided, "{judged:?}");
}

/// Short forms of the table of drifts: no change is said of what stays, and of what falls no interval is given that holds
/// its old capacity.
#[test]
fn a_search_says_that_its_target_became_slower_and_of_none_that_stays() {
    let stays = Drifts::of(0..6, Ranges::SEEN, 1.0, 0.0);
    assert_eq!((stays.said, stays.wrong), (0, 0), "{stays:?}");
    let falls = Drifts::of(0..12, Ranges::SEEN, 0.6, 0.0);
    assert!(falls.said >= 1, "{falls:?}");
    assert_eq!((falls.wrong, falls.wrong_said), (0, 0), "{falls:?}");
}

/// What a node takes by credits that are used up before a point is judged is not taken for its capacity. (Credits for longer
/// are: `cargo bench --bench calibration -- drift` has how often.)
#[test]
fn what_a_node_takes_for_a_moment_is_not_its_capacity() {
    let credits = Drifts::of_credits(4..10, Ranges::SEEN, [1.0, 4.0]);
    assert_eq!((credits.wrong, credits.wrong_said), (0, 0), "{credits:?}");
    assert!(credits.right >= 4, "{credits:?}");
}

/// A point that runs out of credits shows what is left without them, unless it overloads the node from the start: that may
/// slow a node by itself, and shows what it takes in any case.
#[test]
fn a_point_in_which_credits_run_out_says_what_the_node_fell_to() {
    let drawn = (0..).map(|seed| World::drawn(seed, Ranges::SEEN));
    let is_quick = |it: &World| it.interval_s < 0.8 && it.capacity().1 == Part::Check;
    let drawn = drawn.into_iter().find(is_quick).unwrap();
    let capacity = drawn.capacity().0;
    let credits = |seconds: f64| World {
        credits: Some(Credits {
            factor: 1.5,
            most: 0.5 * capacity * seconds,
            left: 0.5 * capacity * seconds,
        }),
        ..drawn
    };
    let fell_to = |world: World, share: f64| {
        let mut random = Random::new(1);
        let (trial, _) = world.point(share * capacity, 30.0, 0, &mut random);
        trial.took.and_then(|it| it.fell_to)
    };
    for seconds in [12.0, 15.0, 18.0] {
        let fell_to = |share| fell_to(credits(seconds), share);
        let near = fell_to(1.5).unwrap() / capacity;
        assert!((0.95..1.01).contains(&near), "{seconds} s: {near}");
        assert_eq!(fell_to(2.0), None, "{seconds} s");
        assert_eq!(fell_to(0.95), None, "{seconds} s");
    }
    for share in [0.95, 1.05, 1.2, 1.5] {
        assert_eq!(fell_to(drawn, share), None, "without credits, {share}");
        assert_eq!(fell_to(credits(90.0), share), None, "with enough, {share}");
    }
}

/// A node that stands still now and then, that lacks the processor, that slows with what it has committed by less than a
/// search can tell, or whose generator or follower falls behind, takes no less from some moment on. One that does for
/// another reason than credits is said to.
#[test]
fn only_a_node_that_takes_less_from_a_moment_on_is_said_to() {
    let drawn = (0..).map(|seed| World::drawn(seed, Ranges::SEEN));
    let is_quick = |it: &World| it.interval_s < 0.8 && it.capacity().1 == Part::Check;
    let drawn = drawn.into_iter().find(is_quick).unwrap();
    let capacity = drawn.capacity().0;
    let fell_to = |world: World, share: f64, seed: u64| {
        let mut random = Random::new(seed);
        let (trial, _) = world.point(share * capacity, 30.0, 0, &mut random);
        trial.took.and_then(|it| it.fell_to)
    };
    let others = [
        (
            "stands still",
            World {
                stall: Some((3.0, 11.0)),
                ..drawn
            },
        ),
        (
            "stands still once",
            World {
                stall: Some((5.0, 29.0)),
                ..drawn
            },
        ),
        (
            "lacks the processor",
            World {
                neighbours: (0.3, 0.25),
                ..drawn
            },
        ),
        (
            "wears",
            World {
                wear: 0.02 / (30.0 * capacity),
                ..drawn
            },
        ),
        (
            "busy generator",
            World {
                busy: Some((2.0, 9.0)),
                ..drawn
            },
        ),
        (
            "slow follower",
            World {
                read_s: 1.3 * drawn.interval_s,
                ..drawn
            },
        ),
        (
            "unsteady blocks",
            World {
                jitter: 0.2,
                block_noise: 0.2,
                ..drawn
            },
        ),
    ];
    for (name, world) in others {
        for share in [0.95, 1.05] {
            for seed in 1..4 {
                assert_eq!(fell_to(world, share, seed), None, "{name}, {share}, {seed}");
            }
        }
    }
    let slower = World {
        shift: Shift {
            from_s: 14.0,
            over_s: 0.0,
            to: 0.7,
        },
        ..drawn
    };
    for share in [0.9, 1.0, 1.05] {
        let fell_to = fell_to(slower, share, 1).unwrap() / capacity;
        assert!((0.64..0.72).contains(&fell_to), "{share}: {fell_to}");
    }
}

/// A knee of 1.1 to 1.2 times what these nodes sustain: each point began from rest.
#[test]
fn what_a_node_takes_from_rest_is_no_more_than_an_end_of_its_interval() {
    for seed in [120, 132, 146, 152] {
        let credits = Drifts::of_credits(seed..seed + 1, Ranges::SEEN, [5.0, 60.0]);
        assert_eq!((credits.wrong, credits.wrong_said), (0, 0), "{credits:?}");
    }
}

/// What a follower that is behind has not read is no limit of the node's, and hides none.
#[test]
fn a_follower_that_is_behind_neither_makes_a_limit_of_the_node_nor_hides_one() {
    let drawn = World::drawn(2, Ranges::SEEN);
    let behind = World {
        read_s: 1.6 * drawn.interval_s,
        ..drawn
    };
    let of = |share: f64| {
        let rate = share * drawn.capacity().0;
        let (_, played) = behind.point(rate, 40.0, 0, &mut Random::new(2));
        played.summary
    };
    let below = of(0.8);
    assert!(below.recorder.late_events > 0, "it is behind");
    assert_ne!(below.limited_by, LimitedBy::Node, "{:?}", below.verdict);
    let beyond = of(1.4);
    assert_ne!(
        beyond.limited_by,
        LimitedBy::Nothing,
        "{:?}",
        beyond.verdict
    );
}
