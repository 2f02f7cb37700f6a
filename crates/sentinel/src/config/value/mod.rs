//! Values as texts: how each kind is read from a file, a variable or a flag, and written down so
//! that it reads back as the same.

mod networks;
mod numbers;
#[cfg(test)]
mod tests;
mod words;

use std::fmt::{Display, Write as _};
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::str::FromStr;

use pacing::Rate;

pub(super) use self::networks::{Address, Bits, Weights};
pub(super) use self::numbers::{Count, Share, Size, Span};
pub(super) use self::words::Choice;

/// A value before it is understood. Numbers of a file have become their text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// One text; where a list is wanted, its elements stand between commas.
    Text(String),
    /// An array of a file.
    List(Vec<String>),
    /// A table of a file.
    Pairs(Vec<(String, String)>),
}

impl Given {
    fn text(&self) -> Result<&str, String> {
        match self {
            Self::Text(text) => Ok(text.trim()),
            Self::List(_) => Err("one value is wanted, not a list".to_owned()),
            Self::Pairs(_) => Err("one value is wanted, not a table".to_owned()),
        }
    }

    fn list(&self) -> Result<Vec<&str>, String> {
        match self {
            Self::Text(text) => Ok(elements(text).collect()),
            Self::List(list) => Ok(list.iter().map(|text| text.trim()).collect()),
            Self::Pairs(_) => Err("a list is wanted, not a table".to_owned()),
        }
    }

    fn pairs(&self) -> Result<Vec<(&str, &str)>, String> {
        match self {
            Self::Text(text) => elements(text)
                .map(|pair| {
                    let (name, value) = pair
                        .split_once('=')
                        .ok_or_else(|| format!("{pair:?} is not of the form NAME=VALUE"))?;
                    Ok((name.trim(), value.trim()))
                })
                .collect(),
            Self::Pairs(pairs) => Ok(pairs
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect()),
            Self::List(_) => Err("a table is wanted, not a list".to_owned()),
        }
    }
}

fn elements(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty())
}

/// How one kind of value is read and written.
pub(super) trait Kind {
    /// What it is read as.
    type Value;
    /// The words it takes, where these are few.
    const WORDS: &'static [&'static str] = &[];
    /// Whether it has several elements.
    const IS_LIST: bool = false;

    /// Reads a value; the error names the fault and the correct form.
    fn read(given: &Given) -> Result<Self::Value, String>;

    /// Writes a value in TOML.
    fn toml(value: &Self::Value) -> String;
}

fn plain<T>(text: &str) -> Result<T, String>
where
    T: FromStr,
    T::Err: Display,
{
    text.parse().map_err(|error: T::Err| {
        let reason = error.to_string();
        if reason.contains(text) && !text.is_empty() {
            reason
        } else {
            format!("{text:?}: {reason}")
        }
    })
}

/// Any rate but zero.
pub(super) const ABOVE_ZERO: (Bound<Rate>, Bound<Rate>) =
    (Bound::Excluded(Rate::ZERO), Bound::Unbounded);

/// Refuses a value outside of its range.
pub(super) fn check<K: Kind>(
    value: &K::Value,
    range: impl RangeBounds<K::Value>,
) -> Result<(), String>
where
    K::Value: PartialOrd,
{
    if range.contains(value) {
        return Ok(());
    }
    let text = |value| plain_text(&K::toml(value));
    let value = text(value);
    Err(match (range.start_bound(), range.end_bound()) {
        (Bound::Included(low), Bound::Included(high)) => {
            let (low, high) = (text(low), text(high));
            format!("{value} is out of range; use {low} to {high}")
        }
        (Bound::Included(low), _) => {
            let low = text(low);
            format!("{value} would let nothing through; use {low} or more")
        }
        _ => format!("{value} would let nothing through"),
    })
}

/// A value as it stands in a sentence, from its TOML.
pub(super) fn plain_text(toml: &str) -> String {
    let text = toml.trim_matches('"');
    text.strip_suffix(".0").unwrap_or(text).to_owned()
}

/// A value that is one text.
pub(super) struct Text<T>(PhantomData<T>);

impl<T> Kind for Text<T>
where
    T: FromStr + Display,
    T::Err: Display,
{
    type Value = T;

    fn read(given: &Given) -> Result<T, String> {
        plain(given.text()?)
    }

    fn toml(value: &T) -> String {
        quoted(&value.to_string())
    }
}

/// Several of them, in any of the forms of a list.
pub(super) struct List<T>(PhantomData<T>);

impl<T> Kind for List<T>
where
    T: FromStr + Display,
    T::Err: Display,
{
    type Value = Vec<T>;
    const IS_LIST: bool = true;

    fn read(given: &Given) -> Result<Vec<T>, String> {
        given.list()?.into_iter().map(plain).collect()
    }

    fn toml(list: &Vec<T>) -> String {
        let texts: Vec<String> = list
            .iter()
            .map(|value| quoted(&value.to_string()))
            .collect();
        format!("[{}]", texts.join(", "))
    }
}

/// A value, or a word for none.
pub(super) struct Maybe<K, W>(PhantomData<(K, W)>);

/// The word for no value.
pub(super) trait Word {
    /// The word.
    const WORD: &str;
}

/// `off`
pub(super) struct Off;
/// `learn`
pub(super) struct Learn;

impl Word for Off {
    const WORD: &str = "off";
}

impl Word for Learn {
    const WORD: &str = "learn";
}

impl<K: Kind, W: Word> Kind for Maybe<K, W> {
    type Value = Option<K::Value>;

    fn read(given: &Given) -> Result<Self::Value, String> {
        if given.text()?.eq_ignore_ascii_case(W::WORD) {
            return Ok(None);
        }
        K::read(given)
            .map(Some)
            .map_err(|reason| format!("{reason} (or {:?})", W::WORD))
    }

    fn toml(value: &Self::Value) -> String {
        value.as_ref().map_or_else(|| quoted(W::WORD), K::toml)
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            c if c.is_control() => {
                write!(quoted, "\\u{:04X}", u32::from(c)).expect("a string takes any text");
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
