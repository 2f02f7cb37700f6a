//! A run folder read back: of a run that ended, was interrupted, or was killed. And the folder of several runs, whose
//! documents are written again after each of them, so that what was known by then outlives a kill.
//!
//! [`RecordedRun::open`] returns a clear error when a path is no run. Rows come through the readers of
//! [`measure::read`]; a summary that is missing is made from the rows that are there.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::bail;
use harness::whole;
use measure::read::{HlogReader, ReadError, RowReader, TableRow, TxReader};
use measure::{BlockRow, KeptRows, Manifest, MergePart, SeriesRow, StepRow, Summary, rebuild};
use serde::Serialize;

/// A file of a run.
pub type RunFile = BufReader<File>;

/// A run that lies in a folder.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let run = txgen::folder::RecordedRun::open("runs/20261121T205022Z-ramp")?;
/// let committed = run.summary().fate.committed;
/// let mut txs = run.txs()?;
/// while let Some(tx) = txs.next_row()? {
///     assert!(tx.sent >= tx.due || committed > 0);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RecordedRun {
    path: PathBuf,
    manifest: Manifest,
    summary: Summary,
    killed: bool,
    notes: Vec<String>,
}

impl RecordedRun {
    /// Opens a run folder: reads its manifest and its summary, or makes the summary of a run that
    /// was killed from the rows it left ([`is_killed`](Self::is_killed), [`notes`](Self::notes)).
    ///
    /// # Errors
    /// When the path is no run of this format, or a file in it cannot be read.
    pub fn open(path: impl Into<PathBuf>) -> anyhow::Result<Self> {
        let path = path.into();
        let manifest = read_manifest(&path)?;
        let stored = read_summary(&path)?;
        let killed = stored.is_none();
        let mut notes = Vec::new();
        let summary = match stored {
            Some(summary) => {
                if summary.time.origin_unix_ns != manifest.origin_unix_ns {
                    bail!(
                        "manifest.json and summary.json in {} are of different runs: copy the folder again",
                        path.display()
                    );
                }
                let incomplete = &summary.recorder.incomplete_files;
                if !incomplete.is_empty() {
                    notes.push(format!(
                        "{} could not be written whole: what is drawn from it ends early",
                        incomplete.join(", ")
                    ));
                }
                summary
            }
            None => {
                let (summary, killed_notes) = rebuilt(&path, &manifest)?;
                notes = killed_notes;
                summary
            }
        };
        Ok(Self {
            path,
            manifest,
            summary,
            killed,
            notes,
        })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder's own name, for tables and legends.
    pub fn name(&self) -> String {
        let path = self.path.canonicalize();
        let path = path.as_ref().unwrap_or(&self.path);
        let name = path.file_name().unwrap_or(path.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// What was asked for, where and when.
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What it came to; made from the rows when the run was killed.
    pub const fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Whether the run ended before it could write its summary.
    pub const fn is_killed(&self) -> bool {
        self.killed
    }

    /// What a reader of the run should know about its files.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The rows of one table, one by one.
    ///
    /// # Errors
    /// When its file cannot be opened or lacks a column.
    pub fn rows<T: TableRow>(&self) -> anyhow::Result<RowReader<RunFile, T>> {
        rows(&self.path)
    }

    /// The transactions, one by one, in the memory of one.
    ///
    /// # Errors
    /// When `txs.csv` cannot be opened or lacks a column, or does not have all of them
    /// (`--rows`).
    pub fn txs(&self) -> anyhow::Result<TxReader<RunFile>> {
        txs(&self.path, &self.manifest)
    }

    /// The transactions that have a row, one by one; `None` where none has.
    ///
    /// # Errors
    /// When `txs.csv` cannot be opened or lacks a column.
    pub fn kept_txs(&self) -> anyhow::Result<Option<TxReader<RunFile>>> {
        match self.manifest.plan.rows {
            KeptRows::None => Ok(None),
            KeptRows::All | KeptRows::Sample(_) => open_txs(&self.path).map(Some),
        }
    }

    /// The intervals of all latencies, one by one.
    ///
    /// # Errors
    /// When `latency.hlog` cannot be opened.
    pub fn hlog(&self) -> anyhow::Result<HlogReader<RunFile>> {
        Ok(HlogReader::new(open(&self.path, "latency.hlog")?))
    }

    /// All rows of one table at once: about 250 bytes for a second, 100 for a block.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn all_rows<T: TableRow>(&self) -> anyhow::Result<Vec<T>> {
        all(&self.path, self.rows()?).map(|(rows, _)| rows)
    }

    /// All rows of a table that not every run has; none where there is no such file.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn rows_if_any<T: TableRow>(&self) -> anyhow::Result<Vec<T>> {
        rows_if_any(&self.path)
    }

    /// Refuses a table with fewer or more rows than the summary counts, unless that is known.
    ///
    /// # Errors
    /// When it was cut off after the run, or is of another one.
    pub fn expect_rows(
        &self,
        file: &str,
        rows: u64,
        expected: RangeInclusive<u64>,
    ) -> anyhow::Result<()> {
        let incomplete = &self.summary.recorder.incomplete_files;
        if expected.contains(&rows) || self.killed || incomplete.iter().any(|it| it == file) {
            return Ok(());
        }
        let (path, least) = (self.path.join(file), expected.start());
        let path = path.display();
        if rows < *least {
            bail!(
                "{path} has {rows} of the {least} rows that the run wrote: it was cut off later; copy the folder again"
            )
        } else {
            bail!(
                "{path} has {rows} rows, and the run wrote {least}: it is not of this run alone; copy the folder again"
            )
        }
    }

    /// Turns an error of a row into one that names the folder.
    pub fn unusable(&self, source: ReadError) -> anyhow::Error {
        unusable(&self.path, source)
    }
}

/// The summary of a run that was killed, from the rows it left, and what to note about it.
fn rebuilt(path: &Path, manifest: &Manifest) -> anyhow::Result<(Summary, Vec<String>)> {
    let mut killed = MergePart {
        manifest: manifest.clone(),
        summary: None,
        series: rows(path)?,
        steps: rows(path)?,
        blocks: rows(path)?,
        hlog: HlogReader::new(open(path, "latency.hlog")?),
        txs: Some(txs(path, manifest)?),
        answers: Vec::new(),
    };
    let summary = rebuild(&mut killed).map_err(|source| unusable(path, source))?;
    let mut notes = vec![format!(
        "summary.json is missing or cut off: the run was killed after {:.0} s; its figures were made from the rows it left",
        summary.time.ended_s
    )];
    let files = [
        (SeriesRow::FILE, killed.series.is_torn()),
        (StepRow::FILE, killed.steps.is_torn()),
        (BlockRow::FILE, killed.blocks.is_torn()),
        ("txs.csv", killed.txs.is_some_and(|txs| txs.is_torn())),
        ("latency.hlog", killed.hlog.is_torn()),
    ];
    let torn = files.iter().filter(|(_, is_torn)| *is_torn);
    let torn: Vec<&str> = torn.map(|(file, _)| *file).collect();
    if !torn.is_empty() {
        notes.push(format!(
            "the last row of {} was cut off and is left out",
            torn.join(", ")
        ));
    }
    Ok((summary, notes))
}

/// The manifest of a run folder.
///
/// # Errors
/// When the path is no run of this format.
pub(crate) fn read_manifest(path: &Path) -> anyhow::Result<Manifest> {
    if !path.exists() {
        bail!("there is no file or folder {}", path.display());
    }
    if !path.is_dir() {
        bail!(
            "{} is a file; give the run's folder{}",
            path.display(),
            hint(path)
        );
    }
    match size(&path.join("manifest.json"))? {
        None => bail!(
            "{} is not a run: it has no manifest.json{}{}",
            path.display(),
            runs_below(path),
            page_over_runs(path)
        ),
        Some(0) => bail!(
            "the run in {} ended before it began: its manifest is empty",
            path.display()
        ),
        Some(_) => Manifest::read_from(&mut open(path, "manifest.json")?)
            .map_err(|source| unusable(path, source)),
    }
}

/// The folder of a campaign or a search has a page already; that of a recording is no run.
fn page_over_runs(path: &Path) -> String {
    if is_recording(path) {
        return "; it is a recording without a load, which txgen report and txgen analyse read"
            .into();
    }
    let page = path.join("report.html");
    if page.exists() {
        format!("; the page over all of them is {}", page.display())
    } else {
        String::new()
    }
}

/// `None` when the run was killed before it wrote one.
/// What a run came to; `None` before it has ended.
pub(crate) fn read_summary(path: &Path) -> anyhow::Result<Option<Summary>> {
    match size(&path.join("summary.json"))? {
        None | Some(0) => Ok(None),
        Some(_) => match Summary::read_from(&mut open(path, "summary.json")?) {
            Ok(summary) => Ok(Some(summary)),
            Err(ReadError::BadDocument { .. }) if is_cut_off(path) => Ok(None),
            Err(source) => Err(unusable(path, source)),
        },
    }
}

/// A whole summary ends with the brace that closes it, alone on its line. What does not begin as one is something else.
fn is_cut_off(path: &Path) -> bool {
    let text = fs::read(path.join("summary.json"));
    text.is_ok_and(|text| text.starts_with(b"{") && !text.ends_with(b"\n}\n"))
}

/// The file's size; `None` when there is no such file.
fn size(path: &Path) -> anyhow::Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(unreadable(path, source)),
    }
}

fn open(folder: &Path, name: &str) -> anyhow::Result<RunFile> {
    let path = folder.join(name);
    let file = File::open(&path).map_err(|source| unreadable(&path, source))?;
    Ok(BufReader::with_capacity(BUFFER, file))
}

/// Whether a folder has a recording without a load, and no run.
pub(crate) fn is_recording(folder: &Path) -> bool {
    folder.join(RECORD).exists() && !folder.join("manifest.json").exists()
}

/// What `txgen record` writes of itself.
pub(crate) const RECORD: &str = "record.json";

/// All rows of a table that not every folder has; none where there is no such file.
///
/// # Errors
/// When the file is there and cannot be read.
pub(crate) fn rows_if_any<T: TableRow>(path: &Path) -> anyhow::Result<Vec<T>> {
    if path.join(T::FILE).exists() {
        all(path, rows(path)?).map(|(rows, _)| rows)
    } else {
        Ok(Vec::new())
    }
}

fn rows<T: TableRow>(path: &Path) -> anyhow::Result<RowReader<RunFile, T>> {
    RowReader::new(open(path, T::FILE)?).map_err(|source| unusable(path, source))
}

fn txs(path: &Path, manifest: &Manifest) -> anyhow::Result<TxReader<RunFile>> {
    let kept = manifest.plan.rows;
    if !kept.is_each() {
        bail!(
            "this needs the row of each transaction, and the run in {} was played with --rows {kept}: play it \
             again with --rows all",
            path.display()
        );
    }
    open_txs(path)
}

fn open_txs(path: &Path) -> anyhow::Result<TxReader<RunFile>> {
    TxReader::new(open(path, "txs.csv")?).map_err(|source| unusable(path, source))
}

/// All rows, and whether the last one was cut off.
fn all<T: TableRow>(
    path: &Path,
    mut reader: RowReader<RunFile, T>,
) -> anyhow::Result<(Vec<T>, bool)> {
    let rows: Result<Vec<T>, ReadError> = reader.by_ref().collect();
    let rows = rows.map_err(|source| unusable(path, source))?;
    Ok((rows, reader.is_torn()))
}

fn unusable(path: &Path, source: ReadError) -> anyhow::Error {
    anyhow::Error::from(source).context(format!("cannot read the run in {}", path.display()))
}

fn unreadable(path: &Path, source: io::Error) -> anyhow::Error {
    anyhow::Error::from(source).context(format!("cannot open {}", path.display()))
}

/// The hint for a user who gave a file of a run instead of its folder.
fn hint(path: &Path) -> String {
    match path.parent() {
        Some(parent) if parent.join("manifest.json").exists() => {
            format!(", {}", parent.display())
        }
        _ => String::new(),
    }
}

/// The hint for a user who gave the folder of several runs.
fn runs_below(path: &Path) -> String {
    let Ok(entries) = fs::read_dir(path) else {
        return String::new();
    };
    let mut runs: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|below| below.join("manifest.json").exists())
        .filter_map(|below| Some(below.file_name()?.to_string_lossy().into_owned()))
        .collect();
    runs.sort_unstable();
    let shown = runs.len().min(MAX_RUNS_NAMED);
    match (shown, runs.len()) {
        (0, _) => String::new(),
        (shown, all) if shown < all => format!(
            "; there are {all} runs below it, the last ones {}",
            runs[all - shown..].join(", ")
        ),
        _ => format!("; below it are the runs {}", runs.join(", ")),
    }
}

const BUFFER: usize = 256 * 1024;
const MAX_RUNS_NAMED: usize = 5;

/// A folder and its documents.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
}

impl Journal {
    /// Of a folder that is there.
    pub(crate) fn new(folder: &Path) -> Self {
        let folder = folder.into();
        Self { folder }
    }

    /// Where a file of it lies.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Replaces a document by its state now.
    pub(crate) fn document(&self, name: &str, document: &impl Serialize) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(document)?;
        self.text(name, &(text + "\n"))
    }

    /// Replaces a file. A reader sees the old text or the new one, never half of one.
    pub(crate) fn text(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let (place, beside) = (self.path(name), self.path(&format!(".{name}.new")));
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &place));
        whole(written, place.display())
    }
}
