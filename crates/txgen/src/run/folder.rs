//! The run folder's files, opened before the first transaction.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use measure::read::TableRow as _;
use measure::{KeptRows, NodeRow, RunFolderWriters, SightRow};

use crate::observe::Tables;

/// Where a run is written.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes the folder, or takes an empty one.
    ///
    /// # Errors
    /// When it holds something, is a file, or cannot be made.
    pub fn create(path: PathBuf) -> anyhow::Result<Self> {
        let shown = path.display();
        if path.exists() && !path.is_dir() {
            bail!("the output {shown} is not a folder; choose another --out");
        }
        fs::create_dir_all(&path).with_context(|| unwritable(&path))?;
        let mut inside = fs::read_dir(&path).with_context(|| unwritable(&path))?;
        if inside.next().is_some() {
            bail!("the output folder {shown} is not empty; choose another --out or remove it");
        }
        Ok(Self { path })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates all files of a run.
    ///
    /// # Errors
    /// When one cannot be created.
    pub(crate) fn open_all(&self, rows: KeptRows) -> anyhow::Result<Files> {
        let manifest = self.open("manifest.json")?;
        let rows = RunFolderWriters {
            txs: self.open_rows(rows)?,
            answers: self.open("answers.csv")?,
            series: self.open("series.csv")?,
            steps: self.open("steps.csv")?,
            blocks: self.open("blocks.csv")?,
            hlog: self.open("latency.hlog")?,
        };
        Ok(Files {
            manifest,
            rows,
            summary: self.open("summary.json")?,
        })
    }

    /// The file for the rows of transactions; `/dev/null` where none are kept.
    fn open_rows(&self, rows: KeptRows) -> anyhow::Result<File> {
        match rows {
            KeptRows::All | KeptRows::Sample(_) => self.open("txs.csv"),
            KeptRows::None => {
                let path = Path::new("/dev/null");
                let opened = File::options().write(true).open(path);
                opened.with_context(|| unwritable(path))
            }
        }
    }

    /// Creates one of its files.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn open(&self, name: &str) -> anyhow::Result<File> {
        let path = self.path.join(name);
        File::create_new(&path).with_context(|| unwritable(&path))
    }

    /// Takes back a folder in which nothing was written yet, so that it can be used again: these files, and the folder
    /// itself where nothing else is in it.
    pub(crate) fn discard(&self, files: &[&str]) {
        for file in files {
            let _ = fs::remove_file(self.path.join(file));
        }
        let _ = fs::remove_dir(&self.path);
    }

    /// Writes one of its files whole.
    ///
    /// # Errors
    /// When the file cannot be created or written.
    pub fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let written = self.open(name)?.write_all(text.as_bytes());
        written.with_context(|| format!("cannot write {name}"))
    }
}

fn unwritable(path: &Path) -> String {
    format!(
        "cannot write to {}; choose an --out that is writable",
        path.display()
    )
}

/// The files that the recorder writes.
pub(crate) type RowFiles = RunFolderWriters<File>;

/// The tables of observed nodes.
///
/// # Errors
/// When a file cannot be created.
pub(crate) fn observed_tables(folder: &RunFolder) -> anyhow::Result<Tables<File>> {
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
        assert!(below.to_string().starts_with("cannot write to "));
    }
}
