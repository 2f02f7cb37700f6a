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

use super::course::LatencyCourse;
use super::{Bep23, Page};
use measure::Manifest;
use measure::Summary;
use measure::{BlockRow, SeriesRow};

/// Everything a report of one run is made of.
#[derive(Debug)]
pub struct RunReport {
    /// What was asked for, where and when.
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

impl RunReport {
    /// One self-contained page: no script, nothing loaded, light or dark as its reader likes.
    #[must_use]
    pub fn html(&self) -> String {
        let mut page = Page::new(&headline::title(self));
        page.push(&headline::origin(self));
        page.push(&headline::notes(self));
        page.headline(&headline::html(self));
        page.push(&headline::tiles(self));
        page.section("Did the schedule hold?", &account::verdict(self));
        page.section("Where every transaction ended", &account::fates(self));
        page.section("Throughput over time", &load::throughput(self));
        page.section("Latency over time", &latency::course(self));
        page.section("Latency by percentile", &latency::percentiles(self));
        page.section("Lateness of the generator", &latency::lateness(self));
        page.section("Steps", &steps::section(self));
        page.section("Blocks", &blocks::section(self));
        page.section("BEP-23's four plots", &studies::bep23(self));
        page.section("What was asked for, and where", &setup::section(self));
        page.html()
    }

    /// The same without pictures, in Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::render(self)
    }

    /// What people noted: second and text.
    fn marks(&self) -> impl Iterator<Item = (f64, &str)> {
        self.series
            .iter()
            .filter(|row| !row.mark.is_empty())
            .map(|row| (row.second as f64, row.mark.as_str()))
    }
}
