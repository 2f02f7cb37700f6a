//! JSON as Go's `encoding/json` reads and writes it, without a tree of values.
//!
//! [`Scanner`] walks a text and accepts exactly what Go accepts; values are slices of the input. [`unquote`] and
//! [`quote`] read and write strings; [`quote`] and [`mod@write`] produce what `json.Marshal` and CometBFT's `libs/json`
//! produce.

mod scan;
pub mod write;

use std::borrow::Cow;
use std::iter;

pub use self::scan::{Bracket, JsonString, MAX_DEPTH, Scanner};

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
    Scanner::new(input, MAX_DEPTH).value()
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

/// Why a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The text ends inside a value, or has none.
    #[error("unexpected end of JSON input")]
    End,
    /// Nested deeper than allowed.
    #[error("exceeded max depth")]
    Depth,
    /// A byte that cannot stand here.
    #[error("unexpected byte '{}'", .0.escape_ascii())]
    Byte(u8),
}

/// The text of a scanned string, quotes included: escapes undone, what is no UTF-8 U+FFFD.
pub fn unquote(string: &[u8]) -> Cow<'_, str> {
    let inside = string
        .get(1..string.len().saturating_sub(1))
        .unwrap_or_default();
    if memchr::memchr(b'\\', inside).is_none() {
        replace_invalid(inside)
    } else {
        Cow::Owned(unescape(inside))
    }
}

/// The text of the inside of a scanned string.
fn unescape(inside: &[u8]) -> String {
    let mut text = Vec::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        text.extend_from_slice(&rest[..at]);
        let (character, used) = escaped(&rest[at..]);
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &rest[at + used..];
    }
    text.extend_from_slice(rest);
    String::from_utf8(text).unwrap_or_else(|error| replace_invalid(error.as_bytes()).into_owned())
}

/// Text with a U+FFFD for each byte that belongs to no character, as Go repairs it
/// (`String::from_utf8_lossy` puts one for several).
pub fn replace_invalid(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

/// The character of an escape and the bytes it takes.
fn escaped(escape: &[u8]) -> (char, usize) {
    let character = match escape.get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return unicode(escape),
        Some(other) => char::from(*other),
        None => return (char::REPLACEMENT_CHARACTER, 1),
    };
    (character, 2)
}

/// The character of `\uXXXX`, or of a surrogate pair of them.
fn unicode(escape: &[u8]) -> (char, usize) {
    let unit = |from: usize| {
        let digits = std::str::from_utf8(escape.get(from..from + 4)?).ok()?;
        u16::from_str_radix(digits, 16).ok()
    };
    let decode = |units: &[u16]| char::decode_utf16(units.iter().copied()).next()?.ok();
    let first = unit(2).unwrap_or(0xfffd);
    if let Some(character) = decode(&[first]) {
        return (character, escape.len().min(6));
    }
    let second = unit(8).filter(|_| escape.get(6..8) == Some(b"\\u"));
    match second.and_then(|second| decode(&[first, second])) {
        Some(pair) => (pair, 12),
        None => (char::REPLACEMENT_CHARACTER, escape.len().min(6)),
    }
}

/// Appends a quoted string as `json.Marshal` writes it, HTML characters escaped.
pub fn quote(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for character in text.chars() {
        let short = match character {
            '"' => b'"',
            '\\' => b'\\',
            '\n' => b'n',
            '\r' => b'r',
            '\t' => b't',
            '\u{8}' => b'b',
            '\u{c}' => b'f',
            '<' | '>' | '&' | '\0'..='\u{1f}' | '\u{2028}' | '\u{2029}' => {
                out.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
                continue;
            }
            plain => {
                out.extend_from_slice(plain.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
    }
    out.push(b'"');
}

/// Appends JSON without the white space between its tokens. No string has a line end in it, so a text without any
/// is taken for compact.
pub fn compact(out: &mut Vec<u8>, json: &[u8]) {
    if !json.contains(&b'\n') {
        return out.extend_from_slice(json);
    }
    let (mut quoted, mut escaped) = (false, false);
    out.extend(json.iter().filter(|byte| {
        quoted ^= **byte == b'"' && !escaped;
        escaped = quoted && **byte == b'\\' && !escaped;
        quoted || !byte.is_ascii_whitespace()
    }));
}

/// Whether a key means `name` (lower case) to Go: letters of either case are the same, and so are
/// the two characters outside ASCII whose case folds to a letter inside it
/// (`foldName` in `encoding/json/fold.go`).
pub fn folds_to(key: &str, name: &str) -> bool {
    let fold = |character: char| match character {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(name.chars())
}

#[cfg(test)]
mod tests;
