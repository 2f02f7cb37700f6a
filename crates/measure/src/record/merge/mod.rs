//! From the rows of run folders to a summary: of several generators of one load, put together as if one had
//! sent it all, or of one run that was killed before it could write its own.
//!
//! Each generator ran with `--shard I/N` of one plan from one instant on and left a run folder.
//! [`merged_manifest`] checks whether their folders belong together, [`merge`] joins them in one pass
//! over each file, in the memory of a few rows of each. [`rebuild`] is the same of one folder without a summary.

mod account;
mod clocks;
mod course;
mod figures;
mod manifest;
mod part;
mod silences;
mod steps;
mod transactions;
mod unfinished;

use std::io::{self, BufRead, Write};

use account::Joined;
pub use clocks::{note_clocks, part_words};
use figures::Figures;
pub use manifest::{check_shards, merged_manifest};
use part::PartError;
pub use part::{MergeError, MergePart};
use unfinished::KILLED;

use crate::format::evidence::LimitedBy;
use crate::format::hlog;
use crate::format::manifest::Manifest;
use crate::format::read::ReadError;
use crate::format::summary::{ScheduleVerdict, Summary};
use crate::format::windows::WorstWindows;
use crate::judge::JudgeContext;
use crate::record::files::{Files, RunFolderWriters};

/// Joins the files of all parts and gives the summary of the whole; `names` are theirs, in the same
/// order. [`merged_manifest`] checks that they belong together and gives `manifest`.
///
/// Counts are exact sums, blocks are counted once. Quantiles come from the histograms of all parts;
/// those of a step whose edges are not on whole seconds and the medians of single blocks cannot be
/// put together and stay empty. Windows count the due times of what was sent, and stay empty where not each transaction
/// has a row.
///
/// # Errors
/// When a file cannot be read or written.
pub fn merge<R: BufRead, W: Write>(
    mut parts: Vec<MergePart<R>>,
    names: &[String],
    manifest: &Manifest,
    writers: RunFolderWriters<W>,
) -> Result<Summary, MergeError> {
    let unreadable = |(part, source): PartError| MergeError::Read {
        name: names.get(part).cloned().unwrap_or_default(),
        source,
    };
    let mut files = Files::new(writers, &hlog::header(manifest.origin_unix_ns));
    let mut summary = join(&mut parts, manifest, &mut files).map_err(unreadable)?;
    let lost = manifest.plan.lost.iter();
    let lost = lost.map(|part| format!("shard {} is missing: {}", part.shard, part.reason));
    summary
        .verdict
        .reasons
        .extend(lost.chain(part_words(manifest)));
    match files.into_error() {
        Some(error) => Err(error.into()),
        None => Ok(summary),
    }
}

/// The summary of a run that was killed, from the rows it left.
///
/// # Errors
/// When a file cannot be read.
pub fn rebuild<R: BufRead>(killed: &mut MergePart<R>) -> Result<Summary, ReadError> {
    let manifest = killed.manifest.clone();
    let writers = RunFolderWriters {
        txs: io::sink(),
        answers: io::sink(),
        series: io::sink(),
        steps: io::sink(),
        blocks: io::sink(),
        hlog: io::sink(),
    };
    let mut files = Files::new(writers, "");
    let parts = std::slice::from_mut(killed);
    let joined = join(parts, &manifest, &mut files).map_err(|(_, source)| source);
    let mut summary = joined?;
    let verdict = &mut summary.verdict;
    verdict.schedule = verdict.schedule.max(ScheduleVerdict::Degraded);
    verdict.reasons.insert(0, KILLED.to_owned());
    if summary.limited_by == LimitedBy::Nothing {
        summary.limited_by = LimitedBy::Unknown;
    }
    summary.knee = None;
    summary.knee_reason = "the run was killed before a knee could be found".to_owned();
    Ok(summary)
}

fn join<R: BufRead, W: Write>(
    parts: &mut [MergePart<R>],
    manifest: &Manifest,
    files: &mut Files<W>,
) -> Result<Summary, PartError> {
    let blocks = course::blocks(parts, files)?;
    let mut course = course::join(parts, (&blocks, manifest), files)?;
    let is_torn = |part: &MergePart<R>| {
        let summary = part.summary.as_ref();
        part.hlog.is_torn() && summary.is_some_and(|it| it.recorder.incomplete_files.is_empty())
    };
    if let Some(torn) = parts.iter().position(is_torn) {
        let text = "latency.hlog was cut off after the run; copy the folder again";
        return Err((torn, ReadError::Content(text.into())));
    }
    let counted = (course.unfinished.as_mut(), &mut *files);
    let mut windows = transactions::join(parts, manifest, counted)?;
    files.flush();
    let summaries = parts.iter().filter_map(|part| part.summary.as_ref());
    let mut figures: Vec<Figures> = summaries.map(Figures::from).collect();
    let lost = manifest.plan.lost.iter().map(|part| part.planned);
    let lost: Vec<Figures> = lost
        .filter_map(|planned| figures.first().map(|first| first.lost(planned)))
        .collect();
    figures.extend(lost);
    let mut blocks = &blocks[..];
    if let Some(unfinished) = &course.unfinished {
        let ended_ns = unfinished.ended().as_nanos();
        let ended = blocks.partition_point(|block| block.observed_ns < ended_ns);
        blocks = &blocks[..ended];
        windows = WorstWindows::default();
        course.censored = unfinished.censored();
        figures.push(unfinished.figures(&course.steps));
    }
    let joined = Joined {
        course,
        blocks,
        windows,
        incomplete_files: files.incomplete(),
        followed: manifest.plan.follow,
        context: JudgeContext::of(&manifest.plan),
    };
    Ok(account::summary(&figures, joined))
}
