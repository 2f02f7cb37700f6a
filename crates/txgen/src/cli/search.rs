//! `txgen search`: what the user typed.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use clap::Args;
use pacing::{Nanos, Rate};

use crate::settings::{Settings, Share};
use crate::threshold::Kept;

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
