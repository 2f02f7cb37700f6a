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
    /// Those that are heard, and whose programs go on.
    at_work: Vec<bool>,
    /// Seconds that are not shown yet, of those that told them.
    open: BTreeMap<u64, SeriesRow>,
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

    /// Whether a worker is heard and its program goes on: seconds wait for it.
    pub(super) fn set_at_work(&mut self, place: usize, is_at_work: bool, display: &mut Display) {
        self.at_work[place] = is_at_work;
        self.show(display);
    }

    /// Takes in a line, and shows the seconds that are complete by it; gives what ended the worker's part early, if
    /// anything did.
    pub(super) fn line(
        &mut self,
        place: usize,
        line: Value,
        display: &mut Display,
    ) -> Option<String> {
        let view = serde_json::from_value::<LiveView>(line).ok()?;
        let before = self.views[place].second.as_ref().map(|row| row.second);
        let row = view.second.clone();
        if let Some(row) = row.filter(|row| before.is_none_or(|before| row.second > before)) {
            self.second(row);
        }
        let stopped = view.stopped.clone();
        self.views[place] = view;
        self.show(display);
        stopped
    }

    /// Shows the seconds that are complete by now.
    fn show(&mut self, display: &mut Display) {
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
            Some(sum) => {
                let latency = worst(&sum.latency, &row.latency);
                sum.join(&row);
                sum.latency = latency;
            }
            None => {
                self.open.insert(row.second, row);
            }
        }
    }

    /// The seconds that every worker at work has told, or that nobody waits for any longer.
    fn complete(&mut self) -> Vec<SeriesRow> {
        let told = |view: &LiveView| view.second.as_ref().map_or(0, |row| row.second + 1);
        let newest = self.views.iter().map(told).max().unwrap_or(0);
        let at_work = self.views.iter().zip(&self.at_work);
        let by_all = at_work.filter(|(_, it)| **it).map(|(view, _)| told(view));
        let by_all = by_all.min().unwrap_or(newest);
        self.next = by_all
            .max(newest.saturating_sub(WAITED_SECONDS))
            .max(self.next);
        let later = self.open.split_off(&self.next);
        std::mem::replace(&mut self.open, later)
            .into_values()
            .collect()
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
