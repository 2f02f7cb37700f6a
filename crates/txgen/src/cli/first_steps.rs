//! `txgen doctor` and `txgen init`: what the user typed; and words that people bring from other programs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rpc::Endpoint;

use crate::chains::{TargetKind, WorkloadKind};

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
pub const BROUGHT: &[(&str, &str)] = &[
    ("--quiet", QUIET),
    ("-q", QUIET),
    ("--json", JSON),
    (
        "--output",
        "the run folder is named by --out; `txgen report DIR --format json` prints the result",
    ),
    ("--vus", USERS),
    ("-u", USERS),
    (
        "--workers",
        "threads are --threads, connections are --connections",
    ),
    (
        "--iterations",
        "a number of transactions is `txgen flood --count`, which is a closed loop",
    ),
    ("-R", "the rate is --rate, e.g. --rate 1000/s"),
    ("--rps", "the rate is --rate, e.g. --rate 1000/s"),
    ("--qps", "the rate is --rate, e.g. --rate 1000/s"),
    ("-z", "how long is --duration, e.g. --duration 30s"),
    ("-T", "how long is --duration, e.g. --duration 30s"),
    ("--time", "how long is --duration, e.g. --duration 30s"),
    (
        "--duration",
        "`ramp` has --every for a step and --to for the last rate, `square` --on and --off, `flood` ends after --count",
    ),
    (
        "--stage",
        "stages are `txgen ramp`, or the [[phases]] of a scenario: txgen init",
    ),
    ("--url", "nodes are --endpoints, by their RPC"),
    ("--latency", "latencies are always measured and printed"),
];

const QUIET: &str = "--no-tui shows lines only; progress is on stderr, so 2>/dev/null hides it";
const JSON: &str = "--report-interval 1s prints JSON lines while it runs; the result is summary.json in the run folder \
                    (`txgen report DIR --format json`)";
const USERS: &str =
    "an open loop has no users: the rate is --rate; a closed loop is `txgen flood --concurrency`";
