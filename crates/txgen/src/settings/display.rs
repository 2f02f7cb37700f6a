//! How a run is shown.

use clap::Args;
use harness::text;
use ops::ListenAddress;
use pacing::Nanos;
use serde::Deserialize;

use super::COMMON;

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
