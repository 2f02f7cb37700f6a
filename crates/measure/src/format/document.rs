//! The version of the run folder, its JSON documents, and why a file of it cannot be read.

use std::fmt;
use std::io::{self, Read as _};

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The version of every format in the run folder. A reader refuses numbers that it does not know.
pub const FORMAT: &str = "tidegate.run/2";
/// The version before it, which is read, too: its evidence is in words.
pub(crate) const EARLIER_FORMAT: &str = "tidegate.run/1";

/// Why a file of a run folder cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refused.
    #[error("cannot read {file}")]
    Io {
        /// The file's name inside the run folder.
        file: &'static str,
        /// The reader's error.
        source: io::Error,
    },
    /// It is not what a run of this version writes: where and why.
    #[error("{0}")]
    Content(String),
    /// A JSON document does not parse.
    #[error("{file} is not what a run writes: {problem}")]
    BadDocument {
        /// The file's name inside the run folder.
        file: &'static str,
        /// The parser's error.
        problem: String,
    },
}

impl ReadError {
    /// A line, counted from 1, is not what the file holds.
    pub(crate) fn line(file: &str, line: u64, problem: impl fmt::Display) -> Self {
        Self::Content(format!("{file}, line {line}: {problem}"))
    }
}

/// Reads a JSON document of [`FORMAT`].
pub(crate) fn read_document<T: de::DeserializeOwned>(
    file: &'static str,
    reader: &mut impl io::Read,
) -> Result<T, ReadError> {
    document(file, &text(file, reader)?)
}

/// Reads a JSON document of counts: the same, without any that is too much.
pub(crate) fn read_counts<T: de::DeserializeOwned>(
    file: &'static str,
    reader: &mut impl io::Read,
) -> Result<T, ReadError> {
    let text = text(file, reader)?;
    let document = document(file, &text)?;
    let BoundedCounts = parse(file, &text)?;
    Ok(document)
}

fn text(file: &'static str, reader: &mut impl io::Read) -> Result<Vec<u8>, ReadError> {
    let mut text = Vec::new();
    let read = reader.take(MAX_DOCUMENT).read_to_end(&mut text);
    read.map_err(|source| ReadError::Io { file, source })?;
    Ok(text)
}

fn document<T: de::DeserializeOwned>(file: &'static str, text: &[u8]) -> Result<T, ReadError> {
    let Tag { format } = parse(file, text)?;
    if format != FORMAT && format != EARLIER_FORMAT {
        return Err(ReadError::Content(format!(
            "{file} is of format {format:?}; this program reads {FORMAT}, so use the version of txgen that wrote it"
        )));
    }
    parse(file, text)
}

fn parse<T: de::DeserializeOwned>(file: &'static str, text: &[u8]) -> Result<T, ReadError> {
    serde_json::from_slice(text).map_err(|error| ReadError::BadDocument {
        file,
        problem: error.to_string(),
    })
}

/// Whether a number is more than anything of this name comes to, so that sums have no room for it. Times since 1970
/// may be any.
pub(crate) fn is_too_much(name: &str, number: u64) -> bool {
    number > HIGHEST_COUNT && !name.ends_with("_ns")
}

/// That no number of a document is too much.
struct BoundedCounts;

impl<'de> Deserialize<'de> for BoundedCounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for BoundedCounts {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self, E> {
        if is_too_much("", number) {
            Err(E::custom(format!(
                "{number} is more than anything comes to"
            )))
        } else {
            Ok(self)
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self, A::Error> {
        while let Some(name) = fields.next_key::<String>()? {
            if name.ends_with("_ns") {
                fields.next_value::<IgnoredAny>()?;
            } else {
                fields.next_value::<Self>()?;
            }
        }
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }
}

/// Writes it as indented JSON with a final newline.
pub(crate) fn write_document(
    document: &impl serde::Serialize,
    writer: &mut impl io::Write,
) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(document)?;
    text.push(b'\n');
    writer.write_all(&text)?;
    writer.flush()
}

#[derive(serde::Deserialize)]
struct Tag {
    format: String,
}

/// What a number with a fraction still counts by one (2^53).
const HIGHEST_COUNT: u64 = 1 << 53;
/// A summary with 10,000 steps takes 10 MB.
const MAX_DOCUMENT: u64 = 256 * 1024 * 1024;
