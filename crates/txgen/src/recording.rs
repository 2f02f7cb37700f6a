//! The folder of a recording without a load: what it says of itself, and its page.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use harness::whole;
use jiff::Timestamp;
use measure::{Host, NodeRow};
use report::Recording;
use serde::{Deserialize, Serialize};

use crate::folder::{RECORD, rows_if_any};
use crate::output::recorded::FILE;

/// What a recording says of itself, in [`RECORD`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) format: String,
    pub(crate) origin_unix_ns: u64,
    pub(crate) host: Host,
    /// Seconds that it lasted; nothing of one that goes on, or was killed.
    #[serde(default)]
    pub(crate) lasted_s: Option<f64>,
    /// Where a node gave no answer, and what became of its process.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
}

impl Note {
    /// Writes it into its folder, in place of an earlier one.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        fs::write(folder.join(RECORD), text + "\n")
    }
}

/// What a recording says of itself.
///
/// # Errors
/// When its file cannot be read, or is of another format.
pub(crate) fn read(folder: &Path) -> anyhow::Result<Note> {
    #[derive(Deserialize)]
    struct Head {
        format: String,
    }
    let file = folder.join(RECORD);
    let of_file = || format!("in {}", file.display());
    let text = fs::read_to_string(&file).with_context(of_file)?;
    let Head { format } = serde_json::from_str(&text).with_context(of_file)?;
    if format != FORMAT {
        bail!(
            "{} is of format {format:?} and this program reads {FORMAT:?}; use the txgen that wrote it",
            file.display()
        );
    }
    serde_json::from_str(&text).with_context(of_file)
}

/// The page of a recording, made from its files.
///
/// # Errors
/// When one of them cannot be read.
pub(crate) fn page(folder: &Path) -> anyhow::Result<String> {
    let note = read(folder)?;
    let nodes: Vec<NodeRow> = rows_if_any(folder)?;
    let started = Timestamp::from_nanosecond(i128::from(note.origin_unix_ns));
    let seen_s = nodes.iter().map(|row| row.second.saturating_add(1)).max();
    let mut notes = note.notes;
    if note.lasted_s.is_none() {
        notes.push("the recording was killed: what it wrote before is shown".into());
    }
    let Host { cpus, cpu, os, .. } = note.host;
    let recording = Recording {
        started: started.map_or_else(|_| String::new(), |stamp| stamp.to_string()),
        lasted_s: note.lasted_s.unwrap_or(seen_s.unwrap_or_default() as f64),
        machine: format!("{cpus} × {}, {os}", cpu.as_deref().unwrap_or("processor")),
        notes,
        nodes,
        sights: rows_if_any(folder)?,
    };
    Ok(recording.html())
}

/// Writes the page into the recording's own folder; gives its path.
///
/// # Errors
/// When a file of the folder cannot be read, or the page cannot be written.
pub(crate) fn write_page(folder: &Path) -> anyhow::Result<PathBuf> {
    let path = folder.join(FILE);
    whole(fs::write(&path, page(folder)?), path.display())?;
    Ok(path)
}

/// What [`RECORD`] begins with.
pub(crate) const FORMAT: &str = "tidegate-record/1";
