//! The summary of the whole from the summaries of its parts.

use std::collections::BTreeMap;

use super::course::Course;
use crate::conservation::Conservation;
use crate::latency::Quantiles;
use crate::limit::{self, Pressure};
use crate::rates::PerSecond;
use crate::rows::BlockRow;
use crate::segments::SECOND;
use crate::summary::{
    Blocks, CommittedAnyway, FORMAT, Fate, LateCauses, Latencies, LoadModel, Offered, Rates,
    Reconnects, RecorderHealth, Summary, TimeSpans,
};
use crate::verdict::{self, Evidence, ScheduleVerdict};
use crate::windows::WorstWindows;

pub(super) fn sum(
    parts: &[&Summary],
    course: Course,
    blocks: &[BlockRow],
    windows: WorstWindows,
    incomplete_files: Vec<String>,
) -> Summary {
    let time = time(parts);
    let offered = offered(parts);
    let fate = fate(parts);
    let late = late(parts);
    let blocks = blocks_of(blocks, &course.blocks, &time);
    let conservation = Conservation::of(&offered, &fate, blocks.own_txs);
    let rate = rates(&offered, &course, &time);
    let health = health(parts, course.steps_omitted, incomplete_files);
    let model = parts.first().map_or(LoadModel::Open, |part| part.model);
    let mut verdict = verdict::judge(&Evidence {
        model,
        offered: &offered,
        late,
        conservation: &conservation,
        late_events: health.late_events,
        missing_blocks: blocks.missing,
        failed_followers: health.failed_followers,
    });
    let worst = parts.iter().map(|part| part.verdict.schedule).max();
    if worst == Some(ScheduleVerdict::Invalid) && verdict.schedule < ScheduleVerdict::Invalid {
        // The whole can look better than its parts, but not be it.
        verdict.schedule = ScheduleVerdict::Invalid;
        verdict
            .reasons
            .push("the run of one of the generators is invalid".into());
    }
    let limited_by = limit::limited_by(&Pressure {
        model,
        offered: &offered,
        fate: &fate,
        late,
        rate: &rate,
        blocks: blocks.count,
    });
    let mut latency_ms = course.latencies.summary();
    exact(&mut latency_ms, parts);
    Summary {
        format: FORMAT.to_owned(),
        model,
        interrupted: parts.iter().any(|part| part.interrupted),
        time,
        verdict,
        offered,
        fate,
        conservation,
        rate,
        latency_ms,
        late,
        windows,
        blocks,
        steps: course.steps,
        knee: None,
        knee_reason: String::new(),
        limited_by,
        reconnects: reconnects(parts),
        recorder: health,
    }
}

fn time(parts: &[&Summary]) -> TimeSpans {
    let latest =
        |of: fn(&TimeSpans) -> f64| parts.iter().map(|part| of(&part.time)).fold(0.0, f64::max);
    TimeSpans {
        origin_unix_ns: parts.first().map_or(0, |part| part.time.origin_unix_ns),
        warmup_s: latest(|time| time.warmup_s),
        offered_s: latest(|time| time.offered_s),
        ended_s: latest(|time| time.ended_s),
    }
}

fn offered(parts: &[&Summary]) -> Offered {
    let total = |of: fn(&Offered) -> u64| parts.iter().map(|part| of(&part.offered)).sum();
    Offered {
        planned: total(|offered| offered.planned),
        sent: total(|offered| offered.sent),
        unsent: total(|offered| offered.unsent),
        unsent_by_reason: counts(parts, |part| &part.offered.unsent_by_reason),
    }
}

fn fate(parts: &[&Summary]) -> Fate {
    let total = |of: fn(&Fate) -> u64| parts.iter().map(|part| of(&part.fate)).sum();
    Fate {
        sent: total(|fate| fate.sent),
        accepted: total(|fate| fate.accepted),
        rejected: total(|fate| fate.rejected),
        errors: total(|fate| fate.errors),
        unanswered: total(|fate| fate.unanswered),
        committed: total(|fate| fate.committed),
        commit_failed: total(|fate| fate.commit_failed),
        pending: total(|fate| fate.pending),
        committed_anyway: CommittedAnyway {
            rejected: total(|fate| fate.committed_anyway.rejected),
            errors: total(|fate| fate.committed_anyway.errors),
            unanswered: total(|fate| fate.committed_anyway.unanswered),
        },
        rejected_by_code: counts(parts, |part| &part.fate.rejected_by_code),
        errors_by_kind: counts(parts, |part| &part.fate.errors_by_kind),
    }
}

/// Counts by name, name by name.
fn counts(
    parts: &[&Summary],
    of: impl Fn(&Summary) -> &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, count) in parts.iter().flat_map(|part| of(part)) {
        *sums.entry(name.clone()).or_default() += count;
    }
    sums
}

fn late(parts: &[&Summary]) -> LateCauses {
    let total = |of: fn(&LateCauses) -> u64| parts.iter().map(|part| of(&part.late)).sum();
    let longest = parts.iter().map(|part| part.late.generator_max_ms);
    LateCauses {
        schedule: total(|late| late.schedule),
        source: total(|late| late.source),
        connection: total(|late| late.connection),
        node: total(|late| late.node),
        generator_max_ms: longest.fold(0.0, f64::max),
    }
}

fn blocks_of(blocks: &[BlockRow], per_second: &PerSecond, time: &TimeSpans) -> Blocks {
    let total = |of: fn(&BlockRow) -> u64| blocks.iter().map(of).sum::<u64>();
    let (first, last) = (blocks.first(), blocks.last());
    let heights = first
        .zip(last)
        .map_or(0, |(first, last)| last.height - first.height + 1);
    let count = blocks.len() as u64;
    let (txs, own_txs) = (total(|block| block.txs), total(|block| block.own_txs));
    Blocks {
        count,
        first_height: first.map(|block| block.height),
        last_height: last.map(|block| block.height),
        missing: heights.saturating_sub(count),
        txs,
        own_txs,
        foreign_txs: txs.saturating_sub(own_txs),
        bytes: total(|block| block.bytes),
        per_s: per_second.stats(steady_seconds(time)),
    }
}

fn rates(offered: &Offered, course: &Course, time: &TimeSpans) -> Rates {
    let over_span = |count: u64| (time.offered_s > 0.0).then(|| count as f64 / time.offered_s);
    let seconds = steady_seconds(time);
    Rates {
        planned_tps: over_span(offered.planned),
        sent_tps: over_span(offered.sent),
        accepted_tps: course.accepted.stats(seconds.clone()),
        committed_tps: course.committed.stats(seconds),
    }
}

/// Whole seconds after the warm-up and before offering ended.
fn steady_seconds(time: &TimeSpans) -> std::ops::Range<usize> {
    let first = time.warmup_s.ceil() as usize;
    let nanos = (time.offered_s.min(time.ended_s) * 1e9).round() as u64;
    let last = (nanos / SECOND.as_nanos()) as usize;
    first..last.max(first)
}

fn reconnects(parts: &[&Summary]) -> Reconnects {
    let mut sum = Reconnects::default();
    for cost in parts.iter().map(|part| part.reconnects) {
        sum.planned += cost.planned;
        sum.broken += cost.broken;
        sum.failed_attempts += cost.failed_attempts;
        sum.down_ms_total += cost.down_ms_total;
        sum.down_ms_max = sum.down_ms_max.max(cost.down_ms_max);
    }
    sum
}

fn health(parts: &[&Summary], steps_omitted: u64, incomplete_files: Vec<String>) -> RecorderHealth {
    let total = |of: fn(&RecorderHealth) -> u64| parts.iter().map(|part| of(&part.recorder)).sum();
    let mut incomplete: Vec<String> = parts
        .iter()
        .flat_map(|part| part.recorder.incomplete_files.clone())
        .chain(incomplete_files)
        .collect();
    incomplete.sort_unstable();
    incomplete.dedup();
    RecorderHealth {
        settled_early: total(|health| health.settled_early),
        stray_answers: total(|health| health.stray_answers),
        late_events: total(|health| health.late_events),
        pending_peak: total(|health| health.pending_peak),
        pending_bytes_peak: total(|health| health.pending_bytes_peak),
        steps_omitted,
        failed_followers: total(|health| health.failed_followers),
        incomplete_files: incomplete,
    }
}

/// Counts, maxima and means of the parts are exact, those of their written histograms nearly.
fn exact(latencies: &mut Latencies, parts: &[&Summary]) {
    type Of = fn(&mut Latencies) -> &mut Quantiles;
    let each: [Of; 6] = [
        |latencies| &mut latencies.lateness,
        |latencies| &mut latencies.accept_response,
        |latencies| &mut latencies.accept_service,
        |latencies| &mut latencies.commit_from_due,
        |latencies| &mut latencies.commit_from_sent,
        |latencies| &mut latencies.commit_from_accepted,
    ];
    let mut copies: Vec<Latencies> = parts.iter().map(|part| part.latency_ms.clone()).collect();
    for of in each {
        let (mut sum, mut count, mut clamped, mut max) = (0.0, 0, 0, None);
        for part in copies.iter_mut().map(of) {
            sum += part.mean.unwrap_or(0.0) * part.count as f64;
            count += part.count;
            clamped += part.clamped;
            max = max.into_iter().chain(part.max).reduce(f64::max);
        }
        let whole = of(latencies);
        whole.count = count;
        whole.clamped = clamped;
        whole.max = max;
        whole.mean = (count > 0).then(|| sum / count as f64);
    }
}
