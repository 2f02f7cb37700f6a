//! What Python's `json.loads` says of a text that it cannot read.

use super::parse::plain_bytes;

/// The message of Python's reader (3.6) for a text that is not JSON, with the place in characters;
/// nothing for a text that it can read.
///
/// It is a second reader, for those who answer in the original's words; it builds nothing, and
/// needs no recursion, so that any depth is as good as another.
#[must_use]
pub fn python_error(text: &str) -> Option<String> {
    let mut reader = Reader {
        bytes: text.as_bytes(),
        at: 0,
    };
    let (message, at) = reader.document().err()?;
    // A place inside a character cannot be: the reader stops at ASCII bytes and starts only.
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let characters = before.chars().count();
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before[start..].chars().count() + 1;
    Some(format!(
        "{message}: line {line} column {column} (char {characters})"
    ))
}

const VALUE: &str = "Expecting value";
const NAME: &str = "Expecting property name enclosed in double quotes";
const COLON: &str = "Expecting ':' delimiter";
const COMMA: &str = "Expecting ',' delimiter";

/// What is wrong, and at which byte.
type Wrong = (&'static str, usize);

/// What the reader is inside of.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Inside {
    Array,
    Object,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<(), Wrong> {
        let mut open = Vec::new();
        self.skip_space();
        loop {
            // Here a value begins.
            if let Some(inside) = self.value()? {
                open.push(inside);
                if self.begins_empty(inside)? {
                    open.pop();
                } else {
                    continue;
                }
            }
            // Here a value has ended.
            loop {
                self.skip_space();
                let Some(inside) = open.last() else {
                    return if self.at < self.bytes.len() {
                        Err(("Extra data", self.at))
                    } else {
                        Ok(())
                    };
                };
                let (inside, end) = match inside {
                    Inside::Array => (Inside::Array, b']'),
                    Inside::Object => (Inside::Object, b'}'),
                };
                if self.take(end) {
                    open.pop();
                    continue;
                }
                if !self.take(b',') {
                    return Err((COMMA, self.at));
                }
                self.skip_space();
                if inside == Inside::Object {
                    self.name()?;
                }
                break;
            }
        }
    }

    /// Reads a value; of an array or object only its beginning.
    fn value(&mut self) -> Result<Option<Inside>, Wrong> {
        let start = self.at;
        match self.peek() {
            Some(b'"') => self.string()?,
            Some(b'{') => {
                self.at += 1;
                return Ok(Some(Inside::Object));
            }
            Some(b'[') => {
                self.at += 1;
                return Ok(Some(Inside::Array));
            }
            _ => {
                let words: [&[u8]; 6] = [
                    b"null",
                    b"true",
                    b"false",
                    b"NaN",
                    b"Infinity",
                    b"-Infinity",
                ];
                let rest = &self.bytes[start..];
                match words.iter().find(|word| rest.starts_with(word)) {
                    Some(word) => self.at += word.len(),
                    None => self.at += number(rest).ok_or((VALUE, start))?,
                }
            }
        }
        Ok(None)
    }

    /// What follows the beginning of an array or object: true if it ends at once, else the cursor
    /// is at its first value.
    fn begins_empty(&mut self, inside: Inside) -> Result<bool, Wrong> {
        self.skip_space();
        match inside {
            Inside::Array => Ok(self.take(b']')),
            Inside::Object => {
                if self.take(b'}') {
                    return Ok(true);
                }
                self.name()?;
                Ok(false)
            }
        }
    }

    /// A name and its colon, up to the value.
    fn name(&mut self) -> Result<(), Wrong> {
        if self.peek() != Some(b'"') {
            return Err((NAME, self.at));
        }
        self.string()?;
        self.skip_space();
        if !self.take(b':') {
            return Err((COLON, self.at));
        }
        self.skip_space();
        Ok(())
    }

    fn string(&mut self) -> Result<(), Wrong> {
        let unterminated = ("Unterminated string starting at", self.at);
        self.at += 1;
        loop {
            self.at += plain_bytes(&self.bytes[self.at..]);
            match self.peek().ok_or(unterminated)? {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => {
                    let slash = self.at;
                    self.at += 1;
                    match self.peek().ok_or(unterminated)? {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
                        b'u' => self.unicode()?,
                        _ => return Err(("Invalid \\escape", slash)),
                    }
                }
                _ => return Err(("Invalid control character at", self.at)),
            }
        }
    }

    /// The four digits after a `u`. Python wants a character behind them, if only the quote.
    fn unicode(&mut self) -> Result<(), Wrong> {
        let digits = self.bytes.get(self.at + 1..self.at + 5);
        let good = digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            && self.bytes.len() > self.at + 5;
        if !good {
            return Err(("Invalid \\uXXXX escape", self.at));
        }
        self.at += 5;
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }
}

/// The length of the number that a text begins with: as much of it as is one.
fn number(text: &[u8]) -> Option<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts and what `json.loads` of Python 3.6.15 says of them.
    #[test]
    fn the_words_are_pythons() {
        for (text, says) in SAID {
            assert_eq!(python_error(text).unwrap_or_default(), *says, "{text:?}");
        }
        assert_eq!(
            python_error(&"[".repeat(100_000)).unwrap(),
            "Expecting value: line 1 column 100001 (char 100000)"
        );
    }

    const SAID: &[(&str, &str)] = &[
        ("", "Expecting value: line 1 column 1 (char 0)"),
        ("  ", "Expecting value: line 1 column 3 (char 2)"),
        (
            "{not json",
            "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
        (
            "{",
            "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
        ("[", "Expecting value: line 1 column 2 (char 1)"),
        (
            "{\"a\"",
            "Expecting ':' delimiter: line 1 column 5 (char 4)",
        ),
        ("{\"a\":", "Expecting value: line 1 column 6 (char 5)"),
        ("{\"a\":}", "Expecting value: line 1 column 6 (char 5)"),
        (
            "{\"a\":1",
            "Expecting ',' delimiter: line 1 column 7 (char 6)",
        ),
        (
            "{\"a\":1,",
            "Expecting property name enclosed in double quotes: line 1 column 8 (char 7)",
        ),
        (
            "{\"a\":1,}",
            "Expecting property name enclosed in double quotes: line 1 column 8 (char 7)",
        ),
        (
            "{\"a\" 1}",
            "Expecting ':' delimiter: line 1 column 6 (char 5)",
        ),
        (
            "{\"a\":1 \"b\":2}",
            "Expecting ',' delimiter: line 1 column 8 (char 7)",
        ),
        ("[1", "Expecting ',' delimiter: line 1 column 3 (char 2)"),
        ("[1,", "Expecting value: line 1 column 4 (char 3)"),
        ("[1,]", "Expecting value: line 1 column 4 (char 3)"),
        ("[1 2]", "Expecting ',' delimiter: line 1 column 4 (char 3)"),
        ("[]]", "Extra data: line 1 column 3 (char 2)"),
        ("[] []", "Extra data: line 1 column 4 (char 3)"),
        ("{}x", "Extra data: line 1 column 3 (char 2)"),
        (
            "\"abc",
            "Unterminated string starting at: line 1 column 1 (char 0)",
        ),
        (
            "\"a\\",
            "Unterminated string starting at: line 1 column 1 (char 0)",
        ),
        ("\"a\\x\"", "Invalid \\escape: line 1 column 3 (char 2)"),
        (
            "\"a\\u12\"",
            "Invalid \\uXXXX escape: line 1 column 4 (char 3)",
        ),
        (
            "\"a\\u12g4\"",
            "Invalid \\uXXXX escape: line 1 column 4 (char 3)",
        ),
        (
            "\"a\\u1234",
            "Invalid \\uXXXX escape: line 1 column 4 (char 3)",
        ),
        (
            "\"a\nb\"",
            "Invalid control character at: line 1 column 3 (char 2)",
        ),
        (
            "\"a\tb\"",
            "Invalid control character at: line 1 column 3 (char 2)",
        ),
        (
            "\n\n {\"a\": tru}",
            "Expecting value: line 3 column 8 (char 9)",
        ),
        ("nul", "Expecting value: line 1 column 1 (char 0)"),
        ("-", "Expecting value: line 1 column 1 (char 0)"),
        ("-x", "Expecting value: line 1 column 1 (char 0)"),
        ("01", "Extra data: line 1 column 2 (char 1)"),
        ("1.", "Extra data: line 1 column 2 (char 1)"),
        ("1.5.", "Extra data: line 1 column 4 (char 3)"),
        ("1e", "Extra data: line 1 column 2 (char 1)"),
        ("1e+", "Extra data: line 1 column 2 (char 1)"),
        ("1e+5", ""),
        (".5", "Expecting value: line 1 column 1 (char 0)"),
        ("+1", "Expecting value: line 1 column 1 (char 0)"),
        ("NaN", ""),
        ("-Infinity", ""),
        ("-Inf", "Expecting value: line 1 column 1 (char 0)"),
        (
            "[NaN, Infinity, -Infinity, null, true, false, 1.5e-3, \"\\u00e9\"]",
            "",
        ),
        (
            "{\"größe\": x}",
            "Expecting value: line 1 column 11 (char 10)",
        ),
        (
            "[\"größe\"\n, \"😀\" x]",
            "Expecting ',' delimiter: line 2 column 7 (char 15)",
        ),
        (
            "{\"a\": {\"b\": [1, {\"c\": }]}}",
            "Expecting value: line 1 column 23 (char 22)",
        ),
        (
            "{'a': 1}",
            "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
        (
            "{\"a\": 1, b: 2}",
            "Expecting property name enclosed in double quotes: line 1 column 10 (char 9)",
        ),
        ("[1,,2]", "Expecting value: line 1 column 4 (char 3)"),
        (
            "{,}",
            "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
        ("\"\\ud800\"", ""),
        ("{\"a\":[}", "Expecting value: line 1 column 7 (char 6)"),
        ("[}", "Expecting value: line 1 column 2 (char 1)"),
        (
            "{]",
            "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
        ("tru", "Expecting value: line 1 column 1 (char 0)"),
        ("[tru]", "Expecting value: line 1 column 2 (char 1)"),
        (
            "{\"a\":nulll}",
            "Expecting ',' delimiter: line 1 column 10 (char 9)",
        ),
        ("\u{0}", "Expecting value: line 1 column 1 (char 0)"),
        ("\"\u{7f}\"", ""),
        ("/", "Expecting value: line 1 column 1 (char 0)"),
        ("{\"a\":1}}", "Extra data: line 1 column 8 (char 7)"),
    ];
}
