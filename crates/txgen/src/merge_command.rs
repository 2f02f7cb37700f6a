//! `txgen merge`: the run folders of several generators of one load as one.

use anyhow::{Context as _, anyhow, bail};
use harness::whole;
use std::path::{Path, PathBuf};

use measure::{
    BlockRow, ClockOffset, FleetClock, LostPart, MergeError, MergePart, merge, merged_manifest,
    note_clocks,
};
use ops::command::{CommandError, failed, usage};
use pacing::Nanos;
use report::Entries;

use crate::cli::MergeArgs;
use crate::folder::{RecordedRun, RunFile};
use crate::output::{print, recorded};
use crate::run::{Outcome, RunFolder, open_all};

/// What is joined.
pub(crate) struct Joining {
    /// The folders of all generators.
    pub(crate) folders: Vec<PathBuf>,
    /// What the coordinator of a fleet knows of them, in the same order: their clocks, and what their records lack.
    pub(crate) known: Vec<(FleetClock, Option<String>)>,
    /// The parts without a folder.
    pub(crate) lost: Vec<LostPart>,
    /// Which part ended the load early, and why.
    pub(crate) stopped: Option<String>,
    /// How far clocks may be apart by blocks that two generators saw.
    pub(crate) max_clock_offset: Nanos,
    /// The merged folder.
    pub(crate) out: PathBuf,
}

/// `txgen merge`.
///
/// # Errors
/// When a folder is no run or not of the same load, or the output cannot be written.
pub fn execute(args: MergeArgs) -> Result<u8, CommandError> {
    let joined = join(Joining {
        folders: args.folders,
        known: Vec::new(),
        lost: Vec::new(),
        stopped: None,
        max_clock_offset: args.max_clock_offset,
        out: args.out,
    })?;
    tell(&joined);
    Ok(joined.outcome.exit_code())
}

/// What folders come to together.
pub(crate) struct Joined {
    /// The merged run.
    pub(crate) outcome: Outcome,
    /// Of which folders.
    names: Vec<String>,
    page: PathBuf,
}

/// Prints it.
pub(crate) fn tell(joined: &Joined) {
    let outcome = &joined.outcome;
    let (mut head, mut foot) = (Entries::default(), Entries::default());
    head.add("merged", joined.names.join(", "));
    foot.add("written to", outcome.folder.display().to_string());
    foot.add("report", joined.page.display().to_string());
    let stopped_by = outcome.stopped_by.as_ref();
    let table = crate::output::table(&outcome.summary, &outcome.thresholds, stopped_by);
    print(&(head.text() + &table + &foot.text()));
}

/// Joins the folders.
///
/// # Errors
/// When a folder is no run or not of the same load, or the output cannot be written.
pub(crate) fn join(joining: Joining) -> Result<Joined, CommandError> {
    let mut runs = Vec::with_capacity(joining.folders.len());
    for folder in &joining.folders {
        let run = open_part(folder).map_err(usage)?;
        runs.push((folder.display().to_string(), run));
    }
    let parts = runs
        .iter()
        .map(|(_, run)| part(run))
        .collect::<Result<_, _>>()
        .map_err(usage)?;
    let manifests: Vec<_> = runs
        .iter()
        .map(|(name, run)| (name.clone(), run.manifest().clone()))
        .collect();
    let mut manifest = merged_manifest(&manifests, &joining.lost).map_err(unmerged)?;
    let offsets = clock_offsets(&runs).map_err(failed)?;
    let limit_ms = joining.max_clock_offset.as_millis_f64();
    note_clocks(&mut manifest, &offsets, limit_ms).map_err(unmerged)?;
    for (part, (clock, problem)) in manifest.plan.merged.iter_mut().zip(joining.known) {
        part.fleet_clock = Some(clock);
        part.problem = problem;
    }
    manifest.plan.stopped = joining.stopped;
    let folder = RunFolder::create(joining.out).map_err(usage)?;
    let names: Vec<String> = runs.iter().map(|(name, _)| name.clone()).collect();
    let mut files = open_all(&folder, manifest.plan.rows).map_err(usage)?;
    let written = manifest.write_to(&mut files.manifest);
    whole(written, "manifest.json").map_err(failed)?;
    let merged = merge(parts, &names, &manifest, files.rows);
    let summary = merged.map_err(unmerged)?;
    let thresholds = recorded::verdicts(&manifest, &summary).into_iter();
    let thresholds: Result<Vec<_>, _> = thresholds.collect();
    let thresholds = thresholds.map_err(|unchecked| usage(anyhow!("the threshold {unchecked}")))?;
    let stopped_by = recorded::stopped_by(&manifest, &summary);
    let written = summary.write_to(&mut files.summary);
    whole(written, "summary.json").map_err(failed)?;
    drop(files.summary);
    let page = recorded::write_html_after_run(folder.path()).map_err(failed)?;
    Ok(Joined {
        outcome: Outcome {
            summary,
            thresholds,
            stopped_by,
            folder: folder.path().into(),
        },
        names,
        page,
    })
}

/// A folder that can be joined with others.
///
/// # Errors
/// When it is no run, or one that did not come to its end.
pub(crate) fn open_part(folder: &Path) -> anyhow::Result<RecordedRun> {
    let run = RecordedRun::open(folder)?;
    if run.is_killed() {
        bail!(
            "the run in {} was killed before it ended: its counts would be short of the plan; merge whole runs",
            folder.display()
        );
    }
    Ok(run)
}

/// How far the clock of each generator is from that of the first, by the blocks that both saw.
fn clock_offsets(
    runs: &[(String, RecordedRun)],
) -> Result<Vec<Option<ClockOffset>>, anyhow::Error> {
    let blocks = |(name, run): &(String, RecordedRun)| -> Result<Vec<BlockRow>, anyhow::Error> {
        let rows: Result<_, _> = run.rows()?.collect();
        rows.with_context(|| format!("cannot read {name}"))
    };
    let Some((first, others)) = runs.split_first() else {
        return Ok(Vec::new());
    };
    let first = blocks(first)?;
    let offset = |other| Ok(ClockOffset::between(&first, &blocks(other)?));
    others.iter().map(offset).collect()
}

/// Folders that do not belong together are the caller's fault; what cannot be read or written is not.
fn unmerged(error: MergeError) -> CommandError {
    match error {
        MergeError::Read { .. } | MergeError::Write(_) => failed(error),
        _ => usage(error),
    }
}

fn part(run: &RecordedRun) -> anyhow::Result<MergePart<RunFile>> {
    Ok(MergePart {
        manifest: run.manifest().clone(),
        summary: Some(run.summary().clone()),
        series: run.rows()?,
        steps: run.rows()?,
        blocks: run.rows()?,
        hlog: run.hlog()?,
        txs: run.kept_txs()?,
        answers: run.rows_if_any()?,
    })
}
