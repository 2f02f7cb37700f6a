//! The run folder's files, opened before the first transaction.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use measure::{KeptRows, RunFolderWriters};

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

    /// A file that keeps nothing, in place of one that is not wanted.
    ///
    /// # Errors
    /// The system has none.
    pub(crate) fn nowhere(&self) -> Result<File, FolderError> {
        let path = PathBuf::from("/dev/null");
        let opened = File::options().write(true).open(&path);
        opened.map_err(|source| FolderError::Unwritable { path, source })
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

/// All files of the folder, open.
pub(super) struct Files {
    pub(super) writers: RunFolderWriters<File>,
    pub(super) manifest: File,
    pub(super) summary: File,
}

impl Files {
    pub(super) fn open(folder: &RunFolder, rows: KeptRows) -> Result<Self, FolderError> {
        Ok(Self {
            manifest: folder.open("manifest.json")?,
            writers: RunFolderWriters {
                txs: match rows {
                    KeptRows::None => folder.nowhere()?,
                    _ => folder.open("txs.csv")?,
                },
                answers: folder.open("answers.csv")?,
                series: folder.open("series.csv")?,
                steps: folder.open("steps.csv")?,
                blocks: folder.open("blocks.csv")?,
                hlog: folder.open("latency.hlog")?,
            },
            summary: folder.open("summary.json")?,
        })
    }
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
