//! Profiles whose due times a person can check.

use std::num::NonZeroU32;

use pacing::{Arrivals, Nanos, Profile, Rate, Schedule, SignedRate, Step};

fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

fn change(text: &str) -> SignedRate {
    text.parse().unwrap()
}

fn time(text: &str) -> Nanos {
    text.parse().unwrap()
}

fn dues(profile: &Profile) -> Vec<f64> {
    let schedule = Schedule::new(profile.clone(), Arrivals::Even);
    schedule.iter().map(|due| due.at.as_secs_f64()).collect()
}

#[test]
fn constant() {
    let profile = Profile::constant(rate("2/s"), Some(time("2s"))).unwrap();
    assert_eq!(dues(&profile), [0.0, 0.5, 1.0, 1.5]);
    assert_eq!(profile.to_string(), "constant 2/s for 2s");
    assert_eq!(profile.name(), "constant");
    let step = profile.step_at(time("1s"));
    assert_eq!(
        (step.index, step.start, step.end),
        (0, Nanos::ZERO, Some(time("2s")))
    );
}

#[test]
fn constant_until_stopped() {
    let profile = Profile::constant(rate("1M/s"), None).unwrap();
    assert_eq!(profile.duration(), None);
    assert_eq!(profile.step_at(time("1h")).end, None);
    assert_eq!(profile.total(), None);
    assert_eq!(profile.to_string(), "constant 1000000/s until stopped");
    let schedule = Schedule::new(profile, Arrivals::Even);
    assert_eq!(schedule.planned(), None);
    assert_eq!(schedule.due_before(time("1h")), 3_600_000_000);
}

#[test]
fn a_fraction_counts_as_soon_as_it_begins() {
    let profile = Profile::constant(rate("0.1/s"), Some(time("15s"))).unwrap();
    assert_eq!(dues(&profile), [0.0, 10.0]);
    assert_eq!(profile.total().unwrap().to_string(), "1.5");
}

#[test]
fn ramp_in_steps() {
    let profile = Profile::steps(rate("1"), change("500"), time("2s"), Some(rate("2001"))).unwrap();
    let rates: Vec<f64> = profile
        .iter_steps()
        .map(|step| step.rate.as_f64())
        .collect();
    assert_eq!(rates, [1.0, 501.0, 1001.0, 1501.0, 2001.0]);
    assert_eq!(profile.duration(), Some(time("10s")));
    assert_eq!(
        profile.total().unwrap().whole(),
        2 * (1 + 501 + 1001 + 1501 + 2001)
    );
    assert_eq!(profile.to_string(), "ramp 1/s +500/s every 2s to 2001/s");
    assert_eq!(profile.step_at(time("4s")).index, 2);
    let begun = |step: &Step| step.start < time("4s");
    assert_eq!(profile.iter_steps().take_while(begun).count(), 2);
}

#[test]
fn a_ramp_that_would_pass_its_end_stops_there() {
    let rising = Profile::steps(rate("1"), change("500"), time("30s"), Some(rate("7000"))).unwrap();
    let last = rising.iter_steps().last().unwrap();
    assert_eq!((last.index, last.rate), (14, rate("7000")));
    let falling = Profile::steps(rate("10"), change("-4"), time("1s"), Some(rate("0"))).unwrap();
    let rates: Vec<f64> = falling
        .iter_steps()
        .map(|step| step.rate.as_f64())
        .collect();
    assert_eq!(rates, [10.0, 6.0, 2.0, 0.0]);
    assert!(falling.step(3).unwrap().pause);
    assert_eq!(falling.total().unwrap().whole(), 18);
    let flat = Profile::steps(rate("5"), change("1"), time("1s"), Some(rate("5"))).unwrap();
    assert_eq!(flat.step_count(), 1);
}

#[test]
fn a_ramp_until_stopped_ends_below_ten_million() {
    let profile = Profile::steps(rate("1"), change("500"), time("30s"), None).unwrap();
    assert_eq!(profile.duration(), None);
    assert_eq!(profile.step_count(), 20_000);
    assert_eq!(profile.peak(), rate("9999501"));
    let last = profile.step(19_999).unwrap();
    assert_eq!(last.end, Some(time("600000s")));
    assert_eq!(profile.step(20_000), None);
    assert_eq!(profile.rate_at(time("600000s")), Rate::ZERO);
    assert_eq!(
        profile.to_string(),
        "ramp 1/s +500/s every 30s until stopped"
    );
}

#[test]
fn square_wave() {
    let cycles = NonZeroU32::new(2).unwrap();
    let profile = Profile::square(rate("2"), rate("0"), time("1s"), time("3s"), cycles).unwrap();
    assert_eq!(dues(&profile), [0.0, 0.5, 4.0, 4.5]);
    assert_eq!(profile.duration(), Some(time("8s")));
    let steps: Vec<_> = profile
        .iter_steps()
        .map(|step| (step.start.as_secs(), step.pause))
        .collect();
    assert_eq!(steps, [(0, false), (1, true), (4, false), (5, true)]);
    assert_eq!(
        profile.to_string(),
        "square 2/s for 1s, 0/s for 3s, 2 times"
    );
    let low = Profile::square(rate("2"), rate("1"), time("1s"), time("3s"), cycles).unwrap();
    assert_eq!(
        dues(&low),
        [0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 4.5, 5.0, 6.0, 7.0]
    );
    assert!(
        low.step(1).unwrap().pause,
        "the low half is a rest even if it offers something"
    );
}

#[test]
fn linear_ramp() {
    let profile = Profile::linear(rate("0"), rate("8"), time("4s")).unwrap();
    // The integral is t²: the i-th is due at the root of i, exactly so at a whole millisecond.
    let due = dues(&profile);
    assert_eq!(due.len(), 16);
    for (i, at) in due.iter().enumerate() {
        assert!((at - (i as f64).sqrt()).abs() < 2e-7);
    }
    assert_eq!([due[0], due[1], due[4], due[9]], [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(profile.rate_at(time("1s")), rate("2"));
    assert_eq!(profile.step_at(time("1s")).rate, rate("4"));
    assert_eq!(profile.to_string(), "linear 0/s to 8/s in 4s");
}

#[test]
fn trace_from_csv() {
    let text = "\u{feff}second,rate\r\n# a comment\r\n0, 2\r\n1,0\r\n\r\n2.5,1/s\r\n4,30k/m\r\n";
    let profile = Profile::parse_trace(text).unwrap();
    let rows: Vec<_> = profile
        .iter_steps()
        .map(|step| (step.start.as_millis(), step.rate.as_f64()))
        .collect();
    assert_eq!(rows, [(0, 2.0), (1000, 0.0), (2500, 1.0), (4000, 500.0)]);
    // The last row holds as long as the one before it.
    assert_eq!(profile.duration(), Some(time("5.5s")));
    assert_eq!(profile.to_string(), "trace of 4 rows for 5.5s, up to 500/s");
    let lone = Profile::parse_trace("0,3").unwrap();
    assert_eq!((lone.duration(), dues(&lone).len()), (Some(time("1s")), 3));
    let given = Profile::trace([(Nanos::ZERO, rate("3"))], Some(time("2s"))).unwrap();
    assert_eq!(dues(&given).len(), 6);
}

#[test]
fn phases_carry_fractions_over() {
    let half = Profile::constant(rate("1"), Some(time("0.5s"))).unwrap();
    let rest = Profile::pause(time("1s")).unwrap();
    let profile = Profile::phases(vec![half.clone(), rest, half.clone(), half]).unwrap();
    // 0.5 before the rest and 0.5 after it make one; the second begins 0.5 s later.
    assert_eq!(dues(&profile), [0.0, 2.0]);
    assert_eq!(profile.step_count(), 4);
    assert_eq!(profile.name(), "phases");
    assert_eq!(
        profile.to_string(),
        "constant 1/s for 0.5s, then pause for 1s, then constant 1/s for 0.5s, then constant 1/s for 0.5s"
    );
}

#[test]
fn the_last_phase_may_run_until_stopped() {
    let warm = Profile::constant(rate("10"), Some(time("1s"))).unwrap();
    let on = Profile::constant(rate("1"), None).unwrap();
    let profile = Profile::phases(vec![warm, on]).unwrap();
    assert_eq!(profile.duration(), None);
    let schedule = Schedule::new(profile, Arrivals::Even);
    assert_eq!(schedule.due(12), Some(time("3s")));
    assert_eq!(schedule.iter().nth(12).unwrap().at, time("3s"));
}

#[test]
fn a_pause_alone_offers_nothing() {
    let pause = Profile::pause(time("1s")).unwrap();
    assert_eq!(pause.name(), "pause");
    for arrivals in ["even", "poisson", "burst:3"] {
        let schedule = Schedule::new(pause.clone(), arrivals.parse().unwrap());
        assert_eq!(
            (schedule.planned(), schedule.iter().next()),
            (Some(0), None)
        );
        assert_eq!(schedule.due(0), None);
    }
}

#[test]
fn bursts() {
    let profile = Profile::constant(rate("10"), Some(time("1s"))).unwrap();
    let size = NonZeroU32::new(4).unwrap();
    let schedule = Schedule::new(profile, Arrivals::Burst { size });
    let dues: Vec<u64> = schedule.iter().map(|due| due.at.as_millis()).collect();
    assert_eq!(dues, [0, 0, 0, 0, 400, 400, 400, 400, 800, 800]);
    assert_eq!(schedule.due_before(time("1ms")), 4);
    assert_eq!(schedule.due_before(time("900ms")), 10);
}
