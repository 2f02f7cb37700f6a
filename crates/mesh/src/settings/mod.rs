//! What all mesh commands share, and how it is written.

mod choices;

use std::net::IpAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;

use clap::Args;
use gossip::Version;
use harness::{BitRate, Part, StartAt, text};
use pacing::Nanos;
use serde::Deserialize;

pub use choices::{CpuShare, External, PerNode, Topology, Variant};

/// What all mesh commands share, as flags and as the `[mesh]` table of a mesh file.
#[derive(Debug, Default, Clone, Args, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
#[command(next_help_heading = "Mesh options")]
pub struct MeshSettings {
    /// Nodes in the mesh, the generator among them [default: 5].
    #[arg(long, value_name = "N")]
    pub nodes: Option<NonZeroU16>,

    /// The wire protocol: v9, v10 or v11 [default: v11].
    #[arg(long, value_name = "VERSION")]
    #[serde(with = "text")]
    pub protocol: Option<Version>,

    /// The messages: app (as the load generator of 2020 made them), article (as its article describes
    /// them), or a file [default: app].
    #[arg(long, value_name = "MIX")]
    pub mix: Option<String>,

    /// Which nodes are connected: full (all with all) or random:K (each dials K others)
    /// [default: full].
    #[arg(long, value_name = "TOPOLOGY")]
    #[serde(with = "text")]
    pub topology: Option<Topology>,

    /// Peers that a node relays a message to [default: 16, as in the study; a full mesh of fewer
    /// relays to all].
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub fanout: Option<NonZeroU16>,

    /// Parcels that wait for a peer at most; a full queue drops its older half [default: 10000].
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub queue: Option<NonZeroU32>,

    /// Messages that a node remembers, to recognise them when they come again, at about 100 bytes each; what is
    /// forgotten within ten minutes counts as new [default: 1048576, those of 27 s at 7,000 entries/s].
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub remembered: Option<NonZeroU32>,

    /// Write all parcels that wait for a peer at once, instead of each in a call of its own.
    #[arg(long, hide_short_help = true)]
    pub batch: bool,

    /// Announce messages by their hash and send them to the peers that request them, instead of flooding them.
    #[arg(long, hide_short_help = true)]
    pub announce: bool,

    /// An address of 127.0.0.0/8 for each node, in place of 127.0.0.1 for all.
    #[arg(long, hide_short_help = true)]
    pub loopback_ip: bool,

    /// What a node writes at most, over all its links: for all nodes, or N=RATE for one, e.g. 30Mbit/s,2=5Mbit/s
    /// [default: no limit].
    #[arg(long, value_delimiter = ',', value_name = "RATE")]
    #[serde(with = "text::list")]
    pub node_rate: Vec<PerNode<BitRate>>,

    /// How much later what a node writes leaves it: for all nodes, or N=DELAY for one, e.g. 40ms,2=100ms
    /// [default: not at all].
    #[arg(long, value_delimiter = ',', value_name = "DELAY")]
    #[serde(with = "text::list")]
    pub delay: Vec<PerNode<Nanos>>,

    /// With several machines: the addresses of all of them, comma-separated. Node I is on the machine
    /// whose place in the list is the remainder of I by their number, and listens on --port plus I.
    #[arg(long, value_delimiter = ',', value_name = "IP", hide_short_help = true)]
    pub hosts: Vec<IpAddr>,

    /// With several machines: which of them this is, e.g. 1/3; its line is the same on all otherwise.
    #[arg(long, value_name = "I/N", hide_short_help = true)]
    #[serde(skip)]
    pub shard: Option<Part>,

    /// With several machines: when the load begins, on the wall clock (RFC 3339, or seconds since
    /// 1970).
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    #[serde(skip)]
    pub start_at: Option<StartAt>,

    /// With several machines: the port of the first node [default: 9200].
    #[arg(long, value_name = "PORT", hide_short_help = true)]
    pub port: Option<u16>,

    /// How long to wait until all nodes are connected [default: 30s].
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    #[serde(with = "text")]
    pub connect_timeout: Option<Nanos>,

    /// How long to wait after the load until nothing is under way [default: 10s].
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    #[serde(with = "text")]
    pub drain_timeout: Option<Nanos>,

    /// Seed of everything random; by default a fresh one, which the summary names.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Where the run is written [default: runs/UTC-mesh-PROFILE].
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Print no line for each second.
    #[arg(short, long)]
    pub quiet: bool,
}

impl MeshSettings {
    /// These, completed by those of a file.
    #[must_use]
    pub fn over(self, file: Self) -> Self {
        Self {
            nodes: self.nodes.or(file.nodes),
            protocol: self.protocol.or(file.protocol),
            mix: self.mix.or(file.mix),
            topology: self.topology.or(file.topology),
            fanout: self.fanout.or(file.fanout),
            queue: self.queue.or(file.queue),
            remembered: self.remembered.or(file.remembered),
            shard: self.shard.or(file.shard),
            start_at: self.start_at.or(file.start_at),
            port: self.port.or(file.port),
            connect_timeout: self.connect_timeout.or(file.connect_timeout),
            drain_timeout: self.drain_timeout.or(file.drain_timeout),
            seed: self.seed.or(file.seed),
            out: self.out.or(file.out),
            hosts: or_list(self.hosts, file.hosts),
            node_rate: or_list(self.node_rate, file.node_rate),
            delay: or_list(self.delay, file.delay),
            loopback_ip: self.loopback_ip || file.loopback_ip,
            batch: self.batch || file.batch,
            announce: self.announce || file.announce,
            quiet: self.quiet || file.quiet,
        }
    }
}

fn or_list<T>(own: Vec<T>, file: Vec<T>) -> Vec<T> {
    if own.is_empty() { file } else { own }
}
