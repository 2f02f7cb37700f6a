//! A week and more: nothing drifts.

use pacing::{Arrivals, Nanos, Profile, Schedule};
use proptest::prelude::*;

use crate::samples::{Shape, micros, rates, shapes};

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
