//! The chains that a load can go to. A new one is a crate that implements [`chain::Chain`], and one line here.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::LazyLock;

use chain::{Chain, Facts, Target};
use clap::ValueEnum;
use clap::builder::PossibleValue;

/// All chains; the first one's nodes are loaded when no other is asked for.
static CHAINS: &[&dyn Chain] = &[
    &chain_cometbft::COMETBFT,
    &chain_bigchaindb::BIGCHAINDB,
    &chain_cosmos::COSMOS,
    &chain_bitcoin::BITCOIN,
];

/// A kind of node, by its name on the command line.
#[derive(Clone, Copy)]
pub struct TargetKind(&'static dyn Target);

static TARGETS: LazyLock<Vec<TargetKind>> = LazyLock::new(|| {
    let targets = CHAINS.iter().filter_map(|chain| chain.target());
    targets.map(TargetKind).collect()
});

impl TargetKind {
    /// What the kind is called and what it takes.
    pub fn facts(self) -> &'static Facts {
        self.0.facts()
    }

    /// The target itself.
    pub fn target(self) -> &'static dyn Target {
        self.0
    }
}

impl Default for TargetKind {
    fn default() -> Self {
        TARGETS[0]
    }
}

impl fmt::Debug for TargetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().name)
    }
}

impl PartialEq for TargetKind {
    fn eq(&self, other: &Self) -> bool {
        self.facts().name == other.facts().name
    }
}

impl Eq for TargetKind {}

impl ValueEnum for TargetKind {
    fn value_variants<'a>() -> &'a [Self] {
        &TARGETS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.facts().name))
    }
}

impl FromStr for TargetKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = TARGETS.iter().find(|kind| kind.facts().name == text);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = TARGETS.iter().map(|kind| kind.facts().name).collect();
            format!("unknown target {text:?}; use {}", names.join(", "))
        })
    }
}

/// Which workload a run sends, as named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkloadKind {
    /// One transaction per line of a file.
    File(PathBuf),
    /// A chain's own, by its name.
    Named(&'static str),
}

impl WorkloadKind {
    /// Whether this is the workload with that name.
    pub(crate) fn is(&self, name: &str) -> bool {
        matches!(self, Self::Named(own) if *own == name)
    }

    /// The chain that it belongs to; `None` for a file.
    pub(crate) fn chain(&self) -> Option<&'static dyn Chain> {
        let Self::Named(name) = self else {
            return None;
        };
        let mut chains = CHAINS.iter().copied();
        chains.find(|chain| chain.workloads().contains(name))
    }

    /// The kind of node that alone takes it, if there is one.
    pub(crate) fn target(&self) -> Option<TargetKind> {
        let chain = self.chain().filter(|chain| chain.is_exclusive())?;
        chain.target().map(TargetKind)
    }
}

impl FromStr for WorkloadKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names = || CHAINS.iter().flat_map(|chain| chain.workloads()).copied();
        match text.split_once(':') {
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(PathBuf::from(path))),
            _ => names()
                .find(|name| *name == text)
                .map(Self::Named)
                .ok_or_else(|| {
                    let names: Vec<&str> = names().collect();
                    format!(
                        "unknown workload {text:?}; use {} or file:PATH",
                        names.join(", ")
                    )
                }),
        }
    }
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Named(name) => f.write_str(name),
        }
    }
}
