//! A recorded rate: each row's rate holds until the next row.

use std::fmt;

use super::error::{Place, ProfileError};
use super::{
    check::{check_duration, check_steps},
    limits::MAX_DURATION_NANOS,
    stairs::Stairs,
};
use crate::{nanos::Nanos, rate::Rate};

/// A row of a trace, and where it stands for messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) at: Nanos,
    pub(super) rate: Rate,
    pub(super) place: Place,
}

#[derive(Debug)]
pub(super) struct Trace {
    rows: Vec<Row>,
    end: u64,
    area: u128,
    peak: u64,
}

#[derive(Debug)]
struct Row {
    start: u64,
    rate: u64,
    area_before: u128,
}

impl Trace {
    pub(super) fn new(
        points: impl IntoIterator<Item = Point>,
        end: Option<Nanos>,
    ) -> Result<Self, ProfileError> {
        let mut rows: Vec<Row> = Vec::new();
        let mut area = 0;
        let mut peak = 0;
        for point in points {
            let start = checked_start(rows.last(), point)?;
            if let Some(before) = rows.last() {
                area += u128::from(before.rate) * u128::from(start - before.start);
            }
            check_steps(rows.len() as u128 + 1)?;
            let rate = point.rate.as_micros();
            rows.push(Row {
                start,
                rate,
                area_before: area,
            });
            peak = peak.max(rate);
        }
        let Some(last) = rows.last() else {
            return Err(ProfileError::Empty {
                what: "trace",
                element: "row of second,rate",
            });
        };
        let end = end_after(&rows, last, end)?;
        area += u128::from(last.rate) * u128::from(end - last.start);
        if area == 0 {
            return Err(ProfileError::NothingOffered {
                what: "every rate of the trace",
            });
        }
        Ok(Self {
            rows,
            end,
            area,
            peak,
        })
    }
}

fn checked_start(before: Option<&Row>, point: Point) -> Result<u64, ProfileError> {
    let Point { at, place, .. } = point;
    if at.as_nanos() > MAX_DURATION_NANOS {
        return Err(ProfileError::TooLong { what: "the trace" });
    }
    match before {
        None if !at.is_zero() => Err(ProfileError::TraceStart { place, at }),
        Some(before) if before.start >= at.as_nanos() => {
            let before = Nanos::new(before.start);
            Err(ProfileError::TraceOrder { place, at, before })
        }
        _ => Ok(at.as_nanos()),
    }
}

/// The given end, or one more interval as long as the last, or one second after a lone row.
fn end_after(rows: &[Row], last: &Row, end: Option<Nanos>) -> Result<u64, ProfileError> {
    let end = end.unwrap_or_else(|| match rows {
        [.., before, last] => Nanos::new(last.start + (last.start - before.start)),
        _ => Nanos::from_secs(1),
    });
    if end.as_nanos() <= last.start {
        return Err(ProfileError::TraceEnd {
            end,
            last: Nanos::new(last.start),
        });
    }
    check_duration("the trace", end)?;
    Ok(end.as_nanos())
}

impl Stairs for Trace {
    fn name(&self) -> &'static str {
        "trace"
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, peak) = (self.rows.len(), Rate::clamped(self.peak));
        write!(
            f,
            "trace of {rows} rows for {}, up to {peak}",
            Nanos::new(self.end)
        )
    }

    fn count(&self) -> u32 {
        // At most MAX_STEPS rows were taken.
        self.rows.len() as u32
    }

    fn start(&self, k: u32) -> u64 {
        self.rows.get(k as usize).map_or(self.end, |row| row.start)
    }

    fn rate(&self, k: u32) -> u64 {
        self.rows.get(k as usize).map_or(0, |row| row.rate)
    }

    fn area_before(&self, k: u32) -> u128 {
        self.rows
            .get(k as usize)
            .map_or(self.area, |row| row.area_before)
    }

    fn peak(&self) -> u64 {
        self.peak
    }
}
