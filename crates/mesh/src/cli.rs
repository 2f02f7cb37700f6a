//! The command line of `txmesh`: what the user typed.

use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use harness::{BitRate, GuardArgs, Share};
use ops::command::Shell;
use pacing::{Nanos, Rate, SignedRate};

use crate::settings::{CpuShare, External, MeshSettings, Topology, Variant};

/// Runs a gossip network of real processes (factom-p2p's protocols) under an exact load.
///
/// Starts the nodes, waits until all are connected, offers transactions to one of them, counts everything on every
/// node, and draws it.
#[derive(Debug, Parser)]
#[command(
    name = "txmesh",
    version,
    propagate_version = true,
    before_long_help = examples("txmesh"),
    after_long_help = EXIT_CODES
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of `txmesh`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Offer transactions to a mesh at one rate.
    #[command(before_long_help = examples("constant"))]
    Constant(ConstantArgs),
    /// Raise the rate in steps: start, start + step, start + 2 step, …
    #[command(before_long_help = examples("ramp"))]
    Ramp(RampArgs),
    /// Alternate between a high and a low rate.
    #[command(before_long_help = examples("square"))]
    Square(SquareArgs),
    /// Play a mesh file: a table `mesh` with the names of the flags, and an array of tables `phases`.
    #[command(before_long_help = examples("run"))]
    Run(RunArgs),
    /// Compare wire protocols and ways to send: interleaved repeats, a table with intervals.
    #[command(before_long_help = examples("compare"))]
    Compare(CompareArgs),
    /// Make one run of the parts that several machines recorded of one mesh.
    #[command(before_long_help = examples("merge"))]
    Merge(MergeArgs),
    /// The same nodes on a simulated clock, as many as time allows: a curve over their number
    /// and over the CPU that each has.
    #[command(before_long_help = examples("simulate"))]
    Simulate(SimulateArgs),
    /// One node of a mesh, as the other commands start it.
    #[command(hide = true)]
    Node(NodeArgs),
    /// A program that ends when this one does.
    #[command(hide = true)]
    Guard(GuardArgs),
    /// Print a script that completes txmesh's command line.
    #[command(before_long_help = examples("completions"))]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual in roff.
    #[command(before_long_help = examples("man"))]
    Man,
}

/// The flags of `txmesh constant`.
#[derive(Debug, Args)]
pub struct ConstantArgs {
    /// Transactions per second that the generator offers to the mesh (with the built-in mixes one
    /// transaction is one entry).
    #[arg(short, long, value_name = "RATE")]
    pub rate: Rate,
    /// How long to offer.
    #[arg(short, long, default_value = "60s", value_name = "DURATION")]
    pub duration: Nanos,
    /// What all mesh commands share.
    #[command(flatten)]
    pub settings: MeshSettings,
}

/// The flags of `txmesh ramp`.
#[derive(Debug, Args)]
pub struct RampArgs {
    /// Rate of the first step.
    #[arg(long, default_value = "1/s", value_name = "RATE")]
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
    /// Rate of the last step.
    #[arg(long, default_value = "7000/s", value_name = "RATE")]
    pub to: Rate,
    /// What all mesh commands share.
    #[command(flatten)]
    pub settings: MeshSettings,
}

/// The flags of `txmesh square`.
#[derive(Debug, Args)]
pub struct SquareArgs {
    /// Rate of the high half.
    #[arg(short, long, value_name = "RATE")]
    pub rate: Rate,
    /// Rate of the low half.
    #[arg(long, default_value = "0/s", value_name = "RATE")]
    pub low: Rate,
    /// How long the high half lasts.
    #[arg(long, default_value = "30s", value_name = "DURATION")]
    pub on: Nanos,
    /// How long the low half lasts.
    #[arg(long, default_value = "10s", value_name = "DURATION")]
    pub off: Nanos,
    /// How often both are repeated.
    #[arg(long, default_value = "5", value_name = "N")]
    pub cycles: NonZeroU32,
    /// What all mesh commands share.
    #[command(flatten)]
    pub settings: MeshSettings,
}

/// The flags of `txmesh run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The mesh file (TOML).
    pub file: PathBuf,
    /// Flags given here override the file's mesh table.
    #[command(flatten)]
    pub settings: MeshSettings,
}

/// The flags of `txmesh compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// What is compared: a protocol and ways to send, e.g. v9, v10, v11, v11+batch, v11+announce.
    /// The first one is what the others are compared with.
    #[arg(required = true, num_args = 1.., value_name = "VARIANT")]
    pub variants: Vec<Variant>,
    /// Another implementation, as NAME=PROGRAM, in the protocol of the first variant; may be repeated.
    /// docs/mesh.md describes what the program has to understand.
    #[arg(long, value_name = "NAME=PROGRAM")]
    pub external: Vec<External>,
    /// Transactions per second.
    #[arg(short, long, default_value = "500/s", value_name = "RATE")]
    pub rate: Rate,
    /// How long each run offers.
    #[arg(short, long, default_value = "10s", value_name = "DURATION")]
    pub duration: Nanos,
    /// The load and the mesh of a mesh file instead, such as a ramp: what each carried is shown by step.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["rate", "duration"])]
    pub file: Option<PathBuf>,
    /// Runs of each variant; a verdict needs three.
    #[arg(long, default_value = "3", value_name = "N")]
    pub repeats: NonZeroU32,
    /// Changes up to this do not matter: an interval within it is "same".
    #[arg(long, default_value = "5%", value_name = "SHARE")]
    pub margin: Share,
    /// What all mesh commands share.
    #[command(flatten)]
    pub settings: MeshSettings,
}

/// The flags of `txmesh merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The folders of all machines, of a mesh that was played with --hosts and --shard.
    #[arg(required = true, num_args = 2.., value_name = "FOLDER")]
    pub folders: Vec<PathBuf>,
    /// Where the whole run is written [default: runs/UTC-mesh-PROFILE].
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// The flags of `txmesh simulate`.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// Numbers of nodes, comma-separated: a point of the curve each.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "5,10,20,50,100,150",
        value_name = "N"
    )]
    pub nodes: Vec<NonZeroU16>,
    /// A protocol and ways to send, e.g. v11 or v11+batch+announce.
    #[arg(long, default_value = "v11", value_name = "VARIANT")]
    pub variant: Variant,
    /// Transactions per second that node 0 offers.
    #[arg(short, long, default_value = "1000/s", value_name = "RATE")]
    pub rate: Rate,
    /// How long the load lasts, in simulated time.
    #[arg(short, long, default_value = "2s", value_name = "DURATION")]
    pub duration: Nanos,
    /// The messages: app, article, or a file.
    #[arg(long, default_value = "app", value_name = "MIX")]
    pub mix: String,
    /// Which nodes are connected: full, or random:K (each dials K others).
    #[arg(long, default_value = "random:16", value_name = "TOPOLOGY")]
    pub topology: Topology,
    /// Peers that a node relays a message to.
    #[arg(long, default_value = "16", value_name = "N")]
    pub fanout: u16,
    /// Parcels that wait for a peer at most.
    #[arg(long, default_value = "10000", value_name = "N")]
    pub queue: u32,
    /// The rate of every link, e.g. 100Mbit/s [default: no limit].
    #[arg(long, value_name = "RATE")]
    pub link_rate: Option<BitRate>,
    /// The delay of every link [default: a loopback's].
    #[arg(long, value_name = "DELAY")]
    pub delay: Option<Nanos>,
    /// CPU time of each node, as a share of the CPU that the prices of work were measured on,
    /// comma-separated: a curve each.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "100%",
        value_name = "SHARE"
    )]
    pub cpu: Vec<CpuShare>,
    /// All nodes share so many CPUs, as processes on one machine do [default: a machine each].
    #[arg(long, value_name = "N")]
    pub shared_cpus: Option<usize>,
    /// Seed of everything random; the same gives the same figures on any machine.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Where the curve is written [default: runs/UTC-mesh-simulate].
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// The flags of `txmesh node`.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// The node's configuration (JSON), as docs/mesh.md describes it.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}

/// The head of a command's help.
fn examples(command: &str) -> &'static str {
    ops::command::examples(include_str!("examples.txt"), command)
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 failed, or the account does not add up; 2 usage or a wrong file; 98 the run is invalid (the \
load was not offered as planned, or other programs had the CPUs); 130 interrupted (everything is still written).";
