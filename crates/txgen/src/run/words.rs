//! What a run prints: before its first transaction, and at its end.

use std::fs::File;
use std::path::PathBuf;

use rpc::BroadcastMethod;

use super::Outcome;
use super::RunFolder;
use super::conduct::PlayedRun;
use super::error::{RunError, record_error};
use crate::live::Display;
use crate::output::{self, recorded};
use crate::plan::Plan;
use crate::profiler::Profile;
use crate::threshold::ThresholdVerdict;

/// How much a run prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Words {
    /// What it does, every second, and the final table.
    All,
    /// Only warnings. For one run of many; a full-screen view still shows everything.
    Few,
}

/// Says what will be done, and where it is written.
pub(super) fn introduce(display: &mut Display, plan: &Plan, folder: &RunFolder) {
    display.message(&format!("target   {}", output::describe_target(plan)));
    display.message(&format!(
        "load     {}; {}; seed {}",
        output::describe_load(&plan.load),
        plan.workload,
        plan.seed
    ));
    if let Some(most) = plan.rules.waits_at() {
        display.message(&format!(
            "limit    {} in flight; what is due beyond waits for answers and leaves late, in its order",
            output::grouped(most)
        ));
    }
    if let Some(process) = plan.profiled {
        display.message(&format!("sampling {process}"));
    }
    display.say_where(folder.path());
    if !plan.part.is_whole() {
        display.message(&format!(
            "part     {} of the load: {} transactions of {}",
            plan.part,
            plan.planned().map_or("?".into(), output::grouped),
            plan.planned_by_all().map_or("?".into(), output::grouped),
        ));
    }
    if let Some(start) = plan.start_at {
        display.message(&format!("start    {start}"));
    }
    if plan.method == BroadcastMethod::Commit {
        display.message(
            "note     a commit is answered when the block is made: a connection carries about one transaction \
             per block",
        );
    }
}

/// Writes and prints the summary, and checks the thresholds.
pub(super) fn conclude(
    plan: &Plan,
    folder: &RunFolder,
    mut summary_file: File,
    played: PlayedRun,
    profile: Option<&Profile>,
    words: Words,
    display: &mut Display,
) -> Result<Outcome, RunError> {
    let PlayedRun {
        finished,
        broken: stopped_by,
        ..
    } = played;
    let summary = finished.summary;
    let written = summary.write_to(&mut summary_file);
    drop(summary_file);
    let page = recorded::write_html_after_run(folder.path());
    let record = record_error(&summary, finished.error, written, page.is_ok());
    let document = serde_json::to_value(&summary).unwrap_or_default();
    let thresholds: Vec<ThresholdVerdict> = plan
        .thresholds
        .iter()
        .map(|threshold| threshold.check(&document))
        .collect();
    if words == Words::All {
        let mut text = output::table(&summary, &thresholds, stopped_by.as_ref());
        if let Some(profile) = profile {
            text.push_str(&format!("profile      {profile}\n"));
        }
        text.push_str(&format!("written to   {}\n", folder.path().display()));
        if let Some(error) = &record {
            text.push_str(&format!("but          {error}\n"));
        }
        display.result(&text);
    }
    show(page, folder, (words, record.is_none()), display);
    match record {
        Some(error) => Err(error),
        None => Ok(Outcome {
            summary,
            thresholds,
            stopped_by,
            folder: folder.path().into(),
        }),
    }
}

/// Names `report.html`, or says why there is none. From a whole record `txgen report` draws it again; of one that lacks
/// something nothing is promised, and the error that follows says what it lacks.
fn show(
    page: anyhow::Result<PathBuf>,
    folder: &RunFolder,
    (words, is_whole): (Words, bool),
    display: &mut Display,
) {
    match page {
        Ok(page) if words == Words::All => {
            display.result(&format!("report       {}\n", page.display()));
        }
        Ok(_) => {}
        Err(error) if is_whole => display.message(&format!(
            "warning: {error:#}; `txgen report {}` makes it from the record",
            folder.path().display()
        )),
        Err(error) => display.message(&format!("warning: {error:#}")),
    }
}
