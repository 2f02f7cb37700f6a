//! `manifest.json`: the plan, the program, the endpoints and the machine. Written before the first transaction.

use std::io;

use serde::{Deserialize, Serialize};

use crate::format::document::{self, ReadError};
use crate::format::plan_document::PlanDocument;

/// The whole of `manifest.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`](crate::FORMAT).
    pub format: String,
    /// Version of the program.
    pub version: String,
    /// The command line, as given.
    pub command: Vec<String>,
    /// When the run's origin was, in Unix nanoseconds.
    pub origin_unix_ns: u64,
    /// By how much the wall clock had moved against the monotonic one since the origin was set, when
    /// this was written; the origin is the number that was agreed on with other generators.
    #[serde(default)]
    pub origin_error_ns: i64,
    /// The same instant for people: RFC 3339 in UTC.
    pub started: String,
    /// The resolved plan.
    pub plan: PlanDocument,
    /// One line that a person reads, for example `ramp 1/s +500/s every 30s to 7000/s`.
    pub profile: String,
    /// Transactions planned, where the profile has an end.
    pub planned: Option<u64>,
    /// The seed of everything random.
    pub seed: u64,
    /// Where the transactions go; the column `endpoint` counts from here.
    pub endpoints: Vec<EndpointInfo>,
    /// What the nodes take at most, as far as it is known.
    #[serde(default)]
    pub limits: NodeLimits,
    /// The machine that generates.
    pub host: Host,
}

/// What a node takes at most; `None` where there is no limit or it is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLimits {
    /// Transactions in a block: the built-in node's `max_block_txs`.
    pub block_txs: Option<u64>,
    /// Bytes of a block: the consensus parameters' `block.max_bytes`.
    pub block_bytes: Option<u64>,
    /// Gas of a block: the consensus parameters' `block.max_gas`.
    pub block_gas: Option<u64>,
    /// Transactions in the mempool: the built-in node's `mempool.size`.
    pub mempool_txs: Option<u64>,
}

/// One target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointInfo {
    /// Its address as used.
    pub url: String,
    /// Its chain.
    pub chain_id: Option<String>,
    /// The version that it reports, for example `0.38.17`.
    pub node_version: Option<String>,
    /// Whether this program started it.
    pub built_in: bool,
}

/// The machine that generates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Operating system and its release.
    pub os: String,
    /// Processor model.
    pub cpu: Option<String>,
    /// Logical processors.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// How exact its clock is, where the system says so.
    #[serde(default)]
    pub clock: Option<ClockBound>,
}

/// What keeps a machine's wall clock says of its error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClockBound {
    /// Who says it, for example `chrony`.
    pub source: String,
    /// The largest error that the clock may have, in milliseconds.
    pub error_ms: f64,
}

impl Manifest {
    /// Reads one.
    ///
    /// # Errors
    /// When it cannot be read, is of another format, or is no manifest.
    pub fn read_from(reader: &mut impl io::Read) -> Result<Self, ReadError> {
        document::read_document("manifest.json", reader)
    }

    /// Writes it as indented JSON with a final newline.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_to(&self, writer: &mut impl io::Write) -> io::Result<()> {
        document::write_document(self, writer)
    }
}
