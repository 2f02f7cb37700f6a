//! `txgen report`: a run folder in the form that was asked for.

use anyhow::anyhow;
use ops::command::{CommandError, failed, print, usage};

use crate::cli::ReportArgs;
use crate::exit;
use crate::folder::{RecordedRun, is_recording};
use crate::output::note;
use crate::output::recorded::{self, ReportFormat};
use crate::recording;

/// Renders the report; gives the exit code.
pub(crate) fn show(args: &ReportArgs) -> Result<u8, CommandError> {
    let text = if is_recording(&args.run) {
        of_recording(args)?
    } else {
        of_run(args)?
    };
    let is_page = args.format == ReportFormat::Html;
    let path = match &args.out {
        Some(out) if out.as_os_str() == "-" => None,
        Some(out) => Some(out.clone()),
        None => is_page.then(|| args.run.join(recorded::FILE)),
    };
    let Some(path) = path else {
        return Ok(print(text.as_bytes()));
    };
    recorded::write(&path, &text).map_err(failed)?;
    if args.out.is_none() {
        print(format!("{}\n", path.display()).as_bytes());
    }
    Ok(exit::DONE)
}

fn of_run(args: &ReportArgs) -> Result<String, CommandError> {
    let run = RecordedRun::open(&args.run).map_err(usage)?;
    for text in run.notes() {
        note(&format!("note: {text}"));
    }
    recorded::render(&run, args.format).map_err(failed)
}

fn of_recording(args: &ReportArgs) -> Result<String, CommandError> {
    if args.format != ReportFormat::Html {
        let run = args.run.display();
        return Err(usage(anyhow!(
            "{run} is a recording without a load: its report is a page; leave --format out"
        )));
    }
    recording::page(&args.run).map_err(failed)
}
