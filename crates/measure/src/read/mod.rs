//! A run folder read back into types, one row at a time, from any [`BufRead`](std::io::BufRead).
//!
//! - [`RowReader`] gives the rows of `series.csv`, `steps.csv` and `blocks.csv` as the structs that
//!   wrote them.
//! - [`TxReader`] gives the rows of `txs.csv`, each borrowed from the line it came from, so a file
//!   of any length takes the memory of one row.
//! - [`HlogReader`] gives the intervals of `latency.hlog`, each decoded only if it is asked for.
//! - [`Manifest::read_from`](crate::Manifest::read_from) and
//!   [`Summary::read_from`](crate::Summary::read_from) check the version first.
//!
//! A run that was killed leaves files that end in the middle of a row at worst. What follows the
//! last line break is never a row: readers leave it out and say so ([`RowReader::is_torn`]).
//! Anything else that is wrong is an error with its file, line and column. Columns are found by
//! their names in the first line; columns that a reader does not know are passed over.

mod csv;
mod hlog;
mod lines;
mod rows;
mod tx;

pub use csv::{Fields, TableRow};
pub use hlog::{HlogInterval, HlogReader};
pub use rows::RowReader;
pub use tx::{TxFate, TxReader, TxRow};

use std::io::{self, Read as _};

/// Why a file of a run folder cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refused.
    #[error("cannot read {file}")]
    Io {
        /// The file's name inside the run folder.
        file: &'static str,
        /// What the reader said.
        source: io::Error,
    },
    /// The first line lacks a column.
    #[error(
        "{file} has no column {column:?}; is it of a run of format {}?",
        crate::FORMAT
    )]
    NoColumn {
        /// The file's name inside the run folder.
        file: &'static str,
        /// The column's name.
        column: String,
    },
    /// A field is not what its column holds.
    #[error("{file}, line {line}, column {column}: {value:?} is not {expected}")]
    BadField {
        /// The file's name inside the run folder.
        file: &'static str,
        /// Counted from 1.
        line: u64,
        /// The column's name.
        column: String,
        /// The field, shortened.
        value: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// A line is not what the file holds.
    #[error("{file}, line {line}: {problem}")]
    BadLine {
        /// The file's name inside the run folder.
        file: &'static str,
        /// Counted from 1.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A JSON document does not parse.
    #[error("{file} is not what a run writes: {problem}")]
    BadDocument {
        /// The file's name inside the run folder.
        file: &'static str,
        /// What the parser said.
        problem: String,
    },
    /// The folder was written by another version.
    #[error(
        "{file} is of format {found:?}; this program reads {}, so use the version of txgen that wrote it",
        crate::FORMAT
    )]
    OtherFormat {
        /// The file's name inside the run folder.
        file: &'static str,
        /// The format it names.
        found: String,
    },
}

/// Reads a JSON document of [`FORMAT`](crate::FORMAT) from text.
pub(crate) fn document<T: serde::de::DeserializeOwned>(
    file: &'static str,
    reader: &mut impl io::Read,
) -> Result<T, ReadError> {
    let mut text = Vec::new();
    reader
        .take(MAX_DOCUMENT)
        .read_to_end(&mut text)
        .map_err(|source| ReadError::Io { file, source })?;
    let bad = |error: serde_json::Error| ReadError::BadDocument {
        file,
        problem: error.to_string(),
    };
    let Tag { format } = serde_json::from_slice(&text).map_err(bad)?;
    if format != crate::FORMAT {
        return Err(ReadError::OtherFormat {
            file,
            found: format,
        });
    }
    serde_json::from_slice(&text).map_err(bad)
}

#[derive(serde::Deserialize)]
struct Tag {
    format: String,
}

/// A summary with 10,000 steps takes 10 MB.
const MAX_DOCUMENT: u64 = 256 * 1024 * 1024;
