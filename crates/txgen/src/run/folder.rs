//! The run folder's files, opened before the first transaction.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use measure::read::TableRow as _;
use measure::{KeptRows, NodeRow, RunFolderWriters, SightRow};

use crate::observe::Tables;
use crate::parquet_rows::{self, Writing};

/// Where a run is written.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
}

/// Why a run folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// There is something in it already.
    #[error("the output folder {} is not empty; choose another --out or remove it", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// It is a file.
    #[error("the output {} is not a folder; choose another --out", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// It, or a file in it, cannot be written.
    #[error("cannot write to {}; choose an --out that is writable", path.display())]
    Unwritable {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl RunFolder {
    /// Makes the folder, or takes an empty one.
    ///
    /// # Errors
    /// When it holds something, is a file, or cannot be made.
    pub fn create(path: PathBuf) -> Result<Self, FolderError> {
        if path.exists() && !path.is_dir() {
            return Err(FolderError::NotAFolder { path });
        }
        let made =
            fs::create_dir_all(&path).and_then(|()| Ok(fs::read_dir(&path)?.next().is_none()));
        match made {
            Ok(true) => Ok(Self { path }),
            Ok(false) => Err(FolderError::NotEmpty { path }),
            Err(source) => Err(FolderError::Unwritable { path, source }),
        }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates all files of a run.
    ///
    /// # Errors
    /// When one cannot be created.
    pub(crate) fn open_all(&self, rows: KeptRows) -> Result<Files, FolderError> {
        let manifest = self.open("manifest.json")?;
        let (txs, columns) = self.open_rows(rows)?;
        let writers = RunFolderWriters {
            txs,
            answers: self.open("answers.csv")?,
            series: self.open("series.csv")?,
            steps: self.open("steps.csv")?,
            blocks: self.open("blocks.csv")?,
            hlog: self.open("latency.hlog")?,
        };
        Ok(Files {
            manifest,
            rows: RowFiles { writers, columns },
            summary: self.open("summary.json")?,
        })
    }

    /// What takes the rows of transactions as text, and who makes columns of them.
    fn open_rows(&self, rows: KeptRows) -> Result<(File, Option<Writing>), FolderError> {
        match rows {
            KeptRows::All | KeptRows::Sample(_) => Ok((self.open("txs.csv")?, None)),
            KeptRows::None => {
                let path = PathBuf::from("/dev/null");
                let opened = File::options().write(true).open(&path);
                let opened = opened.map_err(|source| FolderError::Unwritable { path, source });
                Ok((opened?, None))
            }
            KeptRows::Parquet => {
                let file = self.open(parquet_rows::FILE)?;
                let (rows, columns) =
                    Writing::start(file).map_err(|source| FolderError::Unwritable {
                        path: self.path.join(parquet_rows::FILE),
                        source,
                    })?;
                Ok((rows, Some(columns)))
            }
        }
    }

    /// Creates one of its files.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn open(&self, name: &str) -> Result<File, FolderError> {
        let path = self.path.join(name);
        match File::create_new(&path) {
            Ok(file) => Ok(file),
            Err(source) => Err(FolderError::Unwritable { path, source }),
        }
    }
}

/// What the recorder writes on.
pub(crate) struct RowFiles {
    pub(crate) writers: RunFolderWriters<File>,
    /// Makes columns of the transactions' rows.
    pub(crate) columns: Option<Writing>,
}

/// The tables of observed nodes.
///
/// # Errors
/// When a file cannot be created.
pub(crate) fn observed_tables(folder: &RunFolder) -> Result<Tables<File>, FolderError> {
    Ok(Tables {
        nodes: folder.open(NodeRow::FILE)?,
        sights: folder.open(SightRow::FILE)?,
    })
}

/// All files of the folder, open.
pub(crate) struct Files {
    pub(crate) rows: RowFiles,
    pub(crate) manifest: File,
    pub(crate) summary: File,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_folder_or_a_file_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(base.path().join("a/b")).unwrap();
        folder.open("txs.csv").unwrap();
        let again = RunFolder::create(folder.path().into()).unwrap_err();
        assert!(again.to_string().contains("is not empty"));
        let file = RunFolder::create(folder.path().join("txs.csv")).unwrap_err();
        assert!(file.to_string().contains("is not a folder"));
        let below = RunFolder::create(folder.path().join("txs.csv/x")).unwrap_err();
        assert!(matches!(below, FolderError::Unwritable { .. }));
    }
}
