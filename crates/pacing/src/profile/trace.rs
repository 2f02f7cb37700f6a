//! A recorded rate: each row's rate holds until the next row. A constant rate is a trace of one row.

use super::shape::{ENDLESS, ProfileError, check_duration, check_steps};
use super::stairs::Stairs;
use crate::ValueError;
use crate::decimal::Decimal;
use crate::nanos::Nanos;
use crate::rate::Rate;

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

/// How much of a bad line a message repeats.
const SHOWN_CHARS: usize = 40;

pub(super) fn parse(text: &str) -> Result<Trace, ProfileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut points = Vec::new();
    let mut header_allowed = true;
    for (index, line) in text.lines().enumerate() {
        let row = line.trim();
        if row.is_empty() || row.starts_with('#') {
            continue;
        }
        if std::mem::take(&mut header_allowed) && is_header(row) {
            continue;
        }
        let number = index + 1;
        let (at, rate) = parse_row(row).map_err(|reason| {
            let text = shortened(row);
            ProfileError::new(format!(
                "line {number}: `{text}` is not a row of second,rate: {reason}"
            ))
        })?;
        points.push(Point { at, rate, number });
    }
    Trace::new(points, "line", None)
}

/// A first line that begins with a letter names the columns.
fn is_header(row: &str) -> bool {
    row.trim_start_matches('"')
        .starts_with(|c: char| c.is_alphabetic())
        && row.contains(',')
}

fn parse_row(row: &str) -> Result<(Nanos, Rate), String> {
    let Some((second, rate)) = row.split_once(',') else {
        return Err("there is no comma".to_owned());
    };
    if rate.contains(',') {
        return Err("there are more than two columns".to_owned());
    }
    let second = second.trim();
    let nanos = Decimal::parse(second)
        .map_err(|error| format!("`{second}` is not a number of seconds: {error}"))?
        .scaled(1_000_000_000, 1);
    let at = u64::try_from(nanos).map_err(|_| format!("second {second} is too far away"))?;
    let rate = rate
        .parse()
        .map_err(|error: ValueError| error.to_string())?;
    Ok((Nanos::new(at), rate))
}

fn shortened(row: &str) -> String {
    match row.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &row[..end]),
        None => row.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_line() {
        assert!(
            refused("second,rate\n0,10\n\n# note\n1;20\n")
                .starts_with("line 5: `1;20` is not a row")
        );
        assert!(refused("0,10\n1,-3\n").contains("line 2: `1,-3`"));
        assert!(refused("0,10\n1,NaN").contains("line 2"));
        assert!(refused("0,10\n1,2,3").contains("more than two columns"));
        assert!(refused("0,10\n1,99M").contains("too high"));
        assert!(refused("0,10\nx,5").contains("`x` is not a number of seconds"));
        assert!(refused("0,10\n2,5\n2,6").starts_with("line 3: time 2s is not after 2s"));
        assert!(refused("5,10").starts_with("line 1: the first row is at 5s"));
        assert!(refused("").contains("the trace is empty"));
        assert!(refused("second,rate\r\n").contains("the trace is empty"));
        assert!(refused("0,0\n1,0").contains("every rate of the trace is 0/s"));
        assert!(refused("0,1\n99999999999999,1").contains("too far away"));
        assert!(refused("0,1\n40000000,1").contains("the trace is too long"));
        assert!(refused(&format!("0,{}", "é".repeat(90))).contains('…'));
    }
}
