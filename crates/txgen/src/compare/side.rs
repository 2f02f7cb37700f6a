//! One side of a comparison: a run, or a folder of runs of one load.

use std::fs;
use std::path::{Path, PathBuf};

use measure::{
    BlockRow, LatencyKind, Manifest, Metric, RunFigures, ScheduleVerdict, SeriesRow, Verdict,
};
use report::quantile_curve;

use crate::folder::RecordedRun;
use crate::output::recorded;

/// A side with everything that is drawn and compared.
pub(super) struct Side {
    pub(super) name: String,
    /// What the name stands for, where that differs from it.
    pub(super) about: Option<String>,
    pub(super) runs: Vec<SideRun>,
    /// Of the runs that count.
    pub(super) figures: Vec<RunFigures>,
}

/// One of its runs.
pub(super) struct SideRun {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) manifest: Manifest,
    pub(super) figures: RunFigures,
    /// When its offering ended.
    pub(super) offered_s: f64,
    pub(super) verdict: ScheduleVerdict,
    /// The first reason of a verdict that is not `valid`.
    pub(super) reason: Option<String>,
    /// Metrics that depend more on the generator than on the target.
    pub(super) busy: Vec<Metric>,
    pub(super) notes: Vec<String>,
    pub(super) series: Vec<SeriesRow>,
    pub(super) blocks: Vec<BlockRow>,
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
            about: None,
            runs: Vec::new(),
            figures: Vec::new(),
        };
        for folder in folders {
            let recorded = RecordedRun::open(folder)?;
            let figures = RunFigures::of(recorded.summary());
            let run = SideRun::read(&recorded, &figures)?;
            if let Some(same) = side
                .runs
                .iter()
                .find(|it| it.manifest.origin_unix_ns == run.manifest.origin_unix_ns)
            {
                anyhow::bail!(
                    "{} and {} are one run, and no repeats: remove the copy",
                    same.title(),
                    run.title()
                );
            }
            if let Some(first) = side.runs.first()
                && first.manifest.profile != run.manifest.profile
            {
                anyhow::bail!(
                    "{} holds runs of different loads ({:?} and {:?}); repeats have one load, so give the \
                     runs one by one",
                    path.display(),
                    first.manifest.profile,
                    run.manifest.profile
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
        self.runs.first().map_or("", |run| &run.manifest.profile)
    }

    /// How long after its block a commit may have been seen; 0 where nodes announced their blocks.
    pub(super) fn resolution_ms(&self) -> f64 {
        let figures = self.figures.iter();
        figures
            .map(|run| run.block_resolution_ms)
            .fold(0.0, f64::max)
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
    /// Whether its generator was late itself.
    pub(super) fn is_disturbed(&self) -> bool {
        self.verdict != ScheduleVerdict::Valid || !self.busy.is_empty()
    }

    /// What it is called beside the runs of other sides.
    pub(super) fn title(&self) -> String {
        self.path.display().to_string()
    }

    fn read(run: &RecordedRun, figures: &RunFigures) -> anyhow::Result<Self> {
        let summary = run.summary();
        let latencies = run
            .hlog()?
            .sum(summary.time.warmup_s)
            .map_err(|error| run.unusable(error))?;
        let curve = |kind| quantile_curve(latencies.of(kind));
        let (verdict, reason) = match ended_early(run) {
            Some(reason) => (ScheduleVerdict::Invalid, Some(reason)),
            None => (summary.verdict.schedule, first_reason(&summary.verdict)),
        };
        Ok(Self {
            name: run.name(),
            path: run.path().to_owned(),
            manifest: run.manifest().clone(),
            figures: figures.clone(),
            offered_s: summary.time.offered_s,
            verdict,
            reason,
            busy: Metric::OF_LOADS
                .into_iter()
                .filter(|metric| figures.is_busy(*metric))
                .collect(),
            notes: run.notes().to_vec(),
            series: recorded::series(run)?,
            blocks: recorded::blocks(run)?,
            accept: curve(LatencyKind::AcceptResponse),
            commit: curve(LatencyKind::CommitFromDue),
        })
    }
}

/// Whether the user or a failure ended the run before its plan did; a ramp that ends when it is saturated is whole.
fn ended_early(run: &RecordedRun) -> Option<String> {
    let (manifest, summary) = (run.manifest(), run.summary());
    let planned = manifest
        .planned
        .filter(|planned| summary.offered.planned < *planned)?;
    (manifest.plan.stop_when_saturated != Some(true)).then(|| {
        format!(
            "it ended after {:.1} s, when {} of {planned} transactions had been due",
            summary.time.offered_s, summary.offered.planned
        )
    })
}

/// Why a verdict is what it is; `None` for `valid`.
fn first_reason(verdict: &Verdict) -> Option<String> {
    let before = format!("{}: ", verdict.schedule.name());
    let mut reasons = verdict.reasons.iter();
    reasons.find_map(|reason| Some(reason.strip_prefix(&before)?.to_owned()))
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
