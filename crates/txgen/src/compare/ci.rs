//! A comparison for a CI system: a case for each metric of each side.

use measure::{Difference, Gate};
use report::ComparedSide;

use super::{Comparison, render};
use crate::ci::{CaseEnd, CiCase, CiReport};

impl Comparison {
    /// What a CI system gets.
    pub(crate) fn for_ci(&self) -> CiReport {
        let others = self.others();
        let metrics = others.iter().flat_map(|side| {
            let differences = side.differences.iter();
            differences.map(|difference| case(side, difference, self.is_gated()))
        });
        let empty = self.sides.iter().filter(|side| side.figures.is_empty());
        let empty = empty.map(|side| CiCase {
            suite: side.name.clone(),
            name: "runs".into(),
            end: CaseEnd::Untold,
            detail: "no run of this side is valid".into(),
        });
        CiReport {
            answer: render::headline(self).replace("**", "").trim().to_owned(),
            cases: metrics.chain(empty).collect(),
            details: render::markdown(self),
            folder: self.page_folder.clone(),
            ..CiReport::default()
        }
    }
}

fn case(side: &ComparedSide<'_>, difference: &Difference, is_gated: bool) -> CiCase {
    let end = match difference.gate.filter(|_| is_gated) {
        Some(Gate::Regression) => CaseEnd::Broken,
        Some(Gate::Open) => CaseEnd::Untold,
        Some(Gate::Within) | None => CaseEnd::Passed,
    };
    CiCase {
        suite: format!("{} against {}", side.name, side.base),
        name: difference.metric.name().into(),
        end,
        detail: side.words(difference),
    }
}
