//! The scanner: exactly the texts that Go's `encoding/json` takes, bounded in depth.

use std::borrow::Cow;

use super::Fault;
use crate::json;

/// Deepest nesting that Go takes.
pub const MAX_DEPTH: usize = 10_000;

/// What has entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bracket {
    /// `{…}`.
    Object,
    /// `[…]`.
    Array,
}

impl Bracket {
    const fn open(self) -> u8 {
        match self {
            Self::Object => b'{',
            Self::Array => b'[',
        }
    }

    const fn close(self) -> u8 {
        match self {
            Self::Object => b'}',
            Self::Array => b']',
        }
    }
}

/// A string that was scanned, as it stands in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonString<'a> {
    inside: &'a [u8],
    has_escapes: bool,
}

impl<'a> JsonString<'a> {
    /// The bytes without quotes and escapes; not checked to be UTF-8 when there are no escapes.
    #[inline]
    pub fn bytes(self) -> Cow<'a, [u8]> {
        if self.has_escapes {
            Cow::Owned(self.text().into_owned().into_bytes())
        } else {
            Cow::Borrowed(self.inside)
        }
    }

    /// The text without quotes and escapes; what is no UTF-8 is U+FFFD, byte by byte.
    pub fn text(self) -> Cow<'a, str> {
        if self.has_escapes {
            Cow::Owned(json::unescape(self.inside))
        } else {
            json::replace_invalid(self.inside)
        }
    }
}

/// A position in a text.
#[derive(Debug)]
pub struct Scanner<'a> {
    input: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Scanner<'a> {
    /// At the start of `input`, with room for `depth` levels.
    pub const fn new(input: &'a [u8], depth: usize) -> Self {
        Self {
            input,
            at: 0,
            depth,
        }
    }

    /// The next byte that is no white space, not taken.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.input.get(self.at)?;
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// How many bytes were passed.
    pub const fn position(&self) -> usize {
        self.at
    }

    /// What was passed since `start`.
    pub fn since(&self, start: usize) -> &'a [u8] {
        self.input.get(start..self.at).unwrap_or_default()
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.input.get(self.at..).unwrap_or_default()
    }

    /// Past bytes that the caller has looked at.
    pub const fn advance(&mut self, len: usize) {
        self.at += len;
    }

    /// Takes `wanted`.
    #[inline]
    fn take(&mut self, wanted: u8) -> Result<(), Fault> {
        match self.peek() {
            Some(byte) if byte == wanted => {
                self.at += 1;
                Ok(())
            }
            byte => Err(wrong(byte)),
        }
    }

    /// Nothing but white space is left.
    ///
    /// # Errors
    /// Something is.
    #[inline]
    pub fn end(&mut self) -> Result<(), Fault> {
        match self.peek() {
            None => Ok(()),
            byte => Err(wrong(byte)),
        }
    }

    /// Enters an array or object; whether it has a first entry.
    ///
    /// # Errors
    /// Another value comes, or it would be one level too many.
    #[inline]
    pub fn enter(&mut self, bracket: Bracket) -> Result<bool, Fault> {
        self.take(bracket.open())?;
        self.depth = self.depth.checked_sub(1).ok_or(Fault::Depth)?;
        let is_empty = self.peek() == Some(bracket.close());
        if is_empty {
            self.leave();
        }
        Ok(!is_empty)
    }

    /// Past an entry; whether another follows.
    ///
    /// # Errors
    /// Neither a comma nor the end comes.
    #[inline]
    pub fn another(&mut self, bracket: Bracket) -> Result<bool, Fault> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == bracket.close() => {
                self.leave();
                Ok(false)
            }
            byte => Err(wrong(byte)),
        }
    }

    const fn leave(&mut self) {
        self.at += 1;
        self.depth += 1;
    }

    /// A key, and the colon behind it.
    ///
    /// # Errors
    /// Something else comes.
    #[inline]
    pub fn key(&mut self) -> Result<JsonString<'a>, Fault> {
        let key = self.string()?;
        self.colon()?;
        Ok(key)
    }

    /// The colon behind a key.
    ///
    /// # Errors
    /// Something else comes.
    #[inline]
    pub(crate) fn colon(&mut self) -> Result<(), Fault> {
        self.take(b':')
    }

    /// The inside of a string of bytes that every reader and writer leaves as they are; none for
    /// any other.
    #[inline]
    pub(crate) fn verbatim(&mut self) -> Option<&'a [u8]> {
        self.take(b'"').ok()?;
        let rest = self.rest();
        let len = rest.iter().position(|byte| !VERBATIM[usize::from(*byte)])?;
        self.at += len + 1;
        (rest[len] == b'"').then(|| &rest[..len])
    }

    /// Any value, as its text.
    ///
    /// # Errors
    /// Where it stops being JSON.
    #[inline]
    pub fn value(&mut self) -> Result<&'a [u8], Fault> {
        let first = self.peek().ok_or(Fault::End)?;
        let start = self.at;
        match first {
            b'"' => drop(self.string()?),
            b'{' | b'[' => self.skip()?,
            scalar => self.scalar(scalar)?,
        }
        Ok(&self.input[start..self.at])
    }

    /// Past an array or object. Not recursive: one bit for each open level shows whether it is an
    /// object.
    fn skip(&mut self) -> Result<(), Fault> {
        let mut open = OpenLevels::default();
        loop {
            let bracket = match self.peek().ok_or(Fault::End)? {
                b'{' => Some(Bracket::Object),
                b'[' => Some(Bracket::Array),
                byte => {
                    self.scalar(byte)?;
                    None
                }
            };
            if let Some(bracket) = bracket
                && self.enter(bracket)?
            {
                open.push(bracket);
                if bracket == Bracket::Object {
                    self.key()?;
                }
                continue;
            }
            // A value has ended; so may the levels around it.
            loop {
                let Some(bracket) = open.innermost() else {
                    return Ok(());
                };
                if self.another(bracket)? {
                    if bracket == Bracket::Object {
                        self.key()?;
                    }
                    break;
                }
                open.pop();
            }
        }
    }

    fn scalar(&mut self, first: u8) -> Result<(), Fault> {
        match first {
            b'"' => self.string().map(drop),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            b'-' | b'0'..=b'9' => self.number(),
            byte => Err(wrong(Some(byte))),
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Fault> {
        for letter in word {
            let byte = self.input.get(self.at).copied();
            if byte != Some(*letter) {
                return Err(wrong(byte));
            }
            self.at += 1;
        }
        Ok(())
    }

    /// A string. Bytes above 0x7f are not looked at: Go takes any.
    ///
    /// # Errors
    /// Something else comes.
    #[inline]
    pub fn string(&mut self) -> Result<JsonString<'a>, Fault> {
        self.take(b'"')?;
        let (start, mut has_escapes) = (self.at, false);
        loop {
            let rest = self.rest();
            let len = rest
                .iter()
                .position(|byte| STOPS[usize::from(*byte)])
                .ok_or(Fault::End)?;
            self.at += len + 1;
            match rest[len] {
                b'"' => {
                    let inside = &self.input[start..self.at - 1];
                    return Ok(JsonString {
                        inside,
                        has_escapes,
                    });
                }
                b'\\' => {
                    has_escapes = true;
                    self.escape()?;
                }
                control => return Err(wrong(Some(control))),
            }
        }
    }

    /// Past what follows a backslash.
    fn escape(&mut self) -> Result<(), Fault> {
        let kind = self.input.get(self.at).copied();
        self.at += 1;
        match kind {
            Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => Ok(()),
            Some(b'u') => {
                for _ in 0..4 {
                    let digit = self.input.get(self.at).copied();
                    if !digit.is_some_and(|digit| digit.is_ascii_hexdigit()) {
                        return Err(wrong(digit));
                    }
                    self.at += 1;
                }
                Ok(())
            }
            other => Err(wrong(other)),
        }
    }

    fn number(&mut self) -> Result<(), Fault> {
        self.at += usize::from(self.input[self.at] == b'-');
        if self.input.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.input.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.input.get(self.at) {
            self.at += 1;
            self.at += usize::from(matches!(self.input.get(self.at), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }

    /// Past at least one digit.
    fn digits(&mut self) -> Result<(), Fault> {
        let rest = self.rest();
        let len = rest.iter().position(|byte| !byte.is_ascii_digit());
        let len = len.unwrap_or(rest.len());
        self.at += len;
        if len == 0 {
            return Err(wrong(rest.first().copied()));
        }
        Ok(())
    }
}

/// The fault of a byte where another was expected, or of none.
#[cold]
fn wrong(byte: Option<u8>) -> Fault {
    byte.map_or(Fault::End, Fault::Byte)
}

/// The brackets that are open, one bit each: 128 of them without memory of their own.
#[derive(Default)]
struct OpenLevels {
    count: usize,
    /// The innermost ones; the last bit is the innermost, 1 for an object.
    bits: u128,
    outer: Vec<u128>,
}

impl OpenLevels {
    #[inline]
    fn push(&mut self, bracket: Bracket) {
        if self.count > 0 && self.count.is_multiple_of(128) {
            self.outer.push(self.bits);
        }
        self.bits = self.bits << 1 | u128::from(bracket == Bracket::Object);
        self.count += 1;
    }

    #[inline]
    const fn innermost(&self) -> Option<Bracket> {
        match (self.count, self.bits & 1) {
            (0, _) => None,
            (_, 1) => Some(Bracket::Object),
            _ => Some(Bracket::Array),
        }
    }

    #[inline]
    fn pop(&mut self) {
        self.count -= 1;
        self.bits >>= 1;
        if self.count.is_multiple_of(128)
            && let Some(bits) = self.outer.pop()
        {
            self.bits = bits;
        }
    }
}

/// Bytes at which a string ends or needs a closer look.
const STOPS: [bool; 256] = {
    let mut stops = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        stops[byte] = true;
        byte += 1;
    }
    stops[b'"' as usize] = true;
    stops[b'\\' as usize] = true;
    stops
};

/// Bytes of a string that stand for themselves when read and when written again: printable ASCII
/// without quote and backslash, and without the three that Go escapes for the sake of HTML.
const VERBATIM: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0x20;
    while byte < 0x7f {
        table[byte] = !matches!(byte as u8, b'"' | b'\\' | b'<' | b'>' | b'&');
        byte += 1;
    }
    table
};
