//! `txgen merge`: the run folders of several generators of one load as one.

use std::fs::File;
use std::io::{self, BufReader, Write as _};

use measure::{MergeError, MergePart, RunFolderWriters, merge, merged_manifest};
use report::Entries;

use crate::cli::MergeArgs;
use crate::exit;
use crate::folder::{OpenError, RecordedRun};
use crate::report::recorded::{self, ReportError};
use crate::run::{FolderError, RunFolder};

/// Why folders are not merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeCommandError {
    /// One is no run.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// One is not whole.
    #[error(
        "the run in {name} was killed before it ended: its counts would be short of the plan; merge whole runs"
    )]
    Killed {
        /// The folder.
        name: String,
    },
    /// They do not belong together, or cannot be read or written.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// The output cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The report cannot be drawn; the merged run is whole.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The manifest or the summary cannot be written.
    #[error("cannot write the merged run; free some space or choose another --out")]
    Write(#[from] io::Error),
}

impl MergeCommandError {
    /// Whether the folders are at fault, and not the system.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Merge(error) => !matches!(error, MergeError::Read { .. } | MergeError::Write(_)),
            Self::Write(_) | Self::Report(_) => false,
            Self::Open(_) | Self::Killed { .. } | Self::Folder(_) => true,
        }
    }
}

/// Joins the folders and prints what they come to together; gives the exit code.
///
/// # Errors
/// When a folder is no run or not of the same load, or the output cannot be written.
pub fn execute(args: MergeArgs) -> Result<u8, MergeCommandError> {
    let mut runs = Vec::with_capacity(args.folders.len());
    for folder in &args.folders {
        let run = RecordedRun::open(folder)?;
        if run.is_killed() {
            return Err(MergeCommandError::Killed {
                name: folder.display().to_string(),
            });
        }
        runs.push((folder.display().to_string(), run));
    }
    let manifests: Vec<_> = runs
        .iter()
        .map(|(name, run)| (name.clone(), run.manifest().clone()))
        .collect();
    let manifest = merged_manifest(&manifests)?;
    let parts = runs
        .iter()
        .map(|(_, run)| part(run))
        .collect::<Result<_, _>>()?;
    let folder = RunFolder::create(args.out)?;
    let names: Vec<String> = runs.iter().map(|(name, _)| name.clone()).collect();
    let mut manifest_file = folder.open("manifest.json")?;
    let writers = writers(&folder)?;
    let mut summary_file = folder.open("summary.json")?;
    manifest.write_to(&mut manifest_file)?;
    let summary = merge(parts, &names, &manifest, writers)?;
    summary.write_to(&mut summary_file)?;
    drop(summary_file);
    let page = recorded::write_html_after_run(folder.path())?;
    let (mut head, mut foot) = (Entries::default(), Entries::default());
    head.add("merged", names.join(", "));
    foot.add("written to", folder.path().display().to_string());
    foot.add("report", page.display().to_string());
    let table = crate::report::table(&summary, &[], None);
    let text = head.text() + &table + &foot.text();
    // A reader that has gone does not make the merge a failure.
    let _ = io::stdout().lock().write_all(text.as_bytes());
    Ok(exit::DONE)
}

fn part(run: &RecordedRun) -> Result<MergePart<BufReader<File>>, OpenError> {
    Ok(MergePart {
        manifest: run.manifest().clone(),
        summary: run.summary().clone(),
        series: run.series()?,
        steps: run.steps()?,
        blocks: run.blocks()?,
        hlog: run.hlog()?,
        txs: run.txs()?,
    })
}

fn writers(folder: &RunFolder) -> Result<RunFolderWriters<File>, FolderError> {
    Ok(RunFolderWriters {
        txs: folder.open("txs.csv")?,
        series: folder.open("series.csv")?,
        steps: folder.open("steps.csv")?,
        blocks: folder.open("blocks.csv")?,
        hlog: folder.open("latency.hlog")?,
    })
}
