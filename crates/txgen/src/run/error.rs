//! Why a run did not come to its end.

use std::io;
use std::path::PathBuf;

use devnode::DevNodeError;
use measure::{RecordError, Summary};
use ops::command::CommandError;

use super::builtin::BuiltInError;
use super::folder::FolderError;
use super::follow::FollowSetupError;
use super::preflight::PreflightError;
use crate::coins::CoinError;
use crate::exit;
use crate::live::DisplayError;
use crate::observe::ObserveError;
use crate::profiler::ProfilerError;
use crate::start_at::{StartAt, StartAtError};
use crate::workload::WorkloadError;

/// Why a run did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The run folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The target cannot be measured.
    #[error(transparent)]
    Preflight(#[from] PreflightError),
    /// The built-in node does not start.
    #[error(transparent)]
    BuiltIn(#[from] BuiltInError),
    /// What the load builds on could not be committed.
    #[error(transparent)]
    Preparation(PreparationError),
    /// The coins of a Bitcoin load cannot be had, or were not conserved.
    #[error(transparent)]
    Coins(#[from] CoinError),
    /// The process to sample cannot be sampled; nothing was sent.
    #[error(transparent)]
    Profiler(ProfilerError),
    /// Nodes cannot be observed; nothing was sent.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// The profile is missing; the run itself is recorded.
    #[error("the run is recorded, its profile is not")]
    Profile(#[source] ProfilerError),
    /// It cannot be shown as asked.
    #[error(transparent)]
    Display(#[from] DisplayError),
    /// Blocks cannot be followed.
    #[error(transparent)]
    Follow(#[from] FollowSetupError),
    /// The workload cannot be opened.
    #[error("the workload failed")]
    Workload(#[from] WorkloadError),
    /// The workload failed while the run went on; what was sent before is recorded.
    #[error("the workload failed during the run")]
    Source(#[source] WorkloadError),
    /// The figures are those of two loads.
    #[error(
        "the run is recorded, but somebody else used {account} while it went on: its figures are not those of this \
         load alone; give every generator accounts of its own (--shard, another --seed or --hd-path)"
    )]
    ForeignUse {
        /// The first account where that was seen.
        account: String,
    },
    /// A sender failed.
    #[error("a sender failed")]
    Sender(#[source] io::Error),
    /// The record could not be written whole; the summary was still printed.
    #[error("the record is incomplete: {} cannot be used", .files.join(", "))]
    Record {
        /// The files that lack something.
        files: Vec<String>,
        /// What went wrong first.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The system refuses threads.
    #[error("cannot start a thread")]
    System(#[source] io::Error),
    /// Connecting took longer than there was time.
    #[error(
        "the start {start} passed before all connections were up: nothing was sent; choose a later one"
    )]
    Late {
        /// The instant that was agreed on.
        start: StartAt,
    },
    /// The start that was agreed on is no use.
    #[error("--start-at")]
    StartAt(#[from] StartAtError),
    /// The user stopped it before the first transaction.
    #[error("interrupted before the start: nothing was sent")]
    Interrupted,
    /// One of our own threads panicked.
    #[error("the {0} thread panicked; this is a bug in txgen, please report it")]
    Panicked(&'static str),
}

/// The outputs that the load spends could not all be made.
#[derive(Debug, thiserror::Error)]
#[error(
    "only {committed} of the {wanted} transactions that the load builds on were committed; {} says what \
     became of the others (a mempool that is too small refuses some: raise its size)",
    folder.display()
)]
pub struct PreparationError {
    pub(super) committed: u64,
    pub(super) wanted: u64,
    pub(super) folder: PathBuf,
}

impl RunError {
    /// The process's exit code.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Folder(_)
            | Self::Preflight(_)
            | Self::Profiler(_)
            | Self::StartAt(_)
            | Self::Display(_)
            | Self::Coins(
                CoinError::Workload(_) | CoinError::Wallet(_) | CoinError::NoMiner { .. },
            )
            | Self::BuiltIn(BuiltInError::Node(DevNodeError::Config(_))) => exit::USAGE,
            Self::Interrupted => exit::INTERRUPTED,
            _ => exit::FAILED,
        }
    }
}

impl From<RunError> for CommandError {
    fn from(error: RunError) -> Self {
        Self {
            code: error.exit_code(),
            source: error.into(),
        }
    }
}

/// Which files of the folder lack something, if any does, and why.
pub(super) fn record_error(
    summary: &Summary,
    rows: Option<RecordError>,
    written: io::Result<()>,
) -> Option<RunError> {
    let mut files = summary.recorder.incomplete_files.clone();
    if written.is_err() {
        files.push("summary.json".into());
    }
    let source = match (rows, written) {
        (Some(error), _) => error.into(),
        (None, Err(error)) => error.into(),
        (None, Ok(())) => return None,
    };
    Some(RunError::Record { files, source })
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::fs::File;

    use measure::{ClosedLoop, Recorder, RecorderConfig, RunEnd, RunFolderWriters};
    use pacing::Nanos;

    use super::*;

    #[test]
    fn a_summary_that_a_full_disk_did_not_take_is_named() {
        let writers = RunFolderWriters {
            txs: io::sink(),
            answers: io::sink(),
            series: io::sink(),
            steps: io::sink(),
            blocks: io::sink(),
            hlog: io::sink(),
        };
        let plan = ClosedLoop::new(pacing::Step {
            index: 0,
            start: Nanos::ZERO,
            end: None,
            rate: pacing::Rate::ZERO,
            pause: false,
            again_of: None,
        });
        let recorder = Recorder::new(RecorderConfig::new(0, 1, 0), plan, writers);
        let mut summary = recorder.finish(RunEnd::default()).summary;
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        let error = record_error(&summary, None, summary.write_to(&mut full)).unwrap();
        assert_eq!(
            error.to_string(),
            "the record is incomplete: summary.json cannot be used"
        );
        assert!(
            error
                .source()
                .unwrap()
                .to_string()
                .contains("No space left")
        );
        summary.recorder.incomplete_files = vec!["txs.csv".into()];
        let error = record_error(&summary, None, summary.write_to(&mut full)).unwrap();
        assert!(error.to_string().contains("txs.csv, summary.json"));
        assert!(record_error(&summary, None, summary.write_to(&mut io::sink())).is_none());
    }
}
