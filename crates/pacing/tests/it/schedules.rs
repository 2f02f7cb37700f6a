//! Laws of due times, for every shape, alone and in sequence, over a week and more.

use std::num::NonZeroU32;

use pacing::{Arrivals, Nanos, Profile, Rate, Schedule};
use proptest::prelude::*;

use crate::samples::{Shape, integral_of, micros, rates, sequences, shapes};

const SHORT: Nanos = Nanos::from_micros(10);
const LONG: Nanos = Nanos::from_secs(3_600);

/// Due times before `t` found by asking for single ones.
fn count_before(schedule: &Schedule, t: Nanos, above: u64) -> u64 {
    let (mut low, mut high) = (0, above);
    while low < high {
        let middle = low + (high - low) / 2;
        if schedule.due(middle).is_some_and(|at| at < t) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Checks the count of due times before `t` against the true integral.
fn check_count(schedule: &Schedule, truth: f64, slack: f64, t: Nanos) -> Result<(), TestCaseError> {
    let counted = count_before(schedule, t, (truth + slack) as u64 + 10);
    prop_assert_eq!(counted, schedule.due_before(t));
    prop_assert_eq!(counted, schedule.profile().integral(t).rounded_up());
    let off = (counted as f64 - truth).abs();
    prop_assert!(
        off <= 1.0 + slack,
        "{counted} due before {t}, the integral is {truth}"
    );
    Ok(())
}

proptest! {
    #[test]
    fn the_count_is_the_integral(
        shape in shapes(SHORT, LONG),
        parts in prop::collection::vec(0.0_f64..=1.0, 4),
    ) {
        let profile = shape.profile();
        let end = profile.duration().unwrap();
        let schedule = Schedule::new(profile, Arrivals::Even);
        for part in parts.into_iter().chain([1.0]) {
            let t = Nanos::new((end.as_nanos() as f64 * part) as u64).min(end);
            let truth = shape.integral(t.as_secs_f64());
            check_count(&schedule, truth, shape.within_step() + shape.slack(truth), t)?;
        }
        prop_assert_eq!(schedule.planned(), Some(schedule.due_before(end)));
        prop_assert_eq!(schedule.due(schedule.planned().unwrap()), None);
    }

    #[test]
    fn phases_have_no_seams((shapes, profile) in sequences(SHORT, LONG), part in 0.0_f64..=1.0) {
        let end = profile.duration().unwrap();
        let schedule = Schedule::new(profile, Arrivals::Even);
        let mut seams = vec![Nanos::new((end.as_nanos() as f64 * part) as u64).min(end)];
        let mut at = Nanos::ZERO;
        for shape in &shapes {
            at = at.saturating_add(shape.profile().duration().unwrap());
            seams.extend([at, at.saturating_sub(Nanos::new(1))]);
        }
        prop_assert_eq!(at, end);
        for t in seams {
            let truth = integral_of(&shapes, t);
            let within_steps: f64 = shapes.iter().map(Shape::within_step).sum();
            let slack = within_steps + shapes[0].slack(truth);
            check_count(&schedule, truth, slack, t)?;
        }
    }

    #[test]
    fn due_times_never_fall((_, profile) in sequences(SHORT, LONG), part in 0.0_f64..1.0) {
        let schedule = Schedule::new(profile, Arrivals::Even);
        let planned = schedule.planned().unwrap();
        let first = (planned as f64 * part) as u64;
        let mut before = Nanos::ZERO;
        for i in first..(first + 50).min(planned) {
            let at = schedule.due(i).unwrap();
            prop_assert!(at >= before);
            before = at;
        }
        prop_assert!(before < schedule.profile().duration().unwrap());
    }

    #[test]
    fn the_integral_never_falls((_, profile) in sequences(SHORT, LONG), part in 0.0_f64..1.0) {
        let end = profile.duration().unwrap().as_nanos();
        let first = (end as f64 * part) as u64;
        let mut before = profile.integral(Nanos::new(first));
        for t in first..first + 200 {
            let now = profile.integral(Nanos::new(t));
            prop_assert!(now >= before, "at {t} ns");
            before = now;
        }
    }

    #[test]
    fn nothing_is_due_in_a_rest((shapes, profile) in sequences(SHORT, LONG)) {
        let schedule = Schedule::new(profile.clone(), Arrivals::Even);
        for step in profile.iter_steps().filter(|step| step.rate.is_zero()) {
            let end = step.end.unwrap();
            prop_assert_eq!(schedule.due_before(step.start), schedule.due_before(end), "{:?}", shapes);
        }
    }

    #[test]
    fn steps_cover_the_profile((_, profile) in sequences(SHORT, LONG), part in 0.0_f64..1.0) {
        let mut at = Nanos::ZERO;
        for (index, step) in profile.iter_steps().enumerate() {
            prop_assert_eq!(step.index as usize, index);
            prop_assert_eq!(step.start, at);
            at = step.end.unwrap();
            prop_assert!(at > step.start);
            prop_assert_eq!(profile.step_at(step.start), step);
            prop_assert_eq!(profile.step_at(Nanos::new(at.as_nanos() - 1)), step);
        }
        prop_assert_eq!(Some(at), profile.duration());
        let end = at.as_nanos();
        let t = Nanos::new((end as f64 * part) as u64);
        let step = profile.step_at(t);
        prop_assert!(step.start <= t && t < step.end.unwrap());
        prop_assert_eq!(profile.step_at(Nanos::MAX).index + 1, profile.step_count());
        prop_assert_eq!(profile.iter_steps().take_while(|step| step.start < t).count() as u32, step.index + u32::from(step.start < t));
    }

    #[test]
    fn a_step_offers_its_mean_rate((_, profile) in sequences(SHORT, LONG)) {
        for step in profile.iter_steps() {
            let end = step.end.unwrap();
            let planned = profile.integral(end).as_f64() - profile.integral(step.start).as_f64();
            let mean = step.rate.as_f64() * end.saturating_sub(step.start).as_secs_f64();
            prop_assert!((planned - mean).abs() <= 0.1 + 1e-9 * profile.integral(end).as_f64());
        }
    }

    #[test]
    fn no_rate_is_above_the_peak((_, profile) in sequences(SHORT, LONG), part in 0.0_f64..1.0) {
        let t = Nanos::new((profile.duration().unwrap().as_nanos() as f64 * part) as u64);
        prop_assert!(profile.rate_at(t) <= profile.peak());
        prop_assert_eq!(profile.rate_at(Nanos::MAX), Rate::ZERO);
    }

    #[test]
    fn bursts_leave_at_their_first_ones_due_time(
        (_, profile) in sequences(SHORT, LONG),
        size in 1_u32..5_000,
        part in 0.0_f64..=1.0,
    ) {
        let even = Schedule::new(profile.clone(), Arrivals::Even);
        let size = NonZeroU32::new(size).unwrap();
        let burst = Schedule::new(profile.clone(), Arrivals::Burst { size });
        prop_assert_eq!(burst.planned(), even.planned());
        let planned = even.planned().unwrap();
        let i = (planned as f64 * part) as u64;
        for i in [i, planned - 1, planned] {
            let first = i / u64::from(size.get()) * u64::from(size.get());
            let expected = (i < planned).then(|| even.due(first).unwrap());
            prop_assert_eq!(burst.due(i), expected);
        }
        let t = Nanos::new((profile.duration().unwrap().as_nanos() as f64 * part) as u64);
        prop_assert_eq!(burst.due_before(t), count_before(&burst, t, planned + 1));
    }

    #[test]
    fn a_constant_rate_is_a_division(micros_per_s in 100_000_u64..=1_000_000_000_000, i in 0..1_u64 << 50) {
        let profile = Profile::constant(micros(micros_per_s), None).unwrap();
        let exact = u128::from(i) * 1_000_000_000_000_000 / u128::from(micros_per_s);
        let expected = u64::try_from(exact).ok().filter(|&at| at < 1 << 63).map(Nanos::new);
        prop_assert_eq!(Schedule::new(profile, Arrivals::Even).due(i), expected);
    }
}

/// A ramp from 10/s by 10/s each second; the step of 20/s is offered again where that of 40/s begins.
#[test]
fn a_step_that_is_offered_again_moves_no_due_time_before_it() {
    let rate = |per_second| Rate::per_second(per_second).unwrap();
    let ramp = |to: Option<u64>| {
        let step = pacing::SignedRate::rise(rate(10));
        Profile::steps(rate(10), step, Nanos::from_secs(1), to.map(rate)).unwrap()
    };
    for (profile, steps) in [(ramp(Some(50)), Some(6)), (ramp(None), None)] {
        let again = profile.with_again(1, 3, None).unwrap();
        let rates: Vec<u64> = again
            .iter_steps()
            .take(6)
            .map(|step| step.rate.as_f64() as u64)
            .collect();
        assert_eq!(rates, [10, 20, 30, 20, 40, 50]);
        let marks = again.iter_steps().take(6).map(|step| step.again_of);
        assert!(marks.eq([None, None, None, Some(1), None, None]));
        assert!(again.iter_steps().take(6).enumerate().all(|(place, step)| {
            step.index as usize == place && step.start == Nanos::from_secs(place as u64)
        }));
        assert_eq!(steps.is_some(), again.duration().is_some());
        for arrivals in [
            Arrivals::Even,
            Arrivals::Poisson { seed: 7 },
            Arrivals::Burst {
                size: 7.try_into().unwrap(),
            },
        ] {
            let of = |profile: &Profile| Schedule::new(profile.clone(), arrivals);
            let (one, other) = (of(&profile), of(&again));
            let moved = one
                .iter()
                .zip(other.iter())
                .find(|(one, other)| one != other);
            let (was, is) = moved.unwrap();
            assert!(
                was.at >= Nanos::from_secs(3) && is.at >= Nanos::from_secs(3),
                "{was:?} {is:?}"
            );
            let counted = other
                .iter()
                .take_while(|due| due.at < Nanos::from_secs(6))
                .count();
            assert_eq!(counted as u64, other.due_before(Nanos::from_secs(6)));
        }
        let even = Schedule::new(again.clone(), Arrivals::Even);
        assert_eq!(even.due_before(Nanos::from_secs(6)), 170);
        // A second one, and what is no step.
        let twice = again.with_again(4, 6, None).unwrap();
        assert_eq!(twice.step(6).unwrap().again_of, Some(4));
        assert_eq!(twice.step(3).unwrap().again_of, Some(1));
    }
}

#[test]
fn behind_the_last_step_a_pause_comes_first() {
    let rate = |per_second| Rate::per_second(per_second).unwrap();
    let step = pacing::SignedRate::rise(rate(10));
    let ramp = Profile::steps(rate(10), step, Nanos::from_secs(1), Some(rate(30))).unwrap();
    let again = ramp
        .with_again(2, 3, Some(Nanos::from_millis(1_500)))
        .unwrap();
    assert_eq!(again.duration(), Some(Nanos::from_millis(5_500)));
    let [pause, last] = [3, 4].map(|index| again.step(index).unwrap());
    assert!(pause.pause && pause.again_of.is_none());
    assert_eq!((last.rate, last.again_of), (rate(30), Some(2)));
    assert!(ramp.with_again(3, 3, None).is_err());
}

const WEEK: Nanos = Nanos::from_secs(7 * 86_400);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Each shape, a week long at 0.1/s to 1,000,000/s, looked at anywhere and at the end.
    #[test]
    fn a_week_of_any_shape(shape in shapes(Nanos::from_secs(7 * 86_400 - 9), WEEK), part in 0.0_f64..1.0) {
        let profile = shape.profile();
        let end = profile.duration().unwrap();
        let schedule = Schedule::new(profile, Arrivals::Even);
        for t in [Nanos::new((end.as_nanos() as f64 * part) as u64), end] {
            let truth = shape.integral(t.as_secs_f64());
            let count = schedule.due_before(t);
            // Up to 6e11 transactions: the reference itself is off by some thousandths.
            let off = (count as f64 - truth).abs();
            prop_assert!(off <= 1.002 + truth * 3e-14, "{count} before {t}, not {truth}");
            // The last one before t is due before t, the next is not.
            prop_assert!(count == 0 || schedule.due(count - 1).unwrap() < t);
            prop_assert!(schedule.due(count).is_none_or(|at| at >= t));
        }
    }

    /// Constant and linear rates against integers, after a week.
    #[test]
    fn exact_in_integers(from in rates(), to in rates(), part in 0.0_f64..=1.0) {
        let t = Nanos::new((WEEK.as_nanos() as f64 * part) as u64).min(WEEK);
        let constant = Profile::constant(from, Some(WEEK)).unwrap();
        let exact = u128::from(from.as_micros()) * u128::from(t.as_nanos());
        prop_assert_eq!(constant.integral(t).as_femto(), exact);

        let linear = Profile::linear(from, to, WEEK).unwrap();
        let (a, b) = (i128::from(from.as_micros()), i128::from(to.as_micros()));
        // At the middle and the end of the week the quadratic has small denominators.
        let half = i128::from(WEEK.as_nanos() / 2);
        let middle = (a * half * 4 + (b - a) * half).div_euclid(4);
        prop_assert_eq!(linear.integral(Nanos::new(half as u64)).as_femto(), middle as u128);
        prop_assert_eq!(linear.integral(WEEK).as_femto(), ((a + b) * half) as u128);
    }
}

#[test]
fn the_last_of_a_week_at_a_million_per_second() {
    let profile = Profile::constant(micros(1_000_000_000_000), Some(WEEK)).unwrap();
    let schedule = Schedule::new(profile, Arrivals::Even);
    let planned = 604_800_000_000;
    assert_eq!(schedule.planned(), Some(planned));
    assert_eq!(
        schedule.due(planned - 1),
        Some(Nanos::new(WEEK.as_nanos() - 1_000))
    );
    assert_eq!(schedule.due(planned), None);
}

#[test]
fn a_week_of_thirds() {
    // 1/3 per second is 333,333 millionths; periods of 3.000003 s do not divide anything evenly.
    let schedule = Schedule::new(
        Profile::constant("20/m".parse().unwrap(), Some(WEEK)).unwrap(),
        Arrivals::Even,
    );
    assert_eq!(schedule.planned(), Some(201_600));
    let at = schedule.due(201_599).unwrap().as_nanos();
    assert_eq!(u128::from(at), 201_599 * 1_000_000_000_000_000 / 333_333);
}

#[test]
fn a_week_of_a_sine_is_its_mean() {
    let shape = Shape::Sine {
        mean: micros(500_000_000_000),
        amplitude: micros(500_000_000_000),
        period: Nanos::from_secs(60),
        duration: WEEK,
    };
    assert_eq!(
        shape.profile().total().unwrap().as_femto(),
        500_000 * 604_800 * 1_000_000_000_000_000
    );
}
