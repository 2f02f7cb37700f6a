//! `txgen compare`: runs side by side.

mod charts;
mod render;
mod side;

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use measure::{Difference, Drawn};

use crate::cli::{CompareArgs, CompareFormat};
use crate::exit;
use crate::folder::OpenError;

use side::Side;

/// Why runs are not compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// One is no run.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A folder of runs holds runs that are no repeats of each other.
    #[error(
        "{} holds runs of different loads ({one:?} and {other:?}); repeats have one load, so give the runs one by one", path.display()
    )]
    Mixed {
        /// The folder.
        path: PathBuf,
        /// A load.
        one: String,
        /// Another one.
        other: String,
    },
    /// The output cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What a comparison found.
struct Comparison {
    /// The first one is what the others are compared with.
    sides: Vec<Side>,
    /// For each of the others.
    others: Vec<(Vec<Difference>, Drawn)>,
    /// Worse by more than this is a regression.
    limit: Option<f64>,
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
pub fn execute(args: CompareArgs) -> Result<u8, CompareError> {
    let sides = args
        .runs
        .iter()
        .map(|path| Side::open(path))
        .collect::<Result<Vec<_>, _>>()?;
    let others = sides
        .iter()
        .skip(1)
        .map(|other| measure::compare(&sides[0].courses, &other.courses))
        .collect();
    let comparison = Comparison {
        sides,
        others,
        limit: args.fail_on_regression.map(|share| share.as_f64()),
    };
    let text = match args.format {
        CompareFormat::Text => render::text(&comparison),
        CompareFormat::Md => render::markdown(&comparison),
        CompareFormat::Json => render::json(&comparison),
        CompareFormat::Html => charts::page(&comparison),
    };
    match args.out {
        Some(path) if path.as_os_str() != "-" => {
            fs::write(&path, text).map_err(|source| CompareError::Write { path, source })?;
        }
        // A reader that has gone does not make the comparison a failure.
        _ => drop(io::stdout().lock().write_all(text.as_bytes())),
    }
    Ok(match comparison.has_regression() {
        true => exit::THRESHOLD,
        false => exit::DONE,
    })
}
