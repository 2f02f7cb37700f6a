//! Numbers with their units.

use std::time::Duration;

use pacing::{Nanos, Rate};

use super::{Given, Kind, quoted};

/// A number of things.
pub(in crate::config) struct Count;

impl Kind for Count {
    type Value = usize;

    fn read(given: &Given) -> Result<usize, String> {
        whole(given.text()?)
    }

    fn toml(count: &usize) -> String {
        count.to_string()
    }
}

/// A number of things that fits 32 bits.
pub(in crate::config) struct SmallCount;

impl Kind for SmallCount {
    type Value = u32;

    fn read(given: &Given) -> Result<u32, String> {
        let count = whole(given.text()?)?;
        u32::try_from(count).map_err(|_| format!("{count} is more than {}", u32::MAX))
    }

    fn toml(count: &u32) -> String {
        count.to_string()
    }
}

fn whole(text: &str) -> Result<usize, String> {
    text.replace('_', "")
        .parse()
        .map_err(|_| format!("{text:?} is not a whole number; write for instance 100"))
}

/// A number of bytes.
pub(in crate::config) struct Size;

impl Kind for Size {
    type Value = usize;

    fn read(given: &Given) -> Result<usize, String> {
        let text = given.text()?;
        let digits = text
            .find(|c: char| !c.is_ascii_digit() && c != '_')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let refuse = || format!("{text:?} is not a size; write for instance 64MiB or 1000000");
        let (_, bytes) = UNITS
            .iter()
            .find(|(name, _)| *name == unit.trim())
            .ok_or_else(refuse)?;
        number
            .replace('_', "")
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_mul(*bytes))
            .ok_or_else(refuse)
    }

    fn toml(bytes: &usize) -> String {
        let binary = UNITS.iter().rev().find(|(name, unit)| {
            name.ends_with("iB") && *bytes >= *unit && bytes.is_multiple_of(*unit)
        });
        match binary {
            Some((name, unit)) => quoted(&format!("{}{name}", bytes / unit)),
            None => bytes.to_string(),
        }
    }
}

const UNITS: [(&str, usize); 8] = [
    ("", 1),
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// A span of time.
pub(in crate::config) struct Span;

impl Kind for Span {
    type Value = Duration;

    fn read(given: &Given) -> Result<Duration, String> {
        let text = given.text()?;
        let nanos: Nanos = text
            .parse()
            .map_err(|error: pacing::ValueError| error.to_string())?;
        Ok(nanos.into())
    }

    fn toml(span: &Duration) -> String {
        quoted(&Nanos::from(*span).to_string())
    }
}

/// A rate.
pub(in crate::config) struct PerSecond;

impl Kind for PerSecond {
    type Value = Rate;

    fn read(given: &Given) -> Result<Rate, String> {
        given
            .text()?
            .parse()
            .map_err(|error: pacing::ValueError| error.to_string())
    }

    fn toml(rate: &Rate) -> String {
        quoted(&rate.to_string())
    }
}

/// A share of something.
pub(in crate::config) struct Share;

impl Kind for Share {
    type Value = f64;

    fn read(given: &Given) -> Result<f64, String> {
        let text = given.text()?;
        let refuse = || format!("{text:?} is not a share; write for instance 0.85 or 85%");
        let share = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map_err(|_| refuse())? / 100.0,
            None => text.parse().map_err(|_| refuse())?,
        };
        if share.is_finite() {
            Ok(share)
        } else {
            Err(refuse())
        }
    }

    fn toml(share: &f64) -> String {
        // With a point also when it is whole, so that it stays a float for other readers of TOML.
        format!("{share:?}")
    }
}
