//! The settings of a mesh (flags of all commands of `txmesh` and the `[mesh]` table of a file), and the text of each.

use std::fmt;
use std::net::IpAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use gossip::{QueueLimits, Relayed, Settings, Version, topology};
use harness::{BitRate, Part, StartAt, text};
use pacing::Nanos;
use serde::{Deserialize, Serialize};
use servers::nearest;

/// The settings that all mesh commands share, as flags and as the `[mesh]` table of a mesh file.
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

    /// How much of a CPU a node has: for all nodes, or N=SHARE for one, e.g. 60%,3=15%; a weaker machine. A node is
    /// stopped for the rest of the time [default: all of one].
    #[arg(long, value_delimiter = ',', value_name = "SHARE")]
    #[serde(with = "text::list")]
    pub node_cpu: Vec<PerNode<CpuShare>>,

    /// What all nodes of this machine write together at most, as through one switch, e.g. 500Mbit/s [default: no
    /// limit].
    #[arg(long, value_name = "RATE", hide_short_help = true)]
    #[serde(with = "text")]
    pub switch: Option<BitRate>,

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
    /// These settings; those that are missing are taken from a file.
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
            node_cpu: or_list(self.node_cpu, file.node_cpu),
            switch: self.switch.or(file.switch),
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

/// Which nodes are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// Every node with every other.
    Full,
    /// Each node dials this many others, drawn at random.
    Random(u16),
}

impl Topology {
    /// For each node, the nodes that it dials.
    pub(crate) fn dials(self, nodes: u16, seed: u64) -> Vec<Vec<usize>> {
        match self {
            Self::Full => topology::full(usize::from(nodes)),
            Self::Random(links) => topology::random(usize::from(nodes), usize::from(links), seed),
        }
    }
}

impl FromStr for Topology {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "full" => Ok(Self::Full),
            Some(("random", number)) => match number.parse() {
                Ok(number @ 1..) => Ok(Self::Random(number)),
                _ => Err(format!(
                    "{number:?} is not a number of peers; write for instance random:3"
                )),
            },
            _ => Err(unknown("topology", text, &["full", "random:K"])),
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("full"),
            Self::Random(number) => write!(f, "random:{number}"),
        }
    }
}

/// A setting of every node, or of one of them: `30Mbit/s`, `2=5Mbit/s`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PerNode<T> {
    /// The node; `None` for all nodes without a value of their own.
    pub node: Option<u16>,
    /// Its value.
    pub value: T,
}

impl<T: Copy> PerNode<T> {
    /// The value of a node.
    #[must_use]
    pub fn of(settings: &[Self], node: u16) -> Option<T> {
        let found = |wanted| settings.iter().rev().find(|it| it.node == wanted);
        found(Some(node)).or_else(|| found(None)).map(|it| it.value)
    }
}

impl<T: FromStr<Err: fmt::Display>> FromStr for PerNode<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (node, value) = match text.split_once('=') {
            Some((node, value)) => (Some(node), value),
            None => (None, text),
        };
        let node = node.map(str::parse).transpose();
        let node = node.map_err(|_| format!("cannot read the node of {text:?}; write N=VALUE"))?;
        let value = value.parse().map_err(|error: T::Err| error.to_string())?;
        Ok(Self { node, value })
    }
}

impl<T: fmt::Display> fmt::Display for PerNode<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(node) = self.node {
            write!(f, "{node}=")?;
        }
        self.value.fmt(f)
    }
}

/// The speed of a CPU relative to this machine's, or in a simulation to the machine's whose costs are used: `25%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuShare(pub f64);

impl FromStr for CpuShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = text
            .strip_suffix('%')
            .and_then(|text| text.parse::<f64>().ok());
        match percent {
            Some(percent) if (1.0..=6400.0).contains(&percent) => Ok(Self(percent / 100.0)),
            _ => Err(format!(
                "{text:?} is not a share of a CPU; write 1% to 6400%, for instance 25%"
            )),
        }
    }
}

impl fmt::Display for CpuShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0 * 100.0)
    }
}

/// A program of another implementation: `go=target/mesh-go`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct External {
    /// Its name in tables.
    pub name: String,
    /// The program.
    pub program: PathBuf,
}

impl FromStr for External {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, program)) if !name.is_empty() && !program.is_empty() => Ok(Self {
                name: name.into(),
                program: program.into(),
            }),
            _ => Err(format!(
                "cannot read {text:?}; write NAME=PROGRAM, for instance go=./mesh-go"
            )),
        }
    }
}

base::settings! {
    /// One side of a comparison: a protocol and how its messages are sent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Variant {
        /// The wire protocol.
        #[serde(with = "text::value")]
        pub protocol: Version = Version::V11,
        /// All waiting parcels of a peer in one write.
        pub batch: bool = false,
        /// Hash first, message on demand.
        pub announce: bool = false,
    }
}

impl Variant {
    /// The settings of a node of this variant.
    pub(crate) fn node(self, fanout: u16, queue: u32, relayed: Relayed) -> Settings {
        Settings {
            version: self.protocol,
            fanout: usize::from(fanout),
            relayed,
            announce: self.announce,
            // The most that one call writes; 0 writes one parcel a call.
            batch_bytes: if self.batch { BATCH_BYTES } else { 0 },
            queue: QueueLimits {
                parcels: queue as usize,
                ..QueueLimits::default()
            },
            ..Settings::default()
        }
    }
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('+');
        let mut variant = Self {
            protocol: parts.next().unwrap_or_default().parse()?,
            ..Self::default()
        };
        for part in parts {
            match part {
                "batch" => variant.batch = true,
                "announce" => variant.announce = true,
                _ => return Err(unknown("way to send", part, &["batch", "announce"])),
            }
        }
        Ok(variant)
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.protocol.fmt(f)?;
        let ways = [(self.batch, "batch"), (self.announce, "announce")];
        let mut ways = ways.into_iter().filter(|(is_on, _)| *is_on);
        ways.try_for_each(|(_, way)| write!(f, "+{way}"))
    }
}

fn unknown(what: &str, text: &str, known: &[&str]) -> String {
    let hint = match nearest(text, known.iter().copied()) {
        Some(near) => format!("; did you mean {near}?"),
        None => format!("; there are: {}", known.join(", ")),
    };
    format!("there is no {what} {text:?}{hint}")
}

/// What a socket's buffer takes at once.
const BATCH_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use pacing::Nanos;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["v9", "v10", "v11", "v11+batch", "v11+batch+announce"] {
            assert_eq!(text.parse::<Variant>().unwrap().to_string(), text);
        }
        for text in ["full", "random:3"] {
            assert_eq!(text.parse::<Topology>().unwrap().to_string(), text);
        }
        for text in ["40ms", "2=5s"] {
            assert_eq!(text.parse::<PerNode<Nanos>>().unwrap().to_string(), text);
        }
        assert_eq!("25%".parse::<CpuShare>().unwrap().to_string(), "25%");
    }

    #[test]
    fn a_value_of_one_node_beats_that_of_all() {
        let delays = ["40ms", "2=100ms"].map(|text| text.parse().unwrap());
        assert_eq!(PerNode::of(&delays, 1), Some(Nanos::from_millis(40)));
        assert_eq!(PerNode::of(&delays, 2), Some(Nanos::from_millis(100)));
        assert_eq!(PerNode::<Nanos>::of(&[], 2), None);
    }

    #[test]
    fn what_is_mistyped_is_named_with_what_was_meant() {
        let problem = |text: &str| text.parse::<Variant>().unwrap_err();
        assert!(problem("v12").contains("v9, v10 and v11"));
        assert!(problem("v11+bach").contains("did you mean batch?"));
        assert!(
            "ful"
                .parse::<Topology>()
                .unwrap_err()
                .contains("did you mean full?")
        );
        assert!("random:0".parse::<Topology>().is_err());
        assert!("x=40ms".parse::<PerNode<Nanos>>().is_err());
        assert!("25".parse::<CpuShare>().is_err());
    }
}
