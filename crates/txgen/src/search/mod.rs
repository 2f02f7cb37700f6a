//! `txgen search`: many short runs at one rate each, and the knee they show. The rates are chosen from the
//! points before, or given as a list (`--rates`).

mod account;
mod page;
mod request;
mod session;
mod words;

use account::{Ended, because_words};
use anyhow::anyhow;
use measure::{KneeSearch, KneeSettings, Next, SearchTime, TimedSearch};
use ops::command::{CommandError, usage};
use request::SearchRequest;
use session::{PointEnd, Session};
use words::{ending_words, list_ended, list_words};

use crate::cli::{Rates, SearchArgs};
use crate::shutdown::Shutdown;

/// Finds the knee, or measures a list of rates; gives the exit code.
///
/// # Errors
/// When the target, the folder or the points cannot be used, or a point fails.
pub fn execute(args: SearchArgs, seed: u64, shutdown: &Shutdown) -> Result<u8, CommandError> {
    match args.rates.clone() {
        Some(rates) => measure_list(args, &rates, seed, shutdown),
        None => find_knee(args, seed, shutdown),
    }
}

fn knee_settings(args: &SearchArgs) -> Result<KneeSettings, CommandError> {
    if args.min > args.max {
        return Err(usage(anyhow!(
            "--min {} is above --max {}",
            args.min,
            args.max
        )));
    }
    Ok(KneeSettings {
        from: args.from.as_f64(),
        min: args.min.as_f64(),
        max: args.max.as_f64(),
        precision: args.precision.as_f64(),
        ..KneeSettings::default()
    })
}

fn find_knee(args: SearchArgs, seed: u64, shutdown: &Shutdown) -> Result<u8, CommandError> {
    let settings = knee_settings(&args)?;
    let request = SearchRequest::new(args.points, args.settings, seed);
    if request.is_dry() {
        return request.preview(args.from, &format!(
            "looks for the highest rate sustained from {} on, between {} and {}, for {} at most\n",
            args.from, args.min, args.max, args.time_limit
        ));
    }
    let mut session = Session::open(request, args.from, shutdown)?;
    let time = SearchTime {
        limit: args.time_limit,
        trial: session.request.points.duration,
        confirm: args.confirm,
    };
    let mut search = TimedSearch::new(settings, time);
    let ending = loop {
        let (rate, because, length) =
            match search.next(session.elapsed(), |it| session.duration(it)) {
                Next::Try {
                    rate,
                    because,
                    length,
                } => (rate, because, length),
                Next::Done(ending) => break ending,
            };
        let end = session.point(rate, &because_words(because), length)?;
        if let Some(trial) = end.trial() {
            search.add(trial);
            session.tested(because, search.is_refuted());
        }
        if !matches!(end, PointEnd::Measured(_)) {
            return session.conclude(search.known());
        }
        session.learn(search.known())?;
    };
    let (ended, reason) = ending_words(ending, search.known(), args.time_limit, &session.account);
    session.account.ended = ended;
    session.account.reason = reason;
    session.conclude(search.known())
}

fn measure_list(
    args: SearchArgs,
    list: &Rates,
    seed: u64,
    shutdown: &Shutdown,
) -> Result<u8, CommandError> {
    let rates = list.as_slice();
    let first = rates[0];
    let request = SearchRequest::new(args.points, args.settings, seed);
    let count = rates.len() as u64 * u64::from(args.repeats.get());
    if request.is_dry() {
        let least = request.points.duration.saturating_mul(count);
        return request.preview(
            first,
            &format!("offers {count} points one after the other, {least} at least: {list}\n"),
        );
    }
    let mut session = Session::open(request, first, shutdown)?;
    let mut trials = Vec::new();
    for (place, rate) in (0..args.repeats.get()).flat_map(|_| rates).enumerate() {
        let because = format!("{} of {count}", place + 1);
        let rate = rate.as_f64();
        let step = session.point(rate, &because, 1.0)?;
        let (PointEnd::Measured(trial) | PointEnd::Last(trial)) = step else {
            break;
        };
        trials.push(trial);
        let known = KneeSearch::of_trials(&trials, KneeSettings::default().confidence);
        session.learn(&known)?;
        if matches!(step, PointEnd::Last(_)) {
            break;
        }
    }
    let known = KneeSearch::of_trials(&trials, KneeSettings::default().confidence);
    if session.account.ended == Ended::Running {
        session.account.ended = list_ended(&trials);
        session.account.reason = list_words(&known);
    }
    session.conclude(&known)
}
