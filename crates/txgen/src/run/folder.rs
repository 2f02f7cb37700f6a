//! The run folder's files, opened before the first transaction.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use harness::RunFolder;
use measure::read::TableRow as _;
use measure::{KeptRows, NodeRow, RunFolderWriters, SightRow};

use crate::observe::Tables;

/// Creates all files of a run.
///
/// # Errors
/// When one cannot be created.
pub(crate) fn open_all(folder: &RunFolder, rows: KeptRows) -> anyhow::Result<Files> {
    let manifest = with_room(folder.open("manifest.json")?)
        .context("cannot write manifest.json: free some space or choose another folder")?;
    let rows = RunFolderWriters {
        txs: open_rows(folder, rows)?,
        answers: folder.open("answers.csv")?,
        series: folder.open("series.csv")?,
        steps: folder.open("steps.csv")?,
        blocks: folder.open("blocks.csv")?,
        hlog: folder.open("latency.hlog")?,
    };
    Ok(Files {
        manifest,
        rows,
        summary: folder.open("summary.json")?,
    })
}

/// The empty file, on a disk that has taken a block of it: a full one is known before anything is sent.
fn with_room(mut file: File) -> std::io::Result<File> {
    file.write_all(&[b' '; BLOCK])?;
    file.set_len(0)?;
    file.rewind()?;
    Ok(file)
}

const BLOCK: usize = 4_096;

/// The file for the rows of transactions; `/dev/null` where none are kept.
fn open_rows(folder: &RunFolder, rows: KeptRows) -> anyhow::Result<File> {
    match rows {
        KeptRows::All | KeptRows::Sample(_) => folder.open("txs.csv"),
        KeptRows::None => {
            let path = Path::new("/dev/null");
            let opened = File::options().write(true).open(path);
            opened.context("cannot open /dev/null")
        }
    }
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
