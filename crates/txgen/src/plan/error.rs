//! Why a plan cannot be made.

use std::path::PathBuf;

use chain::WorkloadError;

/// Why a plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The schedule is illegal.
    #[error(transparent)]
    Profile(#[from] pacing::ProfileError),
    /// The workload is illegal.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The certificates cannot be used.
    #[error("--ca-file {}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A value is out of its range.
    #[error("{name} {problem}")]
    OutOfRange {
        /// The flag.
        name: String,
        /// What is wrong with it and what is allowed.
        problem: String,
    },
}

impl PlanError {
    /// The value of a flag that cannot be used, and what can.
    pub(super) fn of(name: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::OutOfRange {
            name: name.into(),
            problem: problem.into(),
        }
    }
}

/// Refuses a value above its limit.
pub(super) fn at_most(
    name: &'static str,
    value: impl Into<u64>,
    limit: u64,
) -> Result<(), PlanError> {
    let value = value.into();
    if value > limit {
        let problem = format!("is {value}; at most {limit} is possible");
        return Err(PlanError::of(name, problem));
    }
    Ok(())
}
