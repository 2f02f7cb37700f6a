//! `txs.parquet`: the rows of `txs.csv` as a Parquet file, a quarter of the size.
//!
//! The recorder writes text and every reader reads text, whatever is in the file: a thread turns what
//! the recorder writes into columns ([`Writing`]), and [`Reading`] turns columns back into the same bytes.
//! Without the feature `parquet` both are refused.

#[cfg(not(feature = "parquet"))]
mod absent;
#[cfg(feature = "parquet")]
mod columns;
#[cfg(feature = "parquet")]
mod read;
#[cfg(feature = "parquet")]
mod write;

use std::fs::File;
use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use measure::{Finished, RecordError};

#[cfg(not(feature = "parquet"))]
pub(crate) use absent::Reading;
#[cfg(not(feature = "parquet"))]
use absent::write;
#[cfg(feature = "parquet")]
pub(crate) use read::Reading;
#[cfg(feature = "parquet")]
use write::write;

/// Its name in the run folder.
pub(crate) const FILE: &str = "txs.parquet";
/// Whether this program can write and read them.
pub(crate) const IS_BUILT_IN: bool = cfg!(feature = "parquet");

/// A thread that makes columns of rows. It ends with its input.
pub(crate) struct Writing {
    thread: JoinHandle<io::Result<()>>,
}

impl Writing {
    /// Starts it; gives what the rows are to be written to, as text. A pipe holds 64 KiB: who writes rows
    /// faster than columns can be made of them waits, as for a slow disk.
    pub(crate) fn start(file: File) -> io::Result<(File, Self)> {
        let (reader, writer) = io::pipe()?;
        let work = move |rows: PipeReader| write(rows, file);
        let thread = std::thread::Builder::new()
            .name("columns".into())
            .spawn(move || work(reader))?;
        Ok((OwnedFd::from(writer).into(), Self { thread }))
    }

    /// Waits for the end of the file, when the other end of the pipe is closed.
    pub(crate) fn finish(self) -> Result<(), RecordError> {
        let ended = self.thread.join();
        let ended = ended.unwrap_or_else(|_| Err(io::Error::other("its thread panicked")));
        ended.map_err(|source| RecordError::Write { file: FILE, source })
    }

    /// The same; what went wrong becomes part of the account.
    pub(crate) fn finish_into(self, finished: &mut Finished) {
        if let Err(error) = self.finish() {
            // The recorder knows the file as txs.csv, and only that nobody takes its rows any more.
            let incomplete = &mut finished.summary.recorder.incomplete_files;
            incomplete.retain(|file| file != "txs.csv");
            incomplete.push(FILE.into());
            finished.error = Some(error);
        }
    }
}

#[cfg(test)]
#[cfg(feature = "parquet")]
mod tests {
    use std::io::{Read as _, Write as _};

    use measure::read::TXS_HEADER;

    use super::*;

    /// What is read after these rows were written.
    fn read_back(rows: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let (mut text, writing) = Writing::start(File::create_new(&path).unwrap()).unwrap();
        text.write_all(TXS_HEADER.as_bytes()).unwrap();
        text.write_all(rows.as_bytes()).unwrap();
        drop(text);
        writing.finish().unwrap();
        let mut back = String::new();
        let mut reading = Reading::open(File::open(&path).unwrap()).unwrap();
        reading.read_to_string(&mut back).unwrap();
        let rest = back.strip_prefix(TXS_HEADER);
        rest.expect("the first line is that of txs.csv").to_owned()
    }

    #[test]
    fn what_was_written_as_text_is_read_as_the_same_text() {
        let id = "0123456789ABCDEF".repeat(4);
        let committed = format!(
            "{id},250,1763800000000.001,1763800000001.000,1763800001000.999,,0,1000,1001000,1000999000,7,0,0,0,\n"
        );
        let rejected =
            format!("{id},250,1763800000000.002,,,1763800000009.000,5,2000,,,,32,1,3,sdk\n");
        let unanswered = format!("{id},1,1763800000000.003,,,,6,3000,,,,,65535,4294967295,\n");
        let rows = [committed, rejected, unanswered].concat();
        assert_eq!(read_back(&rows), rows);
        let lower = rows.to_lowercase();
        assert_eq!(read_back(&lower), lower);
        assert_eq!(read_back(""), "");
    }

    #[test]
    fn rows_of_several_groups_stay_in_their_order() {
        let row = |number: u64| {
            let committed = match number % 3 {
                0 => String::new(),
                _ => (number * 20_000).to_string(),
            };
            format!("{number:064X},9,1763800000000.000,,,,{number},{number},,{committed},,,0,0,\n")
        };
        let rows: String = (0..300_000).map(row).collect();
        assert!(read_back(&rows) == rows, "300,000 rows in three groups");
    }

    #[test]
    fn a_file_without_its_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        std::fs::write(&path, "PAR1 and some columns").unwrap();
        let error = Reading::open(File::open(&path).unwrap()).err().unwrap();
        assert!(error.to_string().contains("Parquet"), "{error}");
    }

    #[test]
    fn the_reason_why_columns_cannot_be_written_is_in_the_account() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (mut text, writing) = Writing::start(full).unwrap();
        // The thread may be gone already.
        let _ = text.write_all(TXS_HEADER.as_bytes());
        drop(text);
        let error = writing.finish().unwrap_err();
        assert!(error.to_string().contains(FILE), "{error}");
    }
}
