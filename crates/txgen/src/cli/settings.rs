//! What all load commands share, as flags and as the `[settings]` table of a scenario file.

use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pacing::{Arrivals, CatchUp, Nanos};
use rpc::{BroadcastMethod, Endpoint};
use serde::Deserialize;

use super::text;
use crate::part::Part;
use crate::start_at::StartAt;
use crate::threshold::Threshold;
use crate::workload::{FileFormat, WorkloadKind};

/// Every field is optional: a flag beats the environment, the environment a scenario file, the file
/// the default. The defaults are filled in by [`crate::plan::Plan`].
#[derive(Debug, Default, Clone, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = "Common options")]
pub struct Settings {
    /// RPC addresses of the node(s), comma-separated: http, https, ws or wss. They are used in turn
    /// and all followed. Without any a built-in node is started.
    #[arg(
        long,
        value_delimiter = ',',
        env = "TXGEN_ENDPOINTS",
        value_name = "URL"
    )]
    #[serde(deserialize_with = "text::list")]
    pub endpoints: Vec<Endpoint>,

    /// Which broadcast call carries a transaction [default: sync].
    #[arg(
        long,
        value_name = "async|sync|commit",
        env = "TXGEN_BROADCAST_TX_METHOD"
    )]
    #[serde(deserialize_with = "text::option")]
    pub broadcast_tx_method: Option<BroadcastMethod>,

    /// Connections per endpoint [default: 16 over http, 4 over ws].
    #[arg(short, long, value_name = "N")]
    pub connections: Option<NonZeroU32>,

    /// Local addresses to connect from, comma-separated; the connections take them in turn. For
    /// targets that tell their clients apart by address (on loopback any of 127.0.0.0/8 will do).
    #[arg(long, value_delimiter = ',', value_name = "IP")]
    #[serde(deserialize_with = "text::list")]
    pub source_address: Vec<IpAddr>,

    /// How to speak to the endpoints; overrides the schemes of their URLs.
    #[arg(long, value_enum)]
    pub transport: Option<TransportChoice>,

    /// Trust the certificates of this PEM file too (https and wss), beside those of the system.
    #[arg(long, value_name = "PATH")]
    pub ca_file: Option<PathBuf>,

    /// What to send: kvstore (unique keys) or file:PATH (one transaction per line) [default: kvstore].
    #[arg(long, value_name = "KIND")]
    #[serde(deserialize_with = "text::option")]
    pub workload: Option<WorkloadKind>,

    /// How the lines of file:PATH spell a transaction: auto, base64, hex or raw [default: auto].
    #[arg(long, value_name = "FORMAT")]
    #[serde(deserialize_with = "text::option")]
    pub file_format: Option<FileFormat>,

    /// Exact size of a kvstore transaction in bytes, from 16 [default: 250].
    #[arg(short, long, value_name = "BYTES")]
    pub size: Option<usize>,

    /// Makes transactions and random arrivals repeatable; a random seed is drawn and recorded
    /// otherwise.
    #[arg(long)]
    pub seed: Option<u64>,

    /// How due times are spread inside the profile: even, poisson or burst:N [default: even].
    #[arg(long, value_name = "KIND")]
    #[serde(deserialize_with = "text::option")]
    pub arrivals: Option<Arrivals>,

    /// What becomes of transactions that are late: full (all are sent), bounded:DURATION (later ones
    /// are dropped and counted) or none [default: full].
    #[arg(long, value_name = "POLICY")]
    #[serde(deserialize_with = "text::option")]
    pub catch_up: Option<CatchUp>,

    /// Leave what happens before this out of the latencies and the per-second rates [default: 0s].
    #[arg(long, value_name = "DURATION")]
    #[serde(deserialize_with = "text::option")]
    pub warmup: Option<Nanos>,

    /// How long to wait for answers and commits after the last due time [default: 30s].
    #[arg(long, value_name = "DURATION")]
    #[serde(deserialize_with = "text::option")]
    pub drain_timeout: Option<Nanos>,

    /// Transactions due and not yet answered, at most; past it they are counted as unsent
    /// [default: 100000].
    #[arg(long, value_name = "N")]
    pub max_in_flight: Option<NonZeroU64>,

    /// How long an answer may take before its connection is given up [default: 60s].
    #[arg(long, value_name = "DURATION")]
    #[serde(deserialize_with = "text::option")]
    pub answer_timeout: Option<Nanos>,

    /// Sender threads [default: half the cores].
    #[arg(short, long, value_name = "N")]
    pub threads: Option<NonZeroU32>,

    /// Spin this long before each due time instead of sleeping to it; costs that share of a core
    /// [default: 0s].
    #[arg(long, value_name = "DURATION")]
    #[serde(deserialize_with = "text::option")]
    pub spin: Option<Nanos>,

    /// Do not follow blocks: transactions end as accepted (for targets that make no blocks).
    #[arg(long)]
    pub no_follow: bool,

    /// A condition on summary.json, e.g. 'commit.p99<5s', 'rate.error<0.5%', 'fate.errors==0'; may be
    /// repeated. Exit code 99 when one is broken.
    #[arg(long, value_name = "CONDITION")]
    #[serde(deserialize_with = "text::list")]
    pub threshold: Vec<Threshold>,

    /// A condition that must hold while the run goes on, in the grammar of --threshold; may be
    /// repeated. Once a second it is checked on everything so far, and the run ends early, drained and
    /// written, when one is broken. Exit code 99.
    #[arg(long, value_name = "CONDITION")]
    #[serde(deserialize_with = "text::list")]
    pub abort_on: Vec<Threshold>,

    /// Send only part I of N of the schedule, as one of N generators that make one load together:
    /// 1/4 to 4/4. All need the same load and --seed; txgen merge joins their run folders.
    #[arg(long, value_name = "I/N")]
    #[serde(deserialize_with = "text::option")]
    pub shard: Option<Part>,

    /// Begin at this time, the same for all generators: RFC 3339 or seconds since 1970.
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "text::option")]
    pub start_at: Option<StartAt>,

    /// The run folder; must not exist or be empty [default: runs/UTC-PROFILE].
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Print a JSON line with the live figures to stdout this often.
    #[arg(long, value_name = "DURATION")]
    #[serde(deserialize_with = "text::option")]
    pub report_interval: Option<Nanos>,

    /// No progress bar, only lines.
    #[arg(long)]
    pub no_tui: bool,

    /// Print the plan (count, peak, duration, a chart of the rate) and stop.
    #[arg(long)]
    #[serde(skip)]
    pub dry_run: bool,
}

/// A transport forced on all endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportChoice {
    /// HTTP/1.1 keep-alive, one request in flight per connection.
    Http,
    /// WebSocket, many requests in flight matched by id.
    Ws,
}

impl Settings {
    /// These settings where they are given, `base` elsewhere.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        Self {
            endpoints: or_list(self.endpoints, base.endpoints),
            broadcast_tx_method: self.broadcast_tx_method.or(base.broadcast_tx_method),
            connections: self.connections.or(base.connections),
            source_address: or_list(self.source_address, base.source_address),
            transport: self.transport.or(base.transport),
            ca_file: self.ca_file.or(base.ca_file),
            workload: self.workload.or(base.workload),
            file_format: self.file_format.or(base.file_format),
            size: self.size.or(base.size),
            seed: self.seed.or(base.seed),
            arrivals: self.arrivals.or(base.arrivals),
            catch_up: self.catch_up.or(base.catch_up),
            warmup: self.warmup.or(base.warmup),
            drain_timeout: self.drain_timeout.or(base.drain_timeout),
            max_in_flight: self.max_in_flight.or(base.max_in_flight),
            answer_timeout: self.answer_timeout.or(base.answer_timeout),
            threads: self.threads.or(base.threads),
            spin: self.spin.or(base.spin),
            no_follow: self.no_follow || base.no_follow,
            threshold: or_list(self.threshold, base.threshold),
            abort_on: or_list(self.abort_on, base.abort_on),
            shard: self.shard.or(base.shard),
            start_at: self.start_at.or(base.start_at),
            out: self.out.or(base.out),
            report_interval: self.report_interval.or(base.report_interval),
            no_tui: self.no_tui || base.no_tui,
            dry_run: self.dry_run || base.dry_run,
        }
    }
}

fn or_list<T>(given: Vec<T>, base: Vec<T>) -> Vec<T> {
    if given.is_empty() { base } else { given }
}
