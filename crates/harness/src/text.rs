//! Serde from, and to, the same texts that the flags take.
//!
//! `#[serde(with = "text")]` on an optional value does both.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

/// Writes an optional value as its flag's text.
///
/// # Errors
/// The serializer's.
pub fn serialize<S, T>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error>
where
    S: Serializer,
    T: Display,
{
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

/// Reads an optional value from its flag's text, or from `null`.
///
/// # Errors
/// When the text is none of its kind.
pub fn deserialize<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: Display,
{
    let text = Option::<Text>::deserialize(deserializer)?;
    text.map(|text| text.into_string().parse().map_err(D::Error::custom))
        .transpose()
}

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
