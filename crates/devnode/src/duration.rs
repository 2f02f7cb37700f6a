//! Durations in the configuration, read as [`pacing::Nanos`] reads them; `0` needs no unit.

use std::time::Duration;

use pacing::Nanos;
use serde::{Deserialize, Deserializer, de};

/// Reads one.
///
/// # Errors
/// When it is no duration.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let nanos: Nanos = text.parse().map_err(de::Error::custom)?;
    Ok(nanos.as_duration())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Setting(#[serde(with = "super")] Duration);

    fn read(text: &str) -> Result<Setting, serde_json::Error> {
        serde_json::from_value(serde_json::Value::from(text))
    }

    #[test]
    fn durations_are_read() {
        for (text, nanos) in [
            ("1s", 1_000_000_000),
            ("100ms", 100_000_000),
            ("250us", 250_000),
            ("7ns", 7),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("2.s", 2_000_000_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("0", 0),
        ] {
            let setting = read(text).unwrap();
            assert_eq!(setting, Setting(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_an_example() {
        for bad in ["", "1", "s", "-1s", "1x", "1e400s", "1..2s"] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.contains("1.5s"), "{bad}: {error}");
        }
    }
}
