//! What else than the target may explain a difference: a load that was not the same, and time.

use std::collections::BTreeSet;

use super::metric::Metric;
use super::{MIN_RUNS, Uncertainty};
use crate::format::manifest::{LoadField, Manifest};

/// What else may explain a difference between two sides.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Doubts {
    /// In what the loads differ, as far as it matters.
    pub differing: Vec<LoadDifference>,
    /// Whether one side ran before the other.
    pub is_ordered: bool,
}

/// A field in which no run of one side is like a run of the other.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadDifference {
    /// Which.
    pub field: LoadField,
    /// Its values on the first side, each once.
    pub base: Vec<String>,
    /// On the second side.
    pub other: Vec<String>,
    /// Whether it is what the user compares.
    pub is_varied: bool,
}

impl Doubts {
    /// Between the runs of two sides; a difference in `varied` is what the user compares.
    pub fn between(base: &[&Manifest], other: &[&Manifest], varied: &[LoadField]) -> Self {
        let differing = LoadField::all()
            .filter(|field| !matches!(bearing(*field), Bearing::Nothing))
            .filter_map(|field| {
                let [base, other] = [base, other].map(|side| values(field, side));
                (base.is_disjoint(&other) && !base.is_empty() && !other.is_empty()).then(|| {
                    LoadDifference {
                        field,
                        base: base.into_iter().collect(),
                        other: other.into_iter().collect(),
                        is_varied: varied.contains(&field),
                    }
                })
            });
        Self {
            differing: differing.collect(),
            is_ordered: is_ordered(base, other),
        }
    }

    /// Why nothing can be concluded about a metric, if so.
    pub(super) fn about(&self, metric: Metric) -> Option<Uncertainty> {
        let differing = self.differing.iter().find(|it| {
            !it.is_varied
                && match bearing(it.field) {
                    Bearing::Nothing | Bearing::Remark => false,
                    Bearing::Answers => matches!(metric, Metric::Accepted | Metric::Accept(_)),
                    Bearing::Latencies => matches!(metric, Metric::Accept(_) | Metric::Commit(_)),
                    Bearing::Everything => true,
                }
        });
        let differing = differing.map(|it| Uncertainty::OtherLoad(it.field));
        differing.or_else(|| self.is_ordered.then_some(Uncertainty::Order))
    }
}

impl LoadDifference {
    /// Whether verdicts are given all the same.
    pub fn spoils_nothing(&self) -> bool {
        matches!(bearing(self.field), Bearing::Nothing | Bearing::Remark)
    }
}

fn values(field: LoadField, side: &[&Manifest]) -> BTreeSet<String> {
    let value = |manifest: &&Manifest| field.of(manifest).unwrap_or_else(|| "not said".into());
    side.iter().map(value).collect()
}

/// Whether nearly all runs of one side began before those of the other, so that a target that drifts looks like a
/// difference between them. Of all pairs of a run of each the share in which the first side's began first is
/// that of Mann and Whitney's U ("On a test of whether one of two random variables is stochastically larger
/// than the other", Annals of Mathematical Statistics 18, 1947). With fewer runs there is no verdict anyway.
fn is_ordered(base: &[&Manifest], other: &[&Manifest]) -> bool {
    let pairs = base.len() * other.len();
    let before = base.iter().map(|first| {
        let later = other
            .iter()
            .filter(|it| first.origin_unix_ns < it.origin_unix_ns);
        later.count()
    });
    let share = before.sum::<usize>() as f64 / pairs.max(1) as f64;
    base.len().min(other.len()) >= MIN_RUNS as usize
        && !(1.0 - ORDERED_SHARE..=ORDERED_SHARE).contains(&share)
}

/// What a difference in a field spoils.
enum Bearing {
    /// It does not matter, or is contained in another field.
    Nothing,
    /// It may be what is compared, and has to be known.
    Remark,
    /// When and with what the node answers.
    Answers,
    /// What latencies mean.
    Latencies,
    /// The load itself, or how figures are reckoned.
    Everything,
}

fn bearing(field: LoadField) -> Bearing {
    match field {
        // Repeats have seeds of their own, and a hash of the due times depends on it.
        LoadField::Seed | LoadField::Schedule => Bearing::Nothing,
        LoadField::Chain | LoadField::NodeVersion | LoadField::Connections => Bearing::Remark,
        LoadField::Method => Bearing::Answers,
        LoadField::Transport | LoadField::Machine => Bearing::Latencies,
        LoadField::Format
        | LoadField::Version
        | LoadField::Generators
        | LoadField::Load
        | LoadField::Arrivals
        | LoadField::Workload
        | LoadField::Warmup
        | LoadField::Target => Bearing::Everything,
    }
}

/// Of two sides of three runs in turns it is 4/9 or 5/9, one after the other 1, with one pair swapped 8/9.
const ORDERED_SHARE: f64 = 0.85;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Host, NodeLimits, PlanDocument, Quantile};

    fn manifest(origin_unix_ns: u64) -> Manifest {
        Manifest {
            format: "tidegate.run/2".into(),
            version: "0.1.0".into(),
            command: Vec::new(),
            origin_unix_ns,
            origin_error_ns: 0,
            started: String::new(),
            plan: PlanDocument::default(),
            profile: "constant 10/s for 1s".into(),
            planned: Some(10),
            seed: origin_unix_ns,
            endpoints: Vec::new(),
            limits: NodeLimits::default(),
            host: Host {
                os: "Linux".into(),
                cpu: None,
                cpus: 2,
                memory_bytes: None,
                clock: None,
            },
        }
    }

    /// Doubts between runs in this order.
    fn in_order(order: &str) -> Doubts {
        let of = |side| {
            let places = order.chars().enumerate().filter(move |(_, it)| *it == side);
            places
                .map(|(place, _)| manifest(place as u64))
                .collect::<Vec<_>>()
        };
        let (base, other) = (of('A'), of('B'));
        Doubts::between(
            &base.iter().collect::<Vec<_>>(),
            &other.iter().collect::<Vec<_>>(),
            &[],
        )
    }

    #[test]
    fn sides_that_ran_one_after_the_other_are_told_from_sides_in_turns() {
        for ordered in ["AAABBB", "BBBAAA", "AABABB", "AAAAABBBBB"] {
            assert!(in_order(ordered).is_ordered, "{ordered}");
        }
        // Too few to be judged for that.
        for turns in ["ABABAB", "ABBAAB", "ABBABAAB", "AB", "AABB", "ABBBAA"] {
            let doubts = in_order(turns);
            assert!(!doubts.is_ordered && doubts.differing.is_empty(), "{turns}");
        }
        let metric = Metric::Committed;
        assert_eq!(in_order("AAABBB").about(metric), Some(Uncertainty::Order));
    }

    #[test]
    fn a_field_in_which_the_sides_differ_spoils_what_it_bears_on() {
        let accept = Metric::Accept(Quantile::P50);
        let commit = Metric::Commit(Quantile::P50);
        type Change = fn(&mut Manifest);
        let cases: [(LoadField, Change, [bool; 3]); 6] = [
            (
                LoadField::Workload,
                |m| m.plan.workload = "10 kB".into(),
                [true; 3],
            ),
            (LoadField::Load, |m| m.profile = "flood".into(), [true; 3]),
            (LoadField::Version, |m| m.version = "9".into(), [true; 3]),
            (
                LoadField::Method,
                |m| m.plan.method = "async".into(),
                [false, true, false],
            ),
            (
                LoadField::Machine,
                |m| m.host.cpus = 64,
                [false, true, true],
            ),
            (
                LoadField::Connections,
                |m| m.plan.connections = 512,
                [false; 3],
            ),
        ];
        for (field, change, spoilt) in cases {
            let (one, mut two) = (manifest(1), manifest(2));
            change(&mut two);
            let doubts = Doubts::between(&[&one], &[&two], &[]);
            assert_eq!(doubts.differing.len(), 1);
            assert_eq!(doubts.differing[0].field, field);
            let about = [Metric::Committed, accept, commit].map(|metric| doubts.about(metric));
            let expected = spoilt.map(|spoilt| spoilt.then_some(Uncertainty::OtherLoad(field)));
            assert_eq!(about, expected, "{field:?}");
            // What is varied on purpose is named, and spoils nothing.
            let varied = Doubts::between(&[&one], &[&two], &[field]);
            assert!(varied.differing[0].is_varied);
            assert_eq!(varied.about(accept), None, "{field:?}");
            // One run that is alike on each side: the field does not distinguish them.
            assert!(
                Doubts::between(&[&one, &two], &[&two, &one], &[])
                    .differing
                    .is_empty()
            );
        }
    }
}
