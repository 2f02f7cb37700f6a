//! The protocol between the program that runs a mesh and its nodes: a JSON document on each line of a Unix socket.
//! `docs/mesh.md` describes it for nodes of other implementations.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::plan::{MeshPlan, PlanDocument};
use crate::settings::PerNode;

/// The configuration of a node, as a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NodeConfig {
    /// Its number, from 0. Node 0 is the generator.
    pub node: u16,
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The address from which it dials.
    pub source: Option<IpAddr>,
    /// What it writes at most over all its links; `None` for no limit.
    pub bits_per_s: Option<u64>,
    /// How much later what it writes leaves it.
    pub delay_us: u64,
    /// The file of the switch that it shares with others, if there is one.
    pub switch_file: Option<PathBuf>,
    /// Every how many messages of its maker one is followed through the mesh.
    pub sample: u64,
    /// The Unix socket that the commands come from.
    pub control: PathBuf,
    /// What all nodes share.
    #[serde(flatten)]
    pub plan: PlanDocument,
}

impl NodeConfig {
    /// That of a node of this plan, which is controlled over this socket.
    pub(crate) fn of(plan: &MeshPlan, node: u16, control: &Path) -> Self {
        let (address, port) = plan.listens(node);
        let document = &plan.document;
        let rate = PerNode::of(&document.node_rate, node);
        let delay = PerNode::of(&document.delay, node);
        Self {
            node,
            listen: SocketAddr::new(address, port),
            source: Some(address),
            bits_per_s: rate.map(|rate| rate.bits_per_second() as u64),
            delay_us: delay.unwrap_or_default().as_micros(),
            switch_file: document.switch.map(|_| control.with_file_name("switch")),
            sample: plan.sample(),
            control: control.to_owned(),
            plan: document.clone(),
        }
    }
}

/// A command of the program to a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Connect to the other nodes; the addresses of all, by number.
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
    /// Report the state of the links.
    Status {
        /// Is sent back.
        round: u64,
    },
    /// Send your last row and end.
    Finish {},
}

/// A message of a node to the program.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NodeMessage {
    /// The first message.
    Hello {
        /// Its number.
        node: u16,
        /// Where it listens.
        listen: SocketAddr,
    },
    /// The nodes that it has a link with, whenever that changes.
    Links {
        /// Their numbers.
        peers: Vec<u16>,
    },
    /// A second is over.
    Row(Row),
    /// The answer to [`Order::Status`].
    Status(Status),
    /// All that was due is offered, or the load was stopped.
    Offered {},
    /// The last message: what was counted since the last row, and how far it is.
    Done {
        /// The rest of the last second.
        row: Row,
        /// The state of its links.
        status: Status,
    },
}

/// Cumulative counts of each link, whose sums show whether anything is under way.
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
    /// The node that made it.
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

base::counters! {
    /// What a node counts: of one second, or of a whole run. Its names are columns of `series.csv`.
    #[derive(Serialize, Deserialize)]
    #[serde(default)]
    pub(crate) struct Counters {
        /// Transactions that this node, as the generator, has offered to the mesh.
        offered,
        /// Messages that this node made: of transactions, periodic ones, requests and answers.
        made,
        /// Of those, such as every node relays.
        made_for_all,
        /// Of those, requests for missing messages.
        requests,
        /// Of those, answers to a peer.
        answers,
        /// Messages of the application seen for the first time.
        first_seen,
        /// Of those, such as every node relays.
        first_seen_for_all,
        /// Messages of the application received again.
        duplicates,
        /// Messages whose type the mix does not have.
        unknown,
        /// Transactions seen for the first time (TPS).
        transactions,
        /// Entries seen for the first time (EPS).
        entries,
        /// Parcels written, whole.
        parcels_out,
        /// Write calls that a socket took something of.
        writes,
        /// Bytes written.
        bytes_out,
        /// Parcels read.
        parcels_in,
        /// Read calls that gave something.
        reads,
        /// Bytes read.
        bytes_in,
        /// Of those, payload of the application's messages.
        payload_in,
        /// Messages of the application read, whether seen before or not.
        messages_in,
        /// Messages put into queues to peers.
        queued_in,
        /// Of those, written.
        messages_out,
        /// Parcels dropped at full queues to peers: the older half of a queue each time.
        dropped_full,
        /// Parcels dropped since their link broke before they were written.
        dropped_link,
        /// Messages made for a peer when there was none.
        dropped_no_peer,
        /// Announced messages that no peer sent, or that could not be asked for.
        never_came,
        /// Messages forgotten within ten minutes, which count as new when they come again.
        forgotten,
        /// Links that ended without being asked to.
        broken_links,
        /// Connections refused or closed: too many, from one address, of a wrong network, malformed.
        refused,
        /// CPU time of the process, in nanoseconds.
        cpu_ns,
        /// Time that the process was ready to run and waited for a CPU, in nanoseconds.
        wait_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_and_a_sum_give_the_whole_again() {
        let early = Counters {
            reads: 2,
            ..Counters::default()
        };
        let late = Counters {
            reads: 5,
            entries: 1,
            ..Counters::default()
        };
        let mut sum = early;
        sum += late.since(&early);
        assert_eq!(sum, late);
        assert_eq!(Counters::NAMES.len(), late.values().len());
    }
}
