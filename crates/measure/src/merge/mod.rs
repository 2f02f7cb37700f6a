//! Several generators of one load, put together as if one had sent it all.
//!
//! Each of them ran with `--shard I/N` of one plan from one instant on and left a run folder.
//! [`merged_manifest`] checks whether their folders belong together, [`merge`] joins them in one pass
//! over each file, in the memory of a few rows of each.

mod account;
mod clocks;
mod course;
mod manifest;
mod transactions;

use std::io::{BufRead, Write};

pub use clocks::{ClockOffset, clock_words, note_clocks};
pub use manifest::{PartName, merged_manifest};

use crate::files::{Files, RecordError, RunFolderWriters};
use crate::hlog;
use crate::manifest::Manifest;
use crate::read::{HlogReader, ReadError, RowReader, TxReader};
use crate::rows::{BlockRow, SeriesRow, StepRow};
use crate::summary::Summary;

/// The files of one generator.
pub struct MergePart<R> {
    /// `manifest.json`.
    pub manifest: Manifest,
    /// `summary.json`.
    pub summary: Summary,
    /// `series.csv`.
    pub series: RowReader<R, SeriesRow>,
    /// `steps.csv`.
    pub steps: RowReader<R, StepRow>,
    /// `blocks.csv`.
    pub blocks: RowReader<R, BlockRow>,
    /// `latency.hlog`.
    pub hlog: HlogReader<R>,
    /// `txs.csv`.
    pub txs: TxReader<R>,
}

/// Why folders cannot be joined.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// They are not all the parts of one load: why not.
    #[error("{0}")]
    Parts(String),
    /// A file cannot be read.
    #[error("cannot read {name}")]
    Read {
        /// The folder.
        name: String,
        /// What is wrong.
        #[source]
        source: ReadError,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] RecordError),
}

/// Joins the files of all parts and gives the summary of the whole; `names` are theirs, in the same
/// order. [`merged_manifest`] checks that they belong together and gives `manifest`.
///
/// Counts are exact sums, blocks are counted once. Quantiles come from the histograms of all parts;
/// those of a step whose edges are not on whole seconds and the medians of single blocks cannot be
/// put together and stay empty. Windows count the due times of what was sent.
///
/// # Errors
/// When a file cannot be read or written.
pub fn merge<R: BufRead, W: Write>(
    mut parts: Vec<MergePart<R>>,
    names: &[String],
    manifest: &Manifest,
    writers: RunFolderWriters<W>,
) -> Result<Summary, MergeError> {
    let unreadable = |part: usize, source| MergeError::Read {
        name: names.get(part).cloned().unwrap_or_default(),
        source,
    };
    let mut files = Files::new(writers, &hlog::header(manifest.origin_unix_ns));
    let blocks = course::blocks(&mut parts, &mut files).map_err(|(part, e)| unreadable(part, e))?;
    let shown = (&*blocks, manifest.limits.block_gas);
    let course =
        course::join(&mut parts, shown, &mut files).map_err(|(part, e)| unreadable(part, e))?;
    let is_torn = |part: &MergePart<R>| {
        part.hlog.is_torn() && part.summary.recorder.incomplete_files.is_empty()
    };
    if let Some(torn) = parts.iter().position(is_torn) {
        let text = "latency.hlog was cut off after the run; copy the folder again";
        return Err(unreadable(torn, ReadError::Content(text.into())));
    }
    let windows = transactions::join(&mut parts, manifest, &mut files)
        .map_err(|(part, e)| unreadable(part, e))?;
    files.flush();
    let summaries: Vec<&Summary> = parts.iter().map(|part| &part.summary).collect();
    let joined = account::Joined {
        course,
        blocks: &blocks,
        windows,
        incomplete_files: files.incomplete(),
        followed: manifest.follows(),
        terms: manifest.terms(),
    };
    let mut summary = account::summary(&summaries, joined);
    summary.verdict.reasons.extend(clock_words(manifest));
    match files.into_error() {
        Some(error) => Err(error.into()),
        None => Ok(summary),
    }
}

/// An error of the part with this position.
type PartError = (usize, ReadError);
