//! Serde from, and to, the same texts that the flags take.
//!
//! `#[serde(with = "text")]` is for an optional value, `text::value` for one that is always there, `text::list` for
//! several. Plain numbers are read as their text.

use std::fmt::Display;
use std::str::FromStr;

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
    T: FromStr<Err: Display>,
{
    let text = Option::<Text>::deserialize(deserializer)?;
    text.map(Text::parse).transpose()
}

/// A value that is always there.
pub mod value {
    use super::{Deserialize, Deserializer, Display, FromStr, Serializer, Text};

    /// Writes the value as its flag's text.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(
        value: &impl Display,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    /// Reads the value from its flag's text.
    ///
    /// # Errors
    /// When the text is none of its kind.
    pub fn deserialize<'de, D, T>(deserializer: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        T: FromStr<Err: Display>,
    {
        Text::deserialize(deserializer)?.parse()
    }
}

/// Several values.
pub mod list {
    use super::{Deserialize, Deserializer, Display, FromStr, Serializer, Text};

    /// Writes the values as their flags' texts.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(
        values: &[impl Display],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(ToString::to_string))
    }

    /// Reads the values from their flags' texts.
    ///
    /// # Errors
    /// When one of the texts is none of its kind.
    pub fn deserialize<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: FromStr<Err: Display>,
    {
        let texts = Vec::<Text>::deserialize(deserializer)?;
        texts.into_iter().map(Text::parse).collect()
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text such as \"30s\", or a number")]
enum Text {
    String(String),
    Integer(i64),
    Float(f64),
}

impl Text {
    fn parse<T: FromStr<Err: Display>, E: serde::de::Error>(self) -> Result<T, E> {
        let text = match self {
            Self::String(text) => text,
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
        };
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU8;

    use serde::Serialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Settings {
        #[serde(with = "super")]
        perhaps: Option<u32>,
        #[serde(with = "super::value")]
        always: NonZeroU8,
        #[serde(with = "super::list")]
        several: Vec<f64>,
    }

    #[test]
    fn values_are_read_from_texts_and_numbers_and_written_as_texts() {
        let text = r#"{"perhaps": 7, "always": "9", "several": ["1", 2, 0.5]}"#;
        let read: Settings = serde_json::from_str(text).unwrap();
        let expected = Settings {
            perhaps: Some(7),
            always: NonZeroU8::new(9).unwrap(),
            several: vec![1.0, 2.0, 0.5],
        };
        assert_eq!(read, expected);
        let written = serde_json::to_string(&read).unwrap();
        assert_eq!(
            written,
            r#"{"perhaps":"7","always":"9","several":["1","2","0.5"]}"#
        );
        let nothing = text.replace('7', "null");
        assert_eq!(
            serde_json::from_str::<Settings>(&nothing).unwrap().perhaps,
            None
        );
        for (was, wrong) in [("7", "\"x\""), ("\"9\"", "0"), ("0.5", "true")] {
            let text = text.replace(was, wrong);
            assert!(serde_json::from_str::<Settings>(&text).is_err(), "{text}");
        }
    }
}
