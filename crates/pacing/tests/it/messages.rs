//! Every refusal, with a message that says what to do.

use std::num::NonZeroU32;

use pacing::{Arrivals, CatchUp, Nanos, Profile, ProfileError, Rate, SignedRate};
use proptest::prelude::*;

fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

fn time(text: &str) -> Nanos {
    text.parse().unwrap()
}

#[track_caller]
fn refused(result: Result<Profile, ProfileError>, with: &str) {
    let message = result.unwrap_err().to_string();
    assert!(message.contains(with), "{message:?} does not say {with:?}");
    assert!(!message.ends_with('.'), "{message}");
}

fn ramp(start: &str, step: &str, every: &str, to: Option<&str>) -> Result<Profile, ProfileError> {
    let step: SignedRate = step.parse().unwrap();
    Profile::steps(rate(start), step, time(every), to.map(rate))
}

fn square(
    high: &str,
    low: &str,
    on: &str,
    off: &str,
    cycles: u32,
) -> Result<Profile, ProfileError> {
    let cycles = NonZeroU32::new(cycles).unwrap();
    Profile::square(rate(high), rate(low), time(on), time(off), cycles)
}

#[test]
fn nothing_offered() {
    refused(
        Profile::constant(Rate::ZERO, None),
        "the rate is 0/s: a profile must offer something",
    );
    refused(
        Profile::linear(Rate::ZERO, Rate::ZERO, time("1s")),
        "the rate at both ends is 0/s",
    );
    refused(square("0", "0", "1s", "1s", 1), "the high rate is 0/s");
    refused(
        Profile::sine(Rate::ZERO, Rate::ZERO, time("1s"), time("1s")),
        "the mean rate is 0/s",
    );
    refused(
        ramp("0", "1", "1s", Some("0")),
        "the rate of every step is 0/s",
    );
    refused(
        Profile::trace([(Nanos::ZERO, Rate::ZERO)], None),
        "every rate of the trace is 0/s",
    );
    let pauses = vec![Profile::pause(time("1s")).unwrap(); 2];
    refused(Profile::phases(pauses), "the rate of every phase is 0/s");
}

#[test]
fn zero_and_overlong_durations() {
    let one = rate("1");
    refused(
        Profile::constant(one, Some(Nanos::ZERO)),
        "the duration is zero: use a duration above zero",
    );
    refused(
        Profile::constant(one, Some(Nanos::MAX)),
        "the duration is too long: a profile lasts at most 8784h",
    );
    refused(Profile::pause(Nanos::ZERO), "the pause is zero");
    refused(Profile::linear(one, one, Nanos::ZERO), "zero");
    refused(Profile::linear(one, one, Nanos::MAX), "too long");
    refused(Profile::exponential(one, one, Nanos::ZERO), "zero");
    refused(Profile::exponential(one, one, Nanos::MAX), "too long");
    refused(
        Profile::sine(one, one, Nanos::ZERO, time("1s")),
        "the period of the sine is zero",
    );
    refused(
        Profile::sine(one, one, time("1s"), Nanos::ZERO),
        "the duration of the sine is zero",
    );
    refused(Profile::sine(one, one, Nanos::MAX, time("1s")), "too long");
    refused(ramp("1", "1", "0s", None), "the time between steps is zero");
    refused(ramp("1", "1", "300d", Some("3")), "the ramp is too long");
    refused(square("1", "0", "0s", "1s", 1), "the on time is zero");
    refused(square("1", "0", "1s", "0s", 1), "the off time is zero");
    refused(
        square("1", "0", "1d", "1d", 1_000_000),
        "the square wave is too long",
    );
    let long = Profile::constant(one, Some(time("300d"))).unwrap();
    refused(
        Profile::phases(vec![long.clone(); 2]),
        "the sequence of phases is too long",
    );
    refused(
        Profile::phases(vec![long; 1_000_000]),
        "the sequence of phases is too long",
    );
}

#[test]
fn impossible_ramps() {
    refused(ramp("1", "0", "1s", None), "the step is 0/s");
    refused(
        ramp("10", "-4", "1s", None),
        "the step -4/s makes the rate negative: from 10/s it falls below 0/s at step 3",
    );
    refused(ramp("8", "-4", "1s", None), "at step 3");
    refused(
        ramp("10", "4", "1s", Some("5")),
        "a step of +4/s never leads from 10/s to 5/s",
    );
    refused(
        ramp("10", "-4", "1s", Some("50")),
        "a step of -4/s never leads from 10/s to 50/s",
    );
    refused(
        ramp("0", "0.000001", "1ns", Some("10M")),
        "the profile has 10000000000001 steps: at most 16777216",
    );
}

#[test]
fn impossible_waves() {
    refused(
        square("5", "5", "1s", "1s", 1),
        "the low rate 5/s is not below the high rate 5/s",
    );
    refused(
        square("5", "6", "1s", "1s", 1),
        "the low rate 6/s is not below the high rate 5/s",
    );
    refused(
        square("5", "0", "1ns", "1ns", u32::MAX),
        "the profile has 8589934590 steps",
    );
    let sine = |mean, amplitude| Profile::sine(rate(mean), rate(amplitude), time("1s"), time("1s"));
    refused(sine("5", "6"), "the amplitude 6/s is above the mean 5/s");
    refused(
        sine("6M", "5M"),
        "mean 6000000/s and amplitude 5000000/s add up to more than 10000000/s",
    );
    refused(
        Profile::exponential(Rate::ZERO, rate("1"), time("1s")),
        "cannot start at 0/s",
    );
    refused(
        Profile::exponential(rate("1"), Rate::ZERO, time("1s")),
        "cannot end at 0/s",
    );
}

#[test]
fn impossible_traces_and_phases() {
    let one = rate("1");
    let trace = |seconds: &[u64], end| {
        Profile::trace(seconds.iter().map(|&at| (Nanos::from_secs(at), one)), end)
    };
    refused(
        trace(&[], None),
        "the trace is empty: give at least one row of second,rate",
    );
    refused(
        trace(&[1], None),
        "point 1: the first row is at 1s: a trace begins at second 0",
    );
    refused(
        trace(&[0, 2, 2], None),
        "point 3: time 2s is not after 2s of the row before",
    );
    refused(
        trace(&[0, 2], Some(time("2s"))),
        "the end 2s of the trace is not after its last point at 2s",
    );
    refused(
        Profile::phases(vec![]),
        "the list of phases is empty: give at least one phase",
    );
    let endless = Profile::constant(one, None).unwrap();
    let short = Profile::constant(one, Some(time("1s"))).unwrap();
    refused(
        Profile::phases(vec![short.clone(), endless, short]),
        "phase 2 (constant) has no end, but others follow it: give it a duration",
    );
}

proptest! {
    /// Nothing that is typed or read from a file breaks a parser, and what one refuses it shows.
    #[test]
    fn parsers_survive_anything(text in "\\PC{0,30}", numbers in "[-+0-9.,:/kMsmhdun #\n]{0,40}") {
        for text in [&text, &numbers] {
            let refusals = [
                text.parse::<Rate>().err(),
                text.parse::<SignedRate>().err(),
                text.parse::<Nanos>().err(),
                text.parse::<Arrivals>().err(),
                text.parse::<CatchUp>().err(),
            ];
            for refusal in refusals.into_iter().flatten() {
                let message = refusal.to_string();
                prop_assert!(message.contains(text.as_str()), "{message}");
            }
            let _ = Profile::parse_trace(text);
            let _ = Profile::parse_trace(&format!("0,1\n{text}"));
        }
    }
}
