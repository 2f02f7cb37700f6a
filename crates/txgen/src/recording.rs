//! `txgen record`: nodes observed without a load, the folder of a recording, and its page.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use anyhow::{Context as _, bail};
use harness::whole;
use jiff::Timestamp;
use measure::read::TableRow as _;
use measure::{Host, NodeRow, SightRow};
use ops::command::{CommandError, failed, usage};
use pacing::Nanos;
use report::Recording;
use rpc::Trust;
use sender::clock::RunClock;
use serde::{Deserialize, Serialize};

use crate::cli::RecordArgs;
use crate::folder::{RECORD, rows_if_any};
use crate::observe::{Chosen, Observers, discover};
use crate::output::print;
use crate::output::recorded::FILE;
use crate::plan::observed;
use crate::run::{RunFolder, default_folder, host, observed_tables};
use crate::shutdown::Shutdown;

/// The description of a recording, in [`RECORD`].
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

/// The description of a recording.
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
fn write_page(folder: &Path) -> anyhow::Result<PathBuf> {
    let path = folder.join(FILE);
    whole(fs::write(&path, page(folder)?), path.display())?;
    Ok(path)
}

/// What [`RECORD`] begins with.
pub(crate) const FORMAT: &str = "tidegate-record/1";

/// Observes until the time is up or a signal comes; gives the exit code.
pub(crate) fn record(args: &RecordArgs) -> Result<u8, CommandError> {
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    let trust = Trust::native();
    let mut nodes = observed(&args.observe).map_err(usage)?;
    if let Some((first, wanted)) = args.from.as_ref().zip(args.discover) {
        let found = discover(
            args.target.target(),
            first,
            wanted.get() as usize,
            &trust,
            &shutdown,
        );
        nodes.extend(found.map_err(failed)?);
    }
    if nodes.is_empty() {
        let nobody = anyhow::anyhow!(
            "there is nothing to observe: give --observe name=URL, or --from URL --discover N"
        );
        return Err(usage(nobody));
    }
    let out = args.out.clone().unwrap_or_else(|| default_folder("record"));
    let folder = RunFolder::create(out).map_err(failed)?;
    let clock = RunClock::default();
    let tables = observed_tables(&folder).map_err(failed)?;
    let observers = Observers::start(
        args.target.target(),
        &nodes,
        &trust,
        &clock,
        Chosen::OfAll,
        tables,
    );
    let unused = |_: &_| folder.discard(&[NodeRow::FILE, SightRow::FILE]);
    let observers = observers.inspect_err(unused).map_err(failed)?;
    let origin = clock.start(Nanos::ZERO);
    let mut note = Note {
        format: FORMAT.into(),
        origin_unix_ns: origin.unix_ns(),
        host: host(),
        lasted_s: None,
        notes: Vec::new(),
    };
    whole(note.write(folder.path()), RECORD).map_err(failed)?;
    while !shutdown.is_requested() && args.duration.is_none_or(|duration| clock.now() < duration) {
        thread::sleep(LOOK_INTERVAL);
    }
    let ended = clock.now();
    let seen = observers.stop(ended);
    note.lasted_s = Some(ended.as_secs_f64());
    note.notes = seen.gaps;
    whole(note.write(folder.path()), RECORD).map_err(failed)?;
    let page = write_page(folder.path()).map_err(failed)?;
    let mut text = String::new();
    for line in seen.lines.iter().chain(&note.notes) {
        text.push_str(&format!("{line}\n"));
    }
    text.push_str(&format!("written to {}\n", folder.path().display()));
    text.push_str(&format!("report: {}\n", page.display()));
    match seen.write_error {
        Some(error) => Err(failed(error)),
        None => Ok(print(&text)),
    }
}

const LOOK_INTERVAL: Duration = Duration::from_millis(50);
