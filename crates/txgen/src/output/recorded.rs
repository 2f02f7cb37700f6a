//! Reports of a recorded run: its folder as HTML, Markdown, JSON, tm-bench's table or BEP-23's figures.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use harness::whole;
use measure::read::TableRow as _;
use measure::{AnswerRow, Answers, BlockRow, HeaderClock, Manifest, SeriesRow, Summary, judge};
use report::{AnswerCourse, Bep23, Bep23Collector, LatencyCourse, RunReport, TmBench, TmBenchSpan};

use crate::folder::RecordedRun;
use crate::output;
use crate::threshold::{Threshold, ThresholdVerdict};

/// The forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFormat {
    /// One self-contained page with plots; without --out it is written into the run folder.
    Html,
    /// Markdown without plots, for an issue or a chat.
    Md,
    /// The summary, made from the rows if the run was killed.
    Json,
    /// tm-bench's table: Avg, StdDev, Max and Total of transactions and blocks per second.
    TmBench,
    /// BEP-23's figures by its own rules: .68, .95 and .997 quantiles, mean and median per second.
    Bep23,
}

/// The report of a run in one of its forms.
///
/// # Errors
/// When a file of the folder cannot be read.
pub fn render(run: &RecordedRun, format: ReportFormat) -> anyhow::Result<String> {
    Ok(match format {
        ReportFormat::Html => assemble(run, u64::MAX)?.html(),
        ReportFormat::Md => assemble(run, u64::MAX)?.markdown(),
        ReportFormat::Json => {
            let text = serde_json::to_string_pretty(run.summary())
                .context("cannot write the summary as JSON")?;
            text + "\n"
        }
        ReportFormat::TmBench => tm_bench(run)?.to_string(),
        ReportFormat::Bep23 => bep23(run)?.to_string(),
    })
}

/// Writes `report.html` into a run's own folder at its end; gives its path. BEP-23's plots, which need every transaction,
/// are left out with very many.
///
/// The rows are read back from the files although the recorder had them in memory: a report then has one
/// way of being built, which also serves killed and merged runs, and a run of days keeps no rows.
///
/// # Errors
/// When a file of the folder cannot be read, or the report cannot be written.
pub fn write_html_after_run(folder: &Path) -> anyhow::Result<PathBuf> {
    let path = folder.join(FILE);
    let html = assemble(&RecordedRun::open(folder)?, MAX_TXS_AFTER_RUN)?.html();
    write(&path, &html)?;
    Ok(path)
}

/// Writes a report.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let shown = path.display();
    whole(fs::write(path, text), format!("the report to {shown}"))
}

/// tm-bench's table of the time of offering.
///
/// # Errors
/// When the blocks cannot be read.
pub fn tm_bench(run: &RecordedRun) -> anyhow::Result<TmBench> {
    let time = run.summary().time;
    let span = TmBenchSpan {
        origin_unix_ns: time.origin_unix_ns,
        start_s: 0.0,
        seconds: time.offered_s.round(),
        newest: None,
    };
    let blocks = blocks(run)?;
    note_clock(&blocks, span);
    Ok(TmBench::of(&blocks, span))
}

/// Prints a note where tm-bench's table counts blocks by when they were seen instead of by their headers.
pub(crate) fn note_clock(blocks: &[BlockRow], span: TmBenchSpan) {
    if let Some(words) = HeaderClock::of(blocks).words(span.origin_unix_ns) {
        output::note(&format!(
            "note: {words}; the table counts blocks by when they were seen"
        ));
    }
}

/// A row for each block.
///
/// # Errors
/// When they cannot be read, or are not those of the run.
pub(crate) fn blocks(run: &RecordedRun) -> anyhow::Result<Vec<BlockRow>> {
    let rows: Vec<BlockRow> = run.all_rows()?;
    let count = run.summary().blocks.count;
    run.expect_rows(BlockRow::FILE, rows.len() as u64, count..=count)?;
    Ok(rows)
}

/// A row for each second, the last one not whole.
///
/// # Errors
/// When they cannot be read, or are not those of the run.
pub(crate) fn series(run: &RecordedRun) -> anyhow::Result<Vec<SeriesRow>> {
    let rows: Vec<SeriesRow> = run.all_rows()?;
    if let Some(pair) = rows
        .windows(2)
        .find(|pair| pair[1].second <= pair[0].second)
    {
        bail!(
            "{}: second {} comes after second {}: it is not of this run alone; copy the folder again",
            run.path().join(SeriesRow::FILE).display(),
            pair[1].second,
            pair[0].second
        );
    }
    let seconds = run.summary().time.ended_s as u64;
    run.expect_rows(SeriesRow::FILE, rows.len() as u64, seconds..=u64::MAX)?;
    Ok(rows)
}

/// BEP-23's analysis of all transactions: two passes, as its time begins with the first send.
///
/// # Errors
/// When the transactions cannot be read.
pub fn bep23(run: &RecordedRun) -> anyhow::Result<Bep23> {
    let mut first_send = u64::MAX;
    each_tx(run, |row| first_send = first_send.min(row.send_unix_us))?;
    let mut collector = Bep23Collector::new(first_send);
    each_tx(run, |row| collector.tx(row))?;
    Ok(collector.finish())
}

/// All data of a report. BEP-23's plots, which are drawn for runs of its scenario, need every
/// row: they are left out with more than `max_txs` sent transactions, and where not all rows were kept.
///
/// # Errors
/// When a file of the folder cannot be read.
pub fn assemble(run: &RecordedRun, max_txs: u64) -> anyhow::Result<RunReport> {
    let summary = run.summary().clone();
    let manifest = run.manifest().clone();
    let (series, blocks) = (series(run)?, blocks(run)?);
    let all = summary.fate.sent <= max_txs && manifest.plan.rows.is_each();
    let of_bep23 = manifest.command.iter().any(|word| word.contains("bep23"));
    Ok(RunReport {
        thresholds: thresholds(run),
        notes: run.notes().to_vec(),
        links: links(run.path()),
        onsets: judge::onsets(&summary.evidence),
        excesses: judge::excesses(&summary.steps, summary.step_terms()),
        course: course(run)?,
        answers: answers(run)?,
        nodes: run.rows_if_any()?,
        sights: run.rows_if_any()?,
        bep23: (all && of_bep23).then(|| bep23(run)).transpose()?,
        manifest,
        series,
        blocks,
        summary,
    })
}

/// The page of the campaign or search that the run belongs to, which is in the folder above, and its flame graph.
fn links(run: &Path) -> Vec<(String, String)> {
    let above = format!("../{FILE}");
    let pages = [
        ("../campaign.json", &*above, "all runs of the campaign"),
        ("../search.json", &above, "the search and its other points"),
        ("flame.svg", "flame.svg", "the flame graph"),
    ];
    let found = pages.iter().filter(|(file, ..)| run.join(file).exists());
    let link = |(_, to, text): &(&str, &str, &str)| ((*to).to_owned(), (*text).to_owned());
    found.map(link).collect()
}

/// From their own file; of an earlier version's run, or one that was killed before it wrote them, from the
/// rows of transactions.
fn answers(run: &RecordedRun) -> anyhow::Result<AnswerCourse> {
    if !run.is_killed() && run.path().join(AnswerRow::FILE).exists() {
        return Ok(AnswerCourse::new(&run.all_rows::<AnswerRow>()?));
    }
    let mut answers = Answers::default();
    let origin_unix_ns = run.summary().time.origin_unix_ns;
    each_tx(run, |row| answers.row(row, origin_unix_ns))?;
    Ok(AnswerCourse::new(&answers.rows().collect::<Vec<_>>()))
}

fn course(run: &RecordedRun) -> anyhow::Result<LatencyCourse> {
    let time = run.summary().time;
    let mut course = LatencyCourse::new(time.ended_s, time.warmup_s);
    let mut log = run.hlog()?;
    loop {
        let interval = log.next_interval().map_err(|error| run.unusable(error))?;
        let Some(interval) = interval else {
            break;
        };
        course.add(interval).map_err(|error| run.unusable(error))?;
    }
    course.finish(log.censored());
    Ok(course)
}

/// The plan's conditions as a report shows them: text and value, and whether each held.
fn thresholds(run: &RecordedRun) -> Vec<(String, bool)> {
    let shown = |verdict: Result<ThresholdVerdict, String>| match verdict {
        Ok(verdict) => (
            format!("{} ({})", verdict.text, verdict.value_text()),
            verdict.held,
        ),
        Err(unchecked) => (unchecked, false),
    };
    let verdicts = verdicts(run.manifest(), run.summary()).into_iter();
    verdicts.map(shown).collect()
}

/// The plan's conditions, checked on the summary; of one that this version of the program does not take, its text and
/// why.
pub(crate) fn verdicts(
    manifest: &Manifest,
    summary: &Summary,
) -> Vec<Result<ThresholdVerdict, String>> {
    let document = serde_json::to_value(summary).unwrap_or_default();
    let check = |text: &String| match text.parse::<Threshold>() {
        Ok(threshold) => Ok(threshold.check(&document)),
        Err(reason) => Err(format!("{text} (cannot be checked: {reason})")),
    };
    manifest.plan.thresholds.iter().map(check).collect()
}

/// The condition of a part that ended a merged load early.
pub(crate) fn stopped_by(manifest: &Manifest, summary: &Summary) -> Option<ThresholdVerdict> {
    let reason = manifest.plan.stopped.as_ref()?;
    let is_it = |text: &&String| reason.contains(&format!(": {text} is broken"));
    let broken: Threshold = manifest.plan.abort_on.iter().find(is_it)?.parse().ok()?;
    // Whether or not the merged summary breaks it.
    let mut verdict = broken.check(&serde_json::to_value(summary).ok()?);
    (verdict.held, verdict.broken, verdict.unresolved) = (false, true, false);
    Some(verdict)
}

fn each_tx(
    run: &RecordedRun,
    mut take: impl FnMut(&measure::read::TxRow<'_>),
) -> anyhow::Result<()> {
    let mut txs = run.txs()?;
    let mut rows = 0;
    while let Some(row) = txs.next_row().map_err(|error| run.unusable(error))? {
        take(&row);
        rows += 1;
    }
    let sent = run.summary().fate.sent;
    run.expect_rows("txs.csv", rows, sent..=sent)
}

/// The report's name inside a run folder.
pub const FILE: &str = "report.html";
/// Rows that are read twice within a few seconds.
const MAX_TXS_AFTER_RUN: u64 = 5_000_000;
