//! Reading JSON the way the original's reader does: Python's `json.loads`.

use std::collections::HashMap;

use super::{Integer, Object, Value};
use crate::error::{Error, JsonProblem};

/// Bounds of what is read. The recursion goes as deep as the text, so `depth` bounds the stack.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Longest text, in bytes. Choose the largest body the server admits.
    pub bytes: usize,
    /// Deepest nesting of arrays and objects. The original ends near 460 levels, where Python's
    /// recursion limit stops its copying of the body.
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

impl Reader<'_> {
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
            b'"' => self.string().map(Value::String),
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
            let key = self.string()?;
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

    fn string(&mut self) -> Read<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let start = self.at;
            let plain = self.text.as_bytes()[start..]
                .iter()
                .position(|&byte| byte == b'"' || byte == b'\\' || byte < 0x20)
                .ok_or(JsonProblem::End)?;
            self.at += plain;
            let run = &self.text[start..self.at];
            match self.text.as_bytes()[self.at] {
                b'"' => {
                    self.at += 1;
                    if out.is_empty() {
                        return Ok(run.to_owned());
                    }
                    out.push_str(run);
                    return Ok(out);
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

/// Past this many members, looking for repeated keys goes through a table: a body of a hundred
/// thousand keys must not cost the square of it.
const FEW_MEMBERS: usize = 16;

/// An object of members as read: the last value of a key wins and stands where the key first was.
pub(super) fn object_of(mut members: Vec<(String, Value)>) -> Object {
    if members.len() <= FEW_MEMBERS {
        let mut next = 1;
        while next < members.len() {
            let first = members[..next]
                .iter()
                .position(|(key, _)| *key == members[next].0);
            match first {
                Some(first) => members[first].1 = members.remove(next).1,
                None => next += 1,
            }
        }
        return Object { members };
    }
    let mut places: HashMap<String, usize> = HashMap::with_capacity(members.len());
    let mut kept: Vec<(String, Value)> = Vec::with_capacity(members.len());
    for (key, value) in members {
        if let Some(&place) = places.get(&key) {
            kept[place].1 = value;
        } else {
            places.insert(key.clone(), kept.len());
            kept.push((key, value));
        }
    }
    Object { members: kept }
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
    fn integers_of_any_size_keep_every_digit() {
        let digits = "9".repeat(5_000);
        assert_eq!(canonical(&parse(digits.as_bytes()).unwrap()), digits);
        assert_eq!(canonical(&parse(b"-0").unwrap()), "0");
    }
}
