//! The summary of the whole from the figures of its parts.

use super::course::Course;
use super::figures::Figures;
use crate::format::counts::{AddUp, raise, sum};
use crate::format::latency::{Latencies, LatencyKind};
use crate::format::rows::BlockRow;
use crate::format::summary::{
    Bar, Blocks, LoadModel, RecorderHealth, ScheduleVerdict, Summary, TimeSpans,
};
use crate::format::windows::WorstWindows;
use crate::judge::JudgeContext;
use crate::record::account::Account;
use crate::stats::block_span::{BlockSpan, observed};

/// What the files of all parts come to, beside their figures.
pub(super) struct Joined<'a> {
    pub(super) course: Course,
    pub(super) blocks: &'a [BlockRow],
    pub(super) windows: WorstWindows,
    pub(super) incomplete_files: Vec<String>,
    /// Whether blocks were watched.
    pub(super) followed: bool,
    pub(super) context: JudgeContext,
}

pub(super) fn summary(parts: &[Figures], joined: Joined<'_>) -> Summary {
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
