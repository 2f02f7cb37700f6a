//! `txgen report`: a run folder in the form that was asked for.

use std::fs;
use std::io::{self, Write as _};

use ops::command::{CommandError, failed, usage};

use crate::cli::ReportArgs;
use crate::exit;
use crate::folder::RecordedRun;
use crate::output::note;
use crate::output::recorded::{self, ReportError, ReportFormat};

/// Renders the report; gives the exit code.
pub(crate) fn show(args: &ReportArgs) -> Result<u8, CommandError> {
    let run = RecordedRun::open(&args.run).map_err(usage)?;
    for text in run.notes() {
        note(&format!("note: {text}"));
    }
    let to_stdout = args.out.as_ref().is_some_and(|out| out.as_os_str() == "-");
    match &args.out {
        None if args.format == ReportFormat::Html => {
            let page = recorded::write_html(&run).map_err(failed)?;
            let _ = writeln!(io::stdout(), "{}", page.display());
        }
        Some(path) if !to_stdout => {
            let text = recorded::render(&run, args.format).map_err(failed)?;
            fs::write(path, text).map_err(|source| {
                failed(ReportError::Write {
                    path: path.clone(),
                    source,
                })
            })?;
        }
        _ => {
            let text = recorded::render(&run, args.format).map_err(failed)?;
            // A reader that has seen enough closes the pipe; that is no failure.
            let _ = io::stdout().lock().write_all(text.as_bytes());
        }
    }
    Ok(exit::DONE)
}
