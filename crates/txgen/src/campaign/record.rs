//! The files of a campaign, written again after every run, so that a campaign that was killed leaves
//! what is done.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::document::{self, Burst, CampaignState, Document, FORMAT, Figures, Run, RunState};
use super::html;
use super::prepare::Prepared;
use crate::exit;
use crate::folder::Journal;
use crate::output::recorded;
use crate::run::host;
use crate::scenario::Script;

/// A campaign's document and where it is written.
pub(super) struct Record {
    pub(super) document: Document,
    journal: Journal,
}

/// How a run ended.
pub(super) struct RunEnd {
    pub(super) state: RunState,
    pub(super) exit_code: u8,
    pub(super) problem: Option<String>,
    pub(super) figures: Option<Figures>,
}

impl RunEnd {
    /// The end of a run that could not be played.
    pub(super) fn failed(exit_code: u8, problem: String) -> Self {
        Self {
            state: match exit_code {
                exit::INTERRUPTED => RunState::Interrupted,
                _ => RunState::Failed,
            },
            exit_code,
            problem: Some(problem),
            figures: None,
        }
    }
}

impl Record {
    /// Writes down what is planned.
    pub(super) fn begin(script: &Script, runs: &[Prepared], folder: &Path) -> anyhow::Result<Self> {
        let campaign = script.campaign.clone().unwrap_or_default();
        let document = Document {
            format: FORMAT,
            name: script.name.clone(),
            state: CampaignState::Running,
            scenario: script.path.display().to_string(),
            scenario_text: script.text.clone(),
            scale: script.scale.factor(),
            order: campaign.order,
            pause_s: campaign.pause.as_secs_f64(),
            version: env!("CARGO_PKG_VERSION"),
            command: std::env::args().collect(),
            host: host(),
            started: now(),
            ended: None,
            prove: Vec::new(),
            runs: runs
                .iter()
                .enumerate()
                .map(|(number, run)| planned(number, run))
                .collect(),
        };
        let record = Self {
            document,
            journal: Journal::new(folder),
        };
        record.write()?;
        Ok(record)
    }

    /// The run folder of a run.
    pub(super) fn place(&self, number: usize) -> PathBuf {
        self.journal.path(&self.document.runs[number].folder)
    }

    /// Notes that a run begins.
    pub(super) fn starts(&mut self, number: usize) -> anyhow::Result<()> {
        let run = &mut self.document.runs[number];
        run.state = RunState::Running;
        run.started = Some(now());
        self.write()
    }

    /// Notes how a run ended.
    pub(super) fn ends(&mut self, number: usize, end: RunEnd, took: Duration) {
        let run = &mut self.document.runs[number];
        run.state = end.state;
        run.exit_code = Some(end.exit_code);
        run.problem = end.problem;
        run.figures = end.figures;
        run.took_s = Some(took.as_secs_f64());
        self.document.prove = document::proofs(&self.document.runs);
    }

    /// Notes the end of the campaign.
    pub(super) fn finish(&mut self, interrupted: bool) -> anyhow::Result<()> {
        self.document.state = if interrupted {
            CampaignState::Interrupted
        } else {
            CampaignState::Done
        };
        self.document.ended = Some(now());
        self.write()
    }

    /// Writes everything anew: the document, the bursts as CSV, the report.
    pub(super) fn write(&self) -> anyhow::Result<()> {
        self.journal.document("campaign.json", &self.document)?;
        if let Some(bursts) = self.bursts() {
            self.journal.text("bursts.csv", &bursts)?;
        }
        let page = html::page(&self.document);
        self.journal.text(recorded::FILE, &page)
    }

    /// An interruption beats a failure, a failure an invalid run, that a broken threshold.
    pub(super) fn exit_code(&self) -> u8 {
        if self.document.state == CampaignState::Interrupted {
            return exit::INTERRUPTED;
        }
        let codes = || self.document.runs.iter().filter_map(|run| run.exit_code);
        let failed = self
            .document
            .runs
            .iter()
            .any(|run| run.state == RunState::Failed);
        if failed {
            return exit::FAILED;
        }
        [exit::INVALID, exit::THRESHOLD]
            .into_iter()
            .find(|code| codes().any(|other| other == *code))
            .unwrap_or(exit::DONE)
    }

    /// The rows of bursts.csv; `None` where no run has bursts.
    fn bursts(&self) -> Option<String> {
        let runs = self.document.runs.iter();
        let bursts = runs.flat_map(|run| {
            let bursts = run.figures.iter().flat_map(|figures| &figures.bursts);
            bursts.map(move |burst| (run.number, burst))
        });
        let row = |(number, burst): (usize, &Burst)| {
            format!(
                "{number},{},{:.3},{:.3},{:.3},{:.3},{:.3},{},{},{},{:.3},{}\n",
                burst.step,
                burst.start_s,
                burst.end_s,
                burst.planned_tps,
                burst.txs_avg,
                burst.txs_stddev,
                burst.txs_max,
                burst.txs_total,
                burst.blocks_total,
                burst.window_txs_avg,
                burst.window_blocks_total
            )
        };
        let rows: String = bursts.map(row).collect();
        (!rows.is_empty()).then(|| BURSTS_HEADER.to_owned() + &rows)
    }
}

fn planned(number: usize, run: &Prepared) -> Run {
    let script = run.script;
    let label = script.label();
    Run {
        number: number + 1,
        cell: script.cell(),
        folder: format!("{:03}-{}", number + 1, slug(&label)),
        label,
        case: script.case.clone(),
        parameters: script
            .parameters
            .iter()
            .map(|it| {
                let value = serde_json::to_value(&it.value).unwrap_or_default();
                (it.name.clone(), value)
            })
            .collect(),
        change: script.change.clone(),
        unchanged: script.unchanged(),
        repeat: script.repeat,
        repeats: script.repeats,
        node: script.node.kind(),
        fresh_node: script.node.is_fresh(),
        sentinel: script.sentinel.is_some(),
        seed: run.seed,
        planned_s: script.duration().map(pacing::Nanos::as_secs_f64),
        state: RunState::Waiting,
        started: None,
        took_s: None,
        exit_code: None,
        problem: None,
        figures: None,
    }
}

/// The wall clock, to the second.
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A label as part of a folder's name.
pub(super) fn slug(label: &str) -> String {
    let mut slug = String::new();
    for character in label.chars().take(LONGEST_SLUG) {
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '=' | '.' => slug.push(character),
            _ if slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    let slug = slug.trim_matches(['-', '.']);
    if slug.is_empty() {
        "run".into()
    } else {
        slug.into()
    }
}

const LONGEST_SLUG: usize = 60;
const BURSTS_HEADER: &str = "run,step,start_s,end_s,planned_tps,txs_avg,txs_stddev,txs_max,txs_total,blocks_total,window_txs_avg,window_blocks_total\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_become_names_of_folders() {
        assert_eq!(
            slug("bursts of 10 s, pause=1s #2"),
            "bursts-of-10-s-pause=1s-2"
        );
        assert_eq!(slug("../../etc"), "etc");
        assert_eq!(slug("…"), "run");
    }
}
