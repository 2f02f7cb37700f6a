//! The report of one run: as a page, and in Markdown for a pull request, an issue, a chat.

mod blocks;
mod headline;
mod latency;
mod load;
mod steps;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use measure::judge::{Excess, Onset};
use measure::{BlockRow, Manifest, NodeRow, RateStats, SeriesRow, SightRow, Summary};
use serde_json::Value;

pub use self::headline::{BUSY_MACHINE, answer, busy_machine_link, is_disturbed, machine_text};
pub use self::latency::quantile_curve;
use super::course::LatencyCourse;
use super::{list, titled};
use crate::chart::{Axis, Chart};
use crate::page::tag;
use crate::text::{self, by_name, grouped};
use crate::{AnswerCourse, Bep23, Entries, Page, Table};

/// Everything a report of one run is made of.
#[derive(Debug)]
pub struct RunReport {
    /// The plan, the endpoints, the machine and the start.
    pub manifest: Manifest,
    /// What it came to.
    pub summary: Summary,
    /// What a reader should know about the files, for example that the run was killed.
    pub notes: Vec<String>,
    /// Pages beside this one: where, and what they are.
    pub links: Vec<(String, String)>,
    /// What gave first.
    pub onsets: Vec<Onset>,
    /// Why a step of the summary was not sustained; one entry a step, or none at all.
    pub excesses: Vec<Option<Excess>>,
    /// The conditions that were set, and whether each held.
    pub thresholds: Vec<(String, bool)>,
    /// The seconds.
    pub series: Vec<SeriesRow>,
    /// The blocks.
    pub blocks: Vec<BlockRow>,
    /// The seconds of the observed nodes.
    pub nodes: Vec<NodeRow>,
    /// When they had blocks and sampled transactions first.
    pub sights: Vec<SightRow>,
    /// The latencies over time.
    pub course: LatencyCourse,
    /// The answers over time.
    pub answers: AnswerCourse,
    /// BEP-23's analysis; `None` where it was not requested.
    pub bep23: Option<Bep23>,
}

/// A section of the page; an empty one is left out.
type Show = fn(&mut Page, &str, &str);

type Section = fn(&RunReport) -> String;

/// The parts of the page below its headline; those without anything to show are left out.
const SECTIONS: [(Show, &str, Section); 15] = [
    (Page::section, "The knee", steps::curves),
    (Page::section, "Throughput", load::throughput),
    (Page::section, "Refusals", load::refusals),
    (Page::section, "Latency", latency::course),
    (Page::section, "Latency by percentile", latency::percentiles),
    (Page::section, "Endpoints", load::endpoints),
    (Page::section, "Steps", steps::section),
    (Page::section, "Blocks", blocks::section),
    (Page::section, "Nodes", load::nodes),
    (Page::section, "Where every transaction ended", fates),
    (Page::section, "BEP-23's four plots", latency::bep23),
    (Page::fold, GENERATOR, latency::generator),
    (Page::fold, CONSERVATION, conservation),
    (Page::fold, "The blocks, one by one", blocks::table),
    (Page::fold, "What was asked for, and where", setup),
];
const GENERATOR: &str = "The generator: was the schedule kept?";
const CONSERVATION: &str = "Conservation: does the account add up?";

impl RunReport {
    /// One self-contained page: nothing loaded, light or dark after the reader's setting. The answer first, then what it rests on, then what only some readers ask for.
    pub fn html(&self) -> String {
        let mut page = Page::new(&self.manifest.profile);
        page.push(&headline::origin(self));
        page.links(&self.links);
        page.push(&headline::notes(self));
        page.headline(&headline::verdict(self));
        page.push(&headline::tiles(self));
        page.push(&headline::explanation(self));
        page.push(&headline::evidence(self));
        page.push(&headline::onsets(self));
        for (show, heading, section) in SECTIONS {
            let html = section(self);
            if !html.is_empty() {
                show(&mut page, heading, &html);
            }
        }
        page.push(GLOSSARY);
        page.html()
    }

    /// The same without pictures, in Markdown.
    pub fn markdown(&self) -> String {
        markdown(self).expect("a String takes every write")
    }

    /// A chart over the time of the run: with the drain shaded, what gave first by its number, and what
    /// people noted.
    fn over_time(&self, title: &str, y: Axis) -> Chart {
        let spans = &self.summary.time;
        let time = Axis::time().to(spans.ended_s);
        let onsets = self.onsets.iter().enumerate();
        let numbers = onsets.map(|(number, onset)| (onset.at_s, (number + 1).to_string()));
        let noted = self.marks().map(|(at_s, text)| (at_s, text.to_owned()));
        let mut marks: Vec<(f64, String)> = numbers.chain(noted).collect();
        marks.sort_by(|one, other| one.0.total_cmp(&other.0));
        Chart::new(title, time, y)
            .shade(spans.offered_s, spans.ended_s, "drain")
            .marks(marks.iter().map(|(at_s, text)| (*at_s, &**text)))
    }

    /// What people noted: second and text.
    fn marks(&self) -> impl Iterator<Item = (f64, &str)> {
        self.series
            .iter()
            .filter(|row| !row.mark.is_empty())
            .map(|row| (row.second as f64, row.mark.as_str()))
    }
}

/// The words of the page that are not of every day.
const GLOSSARY: &str = "<footer><b>due</b>: when the schedule wanted a transaction out. <b>origin</b>: the instant from which all times count. <b>lateness</b>: from due to sent. <b>response time</b>: from due to accepted. <b>service time</b>: from sent to accepted. <b>backlog</b>: accepted, in no block yet. <b>drain</b>: after the last transaction was due, the wait for answers and blocks.</footer>";

fn setup(report: &RunReport) -> String {
    let manifest = &report.manifest;
    let mut entries = Entries::default();
    entries.add("command", manifest.command.join(" "));
    entries.add("profile", &*manifest.profile);
    entries.add("started", &*manifest.started);
    entries.add("seed", manifest.seed.to_string());
    for endpoint in &manifest.endpoints {
        let chain = endpoint.chain_id.as_ref();
        let version = endpoint.node_version.as_ref();
        let parts = [
            Some(endpoint.url.clone()),
            chain.map(|chain| format!("chain {chain}")),
            version.map(|version| format!("version {version}")),
            endpoint.built_in.then(|| "the built-in node".to_owned()),
        ];
        entries.add("endpoint", joined(parts));
    }
    let plan = serde_json::to_value(&manifest.plan).unwrap_or_default();
    for (name, value) in plan.as_object().into_iter().flatten() {
        if let Some(value) = plain(value) {
            entries.add(&name.replace('_', " "), value);
        }
    }
    let host = &manifest.host;
    let memory = host.memory_bytes.map(|bytes| bytes / (1024 * 1024));
    let machine = [
        Some(format!("{} processors", host.cpus)),
        host.cpu.clone(),
        memory.map(|mib| format!("{} MiB", grouped(mib))),
        Some(host.os.clone()),
    ];
    entries.add("machine", joined(machine));
    entries.add("program", format!("txgen {}", manifest.version));
    entries.add("format", &*manifest.format);
    entries.html()
}

fn joined(parts: [Option<String>; 4]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A value of the plan as people write it; nothing for what was not set.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then(|| text.clone()),
        Value::Bool(true) => Some("yes".to_owned()),
        Value::Bool(false) => Some("no".to_owned()),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().filter_map(plain).collect();
            (!values.is_empty()).then(|| values.join(", "))
        }
        other => Some(other.to_string()),
    }
}

fn markdown(report: &RunReport) -> Result<String, std::fmt::Error> {
    let summary = &report.summary;
    let mut out = format!("# {}\n\n", report.manifest.profile);
    for note in &report.notes {
        writeln!(out, "> {note}\n")?;
    }
    writeln!(out, "{}\n", headline::verdict(report))?;
    if is_disturbed(summary) {
        let (to, title) = busy_machine_link();
        writeln!(out, "[{title}]({to})\n")?;
    }
    if !report.onsets.is_empty() {
        writeln!(out, "What gave first: {}.\n", headline::onset_line(report))?;
    }
    for evidence in &summary.evidence {
        writeln!(out, "- {}", headline::words(summary, evidence))?;
    }
    out.push('\n');
    writeln!(out, "Schedule: **{}**.", summary.verdict.schedule.name())?;
    for reason in &summary.verdict.reasons {
        writeln!(out, "- {reason}")?;
    }
    for (threshold, held) in &report.thresholds {
        let held = if *held { "held" } else { "**broken**" };
        writeln!(out, "- threshold {threshold}: {held}")?;
    }
    let counts = counts(report).markdown();
    writeln!(out, "\n## Where every transaction ended\n\n{counts}")?;
    writeln!(out, "{}", laws(report).markdown())?;
    writeln!(out, "## Rates\n\n{}", rates(report).markdown())?;
    writeln!(out, "## Latencies\n\n{}", latency::table(report).markdown())?;
    if let Some(resolution) = summary.blocks.resolution() {
        writeln!(out, "{resolution}.\n")?;
    }
    if summary.steps.len() > 1 {
        writeln!(out, "## Steps\n\n{}", steps::table(report).markdown())?;
        for reason in steps::reasons(report) {
            writeln!(out, "- {reason}")?;
        }
        writeln!(out, "\n{}\n", steps::knee(report))?;
    }
    let blocks = &summary.blocks;
    writeln!(
        out,
        "{} blocks with {} own and {} other transactions.",
        grouped(blocks.count),
        grouped(blocks.own_txs),
        grouped(blocks.foreign_txs)
    )?;
    if report.marks().next().is_some() {
        out.push_str("\n## Marks\n\n");
    }
    for (second, mark) in report.marks() {
        writeln!(out, "- {second} s: {mark}")?;
    }
    Ok(out)
}

fn rates(report: &RunReport) -> Table {
    type Spread = fn(RateStats) -> f64;
    let rate = &report.summary.rate;
    let row = |name, stats: Option<RateStats>| (name, stats.map(|stats| stats.mean), stats);
    let rows = [
        ("planned", rate.planned_tps, None),
        ("sent", rate.sent_tps, None),
        row("accepted", rate.accepted_tps),
        row("committed", rate.committed_tps),
    ];
    let spread: [(&str, Spread); 3] = [
        ("median", |stats| stats.median),
        ("stddev", |stats| stats.stddev),
        ("max", |stats| stats.max),
    ];
    let table = Table::of(rows)
        .text("", |row| row.0)
        .number("mean", text::rate, |row| row.1);
    let table = spread.into_iter().fold(table, |table, (name, of)| {
        table.number(name, text::rate, |row| row.2.map(of))
    });
    table.table()
}

/// The verdict on the generator, its reasons and the limits that were applied.
fn schedule(report: &RunReport) -> String {
    let summary = &report.summary;
    let verdict = &summary.verdict;
    let interrupted = if summary.interrupted {
        ", cut short"
    } else {
        ""
    };
    let mut html = format!(
        "<p>The verdict on the generator is <b class=\"{}\">{}</b>{interrupted}. What a node makes late or refuses is a result and costs no verdict.</p>",
        headline::class(verdict.schedule),
        verdict.schedule.name()
    );
    html += &list(&verdict.reasons);
    html + &tag("p", "The limits:") + &list(&verdict.limits)
}

fn fates(report: &RunReport) -> String {
    let mut html = counts(report).html();
    if !report.thresholds.is_empty() {
        let table = Table::of(&report.thresholds)
            .text("threshold", |(text, _)| text)
            .figure("held", |(_, held)| if *held { "yes" } else { "no" })
            .alarm(|(_, held)| !held);
        html += &table.table().html();
    }
    html
}

fn conservation(report: &RunReport) -> String {
    let sentence = if report.summary.conservation.holds {
        "<p>Every law of conservation holds.</p>"
    } else {
        "<p class=\"bad\">The account does not add up:</p>"
    };
    sentence.to_owned() + &laws(report).html()
}

/// Every count with its share of what was planned.
fn counts(report: &RunReport) -> Table {
    let (offered, fate) = (&report.summary.offered, &report.summary.fate);
    let planned = offered.planned.max(1) as f64;
    let none = String::new;
    let refused = refusals(&report.summary);
    let failed = titled(&fate.commit_failed_by_code);
    let rows = [
        ("planned", offered.planned, none()),
        ("unsent", offered.unsent, by_name(&offered.unsent_by_reason)),
        ("sent", offered.sent, none()),
        ("rejected", fate.rejected, by_name(&refused)),
        ("errors", fate.errors, errors(report)),
        ("unanswered", fate.unanswered, none()),
        ("accepted", fate.accepted, none()),
        ("committed", fate.committed, none()),
        (FAILED, fate.commit_failed, by_name(&failed)),
        ("pending at the end", fate.pending, none()),
        (ANYWAY, fate.committed_anyway.total(), NO_ANSWER.to_owned()),
    ];
    let rare = |name: &str| [FAILED, ANYWAY].contains(&name);
    let mut rows = Vec::from(rows);
    rows.retain(|(name, count, _)| *count > 0 || !rare(name));
    let named = rows.iter().any(|(_, _, which)| !which.is_empty());
    let table = Table::of(rows)
        .text("", |row| row.0)
        .count("transactions", |row| row.1)
        .number("of planned", text::percent, |row| row.1 as f64 / planned);
    if named {
        table.text("which", |row| row.2.clone()).table()
    } else {
        table.table()
    }
}

/// The kinds of errors, and what came where answers should.
fn errors(report: &RunReport) -> String {
    let fate = &report.summary.fate;
    let said = [&fate.errors_by_kind, &fate.unusable_by_text].map(by_name);
    let said: Vec<String> = said.into_iter().filter(|it| !it.is_empty()).collect();
    said.join("; ")
}

/// The refusals, by text where texts are known, by code otherwise.
fn refusals(summary: &Summary) -> BTreeMap<String, u64> {
    let fate = &summary.fate;
    if fate.rejected_by_text.is_empty() {
        titled(&fate.rejected_by_code)
    } else {
        fate.rejected_by_text.clone()
    }
}

fn laws(report: &RunReport) -> Table {
    Table::of(&report.summary.conservation.laws)
        .text("law", |law| law.law.as_str())
        .count("left", |law| law.left)
        .count("right", |law| law.right)
        .figure("holds", |law| if law.holds() { "yes" } else { "no" })
        .alarm(|law| !law.holds())
        .table()
}

const FAILED: &str = "failed in a block";
const ANYWAY: &str = "committed anyway";
const NO_ANSWER: &str = "in a block although no answer said accepted";
