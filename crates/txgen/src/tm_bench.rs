//! `txgen tm-bench`: the flags and the table of Tendermint's old benchmark, with every block counted.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use measure::{BlockRow, Summary};
use ops::command::{CommandError, failed, usage};
use pacing::{Nanos, Rate, Size};
use report::{TmBench, TmBenchSpan};
use rpc::{BroadcastMethod, Endpoint, Transport};

use crate::exit;
use crate::folder::RecordedRun;
use crate::output::{self, grouped, recorded};
use crate::plan::{Plan, Request, RequestedLoad, fresh_seed};
use crate::run::{self, Words};
use crate::settings::Settings;

/// The command's name on the command line.
const NAME: &str = "tm-bench";

/// The command line with tm-bench's `-long-flags` written with two dashes, which Go's flag package
/// does not distinguish.
pub fn with_two_dashes(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.get(1).is_none_or(|command| command != NAME) {
        return arguments;
    }
    for argument in &mut arguments[2..] {
        let Some(text) = argument.to_str() else {
            continue;
        };
        let name = text.trim_start_matches('-');
        let dashes = text.len() - name.len();
        let long = name.split('=').next().is_some_and(|flag| flag.len() > 1);
        let flag = name.starts_with(|first: char| first.is_ascii_alphabetic());
        if dashes == 1 && long && flag && LONG_FLAGS.iter().any(|known| name.starts_with(known)) {
            *argument = format!("--{name}").into();
        } else if dashes == 2 && !long && flag {
            *argument = format!("-{name}").into();
        }
    }
    arguments
}

/// Flags of more than one letter; anything else after one dash is a letter with its value.
const LONG_FLAGS: [&str; 7] = [
    "broadcast-tx-method",
    "output-format",
    "window",
    "out",
    "seed",
    "help",
    "version",
];

/// Runs as tm-bench did and prints its table.
pub(crate) fn play(args: &TmBenchArgs) -> Result<u8, CommandError> {
    let endpoints = endpoints(&args.endpoints).map_err(usage)?;
    let format = args.output_format;
    let window = args.window.map(|window| window.get() as usize);
    let (rate, note) = total_rate(args, endpoints.len()).map_err(usage)?;
    let duration = Nanos::from_secs(u64::from(args.duration.get()));
    let request = Request {
        command: NAME.into(),
        load: RequestedLoad::constant(rate, duration).map_err(usage)?,
        builtin: devnode::Blueprint::default(),
    };
    let settings = settings(args, endpoints);
    let plan = Plan::resolve(request, settings, fresh_seed()).map_err(usage)?;
    let words = if args.verbose { Words::All } else { Words::Few };
    output::note(&note);
    let outcome = run::start_on_signals(&plan, words)?;
    let run = RecordedRun::open(&outcome.folder).map_err(failed)?;
    let blocks: Vec<BlockRow> = run.all_rows().map_err(failed)?;
    let span = span(&outcome.summary, duration);
    recorded::note_clock(&blocks, span);
    let all = TmBench::of(&blocks, span);
    let newest = window.map(|window| {
        let newest = Some(window);
        (window, TmBench::of(&blocks, TmBenchSpan { newest, ..span }))
    });
    let text = match format {
        TmBenchFormat::Plain => plain(&all, newest),
        TmBenchFormat::Json => json(&all, newest),
    };
    ops::command::print(text.as_bytes());
    let folder = outcome.folder.display();
    output::note(&format!("the run folder is {folder}"));
    match outcome.exit_code() {
        exit::INVALID => {
            let reasons = outcome.summary.verdict.reasons.join("; ");
            output::note(&format!("the load was not the planned one: {reasons}"));
            Ok(exit::INVALID)
        }
        code => Ok(code),
    }
}

fn endpoints(given: &[String]) -> anyhow::Result<Vec<Endpoint>> {
    given
        .iter()
        .flat_map(|list| list.split(','))
        .map(|text| {
            let address = text.strip_prefix("tcp://").unwrap_or(text);
            let url = if address.contains("://") {
                address.to_owned()
            } else {
                format!("{}://{address}", Transport::Ws)
            };
            url.parse::<Endpoint>()
                .with_context(|| format!("{text:?} is no endpoint; write host:port"))
        })
        .collect()
}

/// The rate over all connections, and the sentence that explains it.
fn total_rate(args: &TmBenchArgs, endpoints: usize) -> anyhow::Result<(Rate, String)> {
    let connections = u64::from(args.connections.get()) * endpoints.max(1) as u64;
    let total = u64::from(args.rate.get())
        .checked_mul(connections)
        .ok_or_else(|| anyhow!("-r times the connections is beyond every rate"))?;
    let rate = Rate::per_second(total)
        .with_context(|| format!("-r {} on each of {connections} connections", args.rate))?;
    let note = format!(
        "-r is per connection, as in tm-bench: {} a second on each of {connections} connection{} is \
         {} a second in all",
        grouped(u64::from(args.rate.get())),
        if connections == 1 { "" } else { "s" },
        grouped(total),
    );
    Ok((rate, note))
}

fn settings(args: &TmBenchArgs, endpoints: Vec<Endpoint>) -> Settings {
    Settings {
        endpoints,
        broadcast_tx_method: args.broadcast_tx_method,
        connections: Some(args.connections),
        transport: Some(Transport::Ws),
        size: Some(args.size),
        seed: args.seed,
        out: args.out.clone(),
        threads: Some(NonZeroU32::MIN),
        ..Settings::default()
    }
}

/// The span of offering, by the wall clock: what tm-bench compares the headers' times with.
fn span(summary: &Summary, duration: Nanos) -> TmBenchSpan {
    TmBenchSpan {
        origin_unix_ns: summary.time.origin_unix_ns,
        start_s: 0.0,
        seconds: duration.as_secs_f64().min(summary.time.offered_s),
        newest: None,
    }
}

fn plain(all: &TmBench, newest: Option<(usize, TmBench)>) -> String {
    match newest {
        None => all.to_string(),
        Some((window, newest)) => format!(
            "{all}\nof the newest {window} blocks alone, as tm-bench computed it before 22 June 2018:\n{newest}"
        ),
    }
}

fn json(all: &TmBench, newest: Option<(usize, TmBench)>) -> String {
    let mut document = object(all);
    if let Some((window, newest)) = newest {
        document["window"] = object(&newest);
        document["window"]["blocks"] = window.into();
    }
    format!("{document}\n")
}

/// tm-bench's own two keys, and the rest of its table.
fn object(bench: &TmBench) -> serde_json::Value {
    let mut document = serde_json::Map::new();
    for (name, row) in [("txs", bench.txs_per_sec), ("blocks", bench.blocks_per_sec)] {
        document.insert(format!("{name}_per_sec_avg"), row.avg.into());
        document.insert(format!("{name}_per_sec_stddev"), row.stddev.into());
        document.insert(format!("{name}_per_sec_max"), row.max.into());
        document.insert(format!("{name}_total"), row.total.into());
    }
    document.into()
}

/// `txgen tm-bench`
#[derive(Debug, Args)]
pub struct TmBenchArgs {
    /// The nodes as host:port, comma-separated; they are spoken to over WebSocket. Without any a
    /// built-in node is started.
    #[arg(value_name = "ENDPOINTS")]
    pub endpoints: Vec<String>,
    /// Connections per endpoint.
    #[arg(short = 'c', default_value = "1", value_name = "N")]
    pub connections: NonZeroU32,
    /// How long to send, in seconds.
    #[arg(short = 'T', default_value = "10", value_name = "SECONDS")]
    pub duration: NonZeroU32,
    /// Transactions a second on each connection.
    #[arg(short = 'r', default_value = "1000", value_name = "N")]
    pub rate: NonZeroU32,
    /// Size of a transaction: bytes, or with a unit such as 4kB.
    #[arg(short = 's', default_value = "250", value_name = "SIZE")]
    pub size: Size,
    /// Which broadcast call carries a transaction.
    #[arg(long, default_value = "async", value_name = "async|sync|commit")]
    pub broadcast_tx_method: BroadcastMethod,
    /// How the table is printed.
    #[arg(long, value_enum, default_value = "plain")]
    pub output_format: TmBenchFormat,
    /// Beside the true figures, those of the newest N blocks alone: with 21 what tm-bench printed
    /// until June 2018.
    #[arg(long, value_name = "N")]
    pub window: Option<NonZeroU32>,
    /// Show the run's progress and its own table too.
    #[arg(short = 'v')]
    pub verbose: bool,
    /// Makes the transactions repeatable.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The run folder; must not exist or be empty [default: runs/UTC-constant].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// How tm-bench prints its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TmBenchFormat {
    /// Aligned columns.
    Plain,
    /// One line of JSON.
    Json,
}

#[cfg(test)]
mod tests {
    use report::PerSecondStats;

    use super::*;

    fn dashes(line: &str) -> String {
        let words = line.split(' ').map(OsString::from);
        let words: Vec<String> = with_two_dashes(words)
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        words.join(" ")
    }

    #[test]
    fn long_flags_may_have_one_dash_and_letters_two() {
        assert_eq!(
            dashes(
                "txgen tm-bench -T 10 -r1000 -broadcast-tx-method=sync -output-format json --c 2"
            ),
            "txgen tm-bench -T 10 -r1000 --broadcast-tx-method=sync --output-format json -c 2"
        );
        // Values and other commands are left alone.
        assert_eq!(dashes("txgen constant -rate 5"), "txgen constant -rate 5");
        assert_eq!(
            dashes("txgen tm-bench host-out:1 -s 250"),
            "txgen tm-bench host-out:1 -s 250"
        );
    }

    #[test]
    fn the_old_keys_of_the_json_are_there() {
        let row = PerSecondStats {
            avg: 3981.1,
            stddev: 1993.2,
            max: 5000,
            total: 119_434,
        };
        let bench = TmBench {
            txs_per_sec: row,
            blocks_per_sec: row,
        };
        let document: serde_json::Value =
            serde_json::from_str(&json(&bench, Some((21, bench)))).unwrap();
        assert_eq!(document["txs_per_sec_avg"], 3981.1);
        assert_eq!(document["window"]["blocks_per_sec_avg"], 3981.1);
        assert_eq!(document["window"]["blocks"], 21);
    }

    #[test]
    fn endpoints_are_host_and_port() {
        let given = ["127.0.0.1:1,tcp://[::1]:2".into(), "http://x:3".into()];
        let urls: Vec<String> = endpoints(&given)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(urls[0].starts_with("ws://127.0.0.1:1"), "{urls:?}");
        assert!(urls[1].starts_with("ws://[::1]:2"), "{urls:?}");
        assert_eq!(urls.len(), 3);
        assert!(endpoints(&["a b:1".into()]).is_err());
    }
}
