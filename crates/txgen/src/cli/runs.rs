//! `txgen search`, `txgen ab`, `txgen merge`, `txgen compare` and `txgen analyse`: what the user typed.

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
pub use harness::BitRate;
use measure::{LoadField, Metric};
use pacing::{Nanos, Rate, SignedRate};
use rpc::Endpoint;

use crate::chains::TargetKind;
use crate::settings::{CiTarget, Observed, Settings, Share};
use crate::threshold::Kept;

/// `txgen merge`
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The run folders of all generators of one load (--shard 1/N to N/N).
    #[arg(required = true, value_name = "RUN")]
    pub folders: Vec<PathBuf>,
    /// The merged run folder; must not exist or be empty.
    #[arg(short, long, value_name = "DIR")]
    pub out: PathBuf,
    /// How far the clocks of the generators may be apart, by the median over the heights that both saw.
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    pub max_clock_offset: Nanos,
}

/// `txgen compare`
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Run folders, or folders of runs of one load (repeats; a verdict needs three a side). The first
    /// is what the others are compared with.
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Exit with 99 when a metric is shown to be worse by more than this, e.g. 10% (shares lost: at most one
    /// percentage point), and with 98 when it is not shown that none is: one run a side, runs that vary too much,
    /// sides that ran one after the other. With 98, also without this flag, when a side has no valid run.
    #[arg(long, value_name = "SHARE")]
    pub fail_on_regression: Option<Share>,
    /// Compare only these, comma-separated, e.g. rate.committed_tps,lost.share,commit.p95: the fewer, the
    /// fewer runs are needed [default: all].
    #[arg(long, value_delimiter = ',', value_name = "METRIC", value_parser = metric)]
    pub judge_by: Vec<Metric>,
    /// What you changed between the sides, comma-separated, e.g. transport or workload: a difference in it is
    /// named, and does not keep metrics from being compared.
    #[arg(long, value_delimiter = ',', value_name = "FIELD", value_parser = load_field)]
    pub varied: Vec<LoadField>,
    /// Changes up to this do not matter: an interval within it is "same", and the runs needed are
    /// reckoned for it.
    #[arg(long, default_value = "5%", value_name = "SHARE")]
    pub margin: Share,
    /// What to write.
    #[arg(long, value_enum, default_value_t = CompareFormat::Text)]
    pub format: CompareFormat,
    /// Where to write it; - for stdout.
    #[arg(short, long, default_value = "-", value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// What to tell a CI system, comma-separated: github (annotations, step summary), junit, junit=FILE, markdown,
    /// markdown=FILE, off. Without FILE, junit.xml and summary.md go beside --out [default: github where
    /// GITHUB_ACTIONS=true].
    #[arg(long, value_name = "FORM", value_delimiter = ',')]
    pub ci: Vec<CiTarget>,
}

pub(super) fn metric(name: &str) -> Result<Metric, String> {
    let names = Metric::OF_LOADS.into_iter().map(Metric::name);
    Metric::named(name).ok_or_else(|| one_of(names))
}

fn load_field(name: &str) -> Result<LoadField, String> {
    let field = LoadField::all().find(|field| field.name() == name);
    field.ok_or_else(|| one_of(LoadField::all().map(LoadField::name)))
}

fn one_of(names: impl Iterator<Item = &'static str>) -> String {
    format!("choose from {}", names.collect::<Vec<_>>().join(", "))
}

/// `txgen analyse`
#[derive(Debug, Args)]
pub struct AnalyseArgs {
    /// The run's folder.
    pub run: PathBuf,
    /// What the link of each observed node carries in a direction, e.g. 30Mbit/s: what passes all interfaces of its
    /// network namespace is held against it [default: what the system knows of each interface].
    #[arg(long, value_name = "RATE")]
    pub link_rate: Option<BitRate>,
    /// The folder of a run or of txgen record that observed nodes of the same network from another machine; may be
    /// given several times. One node has to be observed, under one name, from each.
    #[arg(long, value_name = "FOLDER")]
    pub with: Vec<PathBuf>,
    /// How far the clocks of the machines may be apart, by the median over the blocks that a node showed to both, and
    /// how uncertain that may be.
    #[arg(long, value_name = "TIME", default_value = "100ms", requires = "with")]
    pub max_clock_offset: Nanos,
}

/// `txgen record`
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// What kind of nodes they are.
    #[arg(long, value_enum, default_value = "cometbft", value_name = "KIND")]
    pub target: TargetKind,
    /// A node: name=URL, name=URL,pid=PID or name=URL,metrics=URL. May be given several times.
    #[arg(long, value_name = "NODE")]
    pub observe: Vec<Observed>,
    /// A node whose peers are looked for, and recorded with it.
    #[arg(long, value_name = "URL", requires = "discover")]
    pub from: Option<Endpoint>,
    /// Wait until so many nodes of that network answer, itself included.
    #[arg(long, value_name = "N", requires = "from")]
    pub discover: Option<NonZeroU32>,
    /// How long to record [default: until Ctrl-C].
    #[arg(short, long, value_name = "DURATION")]
    pub duration: Option<Nanos>,
    /// The folder to write; must not exist or be empty [default: one in runs that
    /// is named after the time].
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// The form of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// Tables for a terminal.
    Text,
    /// Tables for a review.
    Md,
    /// Everything for a program.
    Json,
    /// A page with the runs drawn over each other.
    Html,
}

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

/// `txgen search`
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// The first rate that is tried.
    #[arg(long, default_value = "250/s", value_name = "RATE")]
    pub from: Rate,
    /// No lower rate is tried.
    #[arg(
        long,
        default_value = "1/s",
        value_name = "RATE",
        hide_short_help = true
    )]
    pub min: Rate,
    /// No higher rate is tried.
    #[arg(long, default_value = "1M/s", value_name = "RATE")]
    pub max: Rate,
    /// How narrow the interval has to be, from its middle
    #[arg(long, default_value = "5%", value_name = "SHARE")]
    pub precision: Share,
    /// The search ends after this long, --confirm included
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    pub time_limit: Nanos,
    /// Offer what a load may rely on for so long at the end
    ///
    /// That is what 19 of 20 longer points take by what was seen, some per cent below the interval. This much of
    /// --time-limit is kept for it; shorter where that leaves less, and left out where it leaves no more than --duration.
    /// A rate above the interval is offered after it, for --duration: if it does not break, there is no knee.
    #[arg(
        long,
        default_value = "2m",
        value_name = "DURATION",
        hide_short_help = true
    )]
    pub confirm: Nanos,
    /// Measure these rates instead: 500,1000,2000 or 500..4000:500 or both
    ///
    /// In this order, each from rest to rest.
    #[arg(short, long, value_name = "RATES", conflicts_with_all = ["from", "min", "max", "precision", "time_limit"])]
    pub rates: Option<Rates>,
    /// How often the list of --rates is measured.
    #[arg(
        long,
        default_value = "1",
        value_name = "N",
        requires = "rates",
        hide_short_help = true
    )]
    pub repeats: NonZeroU32,
    /// What every point has in common.
    #[command(flatten)]
    pub points: PointArgs,
    /// What all load commands share.
    #[command(flatten)]
    pub settings: Settings,
}

/// How a point is offered and judged.
#[derive(Debug, Clone, Args)]
pub struct PointArgs {
    /// What a sustained rate keeps, e.g. 'commit.p95<5s'
    ///
    /// A rate that breaks it is not sustained. May be repeated. The grammar is that of --threshold.
    #[arg(long, value_name = "CONDITION")]
    pub slo: Vec<Kept>,
    /// How long a rate is offered
    ///
    /// A search takes half of it while it still doubles the rate. The first quarter (or --warmup) is not judged.
    #[arg(short, long, default_value = "20s", value_name = "DURATION")]
    pub duration: Nanos,
    /// How long the mempool may take to empty after a point before the target is given up.
    #[arg(
        long,
        default_value = "60s",
        value_name = "DURATION",
        hide_short_help = true
    )]
    pub recover_timeout: Nanos,
}

/// Several rates: single ones and ranges.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates(Vec<Rate>);

impl Rates {
    /// The rates in their order; at least one.
    pub fn as_slice(&self) -> &[Rate] {
        &self.0
    }
}

impl FromStr for Rates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut rates = Vec::new();
        for part in text.split(',') {
            match part.split_once("..") {
                None => rates.push(positive(part)?),
                Some((from, rest)) => range(part, from, rest, &mut rates)?,
            }
            if rates.len() > MAX_RATES {
                return Err(format!(
                    "{text} are more than {MAX_RATES} rates; take a larger step"
                ));
            }
        }
        Ok(Self(rates))
    }
}

impl fmt::Display for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(", "))
    }
}

fn positive(text: &str) -> Result<Rate, String> {
    let rate: Rate = text.trim().parse().map_err(|error| format!("{error}"))?;
    if rate.is_zero() {
        return Err("a rate of 0 offers nothing; leave it out".into());
    }
    Ok(rate)
}

fn range(part: &str, from: &str, rest: &str, rates: &mut Vec<Rate>) -> Result<(), String> {
    let Some((to, step)) = rest.split_once(':') else {
        return Err(format!(
            "{part} has no step; write A..B:STEP, e.g. 500..4000:500"
        ));
    };
    let (from, to, step) = (positive(from)?, positive(to)?, positive(step)?);
    if to < from {
        return Err(format!("{part} goes down; write the lower rate first"));
    }
    let mut micros = from.as_micros();
    while micros <= to.as_micros() && rates.len() <= MAX_RATES {
        rates.push(Rate::from_micros(micros).map_err(|error| error.to_string())?);
        micros = micros.saturating_add(step.as_micros());
    }
    Ok(())
}

/// Hours of points even when each is short.
const MAX_RATES: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_single_ones_and_ranges() {
        let rates = |text: &str| text.parse::<Rates>().unwrap().to_string();
        assert_eq!(rates("500,1k,30k/m"), "500/s, 1000/s, 500/s");
        assert_eq!(
            rates("500..2000:500,3000"),
            "500/s, 1000/s, 1500/s, 2000/s, 3000/s"
        );
        let problem = |text: &str| text.parse::<Rates>().unwrap_err();
        assert!(problem("1..5").contains("A..B:STEP"));
        assert!(problem("5..1:1").contains("lower rate first"));
        assert!(problem("0").contains("offers nothing"));
        assert!(problem("1..100000:1").contains("larger step"));
        assert!(!problem("fast").is_empty());
    }
}
