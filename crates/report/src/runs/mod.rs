//! What is shown of a run of `txgen`, built on `measure`.

mod answers;
mod bep23;
mod comparison;
mod course;
mod evidence;
mod mesh;
mod nodes;
mod run;
mod tm_bench;

use std::collections::BTreeMap;

use measure::LatencyFigure;

pub use self::answers::AnswerCourse;
pub use self::bep23::{Bep23, Bep23Collector, DelayFigures, SecondFigures};
pub use self::comparison::{ComparedSide, gate_name, interval_text, signed_change};
pub use self::course::{CommittedCourse, LatencyCourse, MAX_COLUMNS, Span, Stretch};
pub use self::evidence::{evidence_text, limit_text};
pub use self::mesh::{mesh_evidence_text, mesh_gave_first, mesh_limit_text};
pub use self::nodes::Recording;
pub use self::run::{
    BUSY_MACHINE, RunReport, answer, busy_machine_link, is_disturbed, machine_text, quantile_curve,
};
pub use self::tm_bench::{PerSecondStats, TmBench, TmBenchSpan};
use crate::page::tag;
use crate::text::{Figure, escape};

impl Figure for LatencyFigure {
    fn figure(self) -> Option<f64> {
        Some(self.millis)
    }

    fn is_lower_bound(&self) -> bool {
        Self::is_lower_bound(self)
    }

    fn lowest(&self) -> Option<f64> {
        self.without_own
    }
}

/// Counts by code, each with what the code means: `sdk/32 account sequence mismatch`.
pub fn titled(counts: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let titled = counts.iter();
    titled
        .map(|(code, count)| (measure::code_title(code), *count))
        .collect()
}

/// A list of texts; nothing for none.
pub(crate) fn list<S: AsRef<str>>(entries: &[S]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let items = entries
        .iter()
        .map(|entry| tag("li", &escape(entry.as_ref())));
    tag("ul", &items.collect::<String>())
}
