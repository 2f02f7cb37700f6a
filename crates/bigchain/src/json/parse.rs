//! A reader of JSON that accepts what BigchainDB's accepts: Python's `json.loads`.

use std::borrow::Cow;

use super::{Integer, Object, Value, key_of, object_of};
use crate::error::{Error, JsonProblem};

/// Longest text that is read, in bytes: more than any server of BigchainDB admits.
pub const MAX_BYTES: usize = 1 << 20;
/// Deepest nesting of arrays and objects that is read; it bounds the stack. BigchainDB sets no limit; Python's recursion
/// limit of 1,000 calls should stop it below 500 levels, because copying a body takes two calls a level (not tried).
pub const MAX_DEPTH: usize = 512;

/// Reads a JSON text.
///
/// # Errors
/// [`Error::Json`] when the text is not JSON, holds half a surrogate pair, or goes past a limit.
pub fn parse(text: &[u8]) -> Result<Value, Error> {
    let fail = |at, problem| Err(Error::Json { at, problem });
    if text.len() > MAX_BYTES {
        return fail(MAX_BYTES, JsonProblem::TooLong);
    }
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => return fail(error.valid_up_to(), JsonProblem::NotUtf8),
    };
    let mut reader = Reader {
        text,
        at: 0,
        depth_left: MAX_DEPTH,
    };
    reader.document().map_err(|problem| Error::Json {
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
            return Err(JsonProblem::Syntax);
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
        match self.peek() {
            Some(b'"') => Ok(Value::String(self.string()?.into_owned())),
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'n') => self.word("null", Value::Null),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'N') => self.word("NaN", Value::Float(f64::NAN)),
            Some(b'I') => self.word("Infinity", Value::Float(f64::INFINITY)),
            Some(b'-') if self.text[self.at..].starts_with("-I") => {
                self.word("-Infinity", Value::Float(f64::NEG_INFINITY))
            }
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Read<Value> {
        if !self.text[self.at..].starts_with(word) {
            return Err(JsonProblem::Syntax);
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
                return Err(JsonProblem::Syntax);
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
            Err(JsonProblem::Syntax)
        }
    }

    /// Reads a string from its quote on; one without escapes is borrowed from the text.
    fn string(&mut self) -> Read<Cow<'a, str>> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let start = self.at;
            let text = self.text;
            self.at += plain_bytes(&text.as_bytes()[start..]);
            let run = &text[start..self.at];
            match self.peek().ok_or(JsonProblem::Syntax)? {
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
                _ => return Err(JsonProblem::Syntax),
            }
        }
    }

    /// Reads an escape with the cursor on its backslash.
    fn escape(&mut self) -> Read<char> {
        let letter = self.text.as_bytes().get(self.at + 1).copied();
        let char = match letter.ok_or(JsonProblem::Syntax)? {
            letter @ (b'"' | b'\\' | b'/') => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return Err(JsonProblem::Syntax),
        };
        self.at += 2;
        Ok(char)
    }

    fn unicode(&mut self) -> Read<char> {
        let lone = Err(JsonProblem::LoneSurrogate);
        let high = self.four_digits()?;
        if !(0xd800..0xdc00).contains(&high) {
            return char::from_u32(high).map_or(lone, Ok);
        }
        if !self.text[self.at..].starts_with("\\u") {
            return lone;
        }
        let low = self.four_digits()?;
        if !(0xdc00..0xe000).contains(&low) {
            return lone;
        }
        let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        char::from_u32(code).map_or(lone, Ok)
    }

    /// Reads `\uXXXX`.
    fn four_digits(&mut self) -> Read<u32> {
        self.at += 1;
        let bytes = self.text.as_bytes();
        let digits = bytes.get(self.at + 1..self.at + 5);
        let mut number = 0;
        for &digit in digits.ok_or(JsonProblem::Syntax)? {
            let digit = char::from(digit).to_digit(16);
            number = number * 16 + digit.ok_or(JsonProblem::Syntax)?;
        }
        self.at += 5;
        Ok(number)
    }

    fn number(&mut self) -> Read<Value> {
        let rest = &self.text[self.at..];
        let text = &rest[..number_length(rest.as_bytes()).ok_or(JsonProblem::Syntax)?];
        self.at += text.len();
        if text.contains(['.', 'e', 'E']) {
            // Past the range it is an infinity, as in the original.
            let float = text.parse().map_err(|_| JsonProblem::Syntax)?;
            return Ok(Value::Float(float));
        }
        Ok(Value::Integer(text.parse().map_or_else(
            |_| Integer::Big(text.into()),
            Integer::Small,
        )))
    }
}

/// The length of the number that a text begins with.
fn number_length(text: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let sign = usize::from(text.first() == Some(&b'-'));
    let mut end = match text.get(sign)? {
        b'0' => sign + 1,
        b'1'..=b'9' => sign + digits(sign),
        _ => return None,
    };
    if text.get(end) == Some(&b'.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    Some(end)
}

/// How many bytes come before a quote, a backslash or a control character: eight at a time, with
/// the usual arithmetic that marks the bytes of a word that are zero.
fn plain_bytes(bytes: &[u8]) -> usize {
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
