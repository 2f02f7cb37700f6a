//! Parts of several generators joined: what one generator would have said, whatever a part's clock, flaw or end was.

use measure::{
    Bar, Cause, Codespace, KeptRows, LostPart, Manifest, MergeError, Quantiles, Reply,
    ScheduleVerdict, ShardName, StepRow, Summary, UnsentReason, merged_manifest,
};
use pacing::Nanos;
use proptest::prelude::*;

use crate::agreement::{
    Course, TXS, Transaction, joined, merged, merged_late, planned, recorded, transaction,
    two_endpoints, with_a_silence,
};
use crate::support::{Folder, ms};

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// Four generators with the plan of one together say what it says: histograms, counts, steps, evidence, verdict.
    #[test]
    fn four_generators_say_what_one_says(load in with_a_silence()) {
        let (_, one) = recorded(&load, 0, 1);
        let (four, _) = merged(&load, 4, KeptRows::All);
        for kind in measure::LatencyKind::ALL {
            let (one, four) = (one.latency_ms.of(kind), four.latency_ms.of(kind));
            for name in Quantiles::NAMES.into_iter().filter(|name| *name != "mean") {
                prop_assert_eq!(one.figure(name), four.figure(name), "{:?} {}", kind, name);
            }
            // A sum in another order is rounded otherwise.
            let means = [one, four].map(|it| it.figure("mean").map_or(0.0, |mean| mean.millis));
            prop_assert!((means[0] - means[1]).abs() <= 1e-9 * means[0], "{:?}", means);
            prop_assert_eq!((one.count, one.censored), (four.count, four.censored));
            prop_assert_eq!(&one.at_least, &four.at_least);
        }
        prop_assert_eq!((&one.offered, &one.fate, one.rate), (&four.offered, &four.fate, four.rate));
        prop_assert_eq!(steps(&one), steps(&four));
        prop_assert_eq!((one.limited_by, &one.evidence), (four.limited_by, &four.evidence));
        prop_assert_eq!(&one.verdict, &four.verdict);
        prop_assert_eq!((&one.knee, &one.knee_reason), (&four.knee, &four.knee_reason));
    }

    /// A latency is measured by one clock. What a fleet's clocks are apart moves starts, and so no latency of a node's
    /// blocks by more than the offset; answers it does not move.
    #[test]
    fn four_generators_whose_clocks_are_apart_say_what_one_says_within_the_offset(
        load in prop::collection::vec(transaction(), TXS as usize),
        offsets in prop::collection::vec(0..6_u64, 4),
    ) {
        let (_, one) = recorded(&load, 0, 1);
        let late: Vec<Nanos> = offsets.iter().copied().map(ms).collect();
        let (four, _) = merged_late(&load, &late, KeptRows::All);
        let most_ms = *offsets.iter().max().unwrap() as f64;
        for kind in measure::LatencyKind::ALL {
            let is_of_blocks = format!("{kind:?}").starts_with("Commit");
            let (one, four) = (one.latency_ms.of(kind), four.latency_ms.of(kind));
            prop_assert_eq!((one.count, one.censored), (four.count, four.censored));
            for name in Quantiles::NAMES {
                let (Some(one), Some(four)) = (one.figure(name), four.figure(name)) else {
                    prop_assert_eq!(one.figure(name), four.figure(name));
                    continue;
                };
                // Histograms have three digits.
                let rounding = 1e-3 * one.millis + 1e-6;
                let earlier = one.millis - four.millis;
                let most = if is_of_blocks { most_ms } else { 0.0 };
                prop_assert!(
                    -rounding <= earlier && earlier <= most + rounding,
                    "{:?} {}: {:?} {:?}, {} ms apart", kind, name, one, four, most_ms
                );
            }
        }
    }
}

/// A generator that is lost sent nothing that can be proven: its whole part is unsent, with that reason, and the plan
/// is still the plan of all.
#[test]
fn the_part_of_a_lost_generator_is_unsent_and_the_whole_is_invalid() {
    let accepted = Transaction {
        course: Course::Answered(Reply::Accepted),
        cause: Cause::OnTime,
        service_ms: 1,
        blocks: Some(1),
        code: 0,
        space: Codespace::NONE,
    };
    let load = [accepted; TXS as usize];
    let parts: Vec<(Folder, Summary)> = (0..2).map(|part| recorded(&load, part, 3)).collect();
    let shard = |number| ShardName { number, of: 3 };
    let manifests: Vec<(String, Manifest)> = (0..2)
        .map(|part| {
            let mut manifest = two_endpoints();
            manifest.plan.shard = shard(part as u32 + 1);
            manifest.planned = Some(planned(part, 3));
            (part.to_string(), manifest)
        })
        .collect();
    let lost = LostPart {
        shard: shard(3),
        planned: planned(2, 3),
        reason: "its machine is gone".to_owned(),
    };
    let missing = merged_manifest(&manifests, &[]).unwrap_err();
    assert!(matches!(missing, MergeError::Parts(_)), "{missing}");
    let manifest = merged_manifest(&manifests, std::slice::from_ref(&lost)).unwrap();
    assert_eq!(manifest.planned, Some(TXS));
    let (summary, _) = joined(&parts, &manifest);
    let offered = &summary.offered;
    let missing = offered.unsent_for(UnsentReason::GeneratorLost);
    assert_eq!((offered.planned, missing), (TXS, lost.planned));
    assert_eq!(offered.sent + offered.unsent, TXS);
    assert_eq!(summary.fate.accepted, TXS - lost.planned);
    assert_eq!(summary.verdict.schedule, ScheduleVerdict::Invalid);
    let mut reasons = summary.verdict.reasons.iter();
    assert!(reasons.any(|reason| reason.contains(&lost.reason)));
}

/// Without which quantiles may be larger: they are those that may be in any part.
fn steps(summary: &Summary) -> Vec<StepRow> {
    let mut steps = summary.steps.clone();
    steps
        .iter_mut()
        .for_each(|step| step.latency.at_least.clear());
    steps
}

/// Two of a part's hundred are more than a run may leave unsent, and of the whole they are less.
#[test]
fn a_flaw_of_one_generator_weighs_what_it_weighs_in_the_whole() {
    let load: Vec<Transaction> = (0..TXS)
        .map(|index| Transaction {
            course: match index {
                1 | 5 => Course::Unsent(UnsentReason::MaxInFlight),
                _ => Course::Answered(Reply::Accepted),
            },
            cause: Cause::OnTime,
            service_ms: 1,
            blocks: (index != 1 && index != 5).then_some(0),
            code: 0,
            space: Codespace::NONE,
        })
        .collect();
    let (_, part) = recorded(&load, 1, 4);
    assert_eq!(part.verdict.schedule, ScheduleVerdict::Invalid);
    let (_, one) = recorded(&load, 0, 1);
    assert_eq!(one.verdict.schedule, ScheduleVerdict::Degraded);
    assert_eq!(merged(&load, 4, KeptRows::All).0.verdict, one.verdict);
}

/// What a generator whose account is broken did is not known; how much of the whole was another load is.
#[test]
fn an_invalid_part_leaves_unknown_what_the_sums_would_hide() {
    let accepted = Transaction {
        course: Course::Answered(Reply::Accepted),
        cause: Cause::OnTime,
        service_ms: 1,
        blocks: Some(1),
        code: 0,
        space: Codespace::NONE,
    };
    let load = [accepted; TXS as usize];
    let (valid, invalid) = (ScheduleVerdict::Valid, ScheduleVerdict::Invalid);
    for (said, judged, left) in [
        (vec![Bar::Load], valid, vec![]),
        (vec![Bar::Commits], valid, vec![]),
        (vec![Bar::Load, Bar::Account], invalid, vec![Bar::Account]),
        // A folder of an earlier version does not say.
        (vec![], invalid, vec![Bar::Account]),
    ] {
        let mut parts: Vec<(Folder, Summary)> = (0..2).map(|it| recorded(&load, it, 2)).collect();
        for (_, summary) in &mut parts[..] {
            (summary.verdict.schedule, summary.verdict.bars) =
                (ScheduleVerdict::Invalid, said.clone());
        }
        let verdict = joined(&parts, &two_endpoints()).0.verdict;
        assert_eq!((verdict.schedule, verdict.bars), (judged, left));
    }
}
