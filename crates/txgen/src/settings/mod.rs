//! What all load commands share, as flags and as the `[settings]` table of a scenario file.

/// One layer of settings over another, each field in the way of its type; the compiler asks for one that is left out.
macro_rules! over {
    (
        $own:ident, $base:ident;
        settings: $($nested:ident)*;
        options: $($option:ident)*;
        lists: $($list:ident)*;
        flags: $($flag:ident)*;
    ) => {
        Self {
            $($nested: $own.$nested.over($base.$nested),)*
            $($option: $own.$option.or($base.$option),)*
            $($list: if $own.$list.is_empty() { $base.$list } else { $own.$list },)*
            $($flag: $own.$flag || $base.$flag,)*
        }
    };
}

mod observed;

use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use chain::{Chain, FileFormat};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
pub use harness::Share;
pub(crate) use harness::text;
use harness::{Part, StartAt};
use measure::KeptRows;
use pacing::{Arrivals, CatchUp, Nanos};
use rpc::{BroadcastMethod, Endpoint, Transport};
use sender::shard::AtMaxInFlight;
use serde::Deserialize;

pub use self::observed::{Observed, ObservedError};
use crate::chains::{ChainSettings, TargetKind, WorkloadKind};
use crate::profiler::{ProfiledProcess, StackMethod};
use crate::threshold::Threshold;

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

    /// Record this node, too, on the run's clock: name=URL, name=URL,pid=PID or
    /// name=URL,metrics=URL. May be given several times.
    /// Its height, mempool, blocks and first sights of transactions go into nodes.csv and sights.csv; what its
    /// process uses comes from PID on this machine, or from its Prometheus metrics, which for a CometBFT also say
    /// which stage was at work. With name=bitcoin-p2p://HOST:PORT blocks and transactions are observed as the node
    /// announces them to its peers.
    #[arg(long, value_name = "NODE")]
    #[serde(deserialize_with = "text::list")]
    pub observe: Vec<Observed>,

    /// Wait until so many nodes of the first endpoint's network answer, itself included, and record them all
    /// as --observe does.
    #[arg(long, value_name = "N")]
    pub discover: Option<NonZeroU32>,

    /// What to speak to: cometbft (a node's RPC), bigchaindb (BigchainDB's HTTP API; commits come
    /// from its event stream) or bitcoin (the JSON-RPC of btcd, bchd or Bitcoin Core)
    /// [default: cometbft; with --workload bitcoin: bitcoin].
    #[arg(long, value_enum, env = "TXGEN_TARGET", value_name = "KIND")]
    #[serde(deserialize_with = "text::option")]
    pub target: Option<TargetKind>,

    /// Which broadcast call carries a transaction; for bigchaindb, which mode [default: sync].
    #[arg(
        long,
        value_name = "async|sync|commit",
        env = "TXGEN_BROADCAST_TX_METHOD"
    )]
    #[serde(deserialize_with = "text::option")]
    pub broadcast_tx_method: Option<BroadcastMethod>,

    /// Connections per endpoint. Without it, over http, more are opened where the highest rate and the
    /// round trip, measured before, need more: up to 512 (to bigchaindb 16)
    /// [default: 16 over http, 4 over ws].
    #[arg(short, long, value_name = "N")]
    pub connections: Option<NonZeroU32>,

    /// Local addresses to connect from, comma-separated; the connections take them in turn. For
    /// targets that tell their clients apart by address (on loopback any of 127.0.0.0/8 will do).
    #[arg(long, value_delimiter = ',', value_name = "IP")]
    #[serde(deserialize_with = "text::list")]
    pub source_address: Vec<IpAddr>,

    /// How to speak to the endpoints; overrides the schemes of their URLs.
    #[arg(long, value_parser = PossibleValuesParser::new(["http", "ws"]).try_map(|text| text.parse::<Transport>()))]
    #[serde(deserialize_with = "text::option")]
    pub transport: Option<Transport>,

    /// Trust the certificates of this PEM file too (https and wss), beside those of the system.
    #[arg(long, value_name = "PATH")]
    pub ca_file: Option<PathBuf>,

    /// What to send: kvstore (unique keys), bigchaindb-create, bigchaindb-transfer (chains over
    /// outputs that are made before the load), cosmos-send or cosmos-multisend (transfers on a Cosmos
    /// SDK chain), bitcoin (from a wallet of its own, see --wallet), or file:PATH (one transaction per line)
    /// [default: kvstore; with --target bigchaindb: bigchaindb-create, with bitcoin: bitcoin].
    #[arg(long, value_name = "KIND")]
    #[serde(deserialize_with = "text::option")]
    pub workload: Option<WorkloadKind>,

    /// How the lines of file:PATH spell a transaction: auto, base64, hex or raw [default: auto].
    #[arg(long, value_name = "FORMAT")]
    #[serde(deserialize_with = "text::option")]
    pub file_format: Option<FileFormat>,

    /// Exact size of a kvstore transaction in bytes, from 16 [default: 250]. For bigchaindb as in the
    /// original's benchmark: characters of text in an asset's data [default: 0, data is null].
    #[arg(short, long, value_name = "BYTES")]
    pub size: Option<usize>,

    /// Transactions that spend one another in turn, for bigchaindb-transfer and bitcoin. A BigchainDB
    /// refuses to spend what is not committed yet: a chain's next one comes after one of every other
    /// chain [default: 1; for bitcoin as many as 100,000 chains need].
    #[arg(long, value_name = "N")]
    pub chain_depth: Option<NonZeroU32>,

    /// Threads that sign transactions ahead (bigchaindb, cosmos, bitcoin); what is sent does not depend on
    /// their number
    /// [default: half the cores].
    #[arg(long, value_name = "N")]
    pub signing_threads: Option<NonZeroU32>,

    /// Signed transactions that may be ready before they are due, and are before the load begins: where the
    /// node under test shares the machine, signing then takes nothing from it; up to 1,000,000
    /// [default: what 8 MiB hold for each sender].
    #[arg(long, value_name = "N")]
    pub signed_ahead: Option<NonZeroU32>,

    /// What only loads on one chain have.
    #[command(flatten)]
    #[serde(skip)]
    pub chains: ChainSettings,

    /// The seed that accounts follow from, where the runs of one command have seeds of their own.
    #[arg(skip)]
    #[serde(skip)]
    pub accounts_seed: Option<u64>,

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

    /// Transactions due and not yet answered, at most; see --at-max-in-flight [default: 100000].
    #[arg(long, value_name = "N")]
    pub max_in_flight: Option<NonZeroU64>,

    /// What becomes of transactions that fall due when --max-in-flight is reached: drop (they are
    /// counted as unsent) or wait (they leave late, in their order, as answers come) [default: drop].
    #[arg(long, value_enum, value_name = "drop|wait")]
    pub at_max_in_flight: Option<AtMaxInFlight>,

    /// How long an answer may take before its transaction is given up; a connection that brought no
    /// answer for as long is opened anew [default: 60s].
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

    /// A condition on summary.json, e.g. 'commit.p99<5s', 'failed.share<0.5%',
    /// 'rate.committed_tps>500/s', 'fate.errors==0'; may be repeated. Exit code 99 when one is broken, or
    /// when unfinished transactions leave it open whether it is.
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

    /// Which transactions have a row of 151 to 177 bytes in txs.csv: all, sample:1/N (by their hash) or
    /// none. Counts, latencies, reports and comparisons are the same; merging, and the summary of a run
    /// that was killed, need each row [default: all].
    #[arg(long, value_name = "WHICH")]
    #[serde(deserialize_with = "text::option")]
    pub rows: Option<KeptRows>,

    /// Print a JSON line with the live figures to stdout this often.
    #[arg(long, value_name = "DURATION")]
    #[serde(deserialize_with = "text::option")]
    pub report_interval: Option<Nanos>,

    /// Sample a process of this machine while the load runs, by its id, and draw flame.svg in the run
    /// folder; `self` is txgen with the built-in node. Samples by Linux perf, or by py-spy where the
    /// process is Python and py-spy is installed.
    #[arg(long, value_name = "PID")]
    #[serde(deserialize_with = "text::option")]
    pub profile_pid: Option<ProfiledProcess>,

    /// Samples a second on each core, for --profile-pid [default: 99].
    #[arg(long, value_name = "HZ")]
    pub profile_frequency: Option<NonZeroU32>,

    /// How perf finds callers for --profile-pid: fp (frame pointers), dwarf (unwinding tables) or auto
    /// (fp for programs made by Go, dwarf for all others) [default: auto].
    #[arg(long, value_name = "auto|fp|dwarf")]
    #[serde(deserialize_with = "text::option")]
    pub profile_stacks: Option<StackMethod>,

    /// Serve the live figures as Prometheus metrics at http://ADDR/metrics; a port alone is on
    /// loopback.
    #[arg(long, value_name = "ADDR")]
    #[serde(deserialize_with = "text::option")]
    pub metrics: Option<ops::ListenAddress>,

    /// No full-screen view, only lines.
    #[arg(long)]
    pub no_tui: bool,

    /// Print the plan (count, peak, duration, a chart of the rate) and stop.
    #[arg(long)]
    #[serde(skip)]
    pub dry_run: bool,
}

impl Settings {
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

    /// These settings where they are given, `base` elsewhere.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        over! {
            self, base;
            settings: chains;
            options:
                target broadcast_tx_method connections transport ca_file
                workload accounts_seed file_format size chain_depth signing_threads signed_ahead seed
                discover arrivals catch_up warmup drain_timeout max_in_flight at_max_in_flight answer_timeout threads
                spin shard start_at out rows report_interval metrics
                profile_pid profile_frequency profile_stacks;
            lists: endpoints observe source_address threshold abort_on;
            flags: no_follow no_tui dry_run;
        }
    }
}
