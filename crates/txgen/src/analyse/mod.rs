//! `txgen analyse`: which stage of a recorded run stopped following the load, and at what rate.

mod blocks;
mod machines;
mod nodes;

use std::collections::HashSet;

use measure::{
    BlockRow, Breakpoint, BreakpointFound, Committed, Ends, Estimate, LineFit, SeriesRow, SightRow,
    breakpoint,
};
use ops::command::{CommandError, usage};

use crate::cli::{AnalyseArgs, BitRate};
use crate::folder::{RecordedRun, is_recording};
use crate::output::{grouped, print, recorded};
use crate::recording;
use machines::Machine;
use nodes::Nodes;

/// Prints the knee of each stage and what held the run back; gives the exit code.
pub(crate) fn show(args: &AnalyseArgs) -> Result<u8, CommandError> {
    if is_recording(&args.run) {
        recording::read(&args.run).map_err(usage)?;
        let nodes = observed(args, None).map_err(usage)?;
        return Ok(print(&nodes.text()));
    }
    let run = RecordedRun::open(&args.run).map_err(usage)?;
    let rows: Vec<SeriesRow> = recorded::series(&run).map_err(usage)?;
    // The rows of the drain offer nothing and achieve what was offered before.
    let offered_s = run.summary().time.offered_s;
    let offering = rows
        .iter()
        .position(|row| row.second as f64 + row.span_s > offered_s);
    let rows = &rows[..offering.unwrap_or(rows.len())];
    let nodes = observed(args, Some((&run, rows))).map_err(usage)?;
    let seed = run.manifest().seed;
    let mut text = String::new();
    for stage in &STAGES {
        let points = points(rows, stage);
        text.push_str(&line(stage.name, &points, breakpoint(&points, seed)));
    }
    let points = committed(rows, &recorded::blocks(&run).map_err(usage)?);
    text.push_str(&line("committed", &points, breakpoint(&points, seed)));
    text.push_str(&nodes.text());
    let summary = run.summary();
    text.push_str(&format!(
        "limited by  {}\n",
        report::limit_text(summary.limited_by)
    ));
    for evidence in &summary.evidence {
        text.push_str(&format!(
            "            - {}\n",
            report::evidence_text(summary, evidence)
        ));
    }
    Ok(print(&text))
}

/// The observed nodes of a folder, beside the rows of a run's offering if there was one; none where none were
/// observed.
fn observed(
    args: &AnalyseArgs,
    run: Option<(&RecordedRun, &[SeriesRow])>,
) -> anyhow::Result<Nodes> {
    let (machine, clocks) = machines(args)?;
    let summary = run.map(|(run, _)| run.summary());
    let own_late = |summary: &measure::Summary| {
        let late = summary.late.causes.schedule + summary.late.causes.source;
        late as f64 / summary.fate.sent.max(1) as f64
    };
    let series = run.map_or(&[][..], |(_, rows)| rows);
    let second = |row: &SeriesRow| {
        let cores = row.generator_cpu.unwrap_or_default();
        (
            row.second,
            row.counts.offered as f64 / row.span_s.max(f64::MIN_POSITIVE),
            cores,
        )
    };
    let ends = match run {
        Some((run, _)) => ends(run, &machine.sights)?,
        None => Ends::default(),
    };
    Ok(Nodes {
        rows: machine.rows,
        ends,
        sights: machine.sights,
        clocks,
        offered: series.iter().map(second).collect(),
        cores: machine.cores,
        own_late: summary.map_or(0.0, own_late),
        link_rate: args.link_rate.map(BitRate::bits_per_second),
        seed: run.map_or(0, |(run, _)| run.manifest().seed),
    })
}

/// How the sampled transactions of the load ended, of those that have a row.
fn ends(run: &RecordedRun, sights: &[SightRow]) -> anyhow::Result<Ends> {
    let txs = sights.iter().filter(|sight| sight.kind == SightRow::TX);
    let sampled: HashSet<&str> = txs.map(|sight| &*sight.id).collect();
    let mut ends = Ends::new();
    let Some(mut rows) = run.kept_txs()? else {
        return Ok(ends);
    };
    while let Some(row) = rows.next_row().map_err(|error| run.unusable(error))? {
        if sampled.contains(row.txid) {
            let committed = row.committed.zip(row.height).map(|(at, height)| Committed {
                at_ns: at.as_nanos(),
                height,
            });
            ends.insert(row.txid.to_owned(), committed);
        }
    }
    Ok(ends)
}

/// What was observed on all machines, on the first one's clock, and the notes about the clocks.
fn machines(args: &AnalyseArgs) -> anyhow::Result<(Machine, Vec<String>)> {
    let mut clocks = Vec::new();
    let mut first = Machine::read(&args.run)?;
    for folder in &args.with {
        let name = folder.display().to_string();
        clocks.push(first.add(&name, Machine::read(folder)?, args.max_clock_offset)?);
    }
    Ok((first, clocks))
}

/// What is counted in a row.
type Count = fn(&SeriesRow) -> u64;

/// A stage that a transaction passes.
struct Stage {
    name: &'static str,
    /// What it is offered and what it achieves.
    offered: Count,
    achieved: Count,
}

const STAGES: [Stage; 2] = [
    Stage {
        name: "sent",
        offered: |row| row.counts.offered,
        achieved: |row| row.counts.sent,
    },
    Stage {
        name: "accepted",
        offered: |row| row.counts.offered,
        achieved: |row| row.counts.accepted,
    },
];

/// Rates, one point for each second.
fn points(rows: &[SeriesRow], stage: &Stage) -> Vec<(f64, f64)> {
    let rate =
        |row: &SeriesRow, count: Count| count(row) as f64 / row.span_s.max(f64::MIN_POSITIVE);
    rows.iter()
        .map(|row| (rate(row, stage.offered), rate(row, stage.achieved)))
        .collect()
}

/// What was offered between blocks and what they committed, a second; one point for as many whole intervals as last
/// [`STRETCH_S`]. Seconds would split what a block takes at once.
fn committed(rows: &[SeriesRow], blocks: &[BlockRow]) -> Vec<(f64, f64)> {
    let offered_s = rows
        .last()
        .map_or(0.0, |row| row.second as f64 + row.span_s);
    let offered = |until_s: f64| -> f64 {
        let passed = |row: &SeriesRow| (until_s - row.second as f64).clamp(0.0, row.span_s);
        let of = |row: &SeriesRow| row.counts.offered as f64 / row.span_s * passed(row);
        rows.iter().filter(|row| row.span_s > 0.0).map(of).sum()
    };
    let seen = blocks
        .iter()
        .map(|block| (block.observed_ns as f64 / 1e9, block.own_txs));
    let mut points = Vec::new();
    let mut since: Option<(f64, f64)> = None;
    let mut taken = 0;
    for (at, txs) in seen.take_while(|(at, _)| *at <= offered_s) {
        taken += txs;
        let (from, before) = *since.get_or_insert_with(|| {
            taken = 0;
            (at, offered(at))
        });
        let lasted = at - from;
        if lasted >= STRETCH_S {
            let now = offered(at);
            points.push(((now - before) / lasted, taken as f64 / lasted));
            (since, taken) = (Some((at, now)), 0);
        }
    }
    points
}

/// A point's least length: blocks of a second are too few transactions for one.
const STRETCH_S: f64 = 4.0;

fn line(name: &str, points: &[(f64, f64)], found: BreakpointFound) -> String {
    let rate = |rate: f64| grouped(rate.max(0.0).round() as u64);
    let what = match found {
        BreakpointFound::Breakpoint(Breakpoint {
            at,
            low,
            high,
            before,
            after,
        }) => format!(
            "knee at {}/s (95 %: {} to {}); of each further transaction {before:.2} below it, {after:.2} above",
            rate(at),
            rate(low),
            rate(high)
        ),
        BreakpointFound::NoneSeen { up_to } => format!("no knee seen up to {}/s", rate(up_to)),
        BreakpointFound::TooFew => format!(
            "{} points are too few, or all at one rate: offer a rising load for longer",
            points.len()
        ),
    };
    format!("{name:<10}  {what}\n")
}

/// A figure with its interval.
fn range(estimate: Estimate, factor: f64) -> String {
    let Estimate { value, low, high } = estimate;
    let [value, low, high] = [value, low, high].map(|it| it * factor);
    format!("{value:.3} (95 %: {low:.3} to {high:.3})")
}

/// A figure at a rate, and whether it was measured there.
fn extrapolated(fit: &LineFit, rate: f64, unit: &str) -> String {
    let reach = fit.reach(rate);
    if !fit.supports(rate) {
        return if reach > 1.0 {
            format!("not supported by these points ({reach:.1} times the highest rate measured)")
        } else {
            "not supported by these points: no rise is shown".into()
        };
    }
    let what = range(fit.at(rate), 1.0);
    if reach > 1.0 {
        format!("{what} {unit}, extrapolated to {reach:.1} times the highest rate measured")
    } else {
        format!("{what} {unit}, within what was measured")
    }
}

#[cfg(test)]
mod tests {
    use measure::Counts;

    use super::*;

    /// A node that accepts 1,000/s at most, under a ramp of 50/s each second.
    fn rows() -> Vec<SeriesRow> {
        let row = |second: u64| SeriesRow {
            second,
            span_s: 1.0,
            counts: Counts {
                offered: second * 50,
                sent: second * 50,
                accepted: (second * 50).min(1_000),
                ..Counts::default()
            },
            ..SeriesRow::default()
        };
        (1..=48).map(row).collect()
    }

    fn lines() -> Vec<String> {
        let found = |stage: &Stage| {
            let points = points(&rows(), stage);
            line(stage.name, &points, breakpoint(&points, 1))
        };
        STAGES.iter().map(found).collect()
    }

    /// Blocks every so many seconds, which take all that waits, up to what they hold.
    fn blocks(every_s: u64, seconds: u64, per_s: u64) -> (Vec<SeriesRow>, Vec<BlockRow>) {
        let offered = |second: u64| 2 * second;
        let row = |second: u64| SeriesRow {
            second,
            span_s: 1.0,
            counts: Counts {
                offered: offered(second),
                ..Counts::default()
            },
            ..SeriesRow::default()
        };
        let (mut waiting, mut blocks) = (0, Vec::new());
        for second in 0..seconds {
            waiting += offered(second);
            if (second + 1).is_multiple_of(every_s) {
                let own_txs = waiting.min(per_s * every_s);
                waiting -= own_txs;
                blocks.push(BlockRow {
                    height: second,
                    observed_ns: (second + 1) * 1_000_000_000,
                    own_txs,
                    ..BlockRow::default()
                });
            }
        }
        ((0..seconds).map(row).collect(), blocks)
    }

    /// 600/s at most, under a ramp to 2,400/s, whatever the time between blocks.
    #[test]
    fn a_knee_of_committed_is_found_with_blocks_of_a_second_and_with_blocks_of_a_minute() {
        for every_s in [1, 7, 60] {
            let (rows, blocks) = blocks(every_s, 1_200, 600);
            let points = committed(&rows, &blocks);
            let BreakpointFound::Breakpoint(found) = breakpoint(&points, 1) else {
                panic!("{every_s}: {points:?}");
            };
            assert!((found.at - 600.0).abs() < 75.0, "{every_s}: {found:?}");
        }
        let (rows, blocks) = blocks(60, 600, 600);
        let few = committed(&rows, &blocks);
        assert_eq!(
            breakpoint(&few, 1),
            BreakpointFound::TooFew,
            "nine intervals"
        );
    }

    #[test]
    fn the_stage_that_gave_first_is_named_with_its_rate_and_interval() {
        let lines = lines();
        assert_eq!(lines[0], "sent        no knee seen up to 2,400/s\n");
        assert!(lines[1].starts_with("accepted    knee at "), "{}", lines[1]);
        assert!(lines[1].ends_with("0.00 above\n"), "{}", lines[1]);
    }

    #[test]
    fn a_load_of_one_rate_says_nothing() {
        let rows = vec![rows()[10].clone(); 30];
        let points = points(&rows, &STAGES[1]);
        let text = line(STAGES[1].name, &points, breakpoint(&points, 1));
        assert!(text.contains("offer a rising load"), "{text}");
    }
}
