//! Files that the operator names.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

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
