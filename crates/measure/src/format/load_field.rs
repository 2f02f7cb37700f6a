//! What the manifests of runs of one load have in common: parts of one load have to agree in it, and sides of
//! a comparison that do not are not the same load.

use crate::format::manifest::Manifest;

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
