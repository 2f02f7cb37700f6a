//! The report of one run.

mod account;
mod backlog;
mod blocks;
mod headline;
mod latency;
mod load;
mod markdown;
mod nodes;
mod quantile_plot;
mod setup;
mod steps;
mod studies;

pub use headline::{BUSY_MACHINE, answer, busy_machine_link, is_disturbed, machine_text};
pub use quantile_plot::quantile_curve;

use measure::judge::{Excess, Onset};
use measure::{BlockRow, Manifest, NodeRow, SeriesRow, SightRow, Summary};

use crate::chart::{Axis, Chart};
use crate::runs::course::LatencyCourse;
use crate::{AnswerCourse, Bep23, Page};

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
    (Page::section, "Nodes", nodes::section),
    (
        Page::section,
        "Where every transaction ended",
        account::fates,
    ),
    (Page::section, "BEP-23's four plots", studies::bep23),
    (Page::fold, GENERATOR, latency::generator),
    (Page::fold, CONSERVATION, account::conservation),
    (Page::fold, "The blocks, one by one", blocks::table),
    (Page::fold, "What was asked for, and where", setup::section),
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
        markdown::render(self).expect("a String takes every write")
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
