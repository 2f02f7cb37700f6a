//! How far the clocks of two generators are apart, from the blocks that both saw.
//!
//! Each generator counts from an origin on its own wall clock, and both origins carry the number that was
//! agreed on. What they do not agree on shows in the blocks: a node announces a height to all at about
//! one instant, so the stamps of one height differ by the difference of the clocks, by the difference of
//! the ways from the node, and by the resolution of polling.

use std::collections::BTreeMap;

use super::part::MergeError;
use crate::format::manifest::{Host, Manifest};
use crate::format::plan_document::{ClockOffset, FleetClock};
use crate::format::rows::{BlockRow, SightRow};

impl ClockOffset {
    /// From the blocks of the first generator and of the other one, each in the order of heights; `None`
    /// when no height was seen by both.
    pub fn between(first: &[BlockRow], other: &[BlockRow]) -> Option<Self> {
        let mut differences = Vec::new();
        let mut resolution_ms = 0.0_f64;
        for block in other {
            let Ok(place) = first.binary_search_by_key(&block.height, |twin| twin.height) else {
                continue;
            };
            let twin = &first[place];
            differences.push((block.observed_ns as f64 - twin.observed_ns as f64) / 1e6);
            for polled in [block.resolution_ms, twin.resolution_ms] {
                resolution_ms = resolution_ms.max(polled.unwrap_or(0.0));
            }
        }
        Self::of(differences, resolution_ms)
    }

    /// From the blocks that the observers of two machines saw of the same nodes, each with its origin in nanoseconds
    /// since the Unix epoch; `None` when no node showed both a block.
    pub fn of_observers(first: (&[SightRow], u64), other: (&[SightRow], u64)) -> Option<Self> {
        let blocks = |sights: &'_ [SightRow]| -> BTreeMap<(String, String), (u64, f64)> {
            let blocks = sights.iter().filter(|sight| sight.kind == SightRow::BLOCK);
            let entry = |sight: &SightRow| {
                let of = (sight.node.clone(), sight.id.clone());
                (of, (sight.seen_ns, sight.resolution_ms.unwrap_or_default()))
            };
            blocks.map(entry).collect()
        };
        let ahead_ms = (i128::from(other.1) - i128::from(first.1)) as f64 / 1e6;
        let twins = blocks(first.0);
        let mut resolution_ms = 0.0_f64;
        let difference = |(of, (seen, polled)): ((String, String), (u64, f64))| {
            let (twin, twin_polled) = twins.get(&of)?;
            resolution_ms = resolution_ms.max(polled).max(*twin_polled);
            Some((seen as f64 - *twin as f64) / 1e6 + ahead_ms)
        };
        let differences = blocks(other.0).into_iter().filter_map(difference).collect();
        Self::of(differences, resolution_ms)
    }

    fn of(mut differences: Vec<f64>, resolution_ms: f64) -> Option<Self> {
        differences.sort_unstable_by(f64::total_cmp);
        let last = differences.len().checked_sub(1)?;
        let at = |share: f64| differences[(last as f64 * share).round() as usize];
        Some(Self {
            heights: differences.len() as u64,
            offset_ms: at(0.5),
            uncertainty_ms: (at(0.95) - at(0.05)) / 2.0 + resolution_ms,
        })
    }
}

/// Puts the offsets of all parts but the first into the manifest of the whole.
///
/// # Errors
/// When one is above `limit_ms`.
pub fn note_clocks(
    manifest: &mut Manifest,
    offsets: &[Option<ClockOffset>],
    limit_ms: f64,
) -> Result<(), MergeError> {
    for (place, offset) in offsets.iter().enumerate() {
        if let Some(offset) = offset.filter(|offset| offset.offset_ms.abs() > limit_ms) {
            return Err(MergeError::Parts(format!(
                "{}: more than the {limit_ms} ms that seconds of several machines may be apart; synchronise the \
                 clocks (NTP) and run again, or allow it with --max-clock-offset",
                words(place + 2, Some(offset))
            )));
        }
        if let Some(part) = manifest.plan.merged.get_mut(place + 1) {
            part.clock = *offset;
        }
    }
    Ok(())
}

/// The notes of the whole's manifest on its parts, for people: a line on the clock of each generator after the first,
/// and on each that has a problem.
pub fn part_words(manifest: &Manifest) -> Vec<String> {
    let Some((first, others)) = manifest.plan.merged.split_first() else {
        return Vec::new();
    };
    let others = (2..).zip(others);
    let fleet = (1..).zip(&manifest.plan.merged);
    let fleet = fleet.filter_map(|(number, part)| Some(fleet_words(number, part.fleet_clock?)));
    others
        .map(|(number, part)| words(number, part.clock) + &own_account(&first.host, &part.host))
        .chain(fleet)
        .chain(
            (1..)
                .zip(&manifest.plan.merged)
                .filter_map(|(number, part)| {
                    let problem = part.problem.as_ref()?;
                    Some(format!("generator {number}: {problem}"))
                }),
        )
        .collect()
}

fn side(offset_ms: f64) -> &'static str {
    if offset_ms < 0.0 {
        "behind"
    } else {
        "ahead of"
    }
}

fn fleet_words(number: usize, clock: FleetClock) -> String {
    let drift = match clock.drift_ppm {
        None => String::new(),
        Some((low, high)) if low > high => "; it was set during the run".to_owned(),
        Some((low, high)) => format!(", and went {low:.1} to {high:.1} ppm faster during the run"),
    };
    format!(
        "the clock of generator {number} was {:.3} ms {} the coordinator's (± {:.3} ms), which its start is \
         corrected by{drift}",
        clock.offset_ms.abs(),
        side(clock.offset_ms),
        clock.error_ms
    )
}

/// The errors that the clocks of two generators report, where both do.
fn own_account(first: &Host, other: &Host) -> String {
    let (Some(first), Some(other)) = (&first.clock, &other.clock) else {
        return String::new();
    };
    format!(
        "; by their own account they are within {:.1} ms of each other ({} on the first, {} on the other)",
        first.error_ms + other.error_ms,
        first.source,
        other.source
    )
}

fn words(number: usize, offset: Option<ClockOffset>) -> String {
    let Some(offset) = offset else {
        return format!(
            "the clock of generator {number} cannot be compared with that of generator 1: no height was seen by \
             both"
        );
    };
    format!(
        "the clock of generator {number} is {:.1} ms {} that of generator 1 (± {:.1} ms, by {} heights that \
         both saw)",
        offset.offset_ms.abs(),
        side(offset.offset_ms),
        offset.uncertainty_ms,
        offset.heights
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::manifest::ClockBound;

    fn blocks(heights: std::ops::Range<u64>, observed_ms: impl Fn(u64) -> u64) -> Vec<BlockRow> {
        let block = |height| BlockRow {
            height,
            observed_ns: observed_ms(height) * 1_000_000,
            ..BlockRow::default()
        };
        heights.map(block).collect()
    }

    #[test]
    fn a_clock_that_is_200_ms_ahead_shows_in_the_heights_that_both_saw() {
        let first = blocks(1..21, |height| height * 1_000);
        // The ways from the node differ by up to 4 ms.
        let other = blocks(5..40, |height| height * 1_000 + 200 + height % 5);
        let offset = ClockOffset::between(&first, &other).unwrap();
        assert_eq!((offset.heights, offset.offset_ms), (16, 202.0));
        assert_eq!(offset.uncertainty_ms, 2.0);
        let back = ClockOffset::between(&other, &first).unwrap();
        assert_eq!(back.offset_ms, -202.0);
    }

    #[test]
    fn clocks_that_agree_are_said_to_agree_and_polling_makes_that_less_sure() {
        let first = blocks(1..21, |height| height * 1_000);
        let mut other = blocks(1..21, |height| height * 1_000);
        let offset = ClockOffset::between(&first, &other).unwrap();
        assert_eq!((offset.offset_ms, offset.uncertainty_ms), (0.0, 0.0));
        other[3].resolution_ms = Some(25.0);
        let offset = ClockOffset::between(&first, &other).unwrap();
        assert_eq!((offset.offset_ms, offset.uncertainty_ms), (0.0, 25.0));
    }

    #[test]
    fn what_the_clocks_say_of_their_own_errors_adds_up() {
        let host = |clock| Host {
            os: "Linux".into(),
            cpu: None,
            cpus: 2,
            memory_bytes: None,
            clock,
        };
        let bound = |source: &str, error_ms: f64| {
            host(Some(ClockBound {
                source: source.into(),
                error_ms,
            }))
        };
        let (first, other) = (bound("chrony", 3.2), bound("kernel", 15.5));
        assert_eq!(
            own_account(&first, &other),
            "; by their own account they are within 18.7 ms of each other (chrony on the first, kernel on the other)"
        );
        assert_eq!(own_account(&first, &host(None)), "");
    }

    #[test]
    fn without_a_height_that_both_saw_nothing_is_said() {
        let first = blocks(1..5, |height| height * 1_000);
        assert_eq!(ClockOffset::between(&first, &blocks(5..9, |_| 0)), None);
        assert!(words(2, None).contains("cannot be compared"));
    }

    #[test]
    fn observers_of_one_node_say_how_far_their_clocks_are_apart_and_of_none_in_common_nothing() {
        let sights = |node: &str, late_ns: u64| -> Vec<SightRow> {
            let sight = |height: u64| SightRow {
                kind: SightRow::BLOCK.into(),
                id: height.to_string(),
                node: node.into(),
                seen_ns: height * 1_000_000_000 + late_ns + height % 3 * 1_000_000,
                ..SightRow::default()
            };
            (5..25).map(sight).collect()
        };
        let first = sights("a", 0);
        // It began 2 s later by its own clock, which is 40 ms ahead.
        let other = sights("a", 40_000_000);
        let other: Vec<SightRow> = other
            .into_iter()
            .map(|sight| SightRow {
                seen_ns: sight.seen_ns - 2_000_000_000,
                ..sight
            })
            .collect();
        let origin = 1_700_000_000_000_000_000;
        let offset =
            ClockOffset::of_observers((&first, origin), (&other, origin + 2_000_000_000)).unwrap();
        assert_eq!(
            (offset.heights, offset.offset_ms, offset.uncertainty_ms),
            (20, 40.0, 0.0)
        );
        let back =
            ClockOffset::of_observers((&other, origin + 2_000_000_000), (&first, origin)).unwrap();
        assert_eq!(back.offset_ms, -40.0);
        assert_eq!(
            ClockOffset::of_observers((&first, origin), (&sights("b", 0), origin)),
            None
        );
    }
}
