//! `txgen search`: many short runs at one rate each, and the knee they show. The rates are chosen from the
//! points before, or given as a list (`--rates`).

mod account;
mod page;
mod session;
mod words;

use std::path::PathBuf;

use account::{Ended, because_words};
use anyhow::anyhow;
use measure::limits::MIN_TREND_BLOCKS;
use measure::{KneeSearch, KneeSettings, Next, SearchTime, TimedSearch};
use ops::command::{CommandError, usage};
use pacing::{Nanos, Rate};
use session::{PointEnd, Session};
use words::{ending_words, list_ended, list_words};

use crate::chains::WorkloadKind;
use crate::cli::{PointArgs, Rates, SearchArgs};
use crate::plan::{Plan, Request, RequestedLoad};
use crate::settings::Settings;
use crate::shutdown::Shutdown;
use crate::{fleet, output};

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

/// What every point has in common.
struct SearchRequest {
    points: PointArgs,
    settings: Settings,
    seed: u64,
}

impl SearchRequest {
    /// `fresh_seed` serves where the settings name none.
    fn new(points: PointArgs, settings: Settings, fresh_seed: u64) -> Self {
        Self {
            seed: settings.seed.unwrap_or(fresh_seed),
            points,
            settings,
        }
    }

    fn is_dry(&self) -> bool {
        self.settings.dry_run
    }

    fn preview(&self, rate: Rate, words: &str) -> Result<u8, CommandError> {
        let plan = self.plan(0, rate, self.points.duration, None)?;
        let text = format!("{words}\nthe first point:\n{}", output::preview(&plan));
        Ok(output::print(&text))
    }

    /// The plan of one point.
    fn plan(
        &self,
        number: usize,
        rate: Rate,
        duration: Nanos,
        out: Option<PathBuf>,
    ) -> Result<Plan, CommandError> {
        let settings = Settings {
            out,
            ..self.settings(number, duration)?
        };
        let request = Request {
            command: "search".into(),
            load: RequestedLoad::constant(rate, duration).map_err(usage)?,
            builtin: devnode::Blueprint::default(),
        };
        Plan::resolve(request, settings, self.seed).map_err(usage)
    }

    /// How long a point takes that has this length, in parts of the usual one, on a chain whose blocks come at this
    /// interval (zero: unknown).
    fn point_duration(&self, length: f64, block_interval: Nanos) -> Nanos {
        let (usual, warmup) = (self.points.duration, self.settings.warmup);
        point_duration(usual, warmup, length, block_interval)
    }

    /// What one point has for settings. Every point has a seed of its own, so that no transaction comes twice.
    fn settings(&self, number: usize, duration: Nanos) -> Result<Settings, CommandError> {
        let settings = &self.settings;
        if matches!(settings.workload, Some(WorkloadKind::File(_))) {
            return Err(usage(anyhow!(
                "search needs new transactions for each point, and a file would repeat its own; use another --workload"
            )));
        }
        if !settings.threshold.is_empty() {
            return Err(usage(anyhow!(
                "search takes its conditions from --slo; write --slo instead of --threshold"
            )));
        }
        if settings.shard.is_some() || settings.start_at.is_some() {
            return Err(usage(anyhow!(
                "search decides each rate from the points before; --shard and --start-at are for single runs"
            )));
        }
        let quarter = Nanos::from_nanos(duration.as_nanos() / WARMUP_PART);
        fleet::divided(Settings {
            seed: Some(self.seed.wrapping_add(number as u64)),
            warmup: settings.warmup.or(Some(quarter)),
            threshold: self.points.slo.iter().map(|it| it.0.clone()).collect(),
            // Those of all points are the same: they were funded.
            accounts_seed: Some(self.seed),
            ..settings.clone()
        })
        .map_err(usage)
    }
}

/// The first of as many parts of a point is not judged.
const WARMUP_PART: u64 = 4;
const TENTH: Nanos = Nanos::from_millis(100);

/// A point is at least as long as the blocks that a trend needs take after the warm-up. A warm-up that the user has set
/// was set for the whole duration. In whole tenths of seconds.
fn point_duration(
    usual: Nanos,
    warmup: Option<Nanos>,
    length: f64,
    block_interval: Nanos,
) -> Nanos {
    let blocks = block_interval.saturating_mul(MIN_TREND_BLOCKS as u64);
    let (length, least) = match warmup {
        Some(warmup) => (length.max(1.0), warmup.saturating_add(blocks)),
        None => {
            let times = blocks.saturating_mul(WARMUP_PART);
            let nanos = times.as_nanos().div_ceil(WARMUP_PART - 1);
            (length, Nanos::from_nanos(nanos))
        }
    };
    let wanted = Nanos::from_nanos((usual.as_nanos() as f64 * length) as u64).max(least);
    TENTH.saturating_mul(wanted.as_nanos().div_ceil(TENTH.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_as_long_as_its_warm_up_and_the_blocks_of_a_trend() {
        let seconds = |text: &str| text.parse::<Nanos>().unwrap();
        for (usual, warmup, length, interval, expected) in [
            // Half of 5 s at blocks of 1 s: 5 of them in three quarters of it.
            ("5s", None, 0.5, "1s", "6.7s"),
            ("5s", None, 0.5, "0s", "2.5s"),
            ("20s", None, 0.5, "1s", "10s"),
            ("20s", None, 0.5, "600s", "4000s"),
            // The user's warm-up is left as it is.
            ("5s", Some("4s"), 0.5, "1s", "9s"),
            ("5s", Some("4s"), 2.0, "0.2s", "10s"),
            // What is left of a time is no odd number.
            ("20s", None, 1.187_291_7, "1s", "23.8s"),
        ] {
            let took = point_duration(
                seconds(usual),
                warmup.map(seconds),
                length,
                seconds(interval),
            );
            assert_eq!(took, seconds(expected), "{usual}, {warmup:?}, {interval}");
        }
    }
}
