//! `manifest.json`: the plan, the program, the endpoints and the machine. Written before the first transaction. Parts of
//! one load have to agree in some of it, and sides of a comparison that do not are not the same load.

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
    /// How exact its clock is, where the system reports it.
    #[serde(default)]
    pub clock: Option<ClockBound>,
}

/// The error of a machine's wall clock, as the program that keeps it reports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClockBound {
    /// The program that reports it, for example `chrony`.
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

/// One thing that is fixed about a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadField {
    /// The version of the files.
    Format,
    /// The version of the program.
    Version,
    /// How many generators share the load.
    Generators,
    /// The profile, in words.
    Load,
    /// A hash of all due times.
    Schedule,
    /// How due times are spread.
    Arrivals,
    /// The seed.
    Seed,
    /// What is sent, with its size.
    Workload,
    /// The broadcast call.
    Method,
    /// What is left out at the begin.
    Warmup,
    /// The chain's id.
    Chain,
    /// The kind of target.
    Target,
    /// What the endpoints are spoken to with.
    Transport,
    /// Connections to each endpoint.
    Connections,
    /// The version that the nodes report.
    NodeVersion,
    /// The machine that generates.
    Machine,
}

/// A field, its name on the command line, its name in a sentence, and its value.
type Row = (
    LoadField,
    &'static str,
    &'static str,
    fn(&Manifest) -> Option<String>,
);

impl LoadField {
    /// All of them.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        FIELDS.into_iter().map(|(field, ..)| field)
    }

    /// Those that the parts of one load agree in. They run at the same time, from machines and over connections
    /// of their own.
    pub(crate) fn of_one_load() -> impl Iterator<Item = Self> {
        let own = [
            Self::Target,
            Self::Transport,
            Self::Connections,
            Self::NodeVersion,
            Self::Machine,
        ];
        Self::all().filter(move |field| !own.contains(field))
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Its name in a sentence.
    pub fn title(self) -> &'static str {
        self.row().2
    }

    /// Its value; `None` when the manifest has none.
    pub fn of(self, manifest: &Manifest) -> Option<String> {
        self.row().3(manifest)
    }

    fn row(self) -> Row {
        let row = FIELDS.into_iter().find(|(field, ..)| *field == self);
        row.expect("every field has a row")
    }
}

const FIELDS: [Row; 16] = [
    (LoadField::Format, "format", "the format", |m| {
        Some(m.format.clone())
    }),
    (LoadField::Version, "version", "the version of txgen", |m| {
        Some(m.version.clone())
    }),
    (
        LoadField::Generators,
        "generators",
        "the number of generators",
        |m| Some(m.plan.shard.of.to_string()),
    ),
    (LoadField::Load, "load", "the load", |m| {
        Some(m.profile.clone())
    }),
    (LoadField::Schedule, "schedule", "the schedule", |m| {
        m.plan.schedule.clone()
    }),
    (LoadField::Arrivals, "arrivals", "the arrivals", |m| {
        m.plan.arrivals.clone()
    }),
    (LoadField::Seed, "seed", "the seed", |m| {
        Some(m.seed.to_string())
    }),
    (LoadField::Workload, "workload", "the workload", |m| {
        Some(m.plan.workload.clone())
    }),
    (LoadField::Method, "method", "the broadcast method", |m| {
        Some(m.plan.method.clone())
    }),
    (LoadField::Warmup, "warmup", "the warm-up", |m| {
        Some(m.plan.warmup.to_string())
    }),
    (LoadField::Chain, "chain", "the chain", |m| {
        m.endpoints.first()?.chain_id.clone()
    }),
    (LoadField::Target, "target", "the kind of target", |m| {
        Some(m.plan.target.clone())
    }),
    (LoadField::Transport, "transport", "the transport", |m| {
        let (scheme, _) = m.endpoints.first()?.url.split_once("://")?;
        Some(scheme.to_owned())
    }),
    (
        LoadField::Connections,
        "connections",
        "the number of connections",
        |m| Some(m.plan.connections.to_string()),
    ),
    (
        LoadField::NodeVersion,
        "node-version",
        "the version of the node",
        |m| m.endpoints.first()?.node_version.clone(),
    ),
    (LoadField::Machine, "machine", "the machine of txgen", |m| {
        let cpu = m.host.cpu.as_deref().unwrap_or("unknown processor");
        Some(format!("{} × {cpu}, {}", m.host.cpus, m.host.os))
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_has_one_row_and_one_name() {
        let mut names: Vec<_> = LoadField::all().map(LoadField::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FIELDS.len());
        assert_eq!(LoadField::of_one_load().count(), 11);
    }
}
