//! From the rows of run folders to a summary: of several generators of one load, put together as if one had
//! sent it all, or of one run that was killed before it could write its own.
//!
//! Each generator ran with `--shard I/N` of one plan from one instant on and left a run folder.
//! [`merged_manifest`] checks whether their folders belong together, [`merge`] joins them in one pass
//! over each file, in the memory of a few rows of each. [`rebuild`] is the same of one folder without a summary.

mod clocks;
mod course;
mod part;
mod transactions;

use std::io::{self, BufRead, Write};

pub use self::clocks::{note_clocks, part_words};
use self::course::Course;
use self::part::KILLED;
use self::part::{Figures, PartError};
pub use self::part::{MergeError, MergePart};
use super::account::Account;
use super::files::{Files, RunFolderWriters};
use crate::format::counts::{AddUp, raise, sum};
use crate::format::document::FORMAT;
use crate::format::evidence::LimitedBy;
use crate::format::hlog;
use crate::format::latency::{Latencies, LatencyKind};
use crate::format::manifest::{EndpointInfo, LoadField, Manifest};
use crate::format::plan_document::{LostPart, MergedPart, ShardName};
use crate::format::read::ReadError;
use crate::format::rows::BlockRow;
use crate::format::summary::{
    Bar, Blocks, LoadModel, RecorderHealth, ScheduleVerdict, Summary, TimeSpans,
};
use crate::format::windows::WorstWindows;
use crate::judge::JudgeContext;
use crate::stats::block_span::{BlockSpan, observed};

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
pub fn merge<R: BufRead>(
    mut parts: Vec<MergePart<R>>,
    names: &[String],
    manifest: &Manifest,
    writers: RunFolderWriters<impl Write + Send>,
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

fn join<R: BufRead>(
    parts: &mut [MergePart<R>],
    manifest: &Manifest,
    files: &mut Files<'_>,
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
    Ok(summary(&figures, joined))
}

/// What the files of all parts come to, beside their figures.
struct Joined<'a> {
    course: Course,
    blocks: &'a [BlockRow],
    windows: WorstWindows,
    incomplete_files: Vec<String>,
    /// Whether blocks were watched.
    followed: bool,
    context: JudgeContext,
}

fn summary(parts: &[Figures], joined: Joined<'_>) -> Summary {
    let Joined { course, .. } = joined;
    let mut latency_ms = course.latencies.summary(&course.censored);
    let exact: Option<Vec<&Latencies>> = parts.iter().map(|it| it.latency_ms.as_ref()).collect();
    if let Some(exact) = exact {
        correct(&mut latency_ms, &exact);
    }
    let mut blocks = Blocks::default();
    joined.blocks.iter().for_each(|block| blocks.add(block));
    let time = time(parts);
    let steady = observed(joined.blocks, time.warmup_s, time.offered_s);
    let account = Account {
        model: parts.first().map_or(LoadModel::Open, |part| part.model),
        interrupted: parts.iter().any(|part| part.interrupted),
        followed: joined.followed,
        context: joined.context,
        time,
        offered: total(parts, |part| &part.offered),
        fate: total(parts, |part| &part.fate),
        late: total(parts, |part| &part.late),
        latency_ms,
        seconds: &course.seconds,
        blocks,
        steady_blocks: BlockSpan::of(steady),
        windows: joined.windows,
        steps: course.steps,
        reconnects: total(parts, |part| &part.reconnects),
        recorder: health(parts, course.steps_omitted, joined.incomplete_files),
    };
    let mut summary = account.summary();
    let verdict = &mut summary.verdict;
    let is_barred = parts.iter().any(Figures::bars_account);
    if is_barred && verdict.schedule < ScheduleVerdict::Invalid {
        verdict.schedule = ScheduleVerdict::Invalid;
        verdict.bars = vec![Bar::Account];
        let reason = "invalid: what one of the generators did is not known";
        verdict.reasons.push(reason.to_owned());
    }
    summary
}

fn total<T: AddUp + Default>(parts: &[Figures], of: fn(&Figures) -> &T) -> T {
    sum(parts.iter().map(of))
}

fn time(parts: &[Figures]) -> TimeSpans {
    let latest =
        |of: fn(&TimeSpans) -> f64| parts.iter().map(|part| of(&part.time)).fold(0.0, f64::max);
    TimeSpans {
        origin_unix_ns: parts.first().map_or(0, |part| part.time.origin_unix_ns),
        warmup_s: latest(|time| time.warmup_s),
        offered_s: latest(|time| time.offered_s),
        ended_s: latest(|time| time.ended_s),
    }
}

fn health(parts: &[Figures], steps_omitted: u64, incomplete_files: Vec<String>) -> RecorderHealth {
    let incomplete = parts.iter().map(|part| &part.recorder.incomplete_files);
    let mut incomplete: Vec<String> = incomplete.flatten().cloned().collect();
    incomplete.extend(incomplete_files);
    incomplete.sort_unstable();
    incomplete.dedup();
    RecorderHealth {
        steps_omitted,
        incomplete_files: incomplete,
        ..total(parts, |part| &part.recorder)
    }
}

/// Counts, maxima and means of the parts are exact, those of their written histograms nearly.
fn correct(latencies: &mut Latencies, parts: &[&Latencies]) {
    for kind in LatencyKind::ALL {
        let (mut sum, mut count, mut censored, mut clamped, mut max) = (0.0, 0, 0, 0, None);
        for part in parts {
            let part = part.of(kind);
            sum += part.mean.unwrap_or(0.0) * (part.count + part.censored) as f64;
            count += part.count;
            censored += part.censored;
            clamped += part.clamped;
            raise(&mut max, &part.max);
        }
        let whole = latencies.of_mut(kind);
        whole.count = count;
        whole.clamped = clamped;
        whole.max = max;
        let total = count + censored;
        whole.mean = (total > 0).then(|| sum / total as f64);
    }
}

/// The manifest of the whole, if these folders (by name) are, with the lost ones, all the parts of one load.
///
/// # Errors
/// When one is missing, comes twice, or differs from the others in what must be the same: the
/// program's version, the schedule, the seed, the workload, the warm-up, the start.
pub fn merged_manifest(
    parts: &[(String, Manifest)],
    lost: &[LostPart],
) -> Result<Manifest, MergeError> {
    let Some(((first_name, first), others)) = parts.split_first() else {
        let none = "nothing to join; name the run folders of all generators";
        return Err(MergeError::Parts(none.to_owned()));
    };
    for (name, manifest) in parts {
        if manifest.plan.shard.of <= 1 {
            return Err(MergeError::Parts(format!(
                "{name} is a run of its own; only runs with --shard I/N are parts of one load"
            )));
        }
    }
    for (name, other) in others {
        for field in LoadField::of_one_load() {
            let (one, other) = (field.of(first), field.of(other));
            if one != other {
                let what = field.title();
                let [one, other] = [one, other].map(|it| it.unwrap_or_else(|| "not said".into()));
                return Err(MergeError::Parts(format!(
                    "{first_name} and {name} are not of one load: {what} is {one} in the first and {other} in the second"
                )));
            }
        }
        let [one, two] = [first, other].map(|it| it.plan.rows);
        if one != two {
            return Err(MergeError::Parts(format!(
                "{first_name} was played with --rows {one} and {name} with --rows {two}: what is merged keeps the same rows of both"
            )));
        }
        if first.origin_unix_ns != other.origin_unix_ns {
            let apart_ms = first.origin_unix_ns.abs_diff(other.origin_unix_ns) as f64 / 1e6;
            return Err(MergeError::Parts(format!(
                "{first_name} and {name} did not begin together ({apart_ms:.0} ms apart); give all generators the same --start-at"
            )));
        }
    }
    let shards = parts.iter();
    let shards = shards.map(|(name, manifest)| (name.clone(), manifest.plan.shard));
    let lost_shards = lost.iter().map(|part| (part.reason.clone(), part.shard));
    check_shards(&shards.chain(lost_shards).collect::<Vec<_>>())?;
    let mut whole = joined(first, parts);
    let missing: u64 = lost.iter().map(|part| part.planned).sum();
    whole.planned = whole.planned.map(|planned| planned + missing);
    whole.plan.lost = lost.to_vec();
    Ok(whole)
}

/// Refuses folders, by name, that are not all parts of one load, each once.
///
/// # Errors
/// When one is missing, or comes twice.
pub fn check_shards(parts: &[(String, ShardName)]) -> Result<(), MergeError> {
    let numbers: Vec<ShardName> = parts.iter().map(|(_, shard)| *shard).collect();
    for (place, number) in numbers.iter().enumerate() {
        if let Some(twin) = numbers[..place]
            .iter()
            .position(|earlier| earlier == number)
        {
            return Err(MergeError::Parts(format!(
                "{} and {} overlap: both are shard {number}",
                parts[twin].0, parts[place].0
            )));
        }
    }
    let of = numbers.first().map_or(0, |part| part.of);
    let missing: Vec<String> = (1..=of)
        .filter(|number| numbers.iter().all(|part| part.number != *number))
        .map(|number| format!("{number}/{of}"))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let shown = missing.len().min(MISSING_NAMED);
    let more = match missing.len() - shown {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let missing = missing[..shown].join(", ") + &more;
    Err(MergeError::Parts(format!(
        "shards are missing: {missing}; name the run folders of all {of} generators"
    )))
}

fn joined(first: &Manifest, parts: &[(String, Manifest)]) -> Manifest {
    let mut whole = first.clone();
    whole.format = FORMAT.into();
    whole.endpoints = endpoints(parts);
    whole.planned = parts.iter().map(|(_, manifest)| manifest.planned).sum();
    whole.plan.shard = ShardName::WHOLE;
    whole.plan.thresholds = thresholds(parts);
    let merged = parts.iter().map(|(name, manifest)| MergedPart {
        folder: name.clone(),
        shard: manifest.plan.shard,
        planned: manifest.planned,
        threads: manifest.plan.threads,
        connections: manifest.plan.connections,
        endpoints: urls(manifest).collect(),
        host: manifest.host.clone(),
        clock: None,
        fleet_clock: None,
        problem: None,
    });
    whole.plan.merged = merged.collect();
    whole
}

/// All endpoints, each once.
fn endpoints(parts: &[(String, Manifest)]) -> Vec<EndpointInfo> {
    let mut all: Vec<EndpointInfo> = Vec::new();
    for endpoint in parts.iter().flat_map(|(_, manifest)| &manifest.endpoints) {
        if all.iter().all(|known| known.url != endpoint.url) {
            all.push(endpoint.clone());
        }
    }
    all
}

fn urls(manifest: &Manifest) -> impl Iterator<Item = String> {
    manifest
        .endpoints
        .iter()
        .map(|endpoint| endpoint.url.clone())
}

/// The conditions of all, each once: they were checked on a part, and the whole has to meet them, too.
fn thresholds(parts: &[(String, Manifest)]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for text in parts
        .iter()
        .flat_map(|(_, manifest)| &manifest.plan.thresholds)
    {
        if !all.contains(text) {
            all.push(text.clone());
        }
    }
    all
}

const MISSING_NAMED: usize = 5;
