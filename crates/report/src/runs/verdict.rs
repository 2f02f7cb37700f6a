//! What a comparison found, in words.

use measure::{ComparisonVerdict, MANY_RUNS, Uncertainty};

use crate::text::grouped;

/// The verdict on a difference, for programs.
pub fn verdict_name(verdict: ComparisonVerdict) -> &'static str {
    match verdict {
        ComparisonVerdict::Better => "better",
        ComparisonVerdict::Worse => "worse",
        ComparisonVerdict::Same => "same",
        ComparisonVerdict::CannotTell(_) => "cannot tell",
    }
}

/// The verdict on a difference and, where there is none, the reason.
pub fn verdict_words(verdict: ComparisonVerdict) -> String {
    let why = match verdict {
        ComparisonVerdict::CannotTell(Uncertainty::NoFigure) => ": a run has no figure".into(),
        ComparisonVerdict::CannotTell(Uncertainty::LowerBounds) => ": both are lower bounds".into(),
        ComparisonVerdict::CannotTell(Uncertainty::Runs { needed }) => {
            format!(": needs {} a side", runs(needed))
        }
        _ => String::new(),
    };
    verdict_name(verdict).to_owned() + &why
}

/// So many runs; the greatest number that is computed stands for any larger one.
fn runs(needed: u32) -> String {
    match needed {
        MANY_RUNS.. => format!("over {} runs", grouped(u64::from(MANY_RUNS))),
        _ => format!("{needed} runs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_number_of_runs_that_is_computed_stands_for_any_larger_one() {
        let of =
            |needed| verdict_words(ComparisonVerdict::CannotTell(Uncertainty::Runs { needed }));
        assert_eq!(of(40), "cannot tell: needs 40 runs a side");
        assert_eq!(of(MANY_RUNS), "cannot tell: needs over 10,000 runs a side");
    }
}
