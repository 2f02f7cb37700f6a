//! The steps of the whole.

use std::collections::BTreeMap;
use std::io::BufRead;

use pacing::Nanos;

use super::part::{MergePart, PartError};
use crate::format::counts::{AddUp as _, Counts, raise};
use crate::format::latency::LatencySet;
use crate::format::rows::{BlockRow, LatencyColumns, StepRow};
use crate::record::recorder::growth;
use crate::stats::block_span::{BlockSpan, observed};

/// The steps of all parts, and the latencies of the one under way.
pub(super) struct Steps {
    pub(super) rows: Vec<StepRow>,
    position: usize,
    latencies: LatencySet,
    /// Whether rows are of several parts: then their quantiles, rates and silences are worked out anew.
    pub(super) of_several: bool,
    /// Whether silences are those of all parts together; the rows of earlier versions have each part's own.
    joins_gaps: bool,
}

impl Steps {
    pub(super) fn new<R: BufRead>(
        parts: &mut [MergePart<R>],
        blocks: &[BlockRow],
    ) -> Result<Self, PartError> {
        let mut rows: BTreeMap<u32, StepRow> = BTreeMap::new();
        for (position, part) in parts.iter_mut().enumerate() {
            for row in &mut part.steps {
                let row = row.map_err(|error| (position, error))?;
                match rows.get_mut(&row.step) {
                    Some(step) => {
                        // A step that was not awaited in one part was not awaited in the whole.
                        let awaited = step.awaited_s.zip(row.awaited_s);
                        step.awaited_s = awaited.map(|(one, other)| one.max(other));
                        step.add_up(&row);
                        add_names(&mut step.latency.at_least, &row.latency.at_least);
                        raise(
                            &mut step.latency.lateness_max_ms,
                            &row.latency.lateness_max_ms,
                        );
                    }
                    None => {
                        rows.insert(row.step, row);
                    }
                }
            }
        }
        let of_several = parts.len() > 1;
        let mut total = Counts::default();
        let rows = rows.into_values().map(|row| {
            if of_several {
                of_whole(row, &mut total, blocks)
            } else {
                row
            }
        });
        Ok(Self {
            rows: rows.collect(),
            position: 0,
            latencies: LatencySet::new(),
            of_several,
            joins_gaps: false,
        })
    }

    /// Forgets the silences of each part: those of the whole follow.
    pub(super) fn join_gaps(&mut self) {
        self.joins_gaps = true;
        for row in &mut self.rows {
            (row.answer_gap_s, row.block_gap_s) = (0.0, 0.0);
        }
    }

    /// The step at an instant or the next one after it.
    fn at(&mut self, at: Nanos) -> Option<&mut StepRow> {
        let mut rows = self.rows[self.position..].iter_mut();
        rows.find(|row| nanos(row.end_s) > at)
    }

    /// The first edge of a step after an instant.
    pub(super) fn edge_after(&mut self, at: Nanos) -> Nanos {
        let Some(row) = self.at(at) else {
            return Nanos::MAX;
        };
        let edges = [nanos(row.start_s), nanos(row.end_s)];
        let next = edges.into_iter().find(|edge| *edge > at);
        next.unwrap_or(Nanos::MAX)
    }

    /// Takes how long no answer and no block came, of a stretch that begins here and passes no edge.
    pub(super) fn add_gaps(&mut self, from: Nanos, answers: Nanos, blocks: Nanos) {
        if !self.joins_gaps {
            return;
        }
        if let Some(row) = self.at(from).filter(|row| nanos(row.start_s) <= from) {
            raise(&mut row.answer_gap_s, &answers.as_secs_f64());
            raise(&mut row.block_gap_s, &blocks.as_secs_f64());
        }
    }

    /// Takes the latencies of the second that begins at `start_s`.
    pub(super) fn add(&mut self, start_s: f64, latencies: &LatencySet) {
        while let Some(row) = self.rows.get(self.position)
            && row.end_s <= start_s
        {
            self.close();
        }
        if self
            .rows
            .get(self.position)
            .is_some_and(|row| row.start_s <= start_s)
        {
            self.latencies.merge(latencies);
        }
    }

    pub(super) fn finish(mut self) -> Vec<StepRow> {
        while self.position < self.rows.len() {
            self.close();
        }
        self.rows
    }

    /// Gives the step under way its quantiles, if its edges are edges of seconds.
    fn close(&mut self) {
        self.position += 1;
        if !self.of_several {
            return;
        }
        let row = &mut self.rows[self.position - 1];
        let is_whole = row.start_s.fract() == 0.0 && row.end_s.fract() == 0.0;
        row.latency = LatencyColumns {
            lateness_max_ms: row.latency.lateness_max_ms,
            at_least: std::mem::take(&mut row.latency.at_least),
            ..if is_whole {
                LatencyColumns::of(&self.latencies)
            } else {
                LatencyColumns::default()
            }
        };
        self.latencies.clear();
    }
}

/// The nearest instant.
pub(super) fn nanos(seconds: f64) -> Nanos {
    Nanos::from_nanos((seconds * 1e9).round() as u64)
}

/// Rates follow from counts, and what waits from those of all steps so far; blocks are counted once.
fn of_whole(mut row: StepRow, total: &mut Counts, blocks: &[BlockRow]) -> StepRow {
    let (in_flight, backlog) = (total.in_flight(), total.backlog());
    total.add_up(&row.counts);
    (row.in_flight, row.backlog) = (total.in_flight(), total.backlog());
    row.in_flight_growth = growth(row.in_flight, in_flight);
    row.backlog_growth = growth(row.backlog, backlog);
    let observed = || observed(blocks, row.start_s, row.end_s);
    row.counts.blocks = observed().count() as u64;
    let committed_tps = BlockSpan::of(observed()).rate();
    row.with_rates(committed_tps)
}

/// Where something waited in one part, it waited in the whole.
pub(super) fn add_names(names: &mut String, more: &str) {
    for name in more.split_terminator(' ') {
        if !names.split(' ').any(|known| known == name) {
            names.push_str(if names.is_empty() { "" } else { " " });
            names.push_str(name);
        }
    }
}
