//! The command line: what the user typed, before anything is checked against the world.

#[cfg(feature = "fleet")]
mod fleet;
mod runs;

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;

pub use chain::Admission;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use harness::GuardArgs;
use pacing::{Nanos, Rate, SignedRate};
use rpc::Endpoint;
pub use runs::{
    AbArgs, AbLoad, AnalyseArgs, BitRate, CompareArgs, CompareFormat, MergeArgs, PointArgs, Rates,
    RecordArgs, SearchArgs,
};

pub use super::bigchaindb_benchmark::BenchmarkArgs;
pub use super::tm_bench::{TmBenchArgs, TmBenchFormat};
use crate::chains;
use crate::chains::{ChainCommand, KindFlags, TargetKind, WorkloadKind};
use crate::output::recorded::ReportFormat;
use crate::scenario::{NodeKind, Scale};
pub use crate::settings::{GivenSettings, Settings, Share};

#[cfg(feature = "fleet")]
pub use fleet::{FleetArgs, WorkerArgs};

/// Offers transactions to a CometBFT node on an exact open-loop schedule and follows each one from
/// due to committed.
#[derive(Debug, Parser)]
#[command(
    name = "txgen",
    version,
    propagate_version = true,
    before_long_help = examples("txgen"),
    after_long_help = MORE
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of `txgen`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Offer transactions at one rate.
    #[command(before_long_help = examples("constant"))]
    Constant(ConstantArgs),
    /// Raise the rate in steps: start, start + step, start + 2 step, …
    ///
    /// Without --to the ramp goes on until the target is saturated for two steps (accepted or
    /// committed under 95 % of offered, or transactions sent late because the node held them up),
    /// and names the last step that was sustained. A step that failed only because the node gave no
    /// sign for a while is offered once more.
    #[command(before_long_help = examples("ramp"))]
    Ramp(RampArgs),
    /// Alternate between a high and a low rate.
    #[command(before_long_help = examples("square"))]
    Square(SquareArgs),
    /// Send as fast as answers come back (a closed loop).
    ///
    /// Latencies are service times only.
    ///
    /// The target sets the pace here, so this finds a ceiling, not a latency under a given load.
    #[command(before_long_help = examples("flood"))]
    Flood(FloodArgs),
    /// Say what this machine and a node can show, and what to change.
    ///
    /// Sends no transaction.
    #[command(before_long_help = examples("doctor"))]
    Doctor(DoctorArgs),
    /// Write a commented scenario file for a question.
    #[command(before_long_help = examples("init"))]
    Init(InitArgs),
    /// Play a scenario: a file, or one inside the program by its name (--list).
    ///
    /// Flags given here override the file's settings table. A file with cases or a matrix makes a
    /// campaign: a folder with a run folder for each run, campaign.json and one report.
    #[command(before_long_help = examples("run"))]
    Run(Box<RunArgs>),
    /// Find the highest rate that the target sustains (the knee), with an interval.
    ///
    /// Offers one rate after the other, doubling until one is not sustained, then always in the
    /// middle of what is still open, until the interval is narrow. Between two points it waits until
    /// the mempool is empty. A rate is sustained when nearly all is accepted and committed, the
    /// backlog does not grow, and every --slo holds. Under five minutes with the defaults.
    #[command(before_long_help = examples("search"))]
    Search(SearchArgs),
    /// Show a run folder again: as a page with plots, in Markdown, as JSON, or as the tables of
    /// tm-bench and BEP-23.
    ///
    /// Works on any run, also one that was killed: what is missing is made from the rows it left.
    #[command(before_long_help = examples("report"))]
    Report(ReportArgs),
    /// Measure as tm-bench did: its flags, its table, but every block counted.
    ///
    /// -r is per connection here, as it was there; the sum over all connections is printed. The load
    /// is spread evenly over each second instead of being sent in a burst at its begin.
    #[command(before_long_help = examples("tm-bench"))]
    TmBench(TmBenchArgs),
    /// Measure as BigchainDB's own benchmark did: its flags and its CSV.
    #[command(before_long_help = examples("bigchaindb-benchmark"))]
    BigchaindbBenchmark(BenchmarkArgs),
    /// Compare runs: how each metric differs, and whether chance explains it.
    #[command(before_long_help = examples("compare"))]
    Compare(CompareArgs),
    /// Compare two nodes, builds or settings, in turns, until it can tell.
    ///
    /// A and B are two nodes that are there, two commands that start a node each, or two sets of flags. Runs come in
    /// blocks of ABBA and BAAB, so that what drifts with time is no difference, and after each block it is asked
    /// whether B is worse (exit code 99), or is not by more than the margin (0). Looking that often is accounted
    /// for. When the budget is spent before, it is undecided (98).
    #[command(before_long_help = examples("ab"))]
    Ab(Box<AbArgs>),
    /// Find the stage of a run that stopped following the load, and at what rate.
    ///
    /// The rate comes with an interval.
    ///
    /// Two lines are fitted to what each stage achieved over what was offered; the interval of the break
    /// comes from resampling. Needs a load that rises: a ramp, or phases.
    #[command(before_long_help = examples("analyse"))]
    Analyse(AnalyseArgs),
    /// Record nodes without a load, on one clock: mempools, blocks, what they use.
    #[command(before_long_help = examples("record"))]
    Record(RecordArgs),
    /// Join the run folders of several generators of one load (--shard) into one.
    #[command(before_long_help = examples("merge"))]
    Merge(MergeArgs),
    /// Wait at a NATS server for a part of a load (--workers).
    #[cfg(feature = "fleet")]
    #[command(before_long_help = examples("worker"))]
    Worker(WorkerArgs),
    /// Start a NATS server and workers on this machine, to try a fleet; or fetch what workers kept.
    #[cfg(feature = "fleet")]
    #[command(before_long_help = examples("fleet"))]
    Fleet(FleetArgs),
    /// Moved to the program `txmesh`.
    #[command(hide = true, disable_help_flag = true)]
    Mesh {
        /// What `txmesh` takes.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Replaced by `search --rates`.
    #[command(hide = true, disable_help_flag = true)]
    Scan {
        /// What it took.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// A chain's own command.
    #[command(flatten)]
    Chain(ChainCommand),
    /// Run the built-in node on its own: CometBFT 0.38's RPC, a real mempool, blocks on an interval.
    ///
    /// It is not a consensus engine. It is the default target of the other commands and a fast
    /// fixture for tests.
    #[command(before_long_help = examples("devnode"))]
    Devnode(DevnodeArgs),
    /// Become a program that ends with its parent (how txgen starts nodes).
    #[command(hide = true)]
    Guard(GuardArgs),
    /// Print the completion script of a shell.
    #[command(before_long_help = examples("completions"))]
    Completions {
        /// The shell.
        shell: ops::command::Shell,
    },
    /// Print the manual page in roff (read it with: txgen man | man -l -).
    #[command(before_long_help = examples("man"))]
    Man,
}

/// `txgen constant`
#[derive(Debug, Args)]
pub struct ConstantArgs {
    /// Transactions a second over all connections and endpoints: 1000, 1000/s, 30k/m
    #[arg(short, long, allow_hyphen_values = true, value_name = "RATE")]
    pub rate: Rate,
    /// How long to offer, e.g. 60s, 5m.
    #[arg(short, long, default_value = "60s", value_name = "DURATION")]
    pub duration: Nanos,
    /// What all load commands share.
    #[command(flatten)]
    pub settings: Settings,
}

/// `txgen ramp`
#[derive(Debug, Args)]
pub struct RampArgs {
    /// Rate of the first step, over all connections and endpoints.
    #[arg(
        long,
        default_value = "1/s",
        allow_hyphen_values = true,
        value_name = "RATE"
    )]
    pub start: Rate,
    /// What each step adds (or, negative, takes away).
    #[arg(
        long,
        default_value = "500/s",
        allow_hyphen_values = true,
        value_name = "RATE"
    )]
    pub step: SignedRate,
    /// How long a step lasts.
    #[arg(long, default_value = "30s", value_name = "DURATION")]
    pub every: Nanos,
    /// Rate of the last step [default: the ramp ends when the target is saturated]
    #[arg(long, allow_hyphen_values = true, value_name = "RATE")]
    pub to: Option<Rate>,
    /// What all load commands share.
    #[command(flatten)]
    pub settings: Settings,
}

/// `txgen square`
#[derive(Debug, Args)]
pub struct SquareArgs {
    /// Rate of the high half, over all connections and endpoints.
    #[arg(short, long, allow_hyphen_values = true, value_name = "RATE")]
    pub rate: Rate,
    /// Rate of the low half.
    #[arg(
        long,
        default_value = "0/s",
        allow_hyphen_values = true,
        value_name = "RATE"
    )]
    pub low: Rate,
    /// How long the high half lasts.
    #[arg(long, default_value = "100s", value_name = "DURATION")]
    pub on: Nanos,
    /// How long the low half lasts.
    #[arg(long, default_value = "5s", value_name = "DURATION")]
    pub off: Nanos,
    /// How often both are repeated.
    #[arg(long, default_value = "10", value_name = "N")]
    pub cycles: NonZeroU32,
    /// Break all connections in every pause and count what that cost.
    #[arg(long)]
    pub reconnect: bool,
    /// What all load commands share.
    #[command(flatten)]
    pub settings: Settings,
}

/// `txgen flood`
#[derive(Debug, Args)]
pub struct FloodArgs {
    /// Transactions in flight over all connections and endpoints
    ///
    /// Over HTTP this is the number of connections.
    #[arg(long, default_value = "100", value_name = "N")]
    pub concurrency: NonZeroU32,
    /// How many transactions to send.
    #[arg(short = 'n', long, value_name = "N")]
    pub count: u64,
    /// What all load commands share.
    #[command(flatten)]
    pub settings: Settings,
}

/// `txgen run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The scenario: a TOML file, or a name of --list.
    #[arg(required_unless_present = "list")]
    pub scenario: Option<PathBuf>,
    /// List the scenarios that are inside the program.
    #[arg(long, conflicts_with = "scenario")]
    pub list: bool,
    /// Play it this much smaller: durations and counts times the factor, rates as they are
    #[arg(long, value_name = "FACTOR", allow_hyphen_values = true)]
    pub scale: Option<Scale>,
    /// Put a value into the file first, under its dotted key; may be repeated
    ///
    /// --set settings.connections=4 --set campaign.repeats=3 --set phases.0.rate=500/s
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Another kind of node than the file's.
    #[arg(long, value_enum, value_name = "KIND")]
    pub node: Option<NodeKind>,
    /// The CometBFT that node kind cometbft starts [default: the one in PATH].
    #[arg(long, value_name = "PATH", env = "COMETBFT_BIN", help_heading = PROGRAMS, hide_short_help = true)]
    pub cometbft: Option<PathBuf>,
    /// The btcd that node kind btcd starts [default: the one in PATH].
    #[arg(long, value_name = "PATH", env = "BTCD_BIN", help_heading = PROGRAMS, hide_short_help = true)]
    pub btcd: Option<PathBuf>,
    /// The simd that node kind simd starts [default: the one in PATH].
    #[arg(long, value_name = "PATH", env = "SIMD_BIN", help_heading = PROGRAMS, hide_short_help = true)]
    pub simd: Option<PathBuf>,
    /// The sentinel that a scenario puts in front of its node [default: the one beside txgen, or in
    /// PATH].
    #[arg(long, value_name = "PATH", env = "TXGEN_SENTINEL", help_heading = PROGRAMS, hide_short_help = true)]
    pub sentinel: Option<PathBuf>,
    /// Only the runs of a matrix whose label contains this text.
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Show what limits the node, by changing each of its numbers alone
    ///
    /// Each number that the file gives it goes down and up, in turns with unchanged runs. The load has to be more than
    /// the node carries.
    #[arg(long)]
    pub prove: bool,
    /// Begin also what takes longer than a day.
    #[arg(long)]
    pub yes: bool,
    /// The text of the scenario, in place of the file's: for the workers of a fleet.
    #[arg(long, hide = true)]
    pub text: Option<String>,
    /// Flags given here override the file's settings table.
    #[command(flatten)]
    pub settings: GivenSettings,
}

/// `txgen report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The run's folder.
    pub run: PathBuf,
    /// The form of the report.
    #[arg(short, long, value_enum, default_value = "html")]
    pub format: ReportFormat,
    /// Where to write it; - is stdout. By default html goes to report.html in the run's folder, the
    /// other forms to stdout.
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `txgen devnode`
#[derive(Debug, Args)]
pub struct DevnodeArgs {
    /// What its blocks are executed on [default: kvstore].
    #[arg(long, value_parser = app_names(), value_name = "APP")]
    pub app: Option<String>,
    /// Where its RPC listens [default: 127.0.0.1:26657, with bitcoin 127.0.0.1:18334].
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<std::net::SocketAddr>,
    /// How transactions are admitted: one at a time under one lock, or on several threads. BigchainDB then
    /// holds spends against the mempool too, which the original does not [default: with bitcoin serial, else
    /// as the original].
    #[arg(long, value_enum, value_name = "HOW")]
    pub admission: Option<Admission>,
    /// Threads that check transactions with --admission parallel [default: one per core].
    #[arg(long, value_name = "N")]
    pub validators: Option<usize>,
    /// Where its control endpoint for scripted faults listens (none by default).
    #[arg(long)]
    pub control: Option<std::net::SocketAddr>,
    /// A TOML file with the node's configuration; the flags override it.
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// A single key of the configuration, e.g. --set block_interval=500ms --set mempool.size=1000.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// What only some kinds have.
    #[command(flatten)]
    pub kinds: KindFlags,
}

fn app_names() -> PossibleValuesParser {
    let kinds = chains::kinds();
    let name = |kind: &&dyn devnode::Kind| PossibleValue::new(kind.name()).help(kind.about());
    PossibleValuesParser::new(kinds.iter().map(name))
}

/// The head of a command's help.
fn examples(command: &str) -> &'static str {
    ops::command::examples(include_str!("examples.txt"), command)
}

const PROGRAMS: &str = "Programs that a scenario starts";

const MORE: &str = include_str!("more.txt").trim_ascii_end();

/// `txgen doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// A node, by its RPC; without one only this machine is looked at.
    #[arg(value_name = "URL")]
    pub endpoint: Option<Endpoint>,
    /// What kind of node it is [default: cometbft].
    #[arg(long, value_enum, value_name = "KIND")]
    pub target: Option<TargetKind>,
    /// Trust the certificates of this PEM file too, beside those of the system.
    #[arg(long, value_name = "PATH")]
    pub ca_file: Option<PathBuf>,
}

/// `txgen init`
#[derive(Debug, Args)]
pub struct InitArgs {
    /// What is to be found out.
    #[arg(value_enum, default_value = "hold")]
    pub question: Question,
    /// A node that is there, by its RPC [default: a built-in one].
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<Endpoint>,
    /// What is sent, which says the chain: kvstore, cosmos-send, bitcoin, … [default: kvstore].
    #[arg(long, value_name = "KIND")]
    pub workload: Option<WorkloadKind>,
    /// The file to make; - is stdout.
    #[arg(short, long, default_value = "scenario.toml", value_name = "FILE")]
    pub out: PathBuf,
}

/// What a scenario is to find out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Question {
    /// What rate the node sustains.
    Rate,
    /// Whether it holds a rate.
    Hold,
    /// What a burst leaves behind.
    Burst,
    /// Whether a setting makes a difference.
    Change,
}

/// Flags of k6, vegeta, wrk, oha and cometbft-load-test, and what is meant by them here.
pub const BROUGHT: &str = include_str!("brought.txt");
