//! `txgen ab`: what the user typed.

use std::num::NonZeroU32;

use clap::Args;
use measure::Metric;
use pacing::{Nanos, Rate, SignedRate};

use super::analysis::metric;
use super::{CompareFormat, Share};
use crate::settings::Settings;

/// `txgen ab`
#[derive(Debug, Args)]
pub struct AbArgs {
    /// Two addresses of nodes, A and B, in place of --a and --b
    #[arg(num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["a", "b"])]
    pub nodes: Vec<String>,
    /// Side A: a command that starts a node, or flags of the load
    ///
    /// The command is run by sh before each run of the side, stays in the foreground, and is stopped after the run
    /// with all that it started; --endpoints says where the node answers. Flags begin with -- and are divided at
    /// blanks, e.g. '--transport ws'.
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "COMMAND|FLAGS",
        requires = "b"
    )]
    pub a: Option<String>,
    /// Side B, of the same kind
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "COMMAND|FLAGS",
        requires = "a"
    )]
    pub b: Option<String>,
    /// What is offered in each run.
    #[command(flatten)]
    pub load: AbLoad,
    /// B passes when nothing is worse by more
    ///
    /// Shares lost are held against one percentage point at most.
    #[arg(long, default_value = "5%", value_name = "SHARE")]
    pub margin: Share,
    /// What decides, comma-separated: the fewer, the sooner
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "METRIC",
        value_parser = metric,
        default_value = "rate.committed_tps,lost.share,commit.p50,commit.p95",
        hide_short_help = true
    )]
    pub judge_by: Vec<Metric>,
    /// End undecided before a block of runs would end after this long
    #[arg(long, default_value = "20m", value_name = "DURATION")]
    pub budget: Nanos,
    /// End undecided after so many pairs of runs [default: as many as the budget holds]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub max_pairs: Option<NonZeroU32>,
    /// What to print at the end.
    #[arg(long, value_enum, default_value_t = CompareFormat::Text, hide_short_help = true)]
    pub format: CompareFormat,
    /// What all load commands share.
    #[command(flatten)]
    pub settings: Settings,
}

/// The load of each run: one rate, or steps.
#[derive(Debug, Clone, Args)]
pub struct AbLoad {
    /// One rate in each run, e.g. 500/s
    #[arg(
        short,
        long,
        value_name = "RATE",
        required_unless_present = "to",
        conflicts_with = "to"
    )]
    pub rate: Option<Rate>,
    /// How long it is offered
    #[arg(short, long, default_value = "30s", value_name = "DURATION")]
    pub duration: Nanos,
    /// In place of one rate, the last of some steps
    #[arg(long, value_name = "RATE", hide_short_help = true)]
    pub to: Option<Rate>,
    /// The first step
    #[arg(
        long,
        default_value = "500/s",
        value_name = "RATE",
        requires = "to",
        hide_short_help = true
    )]
    pub start: Rate,
    /// What each step adds
    #[arg(
        long,
        default_value = "500/s",
        value_name = "RATE",
        requires = "to",
        hide_short_help = true
    )]
    pub step: SignedRate,
    /// How long a step lasts
    #[arg(
        long,
        default_value = "10s",
        value_name = "DURATION",
        requires = "to",
        hide_short_help = true
    )]
    pub every: Nanos,
}
