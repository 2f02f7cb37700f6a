//! The version of the run folder, its JSON documents, and why a file of it cannot be read.

use std::io::{self, Read as _};

/// The version of every format in the run folder. A reader refuses another major number.
pub const FORMAT: &str = "tidegate.run/1";

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
    /// It is not what a run of this version writes: where and why.
    #[error("{0}")]
    Content(String),
    /// A JSON document does not parse.
    #[error("{file} is not what a run writes: {problem}")]
    BadDocument {
        /// The file's name inside the run folder.
        file: &'static str,
        /// What the parser said.
        problem: String,
    },
}

impl ReadError {
    /// A line, counted from 1, is not what the file holds.
    pub(crate) fn line(file: &str, line: u64, problem: impl std::fmt::Display) -> Self {
        Self::Content(format!("{file}, line {line}: {problem}"))
    }
}

/// Reads a JSON document of [`FORMAT`] from text.
pub(crate) fn read_document<T: serde::de::DeserializeOwned>(
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
    if format != FORMAT {
        return Err(ReadError::Content(format!(
            "{file} is of format {format:?}; this program reads {FORMAT}, so use the version of txgen that wrote it"
        )));
    }
    serde_json::from_slice(&text).map_err(bad)
}

/// Writes it as indented JSON with a final newline.
pub(crate) fn write_document(
    document: &impl serde::Serialize,
    writer: &mut impl io::Write,
) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(document)?;
    text.push(b'\n');
    writer.write_all(&text)?;
    writer.flush()
}

#[derive(serde::Deserialize)]
struct Tag {
    format: String,
}

/// A summary with 10,000 steps takes 10 MB.
const MAX_DOCUMENT: u64 = 256 * 1024 * 1024;
