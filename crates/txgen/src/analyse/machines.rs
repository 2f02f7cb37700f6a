//! What observers on other machines recorded, put on the clock of the first.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::bail;
use measure::{ClockBound, ClockOffset, NodeRow, SightRow};
use pacing::Nanos;

use crate::folder::{RECORD, is_recording, read_manifest, rows_if_any};
use crate::recording;

/// Observed nodes of one machine.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) rows: Vec<NodeRow>,
    pub(super) sights: Vec<SightRow>,
    /// By node: the cores of its machine, of those whose processors were looked at.
    pub(super) cores: BTreeMap<String, f64>,
    /// Where its time begins, and the notes about its clock.
    origin_unix_ns: u64,
    clock: Option<ClockBound>,
}

impl Machine {
    /// Reads the tables of a folder, and where its time begins.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        if [MANIFEST, RECORD]
            .iter()
            .all(|name| !folder.join(name).exists())
        {
            bail!(
                "{} has no {MANIFEST} and no {RECORD}: it is no folder of a run or of txgen record",
                folder.display()
            );
        }
        let (origin_unix_ns, host) = if is_recording(folder) {
            let note = recording::read(folder)?;
            (note.origin_unix_ns, note.host)
        } else {
            let manifest = read_manifest(folder)?;
            (manifest.origin_unix_ns, manifest.host)
        };
        let rows: Vec<NodeRow> = rows_if_any(folder)?;
        let looked_at = rows.iter().filter(|row| row.machine_cpu.is_some());
        let cores = looked_at.map(|row| (row.node.clone(), f64::from(host.cpus)));
        Ok(Self {
            cores: cores.collect(),
            rows,
            sights: rows_if_any(folder)?,
            origin_unix_ns,
            clock: host.clock,
        })
    }

    /// Adds the nodes that only another machine observed, on this one's clock; what that clock is off by, in words.
    ///
    /// # Errors
    /// When no node was observed by both, or their clocks are farther apart, or known less well, than `limit`.
    pub(super) fn add(&mut self, name: &str, other: Self, limit: Nanos) -> anyhow::Result<String> {
        let pair = (
            (&*self.sights, self.origin_unix_ns),
            (&*other.sights, other.origin_unix_ns),
        );
        let Some(offset) = ClockOffset::of_observers(pair.0, pair.1) else {
            bail!(
                "the clock of {name} cannot be compared: no node showed a block to both machines; observe one node, under \
                 one name, from each"
            );
        };
        let text = self.describe(name, &other, offset);
        let limit_ms = limit.as_millis_f64();
        if offset.offset_ms.abs() > limit_ms || offset.uncertainty_ms > limit_ms {
            bail!(
                "{text}: more than the {limit_ms} ms that observers may be apart or unsure; synchronise the clocks (NTP) and \
                 record again, or allow it with --max-clock-offset"
            );
        }
        let ahead = i128::from(other.origin_unix_ns) - i128::from(self.origin_unix_ns);
        let moved = ahead as f64 - offset.offset_ms * 1e6;
        let known: Vec<String> = self.rows.iter().map(|row| row.node.clone()).collect();
        let is_new = |node: &String| !known.contains(node);
        for (node, cores) in other.cores {
            self.cores.entry(node).or_insert(cores);
        }
        // What is from before the first machine's origin has no place on its clock.
        let at = |ns: u64| Some(ns as f64 + moved).filter(|at| *at >= 0.0);
        self.sights.extend(
            other
                .sights
                .into_iter()
                .filter(|it| is_new(&it.node))
                .filter_map(|sight| {
                    Some(SightRow {
                        seen_ns: at(sight.seen_ns)? as u64,
                        sent_ns: None,
                        ..sight
                    })
                }),
        );
        self.rows.extend(
            other
                .rows
                .into_iter()
                .filter(|it| is_new(&it.node))
                .filter_map(|row| {
                    Some(NodeRow {
                        second: (at(row.second.saturating_mul(NANOS_PER_SECOND))?
                            / NANOS_PER_SECOND as f64)
                            .round() as u64,
                        ..row
                    })
                }),
        );
        Ok(text)
    }

    fn describe(&self, name: &str, other: &Self, offset: ClockOffset) -> String {
        let side = if offset.offset_ms < 0.0 {
            "behind"
        } else {
            "ahead of"
        };
        let own = match (&self.clock, &other.clock) {
            (Some(first), Some(other)) => format!(
                "; by their own account they are within {:.1} ms of each other ({} and {})",
                first.error_ms + other.error_ms,
                first.source,
                other.source
            ),
            _ => String::new(),
        };
        format!(
            "the clock of {name} is {:.1} ms {side} the first one (± {:.1} ms, by {} blocks that nodes showed to both; a \
             constant difference of the ways is not in it){own}",
            offset.offset_ms.abs(),
            offset.uncertainty_ms,
            offset.heights
        )
    }
}

const MANIFEST: &str = "manifest.json";
const NANOS_PER_SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose clock is so far ahead, which observed these nodes; `b` has each block 250 ms after `a`.
    fn machine(nodes: &[&str], ahead_ms: u64) -> Machine {
        let mut machine = Machine {
            origin_unix_ns: 1_700_000_000_000_000_000 + ahead_ms * 1_000_000,
            clock: Some(ClockBound {
                source: "chrony".into(),
                error_ms: 0.5,
            }),
            ..Machine::default()
        };
        for node in nodes {
            for height in 0..20_u64 {
                let late_ms = if *node == "b" { 250 } else { 0 };
                machine.sights.push(SightRow {
                    kind: SightRow::BLOCK.into(),
                    id: height.to_string(),
                    node: (*node).into(),
                    seen_ns: (height * 1_000 + late_ms) * 1_000_000,
                    ..SightRow::default()
                });
                machine.rows.push(NodeRow {
                    second: height,
                    node: (*node).into(),
                    ..NodeRow::default()
                });
            }
        }
        machine
    }

    /// Both began at one instant: the other clock only shows another time.
    #[test]
    fn what_another_machine_saw_is_moved_by_what_its_clock_is_off() {
        let limit = Nanos::from_millis(100);
        let mut first = machine(&["a"], 0);
        let text = first
            .add("second", machine(&["a", "b"], 40), limit)
            .unwrap();
        assert!(
            text.contains("40.0 ms ahead of the first one (± 0.0 ms, by 20 blocks"),
            "{text}"
        );
        assert!(
            text.contains("within 1.0 ms of each other (chrony and chrony)"),
            "{text}"
        );
        assert_eq!(
            (first.sights.len(), first.rows.len()),
            (40, 40),
            "a counts once"
        );
        let skews = measure::skews(&first.sights);
        assert_eq!(skews[&("block".to_owned(), "b".to_owned())].median_s, 0.25);
        assert_eq!(skews[&("block".to_owned(), "a".to_owned())].largest_s, 0.0);
    }

    #[test]
    fn clocks_too_far_apart_too_uncertain_or_without_a_common_node_are_refused() {
        let limit = Nanos::from_millis(100);
        let refused = |other: Machine| {
            machine(&["a"], 0)
                .add("second", other, limit)
                .unwrap_err()
                .to_string()
        };
        let far = refused(machine(&["a"], 400));
        assert!(
            far.contains("400.0 ms ahead") && far.contains("--max-clock-offset"),
            "{far}"
        );
        let mut unsure = machine(&["a"], 0);
        for sight in unsure.sights.iter_mut().step_by(2) {
            sight.seen_ns += 500_000_000;
        }
        let unsure = refused(unsure);
        assert!(unsure.contains("± 250.0 ms"), "{unsure}");
        let apart = refused(machine(&["b"], 0));
        assert!(
            apart.contains("observe one node, under one name, from each"),
            "{apart}"
        );
    }
}
