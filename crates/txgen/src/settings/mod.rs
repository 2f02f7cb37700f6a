//! What all load commands share, as flags and as the `[settings]` table of a scenario file.

mod given;
mod observed;

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use chain::{Chain, ChainDepth, FileFormat};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use harness::{Part, StartAt, text};
use measure::KeptRows;
use ops::ListenAddress;
use pacing::{Arrivals, Nanos, Size};
use rpc::{BroadcastMethod, Endpoint, Transport};
use sender::shard::Rules;
use serde::Deserialize;

pub use self::given::GivenSettings;
pub use self::observed::{Observed, ObservedError};
pub use harness::Share;

use crate::chains::{ChainSettings, TargetKind, WorkloadKind};
use crate::profiler::ProfiledProcess;
use crate::threshold::{Kept, Threshold};

/// A flag beats the environment, the environment a scenario file, the file the default. Defaults that depend on the load
/// or the nodes are filled in by [`crate::plan::Plan`].
///
/// `-h` shows the common options; all others are hidden there, and stand under their headings in `--help`.
#[derive(Debug, Default, Clone, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = COMMON)]
pub struct Settings {
    /// Nodes, by their RPC [default: a built-in one]
    ///
    /// Comma-separated URLs: http, https, ws or wss. They are used in turn and all followed. Without any a built-in node is
    /// started.
    #[arg(
        long,
        value_delimiter = ',',
        env = "TXGEN_ENDPOINTS",
        value_name = "URL"
    )]
    #[serde(with = "text::list")]
    pub endpoints: Vec<Endpoint>,

    /// Kind of nodes: cometbft, bigchaindb or bitcoin [default: the workload's]
    ///
    /// What to speak to: a CometBFT node's RPC; BigchainDB's HTTP API (commits come from its event stream); or the JSON-RPC of btcd,
    /// bchd or Bitcoin Core.
    #[arg(
        long,
        value_enum,
        env = "TXGEN_TARGET",
        value_name = "KIND",
        hide_possible_values = true
    )]
    #[serde(with = "text")]
    pub target: Option<TargetKind>,

    /// The broadcast call: async, sync or commit
    ///
    /// For bigchaindb, which mode.
    #[arg(
        long,
        value_name = "CALL",
        env = "TXGEN_BROADCAST_TX_METHOD",
        default_value_t
    )]
    #[serde(with = "text::value")]
    pub broadcast_tx_method: BroadcastMethod,

    /// Connections per endpoint [default: 16 over http, 4 over ws]
    ///
    /// Without it, over http, more are opened where the highest rate and the round trip, measured before, need more: up
    /// to 512 (to bigchaindb 16).
    #[arg(short, long, value_name = "N")]
    pub connections: Option<NonZeroU32>,

    /// How to speak to the endpoints, whatever their URLs say
    #[arg(
        long,
        value_name = "http|ws",
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["http", "ws"]).try_map(|text| text.parse::<Transport>())
    )]
    #[serde(with = "text")]
    pub transport: Option<Transport>,

    /// What to send, see --help [default: kvstore, or the target's]
    ///
    /// kvstore (unique keys), bigchaindb-create, bigchaindb-transfer (chains over outputs that are made before the
    /// load), cosmos-send or cosmos-multisend (transfers on a Cosmos SDK chain), bitcoin (from a wallet of its own, see
    /// --wallet), file:PATH (one transaction per line), or queries:PATH (one path of a GET per line, in turn).
    #[arg(long, value_name = "KIND")]
    #[serde(with = "text")]
    pub workload: Option<WorkloadKind>,

    /// Size of a kvstore transaction, from 16 [default: 250]
    ///
    /// In bytes, or with a unit: 4kB, 64KiB. For bigchaindb as in the original's benchmark: characters of text in an asset's
    /// data [default: 0, data is null].
    #[arg(short, long, value_name = "SIZE")]
    #[serde(with = "text")]
    pub size: Option<Size>,

    /// Makes transactions and random arrivals repeatable
    #[arg(long)]
    pub seed: Option<u64>,

    /// The seed that accounts follow from, where the runs of one command have seeds of their own: for the workers of a
    /// fleet.
    #[arg(long, hide = true)]
    #[serde(skip)]
    pub accounts_seed: Option<u64>,

    /// How due times are spread: even, poisson or burst:N
    #[arg(long, value_name = "KIND", default_value_t = Arrivals::Even)]
    #[serde(with = "text::value")]
    pub arrivals: Arrivals,

    /// Leave this out of latencies and rates [default: 0s]
    #[arg(long, value_name = "DURATION")]
    #[serde(with = "text")]
    pub warmup: Option<Nanos>,

    /// A condition on the result, e.g. 'commit.p99<5s'
    ///
    /// May be repeated. On summary.json: 'failed.share<0.5%', 'rate.committed_tps>500/s', 'fate.errors==0'. Exit code 99 when one is
    /// broken, or when unfinished transactions leave it open whether it is.
    #[arg(long, value_name = "CONDITION")]
    #[serde(with = "text::list")]
    pub threshold: Vec<Threshold>,

    /// The run folder to make [default: runs/UTC-PROFILE]
    ///
    /// Must not exist or be empty.
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Print the plan with a chart of the rate, and stop
    #[arg(long)]
    #[serde(skip)]
    pub dry_run: bool,

    /// Trust the certificates of this PEM file too (https and wss), beside those of the system.
    #[arg(long, value_name = "PATH", help_heading = NODES, hide_short_help = true)]
    pub ca_file: Option<PathBuf>,

    /// Local addresses to connect from, comma-separated; the connections take them in turn. For
    /// targets that tell their clients apart by address (on loopback any of 127.0.0.0/8 will do).
    #[arg(long, value_delimiter = ',', value_name = "IP", help_heading = NODES, hide_short_help = true)]
    #[serde(with = "text::list")]
    pub source_address: Vec<IpAddr>,

    /// Do not follow blocks: transactions end as accepted (for targets that make no blocks).
    #[arg(long, help_heading = NODES, hide_short_help = true)]
    pub no_follow: bool,

    /// Record this node, too, on the run's clock: name=URL, name=URL,pid=PID or
    /// name=URL,metrics=URL. May be given several times.
    /// Its height, mempool, blocks and first sights of transactions go into nodes.csv and sights.csv; what its
    /// process uses comes from PID on this machine, or from its Prometheus metrics, which for a CometBFT also say
    /// which stage was at work. With name=bitcoin-p2p://HOST:PORT blocks and transactions are observed as the node
    /// announces them to its peers.
    #[arg(long, value_name = "NODE", help_heading = NODES, hide_short_help = true)]
    #[serde(with = "text::list")]
    pub observe: Vec<Observed>,

    /// Wait until so many nodes of the first endpoint's network answer, itself included, and record them all
    /// as --observe does.
    #[arg(long, value_name = "N", help_heading = NODES, hide_short_help = true)]
    pub discover: Option<NonZeroU32>,

    /// How the lines of file:PATH spell a transaction: auto, base64, hex or raw.
    #[arg(long, value_name = "FORMAT", default_value_t, help_heading = TRANSACTIONS, hide_short_help = true)]
    #[serde(with = "text::value")]
    pub file_format: FileFormat,

    /// Transactions that spend one another in turn, for bigchaindb-transfer and bitcoin. A BigchainDB
    /// refuses to spend what is not committed yet: a chain's next one comes after one of every other
    /// chain. With a share, 26:45%, so many of all transactions spend another one's output, in chains of N, and the
    /// others none's [default: 1; for bitcoin as many as 100,000 chains need].
    #[arg(long, value_name = "N[:SHARE]", help_heading = TRANSACTIONS, hide_short_help = true)]
    #[serde(with = "text")]
    pub chain_depth: Option<ChainDepth>,

    /// Share of transactions that spend what another one spends, for bigchaindb-transfer and bitcoin: the chain
    /// takes one of both [default: none].
    #[arg(long, value_name = "SHARE", help_heading = TRANSACTIONS, hide_short_help = true)]
    #[serde(with = "text")]
    pub conflict_ratio: Option<Share>,

    /// Threads that sign transactions ahead (bigchaindb, cosmos, bitcoin); what is sent does not depend on
    /// their number [default: half the cores].
    #[arg(long, value_name = "N", help_heading = TRANSACTIONS, hide_short_help = true)]
    pub signing_threads: Option<NonZeroU32>,

    /// Signed transactions that may be ready before they are due, and are before the load begins: where the
    /// node under test shares the machine, signing then takes nothing from it; up to 1,000,000
    /// [default: what 8 MiB hold for each sender].
    #[arg(long, value_name = "N", help_heading = TRANSACTIONS, hide_short_help = true)]
    pub signed_ahead: Option<NonZeroU32>,

    /// Count the schedule as kept only to the millisecond: a run or step of which more than 5 % left more
    /// than 1 ms late by the generator's fault is invalid.
    #[arg(long, help_heading = RECORDING, hide_short_help = true)]
    pub strict: bool,

    /// A condition that must hold while the run goes on, in the grammar of --threshold; may be
    /// repeated. Once a second it is checked on everything so far, and the run ends early, drained and
    /// written, when one is broken. Exit code 99.
    #[arg(long, value_name = "CONDITION", help_heading = RECORDING, hide_short_help = true)]
    #[serde(with = "text::list")]
    pub abort_on: Vec<Kept>,

    /// Which transactions have a row of 151 to 177 bytes in txs.csv: all, sample:1/N (by their hash) or
    /// none. Counts, latencies, reports and comparisons are the same; the summary of a run that was killed
    /// needs each row.
    #[arg(long, value_name = "WHICH", default_value_t, help_heading = RECORDING, hide_short_help = true)]
    #[serde(with = "text::value")]
    pub rows: KeptRows,

    /// Sample a process of this machine while the load runs, by its id, and draw flame.svg in the run
    /// folder; `self` is txgen with the built-in node. Samples by Linux perf, or by py-spy where the
    /// process is Python and py-spy is installed.
    #[arg(long, value_name = "PID", help_heading = RECORDING, hide_short_help = true)]
    #[serde(with = "text")]
    pub profile_pid: Option<ProfiledProcess>,

    /// What to tell a CI system, comma-separated: github (annotations, step summary), junit, junit=FILE,
    /// markdown, markdown=FILE, off. Without FILE, junit.xml and summary.md go into the run folder
    /// [default: github where GITHUB_ACTIONS=true].
    #[arg(long, value_name = "FORM", value_delimiter = ',', help_heading = RECORDING, hide_short_help = true)]
    #[serde(skip)]
    pub ci: Vec<CiTarget>,

    /// Send only part I of N of the schedule, as one of N generators that make one load together:
    /// 1/4 to 4/4. All need the same load and --seed; txgen merge joins their run folders.
    #[arg(long, value_name = "I/N", help_heading = GENERATORS, hide_short_help = true)]
    #[serde(with = "text")]
    pub shard: Option<Part>,

    /// Begin at this time, the same for all generators: RFC 3339 or seconds since 1970.
    #[arg(long, value_name = "TIME", help_heading = GENERATORS, hide_short_help = true)]
    #[serde(with = "text")]
    pub start_at: Option<StartAt>,

    /// Have N workers of a fleet send the load, an equal part each, and join what they recorded: they wait at a
    /// NATS server (`txgen worker`), start at one instant by measured clocks, and see files under the same paths.
    /// With constant, square, ramp, run, search and ab.
    #[cfg(feature = "fleet")]
    #[arg(long, value_name = "N", requires = "nats", conflicts_with_all = ["shard"], help_heading = GENERATORS, hide_short_help = true)]
    #[serde(skip)]
    pub workers: Option<NonZeroU32>,

    /// The NATS server of the fleet, for instance nats://10.0.0.5:4222.
    #[cfg(feature = "fleet")]
    #[arg(long, value_name = "URL", env = "TXGEN_NATS", hide_env_values = true, help_heading = GENERATORS, hide_short_help = true)]
    #[serde(skip)]
    pub nats: Option<String>,

    /// Sender threads [default: half the cores].
    #[arg(
        short,
        long,
        value_name = "N",
        help_heading = "Sending",
        hide_short_help = true
    )]
    pub threads: Option<NonZeroU32>,

    /// How the load is sent.
    #[command(flatten)]
    #[serde(flatten)]
    pub rules: Rules,

    /// How the run is shown.
    #[command(flatten)]
    #[serde(flatten)]
    pub display: DisplaySettings,

    /// What only loads on one chain have.
    #[command(flatten)]
    #[serde(skip)]
    pub chains: ChainSettings,
}

impl Settings {
    /// How many workers of a fleet are to divide the load.
    pub(crate) const fn workers(&self) -> Option<NonZeroU32> {
        #[cfg(feature = "fleet")]
        return self.workers;
        #[cfg(not(feature = "fleet"))]
        None
    }

    /// The kind of node: the one given, else the one that the workload is for.
    pub fn target(&self) -> TargetKind {
        let needed = self.workload.as_ref().and_then(WorkloadKind::target);
        self.target.or(needed).unwrap_or_default()
    }

    /// The chain whose transactions are sent; that of the nodes for transactions of a file.
    pub(crate) fn chain(&self) -> &'static dyn Chain {
        let usual = || WorkloadKind::Named(self.target().facts().workload);
        let kind = self.workload.clone().unwrap_or_else(usual);
        kind.chain().unwrap_or_else(|| self.target().chain())
    }
}

/// What `-h` shows.
const COMMON: &str = "Common options";
const NODES: &str = "Nodes";
const TRANSACTIONS: &str = "Transactions";
const RECORDING: &str = "Recording";
const GENERATORS: &str = "Several generators of one load";

/// How a run is shown: flags, and keys of a file.
#[derive(Debug, Clone, Copy, Default, Args, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Display")]
pub struct DisplaySettings {
    /// No full-screen view, only lines
    #[arg(long, help_heading = COMMON)]
    pub no_tui: bool,

    /// Print a JSON line with the live figures to stdout this often.
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    #[serde(with = "text")]
    pub report_interval: Option<Nanos>,

    /// Serve the live figures as Prometheus metrics at http://ADDR/metrics; a port alone is on
    /// loopback.
    #[arg(long, value_name = "ADDR", hide_short_help = true)]
    #[serde(with = "text")]
    pub metrics: Option<ListenAddress>,
}

/// A form of the result for a CI system, with the file it goes to where one is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CiTarget {
    /// GitHub's annotations on stderr, and the step's summary.
    Github,
    /// JUnit's XML.
    Junit(Option<PathBuf>),
    /// Markdown.
    Markdown(Option<PathBuf>),
    /// Nothing, also where `GITHUB_ACTIONS` is set.
    Off,
}

impl FromStr for CiTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (form, file) = match text.split_once('=') {
            Some((form, file)) if !file.is_empty() => (form, Some(file.into())),
            Some(_) => return Err(format!("{text:?} names no file; write junit=FILE")),
            None => (text, None),
        };
        match (form, file) {
            ("github", None) => Ok(Self::Github),
            ("off", None) => Ok(Self::Off),
            ("junit", file) => Ok(Self::Junit(file)),
            ("markdown" | "md", file) => Ok(Self::Markdown(file)),
            ("github" | "off", Some(_)) => Err(format!("{form} takes no file")),
            _ => Err(format!(
                "{text:?} is none of github, junit, junit=FILE, markdown, markdown=FILE, off"
            )),
        }
    }
}
