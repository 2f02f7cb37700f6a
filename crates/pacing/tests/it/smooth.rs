//! Linear, exponential and sine: staircases of one millisecond, exact at each whole millisecond.

use pacing::{Nanos, Profile};
use proptest::prelude::*;

use crate::samples::{Shape, micros, rates, times};

/// The length of a step.
const STEP: u64 = 1_000_000;

/// The last whole millisecond by `part` of the way to `end`, or the end.
fn whole_millisecond(end: u64, part: f64) -> u64 {
    let t = ((end as f64 * part) as u64).min(end);
    if t == end { end } else { t - t % STEP }
}

fn check(shape: &Shape, parts: &[f64]) -> Result<(), TestCaseError> {
    let profile = shape.profile();
    let end = profile.duration().unwrap();
    for part in parts {
        let t = Nanos::new(whole_millisecond(end.as_nanos(), *part));
        let truth = shape.integral(t.as_secs_f64());
        let off = (profile.integral(t).as_f64() - truth).abs();
        prop_assert!(off <= shape.slack(truth), "{off} off at {t}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn exponential_is_close(
        from in rates(),
        to in rates(),
        duration in times(Nanos::new(1), Nanos::from_secs(3 * 86_400)),
        parts in prop::collection::vec(0.0_f64..1.0, 20),
    ) {
        check(&Shape::Exponential { from, to, duration }, &parts)?;
    }

    #[test]
    fn sine_is_close(
        mean in rates(),
        part in 0..=1_000_u64,
        period in times(Nanos::new(1), Nanos::from_secs(86_400)),
        periods in 0.1_f64..4.0,
        parts in prop::collection::vec(0.0_f64..1.0, 20),
    ) {
        let amplitude = micros(mean.as_micros() * part / 1_000);
        let duration = Nanos::new((period.as_nanos() as f64 * periods) as u64 + 1);
        check(&Shape::Sine { mean, amplitude, period, duration }, &parts)?;
    }

    #[test]
    fn exponential_multiplies_in_equal_times(from in rates(), to in rates()) {
        let profile = Profile::exponential(from, to, Nanos::from_secs(90)).unwrap();
        let rate = |s| profile.rate_at(Nanos::from_secs(s)).as_f64();
        let expected = from.as_f64().powf(2.0 / 3.0) * to.as_f64().powf(1.0 / 3.0);
        prop_assert!((rate(30) - expected).abs() <= 1e-6 + expected * 1e-12);
        prop_assert!((rate(0) - from.as_f64()).abs() < 2e-6);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_extremes_hold(from in 1_u64..=10_000_000_000_000, to in 1_u64..=10_000_000_000_000) {
        let (from, to) = (micros(from), micros(to));
        let shape = Shape::Exponential { from, to, duration: Profile::MAX_DURATION };
        // 3e14 transactions at most: the reference is off by a tenth or so.
        let truth = shape.integral(Profile::MAX_DURATION.as_secs_f64());
        let total = shape.profile().total().unwrap().as_f64();
        prop_assert!((total - truth).abs() <= 1.0 + truth * 1e-13);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A period adds nothing to the mean, so many of them do not either, up to the greatest rates and the longest time.
    #[test]
    fn whole_periods_are_exact(
        rates in (1_u64..=10_000_000_000_000, 1_u64..=10_000_000_000_000),
        few_bits in (0_u32..43, 0_u32..43),
        span in prop_oneof![1_u64..1 << 40, 1..=Profile::MAX_DURATION.as_nanos()],
    ) {
        let (one, other) = ((rates.0 >> few_bits.0).max(1), (rates.1 >> few_bits.1).max(1));
        let (mean, amplitude) = (one.max(other).div_ceil(2), one.min(other) / 2);
        let sine = Profile::sine(micros(mean), micros(amplitude), Nanos::new(span), Nanos::new(span));
        let total = sine.unwrap().integral(Nanos::new(span)).as_femto();
        prop_assert_eq!(total, u128::from(mean) * u128::from(span));
    }
}

/// Asks for the area at each of some milliseconds in a row: it must not fall, though neighbours differ by less
/// than what floats round where the rate is close to zero.
fn never_falls(profile: &Profile, around: u64) {
    let first = (around / STEP).saturating_sub(100);
    let mut before = 0;
    for step in first..first + 200 {
        let area = profile.integral(Nanos::new(step * STEP)).as_femto();
        assert!(area >= before, "{profile} falls at {step} ms");
        before = area;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn areas_never_fall(
        rates in (1_u64..=10_000_000_000_000, 1_u64..=10_000_000_000_000),
        few_bits in (0_u32..43, 0_u32..43),
        span in prop_oneof![1_u64..1 << 40, 1..=Profile::MAX_DURATION.as_nanos()],
        part in 0.0_f64..=1.0,
    ) {
        let (one, other) = ((rates.0 >> few_bits.0).max(1), (rates.1 >> few_bits.1).max(1));
        let (mean, amplitude) = (one.max(other).div_ceil(2), one.min(other) / 2);
        let time = Nanos::new(span);
        let sine = |amplitude| Profile::sine(micros(mean), micros(amplitude), time, time).unwrap();
        let profiles = [
            Profile::exponential(micros(one), micros(other), time).unwrap(),
            Profile::exponential(micros(one), micros(one + 1), time).unwrap(),
            Profile::linear(micros(one), micros(other), time).unwrap(),
            sine(amplitude),
            // A rate of zero at the trough, three quarters of a period after the start.
            sine(mean.min(5_000_000_000_000)),
        ];
        for profile in &profiles {
            for around in [part, 0.0, 0.25, 0.5, 0.75, 1.0] {
                never_falls(profile, (span as f64 * around) as u64);
            }
        }
    }
}

/// Within a millisecond the rate is the mean one; the last step ends with the profile.
#[test]
fn a_millisecond_has_one_rate() {
    let profile = Profile::linear(micros(0), micros(8_000_000_000), Nanos::from_micros(3_500));
    let profile = profile.unwrap();
    let area = |micros: u64| profile.integral(Nanos::from_micros(micros)).as_f64();
    for (start, end) in [(0, 1_000), (1_000, 2_000), (2_000, 3_000), (3_000, 3_500)] {
        let middle = (area(start) + area(end)) / 2.0;
        assert!((area((start + end) / 2) - middle).abs() < 2e-9);
    }
    assert_eq!(area(3_500), 14.0);
}

#[test]
fn sine_swings_as_it_says() {
    let sine = |mean: &str, amplitude: &str| {
        let (mean, amplitude) = (mean.parse().unwrap(), amplitude.parse().unwrap());
        Profile::sine(mean, amplitude, Nanos::from_secs(60), Nanos::from_secs(600)).unwrap()
    };
    let profile = sine("100/s", "100/s");
    let rate = |s| profile.rate_at(Nanos::from_secs(s)).as_f64();
    assert_eq!(
        [rate(0), rate(15), rate(30), rate(45), rate(65)],
        [100.0, 200.0, 100.0, 0.0, 150.0]
    );
    assert_eq!(profile.peak().as_f64(), 200.0);
    assert_eq!(profile.total().unwrap().whole(), 60_000);
    assert_eq!(
        sine("7/s", "0/s")
            .integral(Nanos::from_secs(10))
            .rounded_up(),
        70
    );
}
