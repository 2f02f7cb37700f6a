//! A recorded rate: each row's rate holds until the next row. A constant rate is a trace of one row.

use super::{
    error::{ProfileError, check_duration, check_steps},
    shape::ENDLESS,
    stairs::Stairs,
};
use crate::{nanos::Nanos, rate::Rate};

/// A row of a trace, and its number for messages, from 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) at: Nanos,
    pub(super) rate: Rate,
    pub(super) number: usize,
}

#[derive(Debug)]
pub(super) struct Trace {
    rows: Vec<Row>,
    pub(super) end: u64,
    endless: bool,
    area: u128,
}

#[derive(Debug)]
struct Row {
    start: u64,
    rate: u64,
    area_before: u128,
}

impl Trace {
    /// One rate for `duration`, or until stopped.
    pub(super) fn constant(rate: Rate, duration: Option<Nanos>) -> Self {
        let end = duration.map_or(ENDLESS, Nanos::as_nanos);
        let rate = rate.as_micros();
        Self {
            rows: vec![Row {
                start: 0,
                rate,
                area_before: 0,
            }],
            end,
            endless: duration.is_none(),
            area: u128::from(rate) * u128::from(end),
        }
    }

    /// `unit` is what a point's number counts, "line" or "point".
    pub(super) fn new(
        points: impl IntoIterator<Item = Point>,
        unit: &str,
        end: Option<Nanos>,
    ) -> Result<Self, ProfileError> {
        let mut rows: Vec<Row> = Vec::new();
        let mut area = 0;
        for point in points {
            let start = checked_start(rows.last(), point, unit)?;
            if let Some(before) = rows.last() {
                area += u128::from(before.rate) * u128::from(start - before.start);
            }
            check_steps(rows.len() as u128 + 1)?;
            rows.push(Row {
                start,
                rate: point.rate.as_micros(),
                area_before: area,
            });
        }
        let Some(last) = rows.last() else {
            return Err(ProfileError::new(
                "the trace is empty: give at least one row of second,rate".to_owned(),
            ));
        };
        let end = end_after(&rows, last, end)?;
        area += u128::from(last.rate) * u128::from(end - last.start);
        if area == 0 {
            return Err(ProfileError::nothing_offered("every rate of the trace"));
        }
        Ok(Self {
            rows,
            end,
            endless: false,
            area,
        })
    }

    pub(super) fn peak(&self) -> Rate {
        let peak = self.rows.iter().map(|row| row.rate).max();
        Rate::clamped(peak.unwrap_or(0))
    }
}

fn checked_start(before: Option<&Row>, point: Point, unit: &str) -> Result<u64, ProfileError> {
    let Point { at, number, .. } = point;
    if !at.is_zero() {
        check_duration("the trace", at)?;
    }
    let problem = match before {
        None if !at.is_zero() => format!("the first row is at {at}: a trace begins at second 0"),
        Some(before) if before.start >= at.as_nanos() => format!(
            "time {at} is not after {} of the row before: times must increase",
            Nanos::new(before.start)
        ),
        _ => return Ok(at.as_nanos()),
    };
    Err(ProfileError::new(format!("{unit} {number}: {problem}")))
}

/// The given end, or one more interval as long as the last, or one second after a lone row.
fn end_after(rows: &[Row], last: &Row, end: Option<Nanos>) -> Result<u64, ProfileError> {
    let end = end.unwrap_or_else(|| match rows {
        [.., before, last] => Nanos::new(last.start + (last.start - before.start)),
        _ => Nanos::from_secs(1),
    });
    if end.as_nanos() <= last.start {
        return Err(ProfileError::new(format!(
            "the end {end} of the trace is not after its last point at {}",
            Nanos::new(last.start)
        )));
    }
    check_duration("the trace", end)?;
    Ok(end.as_nanos())
}

impl Stairs for Trace {
    fn endless(&self) -> bool {
        self.endless
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
}
