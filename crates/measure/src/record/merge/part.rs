//! What is joined, and why it cannot be.

use crate::format::manifest::Manifest;
use crate::format::read::{HlogReader, ReadError, RowReader, TxReader};
use crate::format::rows::{BlockRow, SeriesRow, StepRow};
use crate::format::summary::Summary;
use crate::record::answers::AnswerRow;
use crate::record::files::RecordError;

/// The files of one generator.
pub struct MergePart<R> {
    /// `manifest.json`.
    pub manifest: Manifest,
    /// `summary.json`; `None` of a run that was killed.
    pub summary: Option<Summary>,
    /// `series.csv`.
    pub series: RowReader<R, SeriesRow>,
    /// `steps.csv`.
    pub steps: RowReader<R, StepRow>,
    /// `blocks.csv`.
    pub blocks: RowReader<R, BlockRow>,
    /// `latency.hlog`.
    pub hlog: HlogReader<R>,
    /// `txs.csv`; `None` where no rows are kept.
    pub txs: Option<TxReader<R>>,
    /// `answers.csv`, which is needed where not all rows are kept.
    pub answers: Vec<AnswerRow>,
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

/// An error of the part with this position.
pub(super) type PartError = (usize, ReadError);
