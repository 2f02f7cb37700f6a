//! `txgen compare`: runs side by side.

mod charts;
mod render;
mod side;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use measure::{CompareTerms, Difference, Metric};
use ops::command::{CommandError, failed, usage};
use report::ComparedSide;
use report::text::fit;

use crate::cli::{CompareArgs, CompareFormat, Share};
use crate::exit;

use side::Side;

/// What a comparison found.
struct Comparison {
    /// The first one is what the others are compared with.
    sides: Vec<Side>,
    /// For each of the others.
    others: Vec<Vec<Difference>>,
    terms: CompareTerms,
    /// Where its page is written.
    page_folder: PathBuf,
}

impl Comparison {
    /// The other sides beside the first one.
    fn others(&self) -> Vec<ComparedSide<'_>> {
        let base = &self.sides[0];
        let others = self.sides.iter().skip(1).zip(&self.others);
        let compared = others.map(|(side, differences)| ComparedSide {
            base: &base.name,
            name: &side.name,
            runs: [base, side].map(|side| side.figures.len()),
            differences,
            limit: self.terms.limit,
        });
        compared.collect()
    }

    /// Whether a side has no run that counts.
    fn has_empty_side(&self) -> bool {
        self.sides.iter().any(|side| side.figures.is_empty())
    }

    fn has_regression(&self) -> bool {
        let mut differences = self.others.iter().flatten();
        let limit = self.terms.limit;
        limit.is_some_and(|limit| differences.any(|it| it.is_regression(limit)))
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
    let terms = CompareTerms {
        margin: args.margin.as_f64(),
        limit: args.fail_on_regression.map(Share::as_f64),
    };
    let others = sides.iter().skip(1);
    let others = others
        .map(|other| measure::compare(&Metric::OF_LOADS, &sides[0].figures, &other.figures, &terms))
        .collect();
    let comparison = Comparison {
        sides,
        others,
        terms,
        page_folder: match args.out.as_deref().and_then(Path::parent) {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        },
    };
    let text = match args.format {
        CompareFormat::Text => fit(&render::text(&comparison)),
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
        _ => drop(ops::command::print(text.as_bytes())),
    }
    Ok(match comparison.has_regression() {
        true => exit::THRESHOLD,
        // Nothing was compared: a script must not take that for "no regression".
        false if comparison.has_empty_side() => exit::INVALID,
        false => exit::DONE,
    })
}
