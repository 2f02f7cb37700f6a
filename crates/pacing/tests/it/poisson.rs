//! Poisson arrivals are Poisson arrivals. Seeds are fixed, so these tests pass or fail for good.

use pacing::{Arrivals, Nanos, Profile, Schedule};
use proptest::prelude::*;

use crate::samples::sequences;

const SEEDS: [u64; 4] = [0, 1, 42, u64::MAX];

fn schedule(profile: &Profile, seed: u64) -> Schedule {
    Schedule::new(profile.clone(), Arrivals::Poisson { seed })
}

fn constant(rate: &str, duration: &str) -> Profile {
    Profile::constant(rate.parse().unwrap(), Some(duration.parse().unwrap())).unwrap()
}

/// The greatest distance between the samples' distribution and `cdf` (Kolmogorov–Smirnov).
fn distance(mut samples: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let n = samples.len() as f64;
    let gaps = samples.iter().enumerate().map(|(i, &x)| {
        let expected = cdf(x);
        (expected - i as f64 / n).max((i + 1) as f64 / n - expected)
    });
    gaps.fold(0.0, f64::max)
}

/// Kolmogorov's bound at a significance of 0.001 for large n: 1.95 / sqrt(n)
/// (Smirnov, "Table for estimating the goodness of fit", 1948).
fn bound(n: usize) -> f64 {
    1.95 / (n as f64).sqrt()
}

#[test]
fn gaps_are_exponential() {
    let profile = constant("1000/s", "100s");
    for seed in SEEDS {
        let dues: Vec<_> = schedule(&profile, seed).iter().collect();
        let mut before = 0.0;
        let gaps: Vec<f64> = dues
            .iter()
            .map(|due| {
                let at = due.at.as_secs_f64() * 1_000.0;
                let gap = at - before;
                before = at;
                gap
            })
            .collect();
        let n = gaps.len();
        let mean = gaps.iter().sum::<f64>() / n as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n as f64;
        // Standard errors for n = 100,000: 0.0032 of the mean, 0.0089 of the variance.
        assert!((mean - 1.0).abs() < 0.011, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.03, "variance {variance}");
        let off = distance(gaps, |gap| 1.0 - (-gap).exp());
        assert!(off < bound(n), "{off} from exponential, seed {seed}");
    }
}

#[test]
fn gaps_do_not_remember() {
    let profile = constant("1000/s", "100s");
    let dues: Vec<_> = schedule(&profile, 7)
        .iter()
        .map(|due| due.at.as_secs_f64() * 1e3)
        .collect();
    let gaps: Vec<f64> = dues
        .windows(2)
        .map(|pair| pair[1] - pair[0] - 1.0)
        .collect();
    let correlation =
        gaps.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / gaps.len() as f64;
    assert!(
        correlation.abs() < 3.3 / (gaps.len() as f64).sqrt(),
        "{correlation}"
    );
}

#[test]
fn counts_have_equal_mean_and_variance() {
    let profile = constant("1000/s", "100s");
    let mut counts = vec![0_u32; 10_000];
    for due in schedule(&profile, 3).iter() {
        counts[usize::try_from(due.at.as_millis() / 10).unwrap()] += 1;
    }
    let n = counts.len() as f64;
    let mean = counts.iter().map(|&count| f64::from(count)).sum::<f64>() / n;
    let variance = counts
        .iter()
        .map(|&count| (f64::from(count) - mean).powi(2))
        .sum::<f64>()
        / n;
    // 10 expected in each window. Standard errors: 0.032 of the mean, 0.145 of the variance.
    assert!((mean - 10.0).abs() < 0.11, "mean {mean}");
    assert!((variance - 10.0).abs() < 0.5, "variance {variance}");
}

#[test]
fn the_intensity_follows_the_profile() {
    let shapes = [
        Profile::linear(
            "0/s".parse().unwrap(),
            "2000/s".parse().unwrap(),
            Nanos::from_secs(100),
        ),
        Profile::exponential(
            "1/s".parse().unwrap(),
            "5k/s".parse().unwrap(),
            Nanos::from_secs(100),
        ),
        Profile::sine(
            "1k/s".parse().unwrap(),
            "1k/s".parse().unwrap(),
            Nanos::from_secs(60),
            Nanos::from_secs(100),
        ),
    ];
    for profile in shapes.into_iter().map(Result::unwrap) {
        let total = profile.total().unwrap().as_f64();
        // Where each arrival lies in the integral is uniform.
        let places: Vec<f64> = schedule(&profile, 11)
            .iter()
            .map(|due| profile.integral(due.at).as_f64() / total)
            .collect();
        let n = places.len();
        assert!(
            (n as f64 - total).abs() < 3.3 * total.sqrt(),
            "{n} of {total}"
        );
        let off = distance(places, |place| place);
        assert!(off < bound(n), "{profile}: {off}");
    }
}

#[test]
fn a_seed_is_a_schedule() {
    let profile = constant("1000/s", "10s");
    let dues = |seed| schedule(&profile, seed).iter().collect::<Vec<_>>();
    assert_eq!(dues(5), dues(5));
    assert_ne!(dues(5), dues(6));
    // These instants must not change from version to version or machine to machine.
    let first: Vec<u64> = dues(5)
        .iter()
        .take(3)
        .map(|due| due.at.as_nanos())
        .collect();
    assert_eq!(first, FIRST_OF_SEED_5);
}

const FIRST_OF_SEED_5: [u64; 3] = [20_364, 2_265_918, 2_412_259];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn counted_as_walked(
        (_, profile) in sequences(Nanos::from_micros(10), Nanos::from_millis(20)),
        seed: u64,
        part in 0.0_f64..=1.0,
    ) {
        let end = profile.duration().unwrap();
        let schedule = schedule(&profile, seed);
        let dues: Vec<Nanos> = schedule.iter().map(|due| due.at).collect();
        prop_assert!(dues.is_sorted());
        prop_assert!(dues.last().is_none_or(|&at| at < end));
        prop_assert_eq!(schedule.planned(), Some(dues.len() as u64));
        let t = Nanos::new((end.as_nanos() as f64 * part) as u64);
        let before = dues.iter().filter(|&&at| at < t).count();
        prop_assert_eq!(schedule.due_before(t), before as u64);
    }
}
