//! What a run prints before its first transaction and at its end, what it came to, or why it did not come to its end.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use chain::{ChainError, WorkloadError};
use devnode::DevNodeError;
use harness::{RunFolder, whole};
use measure::read::TxFate;
use measure::{Finished, RecordError, Summary};
use ops::command::CommandError;
use rpc::BroadcastMethod;

use super::own_nodes::BuiltInError;
use crate::folder::RecordedRun;
use crate::live::Display;
use crate::output::recorded;
use crate::plan::{Plan, QUERY};
use crate::profiler::Profile;
use crate::threshold::ThresholdVerdict;
use crate::{exit, output};

/// The account of a run, its folder and the conditions.
#[derive(Debug)]
pub struct Outcome {
    /// The whole account.
    pub summary: Summary,
    /// The plan's conditions.
    pub thresholds: Vec<ThresholdVerdict>,
    /// The condition that ended the run early.
    pub stopped_by: Option<ThresholdVerdict>,
    /// The run folder.
    pub folder: PathBuf,
}

impl Outcome {
    /// The ids of accepted transactions that no block has shown, some of them. None where the record
    /// cannot be read.
    pub(crate) fn uncommitted(&self) -> Vec<String> {
        let mut ids = Vec::new();
        if self.summary.fate.pending == 0 {
            return ids;
        }
        let Ok(run) = RecordedRun::open(&self.folder) else {
            return ids;
        };
        // No node holds what was only asked.
        let is_query = run.manifest().plan.method == QUERY;
        let Some(mut txs) = run.txs().ok().filter(|_| !is_query) else {
            return ids;
        };
        while let Ok(Some(tx)) = txs.next_row()
            && ids.len() < MOST_UNCOMMITTED
        {
            if tx.fate() == TxFate::Pending {
                ids.push(tx.txid.to_owned());
            }
        }
        ids
    }

    /// The process's exit code: an interruption beats an invalid schedule, which beats a threshold.
    pub fn exit_code(&self) -> u8 {
        match exit::of_run(&self.summary, &self.thresholds) {
            exit::DONE if self.stopped_by.is_some() => exit::THRESHOLD,
            code => code,
        }
    }
}

/// Enough to see whether a node still works on what it took.
const MOST_UNCOMMITTED: usize = 64;

/// A run that was played to its end.
pub(super) struct PlayedRun {
    pub(super) finished: Finished,
    /// What ended it early, if something failed.
    pub(super) trouble: Option<RunError>,
    /// The condition that ended it early.
    pub(super) broken: Option<ThresholdVerdict>,
}

/// How much a run prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Words {
    /// What it does, every second, and the final table.
    All,
    /// Only warnings. For one run of many; a full-screen view still shows everything.
    Few,
}

/// Prints what will be done, and where it is written.
pub(super) fn introduce(display: &mut Display, plan: &Plan, folder: &RunFolder) {
    display.message(&format!("target   {}", output::describe_target(plan)));
    display.message(&format!(
        "load     {}; {}; seed {}",
        output::describe_load(&plan.load),
        plan.workload,
        plan.seed
    ));
    if let Some(most) = plan.rules.waits_at() {
        display.message(&format!(
            "limit    {} in flight; what is due beyond waits for answers and leaves late, in its order",
            output::grouped(most)
        ));
    }
    if let Some(process) = plan.profiled {
        display.message(&format!("sampling {process}"));
    }
    display.say_where(folder.path());
    if !plan.part.is_whole() {
        display.message(&format!(
            "part     {} of the load: {} transactions of {}",
            plan.part,
            plan.planned().map_or("?".into(), output::grouped),
            plan.planned_by_all().map_or("?".into(), output::grouped),
        ));
    }
    if let Some(start) = plan.start_at {
        display.message(&format!("start    {start}"));
    }
    if plan.method == BroadcastMethod::Commit {
        display.message(
            "note     a commit is answered when the block is made: a connection carries about one transaction \
             per block",
        );
    }
}

/// Writes and prints the summary, and checks the thresholds.
pub(super) fn conclude(
    plan: &Plan,
    folder: &RunFolder,
    mut summary_file: File,
    played: PlayedRun,
    profile: Option<&Profile>,
    words: Words,
    display: &mut Display,
) -> Result<Outcome, RunError> {
    let PlayedRun {
        finished,
        broken: stopped_by,
        ..
    } = played;
    let summary = finished.summary;
    let written = summary.write_to(&mut summary_file);
    drop(summary_file);
    let page = recorded::write_html_after_run(folder.path());
    let record = record_error(&summary, finished.error, written, page.is_ok());
    let document = serde_json::to_value(&summary).unwrap_or_default();
    let thresholds: Vec<ThresholdVerdict> = plan
        .thresholds
        .iter()
        .map(|threshold| threshold.check(&document))
        .collect();
    if words == Words::All {
        let mut text = output::table(&summary, &thresholds, stopped_by.as_ref());
        if let Some(profile) = profile {
            text.push_str(&format!("profile      {profile}\n"));
        }
        text.push_str(&format!("written to   {}\n", folder.path().display()));
        if let Some(error) = &record {
            text.push_str(&format!("but          {error}\n"));
        }
        display.result(&text);
    }
    show(page, folder, (words, record.is_none()), display);
    match record {
        Some(error) => Err(error),
        None => Ok(Outcome {
            summary,
            thresholds,
            stopped_by,
            folder: folder.path().into(),
        }),
    }
}

/// Prints the path of `report.html`, or why there is none. From a whole record `txgen report` draws it again; of one that lacks
/// something nothing is promised, and the error that follows names what it lacks.
fn show(
    page: anyhow::Result<PathBuf>,
    folder: &RunFolder,
    (words, is_whole): (Words, bool),
    display: &mut Display,
) {
    match page {
        Ok(page) if words == Words::All => {
            display.result(&format!("report       {}\n", page.display()));
        }
        Ok(_) => {}
        Err(error) if is_whole => display.message(&format!(
            "warning: {error:#}; `txgen report {}` makes it from the record",
            folder.path().display()
        )),
        Err(error) => display.message(&format!("warning: {error:#}")),
    }
}

/// Why a run did not come to its end. A case that no caller distinguishes is a message: what happened, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// What is checked before the first transaction cannot be used: the folder, a node, the terminal, the start that
    /// was agreed on, a process to sample. Nothing was sent.
    #[error(transparent)]
    Unusable(#[from] anyhow::Error),
    /// What the load needs beside it could not be had, or its figures are not those of this load alone.
    #[error(transparent)]
    Failed(anyhow::Error),
    /// The built-in node does not start.
    #[error(transparent)]
    BuiltIn(#[from] BuiltInError),
    /// What the load needs of its chain cannot be had, or its account does not hold.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The workload cannot be opened.
    #[error("the workload failed")]
    Workload(#[from] WorkloadError),
    /// The workload failed while the run went on; what was sent before is recorded.
    #[error("the workload failed during the run")]
    Source(#[source] WorkloadError),
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
    /// The user stopped it before the first transaction.
    #[error("interrupted before the start: nothing was sent")]
    Interrupted,
    /// One of our own threads panicked.
    #[error("the {0} thread panicked; this is a bug in txgen, please report it")]
    Panicked(&'static str),
}

impl RunError {
    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unusable(_)
            | Self::Chain(ChainError::Unusable(_))
            | Self::BuiltIn(BuiltInError::Node(DevNodeError::Config(_))) => exit::USAGE,
            Self::Interrupted | Self::Chain(ChainError::Interrupted(_)) => exit::INTERRUPTED,
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

impl From<CommandError> for RunError {
    fn from(error: CommandError) -> Self {
        match error.code {
            exit::USAGE => Self::Unusable(error.source),
            exit::INTERRUPTED => Self::Interrupted,
            _ => Self::Failed(error.source),
        }
    }
}

/// Which files of the folder lack something, if any does, and why.
pub(super) fn record_error(
    summary: &Summary,
    rows: Option<RecordError>,
    written: io::Result<()>,
    has_page: bool,
) -> Option<RunError> {
    let mut files = summary.recorder.incomplete_files.clone();
    if written.is_err() {
        files.push("summary.json".into());
    }
    if !has_page {
        files.push("report.html".into());
    }
    let source = match (rows, written) {
        (Some(error), _) => error.into(),
        (None, written) => whole(written, "summary.json").err()?.into(),
    };
    Some(RunError::Record { files, source })
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::fs::File;

    use measure::{ClosedLoop, Recorder, RecorderConfig, RunEnd, RunFolderWriters};

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
        let plan = ClosedLoop;
        let recorder = Recorder::new(RecorderConfig::new(0, 1, 0), plan, writers);
        let mut summary = recorder.finish(RunEnd::default()).summary;
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        let error = record_error(&summary, None, summary.write_to(&mut full), true).unwrap();
        assert_eq!(
            error.to_string(),
            "the record is incomplete: summary.json cannot be used"
        );
        let why = error.source().unwrap();
        assert!(why.to_string().contains("free some space"), "{why}");
        assert!(
            format!("{:?}", why.source()).contains("StorageFull"),
            "{why:?}"
        );
        summary.recorder.incomplete_files = vec!["txs.csv".into()];
        let error = record_error(&summary, None, summary.write_to(&mut full), false).unwrap();
        let named = "txs.csv, summary.json, report.html";
        assert!(error.to_string().contains(named), "{error}");
        let whole = || summary.write_to(&mut io::sink());
        assert!(record_error(&summary, None, whole(), true).is_none());
        // A page that cannot be drawn is a warning where the record is whole.
        assert!(record_error(&summary, None, whole(), false).is_none());
    }
}
