//! Numbers with their units.

use std::fmt::Display;
use std::marker::PhantomData;
use std::time::Duration;

use pacing::Nanos;

use super::{Given, Kind, plain, quoted};

/// A number of things.
pub(in crate::config) struct Count<T = usize>(PhantomData<T>);

impl<T: TryFrom<usize> + Display> Kind for Count<T> {
    type Value = T;

    fn read(given: &Given) -> Result<T, String> {
        let text = given.text()?;
        let count: usize = text
            .replace('_', "")
            .parse()
            .map_err(|_| format!("{text:?} is not a whole number; write for instance 100"))?;
        T::try_from(count).map_err(|_| format!("{count} is too large"))
    }

    fn toml(count: &T) -> String {
        count.to_string()
    }
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
        plain::<Nanos>(given.text()?).map(Duration::from)
    }

    fn toml(span: &Duration) -> String {
        quoted(&Nanos::from(*span).to_string())
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
