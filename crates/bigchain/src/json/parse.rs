//! Reading JSON the way the original's reader does: Python's `json.loads`.

use std::borrow::Cow;

use super::members::{key_of, object_of};
use super::{Integer, Object, Value};
use crate::error::{Error, JsonProblem};

/// Bounds of what is read. The recursion goes as deep as the text, so `depth` bounds the stack.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Longest text, in bytes. Choose the largest body the server admits.
    pub bytes: usize,
    /// Deepest nesting of arrays and objects. The original has no limit of its own; Python's
    /// recursion limit of 1,000 calls, of which copying a body takes two a level, should end it
    /// below 500 levels (reckoned, not tried).
    pub depth: usize,
}

impl Default for Limits {
    /// One mebibyte and 512 levels.
    fn default() -> Self {
        Self {
            bytes: 1 << 20,
            depth: 512,
        }
    }
}

/// Reads a JSON text within the default [`Limits`].
///
/// # Errors
/// [`Error::Json`] when the text is not JSON, holds half a surrogate pair, or goes past a limit.
pub fn parse(text: &[u8]) -> Result<Value, Error> {
    parse_within(text, Limits::default())
}

/// Reads a JSON text within limits.
///
/// # Errors
/// As [`parse`].
pub fn parse_within(text: &[u8], limits: Limits) -> Result<Value, Error> {
    let fail = |at, problem| Err(Error::Json { at, problem });
    if text.len() > limits.bytes {
        return fail(limits.bytes, JsonProblem::TooLong);
    }
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => return fail(error.valid_up_to(), JsonProblem::NotUtf8),
    };
    let mut reader = Reader {
        text,
        at: 0,
        depth_left: limits.depth,
    };
    let read = reader.document();
    read.map_err(|problem| Error::Json {
        at: reader.at,
        problem,
    })
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth_left: usize,
}

type Read<T> = Result<T, JsonProblem>;

impl<'a> Reader<'a> {
    fn document(&mut self) -> Read<Value> {
        self.skip_space();
        let value = self.value()?;
        self.skip_space();
        if self.at < self.text.len() {
            return Err(JsonProblem::Extra);
        }
        Ok(value)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Read<Value> {
        match self.peek().ok_or(JsonProblem::End)? {
            b'"' => Ok(Value::String(self.string()?.into_owned())),
            b'{' => self.nested(Self::object),
            b'[' => self.nested(Self::array),
            b'n' => self.word("null", Value::Null),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'N' => self.word("NaN", Value::Float(f64::NAN)),
            b'I' => self.word("Infinity", Value::Float(f64::INFINITY)),
            b'-' if self.text[self.at..].starts_with("-I") => {
                self.word("-Infinity", Value::Float(f64::NEG_INFINITY))
            }
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(JsonProblem::Unexpected),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Read<Value> {
        if !self.text[self.at..].starts_with(word) {
            return Err(JsonProblem::Unexpected);
        }
        self.at += word.len();
        Ok(value)
    }

    fn nested(&mut self, read: fn(&mut Self) -> Read<Value>) -> Read<Value> {
        self.depth_left = self.depth_left.checked_sub(1).ok_or(JsonProblem::TooDeep)?;
        self.at += 1;
        self.skip_space();
        let value = read(self)?;
        self.depth_left += 1;
        Ok(value)
    }

    fn array(&mut self) -> Read<Value> {
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            self.skip_space();
            items.push(self.value()?);
            self.skip_space();
            if self.take(b']') {
                return Ok(Value::Array(items));
            }
            self.expect(b',')?;
        }
    }

    fn object(&mut self) -> Read<Value> {
        let mut members = Vec::new();
        if self.take(b'}') {
            return Ok(Value::Object(Object { members }));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected());
            }
            let key = key_of(self.string()?);
            self.skip_space();
            self.expect(b':')?;
            self.skip_space();
            let value = self.value()?;
            members.push((key, value));
            self.skip_space();
            if self.take(b'}') {
                return Ok(Value::Object(object_of(members)));
            }
            self.expect(b',')?;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Read<()> {
        if self.take(byte) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    fn unexpected(&self) -> JsonProblem {
        self.peek()
            .map_or(JsonProblem::End, |_| JsonProblem::Unexpected)
    }

    /// Reads a string; one without escapes is borrowed from the text.
    fn string(&mut self) -> Read<Cow<'a, str>> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let start = self.at;
            let text = self.text;
            self.at += plain_bytes(&text.as_bytes()[start..]);
            let run = &text[start..self.at];
            match self.peek().ok_or(JsonProblem::End)? {
                b'"' => {
                    self.at += 1;
                    if out.is_empty() {
                        return Ok(Cow::Borrowed(run));
                    }
                    out.push_str(run);
                    return Ok(Cow::Owned(out));
                }
                b'\\' => {
                    out.push_str(run);
                    out.push(self.escape()?);
                }
                _ => return Err(JsonProblem::Control),
            }
        }
    }

    fn escape(&mut self) -> Read<char> {
        self.at += 1;
        let letter = self.peek().ok_or(JsonProblem::End)?;
        let char = match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return Err(JsonProblem::Escape),
        };
        self.at += 1;
        Ok(char)
    }

    fn unicode(&mut self) -> Read<char> {
        let high = self.four_digits()?;
        if !(0xd800..0xdc00).contains(&high) {
            return char::from_u32(high).ok_or(JsonProblem::LoneSurrogate);
        }
        if !self.text[self.at..].starts_with("\\u") {
            return Err(JsonProblem::LoneSurrogate);
        }
        self.at += 1;
        let low = self.four_digits()?;
        if !(0xdc00..0xe000).contains(&low) {
            return Err(JsonProblem::LoneSurrogate);
        }
        char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00))
            .ok_or(JsonProblem::LoneSurrogate)
    }

    /// Reads `uXXXX` with the cursor on the `u`.
    fn four_digits(&mut self) -> Read<u32> {
        let digits = self
            .text
            .as_bytes()
            .get(self.at + 1..self.at + 5)
            .ok_or(JsonProblem::End)?;
        let mut number = 0;
        for &digit in digits {
            let digit = char::from(digit).to_digit(16).ok_or(JsonProblem::Escape)?;
            number = number * 16 + digit;
        }
        self.at += 5;
        Ok(number)
    }

    fn number(&mut self) -> Read<Value> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        let mut float = false;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
            float = true;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
            float = true;
        }
        let text = &self.text[start..self.at];
        if float {
            // Past the range it is an infinity, as in the original.
            let float = text.parse().map_err(|_| JsonProblem::Unexpected)?;
            return Ok(Value::Float(float));
        }
        Ok(Value::Integer(text.parse().map_or_else(
            |_| Integer::Big(text.into()),
            Integer::Small,
        )))
    }

    fn digits(&mut self) -> Read<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.unexpected());
        }
        Ok(())
    }
}

/// How many bytes come before a quote, a backslash or a control character: eight at a time, with
/// the usual arithmetic that marks the bytes of a word that are zero.
pub(super) fn plain_bytes(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;
    const fn zeros(word: u64) -> u64 {
        word.wrapping_sub(ONES) & !word & HIGHS
    }
    let mut words = bytes.chunks_exact(8);
    let mut count = 0;
    for word in words.by_ref() {
        let word = u64::from_le_bytes(word.try_into().expect("a chunk has eight bytes"));
        let special = zeros(word ^ (ONES * u64::from(b'"')))
            | zeros(word ^ (ONES * u64::from(b'\\')))
            | (word.wrapping_sub(ONES * 0x20) & !word & HIGHS);
        // Borrows may mark too much, but never before the first byte that is special.
        if special != 0 {
            return count + special.trailing_zeros() as usize / 8;
        }
        count += 8;
    }
    let tail = words.remainder();
    let is_special = |&byte: &u8| byte == b'"' || byte == b'\\' || byte < 0x20;
    count + tail.iter().position(is_special).unwrap_or(tail.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::canonical;

    #[test]
    fn hostile_texts_are_refused_and_bounded() {
        for text in [
            "",
            " ",
            "{",
            "[",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "01",
            "1.",
            "1e",
            "-",
            "+1",
            ".5",
            "tru",
            "nul",
            "\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\n\"",
            "1 2",
            "[1 2]",
            "\u{feff}1",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(parse(b"\"\xff\"").is_err());
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        assert!(matches!(
            parse(deep.as_bytes()),
            Err(Error::Json {
                at: 512,
                problem: JsonProblem::TooDeep
            })
        ));
        let long = format!("\"{}\"", "x".repeat(1 << 20));
        assert!(matches!(
            parse(long.as_bytes()),
            Err(Error::Json {
                problem: JsonProblem::TooLong,
                ..
            })
        ));
    }

    #[test]
    fn a_repeated_key_keeps_its_place_and_takes_the_last_value_in_objects_of_any_size() {
        for many in [3, 40] {
            let mut text = String::from("{\"a\":0");
            for index in 0..many {
                text.push_str(&format!(",\"k{index}\":{index}"));
            }
            text.push_str(",\"a\":9,\"k0\":7}");
            let value = parse(text.as_bytes()).unwrap();
            let object = value.as_object().unwrap();
            assert_eq!(object.len(), many + 1);
            assert_eq!(object.iter().next().unwrap().1, &Value::from(9));
            assert_eq!(object.get("k0"), Some(&Value::from(7)));
        }
    }

    #[test]
    fn a_special_byte_is_found_wherever_it_stands() {
        for special in [0, 0x1f, b'"', b'\\'] {
            for plain in [b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xa2, 0xff] {
                for at in 0..20 {
                    let mut bytes = [plain; 20];
                    bytes[at] = special;
                    assert_eq!(plain_bytes(&bytes), at);
                }
                assert_eq!(plain_bytes(&[plain; 20]), 20);
            }
        }
    }

    #[test]
    fn integers_of_any_size_keep_every_digit() {
        let digits = "9".repeat(5_000);
        assert_eq!(canonical(&parse(digits.as_bytes()).unwrap()), digits);
        assert_eq!(canonical(&parse(b"-0").unwrap()), "0");
    }
}
