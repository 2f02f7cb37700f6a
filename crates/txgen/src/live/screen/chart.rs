//! Series of seconds as points of a chart.

use measure::{Counts, SeriesRow};
use pacing::{Nanos, Profile};

/// A stretch of the time line, in seconds since the origin, and how many points fit on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Window {
    pub(super) from: f64,
    pub(super) to: f64,
    points: usize,
}

impl Window {
    /// The last `length` seconds before `now` on a chart of `columns` characters, with a little room
    /// for what is planned next.
    pub(super) fn new(now: f64, length: f64, columns: u16) -> Self {
        let to = (now + length * AHEAD_SHARE).max(length);
        Self {
            from: to - length,
            to,
            // A character of braille is two points wide.
            points: usize::from(columns).max(1) * 2,
        }
    }

    /// The mean of `value` over as many rows as share a point; rows without a value are left out.
    pub(super) fn means<'a>(
        self,
        rows: impl IntoIterator<Item = &'a SeriesRow>,
        value: impl Fn(&SeriesRow) -> Option<f64>,
    ) -> Vec<(f64, f64)> {
        let width = self.width();
        let mut points: Vec<(f64, f64)> = Vec::new();
        let (mut slot, mut sum, mut count) = (u64::MAX, 0.0, 0_u32);
        let mut close = |slot: u64, sum: f64, count: u32| {
            if count > 0 {
                points.push(((slot as f64 + 0.5) * width, sum / f64::from(count)));
            }
        };
        for row in rows.into_iter().filter(|row| self.shows(row)) {
            let at = (row.second as f64 / width) as u64;
            if at != slot {
                close(slot, sum, count);
                (slot, sum, count) = (at, 0.0, 0);
            }
            if let Some(value) = value(row) {
                sum += value;
                count += 1;
            }
        }
        close(slot, sum, count);
        points
    }

    /// The planned rate along the window.
    pub(super) fn plan(self, profile: &Profile) -> Vec<(f64, f64)> {
        let width = self.width();
        let end = profile
            .duration()
            .map_or(self.to, |end| end.as_secs_f64().min(self.to));
        let first = (self.from / width) as u64;
        let due = |t: f64| profile.integral(nanos(t)).as_f64();
        let mut points = Vec::new();
        let mut slot = first;
        while (slot as f64) * width < end {
            let (from, to) = (slot as f64 * width, ((slot + 1) as f64 * width).min(end));
            if to > from {
                points.push((f64::midpoint(from, to), (due(to) - due(from)) / (to - from)));
            }
            slot += 1;
        }
        points
    }

    /// Seconds that share a point: whole ones, so that no point lies between two rows.
    fn width(self) -> f64 {
        ((self.to - self.from) / self.points as f64).ceil().max(1.0)
    }

    fn shows(self, row: &SeriesRow) -> bool {
        let middle = row.second as f64 + row.span_s / 2.0;
        (self.from..self.to).contains(&middle)
    }
}

/// Each value averaged with those of the four seconds before it: a chain commits in blocks.
pub(super) fn smoothed<'a>(
    rows: impl Iterator<Item = &'a SeriesRow>,
    value: impl Fn(&SeriesRow) -> u64,
) -> Vec<SeriesRow> {
    let rows: Vec<&SeriesRow> = rows.collect();
    rows.iter()
        .enumerate()
        .map(|(place, row)| {
            let near = &rows[place.saturating_sub(SMOOTHED_S - 1)..=place];
            let (count, span_s) = near.iter().fold((0, 0.0), |(count, span_s), row| {
                (count + value(row), span_s + row.span_s)
            });
            SeriesRow {
                second: row.second,
                span_s: row.span_s,
                counts: Counts {
                    committed: (count as f64 * row.span_s / span_s.max(f64::MIN_POSITIVE)).round()
                        as u64,
                    ..Counts::default()
                },
                ..SeriesRow::default()
            }
        })
        .collect()
}

fn nanos(seconds: f64) -> Nanos {
    Nanos::from_nanos((seconds.max(0.0) * 1e9) as u64)
}

/// This share of a chart lies ahead of now.
const AHEAD_SHARE: f64 = 0.1;
pub(super) const SMOOTHED_S: usize = 5;
