//! A profile as a chart, and the first due times under each kind of arrivals.
//!
//! `cargo run --release --example profile_preview [TRACE.csv]`
//!
//! Without a file it shows a day in the life of a node: a slow morning, two rushes, an even way down
//! to the evening. Each line of the chart is an equal span of time with its mean rate: the bar is made from
//! the integral of the profile, the same integral that decides when each transaction is due. Below it,
//! the same transactions spread evenly, at random, and in bursts: different instants, one rate.

// A program that shows something prints it.
#![allow(clippy::print_stdout)]

use anyhow::{Context as _, Result};
use pacing::{Arrivals, Nanos, Profile, Schedule};

fn main() -> Result<()> {
    let profile = match std::env::args().nth(1) {
        Some(path) => {
            let text =
                std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
            Profile::parse_trace(&text).with_context(|| format!("{path} is not a trace"))?
        }
        None => a_day()?,
    };
    println!("{profile}\n");
    chart(&profile);
    println!("\nfirst due times, in milliseconds");
    for arrivals in ["even", "poisson", "burst:4"] {
        first_due(&profile, arrivals.parse::<Arrivals>()?.with_seed(7));
    }
    Ok(())
}

/// A day that takes 24 s.
fn a_day() -> Result<Profile> {
    let seconds = Nanos::from_secs;
    Ok(Profile::phases([
        Profile::exponential("20/s".parse()?, "800/s".parse()?, seconds(8))?,
        Profile::sine("800/s".parse()?, "400/s".parse()?, seconds(6), seconds(12))?,
        Profile::linear("800/s".parse()?, "100/s".parse()?, seconds(4))?,
    ])?)
}

fn chart(profile: &Profile) {
    let Some(end) = profile.duration() else {
        return;
    };
    let bound = |row: u64| Nanos::from_nanos(end.as_nanos() / ROWS * row);
    for row in 0..ROWS {
        let (from, to) = (bound(row), bound(row + 1));
        let count = profile.integral(to).as_f64() - profile.integral(from).as_f64();
        let rate = count / to.saturating_sub(from).as_secs_f64();
        let width = (rate / profile.peak().as_f64() * WIDTH).round() as usize;
        println!(
            "{:>7.2} s │{:<60}│ {rate:>7.1}/s",
            from.as_secs_f64(),
            "█".repeat(width)
        );
    }
    let planned = profile.total().map_or(0.0, |total| total.as_f64());
    println!(
        "{:>7.2} s └ {planned:.0} transactions in all",
        end.as_secs_f64()
    );
}

fn first_due(profile: &Profile, arrivals: Arrivals) {
    let schedule = Schedule::new(profile.clone(), arrivals);
    let due: Vec<String> = schedule
        .iter()
        .take(FIRST)
        .map(|due| format!("{:.1}", due.at.as_millis_f64()))
        .collect();
    let planned = schedule.planned().unwrap_or_default();
    println!(
        "{:<8} {} …, {planned} in all",
        arrivals.to_string(),
        due.join("  ")
    );
}

const ROWS: u64 = 24;
const WIDTH: f64 = 60.0;
const FIRST: usize = 9;
