//! The report of one run.

mod account;
mod blocks;
mod headline;
mod latency;
mod load;
mod markdown;
mod quantile_plot;
mod setup;
mod steps;
mod studies;

use measure::{BlockRow, Manifest, SeriesRow, Summary};

use crate::chart::{Axis, Chart};
use crate::course::LatencyCourse;
use crate::{Bep23, Page};

/// Everything a report of one run is made of.
#[derive(Debug)]
pub struct RunReport {
    /// The plan, the endpoints, the machine and the start.
    pub manifest: Manifest,
    /// What it came to.
    pub summary: Summary,
    /// What a reader should know about the files, for example that the run was killed.
    pub notes: Vec<String>,
    /// Why a step of the summary was not sustained; one entry a step, or none at all.
    pub excesses: Vec<Option<String>>,
    /// The conditions that were set, and whether each held.
    pub thresholds: Vec<(String, bool)>,
    /// The seconds.
    pub series: Vec<SeriesRow>,
    /// The blocks.
    pub blocks: Vec<BlockRow>,
    /// The latencies over time.
    pub course: LatencyCourse,
    /// BEP-23's analysis; `None` where it was too much to read.
    pub bep23: Option<Bep23>,
}

/// A section of the page.
type Section = fn(&RunReport) -> String;

impl RunReport {
    /// One self-contained page: no script, nothing loaded, light or dark as its reader likes.
    #[must_use]
    pub fn html(&self) -> String {
        let mut page = Page::new(&self.manifest.profile);
        page.push(&headline::origin(self));
        page.push(&headline::notes(self));
        page.headline(&headline::sentences(self));
        page.push(&headline::tiles(self));
        let sections: [(&str, Section); 10] = [
            ("Did the schedule hold?", account::verdict),
            ("Where every transaction ended", account::fates),
            ("Throughput over time", load::throughput),
            ("Latency over time", latency::course),
            ("Latency by percentile", latency::percentiles),
            ("Lateness of the generator", latency::lateness),
            ("Steps", steps::section),
            ("Blocks", blocks::section),
            ("BEP-23's four plots", studies::bep23),
            ("What was asked for, and where", setup::section),
        ];
        for (heading, section) in sections {
            page.section(heading, &section(self));
        }
        page.html()
    }

    /// The same without pictures, in Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::render(self).expect("a String takes every write")
    }

    /// A chart over the time of the run, with what people noted.
    fn over_time(&self, title: &str, y: Axis) -> Chart {
        let time = Axis::time().to(self.summary.time.ended_s);
        Chart::new(title, time, y).marks(self.marks())
    }

    /// What people noted: second and text.
    fn marks(&self) -> impl Iterator<Item = (f64, &str)> {
        self.series
            .iter()
            .filter(|row| !row.mark.is_empty())
            .map(|row| (row.second as f64, row.mark.as_str()))
    }
}
