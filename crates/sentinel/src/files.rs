//! Files that the operator names.

use std::fmt::Display;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Why a file, or a server, that a setting names cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {value}: {reason}")]
pub struct SettingError {
    /// The setting.
    pub key: &'static str,
    /// What it names.
    pub value: String,
    /// What is wrong, and what to do.
    pub reason: String,
}

impl SettingError {
    pub(crate) fn new(key: &'static str, value: &str, reason: impl Display) -> Self {
        Self {
            key,
            value: value.to_owned(),
            reason: reason.to_string(),
        }
    }
}

/// A file of at most so many bytes.
///
/// # Errors
/// Why it cannot be read.
pub(crate) fn read(file: impl AsRef<Path>, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|opened| opened.take(most + 1).read_to_end(&mut bytes));
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > most {
        Err(format!("larger than {} MiB", most >> 20))
    } else {
        Ok(bytes)
    }
}
