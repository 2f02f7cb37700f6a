//! `txgen bigchaindb-benchmark`: the command line of BigchainDB's own benchmark, and its CSV.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use ops::command::{CommandError, failed, usage};
use pacing::Size;
use rpc::{BroadcastMethod, Endpoint};

use crate::chains::{TargetKind, WorkloadKind};
use crate::folder::RecordedRun;
use crate::output;
use crate::output::print;
use crate::plan::{Plan, Request, RequestedLoad, fresh_seed};
use crate::run::{self, Words};
use crate::settings::Settings;

/// Runs as bigchaindb-benchmark did, and writes its CSV.
pub(crate) fn play(args: BenchmarkArgs) -> Result<u8, CommandError> {
    if args.auth.is_some() {
        return Err(usage(anyhow!(
            "--auth: the headers app_id and app_key are not sent; put a user and a password into --peer, or leave it out"
        )));
    }
    let processes = args.processes.map_or_else(
        || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        NonZeroU32::get,
    );
    let request = Request {
        command: "bigchaindb-benchmark".into(),
        load: load(processes, args.requests),
        builtin: devnode::Blueprint::default(),
    };
    let bigchaindb = |text: &str| text.parse::<TargetKind>().map_err(|error| anyhow!(error));
    let create = |text: &str| text.parse::<WorkloadKind>().map_err(|error| anyhow!(error));
    let settings = Settings {
        endpoints: args.peer,
        target: Some(bigchaindb("bigchaindb").map_err(usage)?),
        workload: Some(create("bigchaindb-create").map_err(usage)?),
        broadcast_tx_method: args.mode,
        // Without it the asset's data is null, as in the original.
        size: (usize::from(args.size) > 0).then_some(args.size),
        out: args.out,
        ..Settings::default()
    };
    let plan = Plan::resolve(request, settings, fresh_seed()).map_err(usage)?;
    if args.dry_run {
        return Ok(print(&output::preview(&plan)));
    }
    let csv = File::create(&args.csv)
        .with_context(|| format!("--csv: cannot write {}", args.csv.display()))
        .map_err(usage)?;
    let outcome = run::start_on_signals(&plan, Words::All)?;
    write_csv(&outcome.folder, BufWriter::new(csv))
        .with_context(|| format!("cannot write {}", args.csv.display()))
        .map_err(failed)?;
    Ok(outcome.exit_code())
}

/// As many requests in flight as there were processes, each of which sent the same number: what does not divide was
/// left out. Of fewer requests than processes each had a process.
fn load(processes: u32, requests: NonZeroU64) -> RequestedLoad {
    let busy = requests.get().min(u64::from(processes)).max(1);
    RequestedLoad::Flood {
        concurrency: NonZeroU32::new(busy as u32).unwrap_or(NonZeroU32::MIN),
        count: requests.get() / busy * busy,
    }
}

/// The original's columns, in milliseconds of the wall clock, in the order of sending.
fn write_csv(folder: &Path, mut out: impl Write) -> anyhow::Result<()> {
    let mut txs = RecordedRun::open(folder)?.txs()?;
    writeln!(out, "txid,size,ts_send,ts_accept,ts_commit,ts_error")?;
    while let Some(tx) = txs.next_row()? {
        write!(out, "{},{},{}", tx.txid, tx.size, tx.send_unix_us / 1000)?;
        for stamp in [tx.accept_unix_us, tx.commit_unix_us, tx.error_unix_us] {
            write_stamp(&mut out, stamp)?;
        }
        writeln!(out)?;
    }
    Ok(out.flush()?)
}

fn write_stamp(out: &mut impl Write, unix_us: Option<u64>) -> io::Result<()> {
    match unix_us {
        Some(unix_us) => write!(out, ",{}", unix_us / 1000),
        None => write!(out, ","),
    }
}

/// `txgen bigchaindb-benchmark`
#[derive(Debug, Args)]
pub struct BenchmarkArgs {
    /// Where each transaction's row goes; it is overwritten.
    #[arg(long, default_value = "out.csv", value_name = "FILE")]
    pub csv: PathBuf,
    /// The API of a server, as <http://127.0.0.1:9984>; may be repeated. Without any a built-in node is started.
    #[arg(short, long, value_name = "URL")]
    pub peer: Vec<Endpoint>,
    /// Not supported: its headers are not sent.
    #[arg(short, long, value_name = "ID:KEY")]
    pub auth: Option<String>,
    /// Requests in flight, each on a connection [default: the number of cores].
    #[arg(long, value_name = "N")]
    pub processes: Option<NonZeroU32>,
    /// Accepted and ignored.
    #[arg(short, long, value_name = "LEVEL", hide = true)]
    pub log_level: Option<String>,
    /// Print the plan that it means, and send nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// The run folder; must not exist or be empty [default: runs/UTC-bigchaindb-benchmark].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The original's only command.
    #[arg(value_parser = ["send"], hide_possible_values = true, value_name = "send")]
    pub command: String,
    /// Characters of text in the asset's data; 0 makes it null.
    #[arg(short, long, default_value = "0", value_name = "N")]
    pub size: Size,
    /// When the server answers: sync, async or commit.
    #[arg(short, long, default_value = "sync", value_name = "MODE")]
    pub mode: BroadcastMethod,
    /// Transactions in all, over all peers.
    #[arg(short, long, default_value = "1", value_name = "N")]
    pub requests: NonZeroU64,
    /// Accepted and ignored, as by the original.
    #[arg(long = "unconfirmed_tx_th", value_name = "N", hide = true)]
    pub unconfirmed_tx_th: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_sends_as_many() {
        for (processes, requests, expected) in [
            (32, 1_000_000, (32, 1_000_000)),
            (32, 16_000, (32, 16_000)),
            (32, 100, (32, 96)),
            (32, 5, (5, 5)),
            (1, 1, (1, 1)),
        ] {
            let load = load(processes, NonZeroU64::new(requests).unwrap());
            let RequestedLoad::Flood { concurrency, count } = load else {
                panic!("{load:?}");
            };
            assert_eq!((concurrency.get(), count), expected);
        }
    }
}
