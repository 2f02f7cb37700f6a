//! What all mesh commands share, and how it is written.

mod choices;

use std::net::IpAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;

use clap::Args;
use harness::Part;
use harness::StartAt;
use harness::text;
use pacing::Nanos;
use serde::Deserialize;

pub use choices::{CpuQuota, External, Isolation, LinkShape, Protocol, Topology, Variant};

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
    #[serde(deserialize_with = "text::option")]
    pub protocol: Option<Protocol>,

    /// The messages: app (as the load generator of 2020 made them), article (as its article describes
    /// them), or a file [default: app].
    #[arg(long, value_name = "MIX")]
    pub mix: Option<String>,

    /// Who is connected with whom: full, random:K (each dials K others) or capped (between 30 and 36
    /// peers each) [default: full].
    #[arg(long, value_name = "TOPOLOGY")]
    #[serde(deserialize_with = "text::option")]
    pub topology: Option<Topology>,

    /// Peers that a node relays a message to [default: 16, as in the study; a full mesh of fewer
    /// relays to all].
    #[arg(long, value_name = "N")]
    pub fanout: Option<NonZeroU16>,

    /// Parcels that wait for a peer at most; a full queue drops its older half [default: 10000].
    #[arg(long, value_name = "N")]
    pub queue: Option<NonZeroU32>,

    /// Do not send a message back to a peer that sent it (each peer's last minute is remembered).
    #[arg(long)]
    pub resend_filter: bool,

    /// Write all parcels that wait for a peer at once, instead of each in a call of its own.
    #[arg(long)]
    pub batch: bool,

    /// Announce messages by their hash and send them to those who ask, instead of flooding them.
    #[arg(long)]
    pub announce: bool,

    /// What keeps the nodes apart beside being processes: none, loopback-ip (an address of 127.0.0.0/8
    /// each) or netns (a network namespace each; needs root) [default: none].
    #[arg(long, value_name = "ISOLATION")]
    #[serde(deserialize_with = "text::option")]
    pub isolation: Option<Isolation>,

    /// What each node's link is like, with --isolation netns: rate, delay and loss, e.g.
    /// 30mbit,40ms,0.1%.
    #[arg(long, value_name = "SHAPE")]
    #[serde(deserialize_with = "text::option")]
    pub link: Option<LinkShape>,

    /// CPUs that the nodes run on, comma-separated; they take them in turn, one each.
    #[arg(long, value_delimiter = ',', value_name = "CPU")]
    pub pin: Vec<usize>,

    /// CPU time that each node may use, as a share of one CPU, to imitate weak machines, e.g. 25%.
    #[arg(long, value_name = "SHARE")]
    #[serde(deserialize_with = "text::option")]
    pub cpu_quota: Option<CpuQuota>,

    /// With several machines: the addresses of all of them, comma-separated. Node I is on the machine
    /// whose place in the list is the remainder of I by their number, and listens on --port plus I.
    #[arg(long, value_delimiter = ',', value_name = "IP")]
    pub hosts: Vec<IpAddr>,

    /// With several machines: which of them this is, e.g. 1/3; its line is the same on all otherwise.
    #[arg(long, value_name = "I/N")]
    #[serde(skip)]
    pub shard: Option<Part>,

    /// With several machines: when the load begins, on the wall clock (RFC 3339, or seconds since
    /// 1970).
    #[arg(long, value_name = "TIME")]
    #[serde(skip)]
    pub start_at: Option<StartAt>,

    /// With several machines: the port of the first node [default: 9200].
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,

    /// How long to wait until all nodes are connected [default: 30s].
    #[arg(long, value_name = "DURATION")]
    #[serde(deserialize_with = "text::option")]
    pub connect_timeout: Option<Nanos>,

    /// How long to wait after the load until nothing is under way [default: 10s].
    #[arg(long, value_name = "DURATION")]
    #[serde(deserialize_with = "text::option")]
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

    /// Print lines, which a mesh run always does; accepted so that scripts can pass it to all loads.
    #[arg(long)]
    #[serde(skip)]
    pub no_tui: bool,
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
            isolation: self.isolation.or(file.isolation),
            link: self.link.or(file.link),
            cpu_quota: self.cpu_quota.or(file.cpu_quota),
            shard: self.shard.or(file.shard),
            start_at: self.start_at.or(file.start_at),
            port: self.port.or(file.port),
            connect_timeout: self.connect_timeout.or(file.connect_timeout),
            drain_timeout: self.drain_timeout.or(file.drain_timeout),
            seed: self.seed.or(file.seed),
            out: self.out.or(file.out),
            pin: if self.pin.is_empty() {
                file.pin
            } else {
                self.pin
            },
            hosts: if self.hosts.is_empty() {
                file.hosts
            } else {
                self.hosts
            },
            resend_filter: self.resend_filter || file.resend_filter,
            batch: self.batch || file.batch,
            announce: self.announce || file.announce,
            quiet: self.quiet || file.quiet,
            no_tui: self.no_tui || file.no_tui,
        }
    }
}
