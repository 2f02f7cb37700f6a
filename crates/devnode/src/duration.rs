//! Spans of time in configuration: `"1s"`, `"100ms"`, `"1.5s"`, `"2m"`, `"0"`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de};

const UNITS: [(&str, f64); 6] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
];

/// Reads a span with its unit; `0` needs none.
///
/// # Errors
/// A sentence that says what a span looks like.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let hint = || {
        format!(
            "{text:?} is not a span of time: write a number with ns, us, ms, s, m or h, as in \"1.5s\""
        )
    };
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .ok_or_else(hint)?;
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| hint())?;
    let (_, scale) = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(hint)?;
    Duration::try_from_secs_f64(number * scale).map_err(|_| hint())
}

/// The shortest text that [`parse`] reads back.
pub(crate) fn text(span: Duration) -> String {
    let nanos = span.as_nanos();
    match nanos {
        0 => "0s".to_owned(),
        _ if nanos.is_multiple_of(1_000_000_000) => format!("{}s", nanos / 1_000_000_000),
        _ if nanos.is_multiple_of(1_000_000) => format!("{}ms", nanos / 1_000_000),
        _ if nanos.is_multiple_of(1_000) => format!("{}us", nanos / 1_000),
        _ => format!("{nanos}ns"),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(from)?).map_err(de::Error::custom)
}

pub(crate) fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&text(*span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_written() {
        for (written, nanos) in [
            ("1s", 1_000_000_000),
            ("100ms", 100_000_000),
            ("250us", 250_000),
            ("7ns", 7),
        ] {
            let span = parse(written).unwrap();
            assert_eq!(span, Duration::from_nanos(nanos));
            assert_eq!(text(span), written);
        }
        assert_eq!(parse("1.5s").unwrap(), Duration::from_millis(1500));
        assert_eq!(parse("2m").unwrap(), Duration::from_secs(120));
        assert_eq!(parse("0").unwrap(), Duration::ZERO);
    }

    #[test]
    fn other_texts_are_refused_with_an_example() {
        for bad in ["", "1", "s", "-1s", "1x", "1 s", "1e400s", "1..2s"] {
            assert!(parse(bad).unwrap_err().contains("1.5s"), "{bad}");
        }
    }
}
