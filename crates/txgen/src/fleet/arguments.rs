//! What of the coordinator's command line and environment is the workers'.

use anyhow::Context as _;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args as _, Command, CommandFactory as _};
use harness::StartAt;

use crate::cli::Cli;
use crate::settings::Settings;

/// The command line of a load as all workers get it: `load` and its flags (those of the coordinator's line where there
/// are none), then the common settings of that line, without what only the coordinator has; what each load of several
/// has of its own is taken from `settings`.
///
/// # Errors
/// When the line is none that the program understands.
pub(super) fn of_load(
    given: &[String],
    load: Option<&[String]>,
    settings: &Settings,
) -> anyhow::Result<Vec<String>> {
    let (command, matches) = parsed(given)?;
    let common = Settings::augment_args(Command::new(""));
    let mut line = load.map_or_else(|| vec![command.get_name().to_owned()], <[String]>::to_vec);
    if load.is_none() {
        let is_common = |arg: &Arg| common.get_arguments().any(|it| it.get_id() == arg.get_id());
        let own = command.get_arguments().filter(|arg| !is_common(arg));
        line.extend(own.flat_map(|arg| flags(arg, &matches)));
    }
    let names: Vec<&str> = load
        .iter()
        .flat_map(|load| load.iter().filter_map(|word| name_of(word)))
        .collect();
    let kept = common.get_arguments().filter(|arg| {
        !is_one_of(arg, &OWN) && !is_one_of(arg, &OF_EACH) && !is_one_of(arg, &names)
    });
    line.extend(kept.flat_map(|arg| flags(arg, &matches)));
    let thresholds = settings.threshold.iter();
    line.extend(thresholds.map(|it| format!("--threshold={it}")));
    line.extend(settings.seed.map(|it| format!("--seed={it}")));
    let accounts = settings.accounts_seed;
    line.extend(accounts.map(|it| format!("--accounts-seed={it}")));
    line.extend(settings.warmup.map(|it| format!("--warmup={it}")));
    Ok(line)
}

/// The command line of the worker that sends this part and starts at this instant.
pub(super) fn of_worker(load: &[String], shard: &str, start: StartAt) -> Vec<String> {
    let own = [
        format!("--shard={shard}"),
        format!("--start-at={start}"),
        "--report-interval=500ms".to_owned(),
        "--no-tui".to_owned(),
    ];
    load.iter().cloned().chain(own).collect()
}

/// The coordinator's variables: what they set is part of the load.
pub(super) fn environment() -> Vec<(String, String)> {
    let variables = std::env::vars();
    variables
        .filter(|(name, _)| name.starts_with(PREFIX) && name != "TXGEN_NATS")
        .collect()
}

/// The command of the line, and what it gives.
fn parsed(given: &[String]) -> anyhow::Result<(Command, ArgMatches)> {
    let mut program = Cli::command();
    program.build();
    let line = std::iter::once("txgen").chain(given.iter().map(String::as_str));
    let matches = program.clone().try_get_matches_from(line)?;
    let (name, matches) = matches.subcommand().context("a command is missing")?;
    let command = program.find_subcommand(name).context("no such command")?;
    Ok((command.clone(), matches.clone()))
}

/// What the line gives of a flag, a value at a time.
fn flags(arg: &Arg, matches: &ArgMatches) -> Vec<String> {
    let id = arg.get_id().as_str();
    let is_given = matches.value_source(id) == Some(ValueSource::CommandLine);
    let Some(name) = arg.get_long().filter(|_| is_given) else {
        return Vec::new();
    };
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return vec![format!("--{name}")];
    }
    let values = matches.get_raw(id).into_iter().flatten();
    values
        .map(|value| format!("--{name}={}", value.to_string_lossy()))
        .collect()
}

/// The name of a flag.
fn name_of(word: &str) -> Option<&str> {
    let name = word.strip_prefix("--")?;
    Some(name.split_once('=').map_or(name, |(name, _)| name))
}

fn is_one_of(arg: &Arg, names: &[&str]) -> bool {
    arg.get_long().is_some_and(|name| names.contains(&name))
}

/// Of the variables that are flags.
pub(super) const PREFIX: &str = "TXGEN_";

/// Flags that stay with the coordinator, or that each worker gets its own of.
const OWN: [&str; 10] = [
    "workers",
    "nats",
    "out",
    "seed",
    "start-at",
    "report-interval",
    "metrics",
    "ci",
    "profile-pid",
    "no-tui",
];
/// What one load of several has of its own.
const OF_EACH: [&str; 3] = ["threshold", "accounts-seed", "warmup"];

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_the_coordinator_s_own_stays_there() {
        let line = "constant -r 100/s --workers 3 --nats=nats://127.0.0.1:4222 -o whole --seed 7 -d 10s \
                    --no-tui --metrics 9100 --endpoints http://a:1,http://b:2 --size=250 --strict \
                    --threshold commit.p99<5s --threshold fate.errors==0";
        let settings = Settings {
            seed: Some(9),
            threshold: vec![
                "commit.p99<5s".parse().unwrap(),
                "fate.errors==0".parse().unwrap(),
            ],
            ..Settings::default()
        };
        let mut line = of_load(&words(line), None, &settings).unwrap();
        assert_eq!(
            (&*line.remove(0), line.pop().unwrap()),
            ("constant", "--seed=9".to_owned())
        );
        line.sort();
        assert_eq!(
            line,
            [
                "--duration=10s",
                "--endpoints=http://a:1",
                "--endpoints=http://b:2",
                "--rate=100/s",
                "--size=250",
                "--strict",
                "--threshold=commit.p99<5s",
                "--threshold=fate.errors==0"
            ]
        );
    }

    #[test]
    fn one_load_of_several_has_the_common_settings_and_what_is_its_own() {
        let line = "search --slo commit.p95<5s -d 10s --max 9k/s --workers 3 --nats nats://127.0.0.1:4222 --warmup 1s \
                    -c 3 --transport http --endpoints http://user:secret@a:1";
        let settings = Settings {
            seed: Some(8),
            accounts_seed: Some(7),
            warmup: Some(pacing::Nanos::from_secs(5)),
            threshold: vec!["commit.p95<5s".parse().unwrap()],
            ..Settings::default()
        };
        let load = words("constant --rate=250/s --duration=20s --transport ws");
        let mut line = of_load(&words(line), Some(&load), &settings).unwrap();
        let rest = line.split_off(load.len());
        assert_eq!(line, load);
        let mut rest = rest;
        rest.sort();
        assert_eq!(
            rest,
            [
                "--accounts-seed=7",
                "--connections=3",
                "--endpoints=http://user:secret@a:1",
                "--seed=8",
                "--threshold=commit.p95<5s",
                "--warmup=5s"
            ]
        );
        // A worker understands it.
        let start = StartAt::new(1_795_293_000_000_000_000, 0);
        let whole: Vec<String> = line.into_iter().chain(rest).collect();
        let order = of_worker(&whole, "1/3", start);
        let (command, matches) = parsed(&order).unwrap();
        assert_eq!(command.get_name(), "constant");
        assert_eq!(matches.get_one::<u64>("accounts_seed"), Some(&7));
    }

    #[test]
    fn a_worker_reads_its_part_and_the_common_start_by_its_own_clock() {
        for ahead_ns in [0, 200_000_000, -7] {
            let start = StartAt::new(1_795_293_000_000_000_000, ahead_ns);
            let line = of_worker(&["constant".to_owned()], "2/3", start);
            let line = line.into_iter().map(|argument| argument.replace('=', " "));
            let line = line.collect::<Vec<_>>().join(" ");
            let words: Vec<&str> = line.split(' ').collect();
            let value = |flag| words[words.iter().position(|word| *word == flag).unwrap() + 1];
            assert_eq!((words[0], value("--shard")), ("constant", "2/3"));
            assert_eq!(value("--start-at").parse(), Ok(start));
        }
    }
}
