//! What the program that runs a mesh and its nodes say to each other: a JSON document on each line of a
//! Unix socket. `docs/mesh.md` describes it for nodes of other implementations.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::counters::Counters;
use crate::settings::{Topology, Variant};

/// Everything a node has to know, as a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NodeConfig {
    /// Its number, from 0. Node 0 is the generator.
    pub node: u16,
    /// How many there are.
    pub nodes: u16,
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The address from which it dials.
    pub source: Option<IpAddr>,
    /// The wire protocol and the ways to send.
    #[serde(flatten)]
    pub variant: Variant,
    /// Whom it connects with.
    pub topology: Topology,
    /// Peers to relay to.
    pub fanout: u16,
    /// Parcels that may wait for a peer.
    pub queue: u32,
    /// The mix, as the text of its file.
    pub mix: String,
    /// The load of the generator, as the phases of a scenario file.
    pub phases: Vec<serde_json::Value>,
    /// The seed of everything random.
    pub seed: u64,
    /// Every how many messages of its maker one is followed through the mesh.
    pub sample: u64,
    /// The CPUs that it may run on; empty for all.
    pub cpus: Vec<usize>,
    /// The socket on which it is told what to do.
    pub control: PathBuf,
}

/// What a node is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Connect; everybody's address, by number.
    Join {
        /// The addresses.
        peers: Vec<SocketAddr>,
    },
    /// The origin of the load is this instant of the wall clock.
    Start {
        /// In nanoseconds since the Unix epoch.
        origin_unix_ns: u64,
    },
    /// Stop offering now.
    Stop {},
    /// Say how far you are.
    Status {
        /// Is sent back.
        round: u64,
    },
    /// Send your last row and end.
    Finish {},
}

/// What a node says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    /// The first word.
    Hello {
        /// Its number.
        node: u16,
        /// Where it listens.
        listen: SocketAddr,
    },
    /// With whom it has a link, whenever that changes.
    Links {
        /// Their numbers.
        peers: Vec<u16>,
    },
    /// A second is over.
    Row(Row),
    /// The answer to [`Order::Status`].
    Status(Status),
    /// All that was due is offered, or it was told to stop.
    Offered {},
    /// The last word: what was counted since the last row, and how far it is.
    Done {
        /// The rest of the last second.
        row: Row,
        /// How far it is.
        status: Status,
    },
}

/// How far a node is: cumulative counts of each link, whose sum tells whether anything is under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    /// Of the order that it answers.
    pub round: u64,
    /// Parcels that wait in queues.
    pub queued: u64,
    /// The links to each peer, all there were.
    pub links: Vec<LinkCount>,
}

/// All links to one peer together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkCount {
    /// Its number.
    pub peer: u16,
    /// Parcels written to it, whole.
    pub written: u64,
    /// Parcels read from it.
    pub read: u64,
    /// How many of the links have broken.
    pub broken: u64,
}

/// What a node counted in a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Row {
    /// The second since the origin.
    pub second: u64,
    /// What was counted in it.
    pub counters: Counters,
    /// Parcels that wait in queues at its end.
    pub queued: u64,
    /// Links at its end.
    pub links: u64,
    /// First sights by their latency from due: microseconds and how many.
    pub latency_us: Vec<(u64, u64)>,
    /// The generator's lateness, from due to handed to the node: microseconds and how many.
    pub lateness_us: Vec<(u64, u64)>,
    /// Messages that are followed.
    pub sampled: Vec<Sample>,
    /// What coding cost, of the parcels that were timed.
    pub codec: CodecTime,
}

/// A followed message was made, or seen for the first time by a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Who made it.
    pub maker: u16,
    /// Which of the maker's messages it is.
    pub sequence: u64,
    /// When it was due, in microseconds since the origin.
    pub due_us: u64,
    /// When this node saw it first; `None` from its maker when it was made.
    pub seen_us: Option<u64>,
}

/// What encoding and decoding cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CodecTime {
    /// Parcels that were timed.
    pub parcels: u64,
    /// To encode them, in nanoseconds.
    pub encode_ns: u64,
    /// To decode them, in nanoseconds.
    pub decode_ns: u64,
}

impl std::ops::AddAssign for CodecTime {
    fn add_assign(&mut self, other: Self) {
        self.parcels += other.parcels;
        self.encode_ns += other.encode_ns;
        self.decode_ns += other.decode_ns;
    }
}
