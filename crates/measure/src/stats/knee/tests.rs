use proptest::prelude::*;

use super::*;

/// A small generator of numbers in [0, 1) and of normal ones.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn uniform(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(super) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// Plays a search on a target whose answer to each rate is scripted, and whose blocks are not followed.
fn play(settings: KneeSettings, mut target: impl FnMut(f64) -> Finding) -> (KneeSearch, Ending) {
    play_watched(settings, |rate| (target(rate), None))
}

/// The same with what the target commits.
fn play_watched(
    settings: KneeSettings,
    mut target: impl FnMut(f64) -> (Finding, Option<Took>),
) -> (KneeSearch, Ending) {
    let mut search = KneeSearch::new(settings);
    loop {
        match search.next() {
            Next::Try { rate, .. } => {
                assert!(rate >= settings.min && rate <= settings.max, "{rate}");
                let (finding, took) = target(rate);
                search.add(Trial {
                    rate,
                    finding,
                    took,
                });
            }
            Next::Done(ending) => return (search, ending),
        }
    }
}

/// A smaller field, which is quicker.
pub(super) fn narrow() -> KneeSettings {
    KneeSettings {
        min: 50.0,
        max: 20_000.0,
        ..KneeSettings::default()
    }
}

pub(super) fn exactly(tps: f64) -> Option<Took> {
    Some(Took {
        tps,
        error_tps: 0.0,
        lack: 0.0,
        fell_to: None,
    })
}

pub(super) fn held_if(held: bool) -> Finding {
    if held { Finding::Held } else { Finding::Broken }
}

#[test]
fn quiet_targets_are_found_within_three_percent_in_few_trials() {
    for knee in [
        1.7, 12.0, 333.0, 1000.0, 2137.0, 4000.0, 4001.0, 31_000.0, 640_000.0,
    ] {
        let (search, ending) = play(KneeSettings::default(), |rate| held_if(rate <= knee));
        let estimate = search.estimate().unwrap();
        assert_eq!(ending, Ending::Found, "{knee}");
        assert!(
            (estimate.rate / knee - 1.0).abs() < 0.03,
            "{knee}: {estimate:?}"
        );
        assert!(
            estimate.low <= knee && knee <= estimate.high,
            "{knee}: {estimate:?}"
        );
        assert!(
            search.trials().len() <= 25,
            "{knee}: {}",
            search.trials().len()
        );
    }
    // Near the first rate, where real nodes are, it is a dozen.
    let (search, _) = play_watched(KneeSettings::default(), |rate| {
        (held_if(rate <= 2137.0), exactly(rate.min(2137.0)))
    });
    assert!(search.trials().len() <= 14, "{:?}", search.trials());
}

#[test]
fn noisy_targets_lie_in_most_intervals() {
    for (noise, chance) in [(0.02, 0.0), (0.05, 0.0), (0.1, 0.0), (0.0, 0.05)] {
        let mut inside = 0;
        for seed in 0..20 {
            let mut dice = Dice(seed * 7919 + 13);
            let knee = 1000.0 * 4_f64.powf(dice.uniform());
            let (search, _) = play(narrow(), |rate| {
                let holds = rate <= knee * (noise * dice.normal()).exp();
                held_if(holds != (dice.uniform() < chance))
            });
            let estimate = search.estimate().unwrap();
            inside += u32::from(estimate.low <= knee && knee <= estimate.high);
        }
        assert!(
            inside >= 16,
            "noise {noise}, chance {chance}: {inside} of 20"
        );
    }
}

/// A load takes what was promised of it in 95 % of all cases (90 % at least of these), and nearly that is promised.
#[test]
fn what_a_load_may_rely_on_allows_for_what_varies_from_trial_to_trial() {
    for noise in [0.005, 0.02, 0.08] {
        let (mut kept, mut shares) = (0, 0.0);
        for seed in 0..40 {
            let mut dice = Dice(seed * 7919 + 13);
            let mut takes = || 1000.0 * (noise * dice.normal()).exp();
            let mut search = KneeSearch::new(narrow());
            while let Next::Try { rate, .. } = search.next() {
                let tps = takes();
                search.add(Trial {
                    rate,
                    finding: held_if(rate <= tps),
                    took: exactly(rate.min(tps)),
                });
            }
            let (least, knee) = (search.lasting().unwrap(), search.estimate().unwrap());
            assert!(least <= knee.low, "{least} {knee:?}");
            kept += (0..50).filter(|_| takes() >= least).count();
            shares += least / 1000.0 / 40.0;
        }
        let said = format!("noise {noise}: {kept} of 2000 kept, {shares} promised");
        assert!(kept >= 1800, "{said}");
        assert!(shares >= 1.0 - 4.0 * noise.max(0.01), "{said}");
    }
}

/// The trials of a search on a real CometBFT, which then took 4,773/s of 4,831/s in two minutes.
#[test]
fn what_a_real_node_took_for_longer_was_to_be_expected() {
    let shown = [
        (1000.0, Finding::Held, 998.5, 0.41, 0.0),
        (2000.0, Finding::Held, 1997.7, 1.7, 0.0),
        (4000.0, Finding::Held, 3990.3, 13.1, 0.0),
        (8000.0, Finding::Broken, 4897.8, 17.6, 0.02),
        (5140.0, Finding::Starved, 4889.9, 3.4, 0.01),
        (4959.0, Finding::Broken, 4822.7, 5.7, 0.013),
    ];
    let trials = shown.map(|(rate, finding, tps, error_tps, lack)| Trial {
        rate,
        finding,
        took: Some(Took {
            tps,
            error_tps,
            lack,
            fell_to: None,
        }),
    });
    let search = KneeSearch::of_trials(&trials, 0.9);
    let least = search.lasting().unwrap();
    assert!(
        (4600.0..4773.0).contains(&least),
        "{least} {:?}",
        search.estimate()
    );
}

/// The interval after seven trials whose order shows no noise, with these capacities in the broken ones.
fn estimate_with(capacities: [Option<f64>; 3]) -> KneeEstimate {
    let is_watched = capacities[0].is_some();
    let held = [800.0, 900.0, 960.0].map(|rate| (rate, Finding::Held, is_watched.then_some(rate)));
    let broken = [1040.0, 1100.0, 1300.0].into_iter().zip(capacities);
    let broken = broken.map(|(rate, tps)| (rate, Finding::Broken, tps));
    let trials: Vec<Trial> = held
        .into_iter()
        .chain(broken)
        .map(|(rate, finding, tps)| Trial {
            rate,
            finding,
            took: tps.and_then(exactly),
        })
        .collect();
    KneeSearch::of_trials(&trials, 0.9).estimate().unwrap()
}

#[test]
fn a_target_that_commits_the_same_in_each_broken_trial_is_known_to_be_quiet() {
    let width = |estimate: KneeEstimate| (estimate.high / estimate.low).ln();
    let unseen = estimate_with([None; 3]);
    let same = estimate_with([Some(1000.0), Some(1001.0), Some(999.0)]);
    assert!(width(same) < 0.8 * width(unseen), "{same:?} {unseen:?}");
    let noisy = estimate_with([Some(1000.0), Some(900.0), Some(1150.0)]);
    assert!(width(noisy) > 2.0 * width(same), "{noisy:?} {same:?}");
    // One that commits less the more it is overloaded is not noisy for that, and its knee no lower.
    let falling = estimate_with([Some(960.0), Some(900.0), Some(735.0)]);
    assert!(width(falling) < width(unseen), "{falling:?}");
    assert!((falling.rate / 1_000.0 - 1.0).abs() < 0.02, "{falling:?}");
    assert!(
        falling.low < 1_000.0 && 1_000.0 < falling.high,
        "{falling:?}"
    );
}

#[test]
fn a_rate_that_broke_by_chance_is_tried_again_and_not_skipped() {
    let mut first = true;
    let mut highest = 0.0_f64;
    let (search, ending) = play(
        KneeSettings {
            from: 100.0,
            ..narrow()
        },
        |rate| {
            highest = highest.max(rate);
            let chance = rate >= 400.0 && std::mem::take(&mut first);
            held_if(rate <= 2137.0 && !chance)
        },
    );
    assert_eq!(ending, Ending::Found);
    assert!(highest <= 2.0 * 2137.0, "{:?}", search.trials());
    let estimate = search.estimate().unwrap();
    assert!((estimate.rate / 2137.0 - 1.0).abs() < 0.03, "{estimate:?}");
}

#[test]
fn repeated_searches_of_a_noisy_target_overlap() {
    let mut dice = Dice(3);
    let mut intervals = Vec::new();
    for _ in 0..6 {
        let (search, _) = play(KneeSettings::default(), |rate| {
            held_if(rate <= 2137.0 * (0.03 * dice.normal()).exp())
        });
        intervals.push(search.estimate().unwrap());
    }
    for one in &intervals {
        assert!(
            intervals.iter().all(|other| one.low <= other.high),
            "{intervals:?}"
        );
    }
}

/// A search of a target that takes what this says in each of its trials, and whose blocks are followed, or not.
fn drifting(capacity: impl Fn(usize) -> f64, is_watched: bool) -> KneeSearch {
    let mut trials = 0;
    let settings = KneeSettings {
        max_trials: 30,
        ..narrow()
    };
    let (search, _) = play_watched(settings, |rate| {
        let capacity = capacity(trials);
        trials += 1;
        let took = Took {
            tps: rate.min(capacity),
            error_tps: 0.01 * capacity,
            lack: 0.0,
            fell_to: None,
        };
        (held_if(rate <= capacity), is_watched.then_some(took))
    });
    search
}

/// "Knee 2,000/s", of a target that took 1,200/s since the sixth of the trials.
#[test]
fn a_target_that_changes_is_known_by_what_it_takes_since() {
    for (to, since, is_slower) in [(1_200.0, 6, true), (3_100.0, 5, false)] {
        let step = |trial| if trial < since { 2_000.0 } else { to };
        let holds = |knee: KneeEstimate| {
            let is_narrow = knee.high / knee.low < 1.3;
            is_narrow && knee.low <= to * 1.02 && to * 0.98 <= knee.high
        };
        let search = drifting(step, true);
        let knee = search.estimate();
        let said = format!("{knee:?} {:?} {:?}", search.drift(), search.trials());
        assert!(search.is_in_doubt() || knee.is_some_and(holds), "{said}");
        let drift = search.drift();
        assert!(drift.is_some() || !is_slower, "{said}");
        let is_shown =
            |it: Drift| it.is_slower == is_slower && (it.after <= it.before) == is_slower;
        assert!(drift.is_none_or(is_shown), "{said}");
        // Where nothing but findings is known, it may take more trials than there are.
        let search = drifting(step, false);
        let is_open = search.estimate().is_none() || search.is_in_doubt();
        let is_right = is_open || search.estimate().is_some_and(holds);
        assert!(is_right, "{:?} {:?}", search.estimate(), search.trials());
    }
}

#[test]
fn a_target_that_becomes_slower_all_the_time_is_said_to() {
    let capacity = |trial: usize| 4_000.0 * 0.97_f64.powi(trial as i32);
    let search = drifting(capacity, true);
    assert!(search.drift().is_some_and(|drift| drift.is_slower));
    let now = capacity(search.trials().len());
    let is_open = search.estimate().is_none() || search.is_in_doubt();
    let holds = |knee: KneeEstimate| knee.low <= now * 1.1 && now <= knee.high;
    assert!(is_open || search.estimate().is_some_and(holds), "{now}");
}

/// A target that takes 1,300 at first and 1,000 after that is not known to take more than 1,000, whatever most of its trials
/// show; one that takes 1,300 in all of them is.
#[test]
fn an_interval_reaches_down_to_what_a_target_fell_to() {
    for fallen in [None, Some(3), Some(7)] {
        let mut trial = 0;
        let (search, _) = play_watched(narrow(), |rate| {
            trial += 1;
            let fell_to = fallen.filter(|it| *it == trial).map(|_| 1_000.0);
            let took = exactly(rate.min(1_300.0)).map(|it| Took { fell_to, ..it });
            (held_if(rate <= 1_300.0), took)
        });
        let knee = search.estimate().unwrap();
        let said = format!("{fallen:?}: {knee:?}");
        assert!(knee.low <= 1_300.0 && 1_300.0 <= knee.high, "{said}");
        assert_eq!(knee.low <= 1_000.0, fallen.is_some(), "{said}");
        assert_eq!(search.is_narrow(), fallen.is_none(), "{said}");
        let lasting = search.lasting().unwrap();
        assert!(lasting <= knee.low, "{said}: {lasting}");
    }
}

/// A rate that broke is not taken for one below the knee for its small growth, and an interval reaches to what was tried.
#[test]
fn an_interval_lies_between_what_held_and_what_broke() {
    for of_the_rate in [0.96, 0.97, 0.985] {
        let trial = |rate, finding, took: Option<f64>| Trial {
            rate,
            finding,
            took: took.and_then(exactly),
        };
        let broke = trial(1_000.0, Finding::Broken, Some(of_the_rate * 1_000.0));
        let held = |took| trial(500.0, Finding::Held, took);
        let watched = KneeSearch::of_trials(&[held(Some(500.0)), broke], 0.9);
        let knee = watched.estimate().unwrap();
        assert!(knee.low > 800.0 && knee.high < 1_250.0, "{knee:?}");
        // What broke by chance is no end of anything.
        let by_chance = [broke, held(None), trial(2_000.0, Finding::Held, None)];
        assert_eq!(KneeSearch::of_trials(&by_chance, 0.9).estimate(), None);
        let unwatched = [held(None), trial(1_000.0, Finding::Broken, None)];
        let knee = KneeSearch::of_trials(&unwatched, 0.9).estimate().unwrap();
        assert!(knee.low <= 500.0 && 1_000.0 <= knee.high, "{knee:?}");
    }
}

/// One trial of a steady target that broke, or held, by chance is offered again, and is no drift.
#[test]
fn what_happens_once_is_no_drift() {
    for place in 2..9 {
        let mut trial = 0;
        let (search, _) = play_watched(narrow(), |rate| {
            trial += 1;
            let capacity = if trial == place { 1_400.0 } else { 2_000.0 };
            let took = Took {
                tps: rate.min(capacity),
                error_tps: 20.0,
                lack: 0.0,
                fell_to: None,
            };
            (held_if(rate <= capacity), Some(took))
        });
        assert_eq!(search.drift(), None, "{place}: {:?}", search.trials());
        assert!(!search.is_in_doubt(), "{place}: {:?}", search.trials());
        let knee = search.estimate().unwrap();
        assert!(
            (knee.rate / 2_000.0 - 1.0).abs() < 0.03,
            "{place}: {knee:?}"
        );
    }
}

#[test]
fn at_the_edges_of_what_is_allowed_the_search_ends_without_a_knee() {
    let settings = KneeSettings {
        max: 3000.0,
        ..KneeSettings::default()
    };
    let (search, ending) = play(settings, |_| Finding::Held);
    assert_eq!(ending, Ending::NotReached { rate: 3000.0 });
    assert_eq!(search.estimate(), None);
    assert_eq!(search.highest_held(), Some(3000.0));
    let (search, ending) = play(settings, |_| Finding::Broken);
    assert_eq!(ending, Ending::BelowMin { rate: 1.0 });
    assert_eq!(search.estimate(), None);
}

#[test]
fn one_unusable_trial_is_repeated_and_two_are_the_generators_limit() {
    let mut disturbed = false;
    let (search, ending) = play(KneeSettings::default(), |rate| {
        if rate == 1000.0 && !std::mem::replace(&mut disturbed, true) {
            return Finding::Unusable;
        }
        held_if(rate <= 2137.0)
    });
    assert_eq!(ending, Ending::Found);
    assert!((search.estimate().unwrap().rate / 2137.0 - 1.0).abs() < 0.03);
    let (search, ending) = play(KneeSettings::default(), |rate| {
        if rate > 1500.0 {
            Finding::Unusable
        } else {
            Finding::Held
        }
    });
    assert_eq!(
        ending,
        Ending::GeneratorLimit {
            held: Some(1000.0),
            rate: 2000.0
        }
    );
    assert_eq!(search.estimate(), None);
}

#[test]
fn an_undecided_trial_is_repeated_longer_and_counts_for_nothing() {
    let mut search = KneeSearch::new(KneeSettings::default());
    let mut lengths = Vec::new();
    let ending = loop {
        match search.next() {
            Next::Try { rate, length, .. } => {
                lengths.push(length);
                let finding = Finding::Undecided;
                search.add(Trial {
                    rate,
                    finding,
                    took: None,
                });
            }
            Next::Done(ending) => break ending,
        }
    };
    assert_eq!(lengths, [0.5, 2.0, 4.0, 4.0]);
    assert_eq!(ending, Ending::Undecided { rate: 250.0 });
    assert_eq!(search.highest_held(), None);
    // Once it is decided the length falls again.
    let mut undecided = true;
    let (search, ending) = play(KneeSettings::default(), |rate| {
        if rate == 1000.0 && std::mem::take(&mut undecided) {
            Finding::Undecided
        } else {
            held_if(rate <= 2137.0)
        }
    });
    assert_eq!(ending, Ending::Found);
    assert!((search.estimate().unwrap().rate / 2137.0 - 1.0).abs() < 0.03);
}

#[test]
fn a_scan_knows_the_knee_as_well_as_its_rates_are_close() {
    let trial = |rate: f64| Trial {
        rate,
        finding: held_if(rate <= 2000.0),
        took: None,
    };
    let trials: Vec<Trial> = [500.0, 1000.0, 2000.0, 3000.0].map(trial).into();
    let estimate = KneeSearch::of_trials(&trials, 0.9).estimate().unwrap();
    assert!(
        estimate.low < 2100.0 && estimate.high > 2800.0,
        "{estimate:?}"
    );
    assert_eq!(KneeSearch::of_trials(&trials[..3], 0.9).estimate(), None);
    assert_eq!(KneeSearch::of_trials(&[], 0.9).estimate(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_search_ends_and_its_interval_is_in_order(
        answers in proptest::collection::vec(0_u8..4, 60),
        from in 50_f64..20_000.0,
    ) {
        let mut answers = answers.into_iter().cycle();
        let settings = KneeSettings { from, ..KneeSettings::default() };
        let (search, _) = play(settings, |_| match answers.next() {
            Some(0) => Finding::Held,
            Some(1) => Finding::Broken,
            Some(2) => Finding::Undecided,
            _ => Finding::Unusable,
        });
        prop_assert!(search.trials().len() <= settings.max_trials);
        if let Some(estimate) = search.estimate() {
            prop_assert!(estimate.low <= estimate.rate && estimate.rate <= estimate.high);
        }
    }
}
