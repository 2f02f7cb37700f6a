//! What all workers print, added up second by second.

use std::collections::BTreeMap;

use measure::{Counters, LatencyColumns, LiveView, SeriesRow};
use pacing::Nanos;
use serde_json::Value;

use crate::live::{Display, Update};

/// The sum over all workers.
pub(super) struct Live {
    /// The last view of each worker.
    views: Vec<LiveView>,
    /// Those whose programs go on.
    at_work: Vec<bool>,
    /// Seconds that are not shown yet, with how many workers are in them.
    open: BTreeMap<u64, (SeriesRow, usize)>,
    /// The second to be shown next.
    next: u64,
    duration: Option<Nanos>,
}

impl Live {
    pub(super) fn new(workers: usize, duration: Option<Nanos>) -> Self {
        Self {
            views: vec![LiveView::default(); workers],
            at_work: vec![true; workers],
            open: BTreeMap::new(),
            next: 0,
            duration,
        }
    }

    /// A worker's program has ended.
    pub(super) fn ended(&mut self, place: usize) {
        self.at_work[place] = false;
    }

    /// Takes in a line, and shows the seconds that are complete by it.
    /// What ended the worker's part early, if anything did.
    pub(super) fn line(
        &mut self,
        place: usize,
        line: Value,
        display: &mut Display,
    ) -> Option<String> {
        let view = serde_json::from_value::<LiveView>(line).ok()?;
        let stopped = view.stopped.clone();
        self.take(place, view, display);
        stopped
    }

    fn take(&mut self, place: usize, view: LiveView, display: &mut Display) {
        let before = self.views[place].second.as_ref().map(|row| row.second);
        if let Some(row) = view
            .second
            .clone()
            .filter(|row| before.is_none_or(|before| row.second > before))
        {
            self.second(row);
        }
        self.views[place] = view;
        let new_seconds = self.complete();
        let Some(last) = new_seconds.last() else {
            return;
        };
        let now = Nanos::from_nanos((last.second + 1) * 1_000_000_000);
        let mut counters = Counters::default();
        for view in &self.views {
            counters.add(&Counters {
                totals: view.totals,
                ..Counters::default()
            });
        }
        let update = Update {
            live: LiveView {
                second: Some(last.clone()),
                totals: counters.totals,
                pending: self.views.iter().map(|view| view.pending).sum(),
                stopped: None,
            },
            counters,
            new_steps: Vec::new(),
            onsets: Vec::new(),
            draining: self.duration.is_some_and(|duration| now >= duration),
            new_seconds,
        };
        display.update(now, update);
    }

    fn second(&mut self, row: SeriesRow) {
        if row.second < self.next {
            return;
        }
        match self.open.get_mut(&row.second) {
            Some((sum, workers)) => {
                let latency = worst(&sum.latency, &row.latency);
                sum.join(&row);
                sum.latency = latency;
                *workers += 1;
            }
            None => {
                self.open.insert(row.second, (row, 1));
            }
        }
    }

    /// The seconds that every worker has told, or that nobody waits for any longer.
    fn complete(&mut self) -> Vec<SeriesRow> {
        let at_work = self.at_work.iter().filter(|it| **it).count();
        let newest = self.open.last_key_value().map_or(0, |(second, _)| *second);
        let mut complete = Vec::new();
        while let Some(first) = self.open.first_entry() {
            if first.get().1 < at_work && newest < first.key() + WAITED_SECONDS {
                break;
            }
            let (second, (row, _)) = first.remove_entry();
            self.next = second + 1;
            complete.push(row);
        }
        complete
    }
}

/// Of each p99 of two workers, the larger: quantiles do not add up.
fn worst(one: &LatencyColumns, other: &LatencyColumns) -> LatencyColumns {
    let larger = |of: fn(&LatencyColumns) -> Option<f64>| {
        [of(one), of(other)].into_iter().flatten().reduce(f64::max)
    };
    LatencyColumns {
        accept_p99_ms: larger(|it| it.accept_p99_ms),
        commit_p99_ms: larger(|it| it.commit_p99_ms),
        lateness_p99_ms: larger(|it| it.lateness_p99_ms),
        ..LatencyColumns::default()
    }
}

/// A worker that is this far behind is not waited for.
const WAITED_SECONDS: u64 = 3;
