//! Serde from the same texts that the flags take.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// An optional value written as its flag's text; plain numbers are taken as their text.
///
/// # Errors
/// When the text is no such value.
pub fn option<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: Display,
{
    value(deserializer).map(Some)
}

/// A value written as its flag's text; plain numbers are taken as their text.
///
/// # Errors
/// When the text is no such value.
pub fn value<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: Display,
{
    Text::deserialize(deserializer)?
        .into_string()
        .parse()
        .map_err(D::Error::custom)
}

/// A list of values written as their flags' texts.
///
/// # Errors
/// When one of the texts is no such value.
pub fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: Display,
{
    Vec::<Text>::deserialize(deserializer)?
        .into_iter()
        .map(|text| text.into_string().parse().map_err(D::Error::custom))
        .collect()
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text such as \"30s\", or a number")]
enum Text {
    String(String),
    Integer(i64),
    Float(f64),
}

impl Text {
    fn into_string(self) -> String {
        match self {
            Self::String(text) => text,
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
        }
    }
}
