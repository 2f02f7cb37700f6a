//! One side of a comparison: a run, or a folder of runs of one load.

use std::fs;
use std::path::{Path, PathBuf};

use measure::{LatencyKind, RunFigures, ScheduleVerdict, SeriesRow};

use crate::folder::{OpenError, RecordedRun};

/// A side with everything that is drawn and compared.
pub(super) struct Side {
    pub(super) name: String,
    pub(super) runs: Vec<SideRun>,
    /// Of the runs that count.
    pub(super) figures: Vec<RunFigures>,
}

/// One of its runs.
pub(super) struct SideRun {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// When its offering ended.
    pub(super) offered_s: f64,
    pub(super) load: String,
    pub(super) verdict: ScheduleVerdict,
    pub(super) notes: Vec<String>,
    pub(super) series: Vec<SeriesRow>,
    /// Share and milliseconds: response time and commit from due.
    pub(super) accept: Vec<(f64, f64)>,
    pub(super) commit: Vec<(f64, f64)>,
}

impl Side {
    /// Opens a run, or all runs directly below a folder.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let folders = match runs_below(path) {
            Some(folders) if !path.join("manifest.json").exists() => folders,
            _ => vec![path.to_owned()],
        };
        let mut side = Self {
            name: path.display().to_string(),
            runs: Vec::new(),
            figures: Vec::new(),
        };
        for folder in folders {
            let run = RecordedRun::open(folder)?;
            let figures = RunFigures::of(run.summary());
            let run = SideRun::read(&run)?;
            if let Some(first) = side.runs.first()
                && first.load != run.load
            {
                anyhow::bail!(
                    "{} holds runs of different loads ({:?} and {:?}); repeats have one load, so give the \
                     runs one by one",
                    path.display(),
                    first.load,
                    run.load
                );
            }
            // What was not the planned load is no repeat of it.
            if run.verdict != ScheduleVerdict::Invalid {
                side.figures.push(figures);
            }
            side.runs.push(run);
        }
        Ok(side)
    }

    /// What was offered.
    pub(super) fn load(&self) -> &str {
        self.runs.first().map_or("", |run| &run.load)
    }

    /// The name and how many runs it has, if several.
    pub(super) fn title(&self) -> String {
        match self.runs.len() {
            1 => self.name.clone(),
            several => format!("{} ({several} runs)", self.name),
        }
    }
}

impl SideRun {
    fn read(run: &RecordedRun) -> Result<Self, OpenError> {
        let summary = run.summary();
        let latencies = run
            .hlog()?
            .sum(summary.time.warmup_s)
            .map_err(|error| run.unusable(error))?;
        let curve = |kind| {
            let latency = latencies.of(kind);
            shares()
                .filter_map(|share| Some((share, latency.quantile(share)?.as_millis_f64())))
                .collect()
        };
        Ok(Self {
            name: run.name(),
            path: run.path().to_owned(),
            offered_s: summary.time.offered_s,
            load: run.manifest().profile.clone(),
            verdict: summary.verdict.schedule,
            notes: run.notes().to_vec(),
            series: run.all_rows()?,
            accept: curve(LatencyKind::AcceptResponse),
            commit: curve(LatencyKind::CommitFromDue),
        })
    }
}

/// The run folders directly below a folder, by name; `None` when there is none.
fn runs_below(path: &Path) -> Option<Vec<PathBuf>> {
    let mut folders: Vec<PathBuf> = fs::read_dir(path)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|below| below.join("manifest.json").exists())
        .collect();
    folders.sort_unstable();
    (!folders.is_empty()).then_some(folders)
}

/// Shares that are evenly spread on an axis of nines, up to three of them.
fn shares() -> impl Iterator<Item = f64> {
    (0..=SHARES).map(|step| {
        let nines = 3.0 * f64::from(step) / f64::from(SHARES);
        1.0 - 10_f64.powf(-nines)
    })
}

const SHARES: u32 = 120;
