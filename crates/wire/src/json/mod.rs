//! JSON as Go's `encoding/json` reads and writes it, without a tree of values.
//!
//! [`Scanner`] walks a text and accepts exactly what Go accepts, with Go's error texts in
//! [`Fault`]; values are slices of the input. [`quote`] and [`mod@write`] produce what `json.Marshal`
//! and CometBFT's `libs/json` produce.

mod fault;
mod scan;
mod text;
pub mod write;

use std::borrow::Cow;
use std::iter;

pub use self::fault::{Expected, Fault, Word};
pub use self::scan::{Bracket, JsonString, MAX_DEPTH, Scanner};
pub use self::text::{compact, folds_to, quote, replace_invalid, unquote};

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{…}`.
    Object,
    /// `[…]`.
    Array,
    /// `"…"`.
    String,
    /// Digits, with sign, fraction and exponent.
    Number,
    /// `true` or `false`.
    Bool,
    /// `null`.
    Null,
}

impl Kind {
    /// The kind of a value that was scanned.
    pub const fn of(value: &[u8]) -> Self {
        match value.first() {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b'"') => Self::String,
            Some(b't' | b'f') => Self::Bool,
            Some(b'n') => Self::Null,
            _ => Self::Number,
        }
    }

    /// Go's name in error texts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Number => "number",
            Self::Bool => "bool",
            Self::Null => "null",
        }
    }
}

/// Checks a whole input, as `json.Unmarshal` does before it decodes. Returns the value without the
/// white space around it.
///
/// # Errors
/// Where the input stops being JSON.
pub fn check(input: &[u8]) -> Result<&[u8], Fault> {
    let mut scanner = Scanner::new(input, MAX_DEPTH);
    let value = scanner.value()?;
    scanner.end()?;
    Ok(value)
}

/// The first value of an input, as `json.Decoder` reads it; what follows is ignored.
///
/// # Errors
/// Where the input stops being JSON.
pub fn first(input: &[u8]) -> Result<&[u8], Fault> {
    let mut scanner = Scanner::new(input, MAX_DEPTH);
    if scanner.peek().is_none() {
        return Err(Fault::NoInput);
    }
    scanner.value().map_err(|fault| match fault {
        Fault::End => Fault::StreamEnd,
        other => other,
    })
}

/// The elements of an array that was checked.
pub fn elements(array: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut scanner = Scanner::new(array, MAX_DEPTH);
    let mut more = scanner.enter(Bracket::Array).unwrap_or(false);
    iter::from_fn(move || {
        let value = more.then(|| scanner.value().ok())??;
        more = scanner.another(Bracket::Array).unwrap_or(false);
        Some(value)
    })
}

/// The members of an object that was checked, in order; keys without quotes and escapes.
pub fn members(object: &[u8]) -> impl Iterator<Item = (Cow<'_, str>, &[u8])> {
    let mut scanner = Scanner::new(object, MAX_DEPTH);
    let mut more = scanner.enter(Bracket::Object).unwrap_or(false);
    iter::from_fn(move || {
        let key = more.then(|| scanner.key().ok())??;
        let value = scanner.value().ok()?;
        more = scanner.another(Bracket::Object).unwrap_or(false);
        Some((key.text(), value))
    })
}

#[cfg(test)]
mod tests;
