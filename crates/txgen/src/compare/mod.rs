//! `txgen compare`: runs side by side.

mod charts;
mod render;
mod side;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use measure::{Difference, Drawn};
use ops::command::{CommandError, failed, usage};

use crate::cli::{CompareArgs, CompareFormat};
use crate::exit;

use side::Side;

/// What a comparison found.
struct Comparison {
    /// The first one is what the others are compared with.
    sides: Vec<Side>,
    /// For each of the others.
    others: Vec<(Vec<Difference>, Drawn)>,
    /// Worse by more than this is a regression.
    limit: Option<f64>,
    /// Where its page is written.
    page_folder: PathBuf,
}

impl Comparison {
    /// The other sides with their differences.
    fn others(&self) -> impl Iterator<Item = (&Side, &[Difference], Drawn)> {
        self.sides
            .iter()
            .skip(1)
            .zip(&self.others)
            .map(|(side, (differences, drawn))| (side, differences.as_slice(), *drawn))
    }

    fn is_regression(&self, difference: &Difference) -> bool {
        self.limit
            .is_some_and(|limit| difference.is_regression(limit))
    }

    fn has_regression(&self) -> bool {
        self.others
            .iter()
            .flat_map(|(differences, _)| differences)
            .any(|difference| self.is_regression(difference))
    }
}

/// Compares and prints; gives the exit code.
///
/// # Errors
/// When a path is no run and no folder of runs, or the output cannot be written.
pub fn execute(args: CompareArgs) -> Result<u8, CommandError> {
    let sides = args
        .runs
        .iter()
        .map(|path| Side::open(path))
        .collect::<anyhow::Result<Vec<_>>>()
        .map_err(usage)?;
    let others = sides
        .iter()
        .skip(1)
        .map(|other| measure::compare(&sides[0].courses, &other.courses))
        .collect();
    let comparison = Comparison {
        sides,
        others,
        limit: args.fail_on_regression.map(|share| share.as_f64()),
        page_folder: match args.out.as_deref().and_then(Path::parent) {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        },
    };
    let text = match args.format {
        CompareFormat::Text => render::text(&comparison),
        CompareFormat::Md => render::markdown(&comparison),
        CompareFormat::Json => render::json(&comparison),
        CompareFormat::Html => charts::page(&comparison),
    };
    match args.out {
        Some(path) if path.as_os_str() != "-" => {
            fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))
                .map_err(failed)?;
        }
        // A reader that has gone does not make the comparison a failure.
        _ => drop(io::stdout().lock().write_all(text.as_bytes())),
    }
    Ok(match comparison.has_regression() {
        true => exit::THRESHOLD,
        false => exit::DONE,
    })
}
