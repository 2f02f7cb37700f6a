//! Reads a trace from CSV text: `second,rate`, one row a line.

use super::error::ProfileError;
use super::trace::{Point, Trace};
use crate::{ValueError, decimal::Decimal, nanos::Nanos, rate::Rate};

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
