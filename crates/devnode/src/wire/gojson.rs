//! Reads JSON as Go's `encoding/json` does, with its error texts: clients see them in `data`.
//!
//! Values are slices of the input that [`check`] has found well formed; nothing is built as a tree.

use std::borrow::Cow;

/// Deepest nesting that Go takes.
const MAX_DEPTH: usize = 10_000;

/// Where a scan went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    End,
    Depth,
    Byte(u8, &'static str),
}

impl Fault {
    fn text(self) -> String {
        match self {
            Self::End => "unexpected end of JSON input".to_owned(),
            Self::Depth => "exceeded max depth".to_owned(),
            Self::Byte(byte, context) => format!("invalid character {} {context}", quoted(byte)),
        }
    }
}

/// Checks a whole input, as `json.Unmarshal` does before it decodes. Returns the value without
/// the white space around it.
///
/// # Errors
/// Go's text.
pub(crate) fn check(input: &[u8]) -> Result<&[u8], String> {
    let start = skip_space(input, 0);
    let end = scan(input, start).map_err(Fault::text)?;
    let rest = skip_space(input, end);
    match input.get(rest) {
        Some(byte) => Err(Fault::Byte(*byte, "after top-level value").text()),
        None => Ok(&input[start..end]),
    }
}

/// The first value of an input, as `json.Decoder` reads it; what follows is ignored.
///
/// # Errors
/// Go's text.
pub(crate) fn first(input: &[u8]) -> Result<&[u8], String> {
    let start = skip_space(input, 0);
    if start == input.len() {
        return Err("EOF".to_owned());
    }
    match scan(input, start) {
        Ok(end) => Ok(&input[start..end]),
        Err(Fault::End) => Err("unexpected EOF".to_owned()),
        Err(fault) => Err(fault.text()),
    }
}

/// Go's name for the kind of a value.
pub(crate) fn kind(value: &[u8]) -> &'static str {
    match value.first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        Some(b'n') => "null",
        _ => "number",
    }
}

/// The elements of a checked array.
pub(crate) fn elements(array: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut at = skip_space(array, 1);
    while at + 1 < array.len() {
        let Ok(end) = scan(array, at) else {
            break;
        };
        found.push(&array[at..end]);
        at = skip_space(array, skip_space(array, end) + 1);
    }
    found
}

/// The members of a checked object in order, keys without escapes.
pub(crate) fn members(object: &[u8]) -> Vec<(Cow<'_, str>, &[u8])> {
    let mut found = Vec::new();
    let mut at = skip_space(object, 1);
    while at + 1 < object.len() {
        let Ok(key_end) = scan(object, at) else {
            break;
        };
        let value_at = skip_space(object, skip_space(object, key_end) + 1);
        let Ok(value_end) = scan(object, value_at) else {
            break;
        };
        found.push((unquote(&object[at..key_end]), &object[value_at..value_end]));
        at = skip_space(object, skip_space(object, value_end) + 1);
    }
    found
}

/// The text of a checked string; each byte that is no UTF-8 becomes U+FFFD.
pub(crate) fn unquote(string: &[u8]) -> Cow<'_, str> {
    let inner = string
        .get(1..string.len().saturating_sub(1))
        .unwrap_or_default();
    if !inner.contains(&b'\\') {
        return replaced(inner);
    }
    let mut text = Vec::with_capacity(inner.len());
    let mut at = 0;
    while let Some(byte) = inner.get(at) {
        if *byte != b'\\' {
            text.push(*byte);
            at += 1;
            continue;
        }
        let (character, used) = escape(&inner[at..]);
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        at += used;
    }
    Cow::Owned(replaced(&text).into_owned())
}

/// Text in which each byte that is no UTF-8 is U+FFFD, as Go decodes it; Rust's own
/// `from_utf8_lossy` has one for a run of bytes that begin a character.
pub(crate) fn replaced(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '\u{fffd}'));
    }
    Cow::Owned(text)
}

/// The character of an escape and the bytes it takes.
fn escape(at: &[u8]) -> (char, usize) {
    let simple = |character| (character, 2);
    match at.get(1) {
        Some(b'n') => simple('\n'),
        Some(b't') => simple('\t'),
        Some(b'r') => simple('\r'),
        Some(b'b') => simple('\u{8}'),
        Some(b'f') => simple('\u{c}'),
        Some(b'u') => unicode_escape(at),
        Some(other) => simple(char::from(*other)),
        None => ('\u{fffd}', 1),
    }
}

fn unicode_escape(at: &[u8]) -> (char, usize) {
    let unit = |from: usize| {
        let digits = at.get(from..from + 4)?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let high = unit(2).unwrap_or(0xfffd);
    if (0xd800..0xdc00).contains(&high)
        && at.get(6..8) == Some(b"\\u")
        && let Some(low) = unit(8).filter(|low| (0xdc00..0xe000).contains(low))
    {
        let point = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        return (char::from_u32(point).unwrap_or('\u{fffd}'), 12);
    }
    (char::from_u32(high).unwrap_or('\u{fffd}'), 6)
}

/// What may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    After,
}

/// Scans one value from `start`; returns where it ends.
fn scan(input: &[u8], start: usize) -> Result<usize, Fault> {
    let mut open: Vec<u8> = Vec::new();
    let mut next = Next::Value;
    let mut at = start;
    loop {
        at = skip_space(input, at);
        let byte = *input.get(at).ok_or(Fault::End)?;
        match next {
            Next::ValueOrEnd if byte == b']' => {
                open.pop();
                at += 1;
                next = Next::After;
            }
            Next::KeyOrEnd if byte == b'}' => {
                open.pop();
                at += 1;
                next = Next::After;
            }
            Next::Value | Next::ValueOrEnd => (at, next) = value(input, at, &mut open)?,
            Next::Key | Next::KeyOrEnd if byte == b'"' => {
                at = string(input, at)?;
                next = Next::Colon;
            }
            Next::Key | Next::KeyOrEnd => {
                return Err(Fault::Byte(
                    byte,
                    "looking for beginning of object key string",
                ));
            }
            Next::Colon if byte == b':' => {
                at += 1;
                next = Next::Value;
            }
            Next::Colon => return Err(Fault::Byte(byte, "after object key")),
            Next::After => {
                next = after(byte, &mut open)?;
                at += 1;
            }
        }
        if next == Next::After && open.is_empty() {
            return Ok(at);
        }
    }
}

/// The start of a value or all of a scalar.
fn value(input: &[u8], at: usize, open: &mut Vec<u8>) -> Result<(usize, Next), Fault> {
    let byte = input[at];
    match byte {
        b'{' | b'[' => {
            open.push(byte);
            if open.len() > MAX_DEPTH {
                return Err(Fault::Depth);
            }
            Ok((
                at + 1,
                if byte == b'{' {
                    Next::KeyOrEnd
                } else {
                    Next::ValueOrEnd
                },
            ))
        }
        b'"' => Ok((string(input, at)?, Next::After)),
        b'-' | b'0'..=b'9' => Ok((number(input, at)?, Next::After)),
        b't' => Ok((literal(input, at, "true")?, Next::After)),
        b'f' => Ok((literal(input, at, "false")?, Next::After)),
        b'n' => Ok((literal(input, at, "null")?, Next::After)),
        _ => Err(Fault::Byte(byte, "looking for beginning of value")),
    }
}

/// What a comma or a closing bracket leads to.
fn after(byte: u8, open: &mut Vec<u8>) -> Result<Next, Fault> {
    match (open.last(), byte) {
        (Some(b'{'), b',') => Ok(Next::Key),
        (Some(b'['), b',') => Ok(Next::Value),
        (Some(b'{'), b'}') | (Some(b'['), b']') => {
            open.pop();
            Ok(Next::After)
        }
        (Some(b'{'), _) => Err(Fault::Byte(byte, "after object key:value pair")),
        _ => Err(Fault::Byte(byte, "after array element")),
    }
}

fn string(input: &[u8], start: usize) -> Result<usize, Fault> {
    let mut at = start + 1;
    loop {
        match *input.get(at).ok_or(Fault::End)? {
            b'"' => return Ok(at + 1),
            b'\\' => {
                let escaped = *input.get(at + 1).ok_or(Fault::End)?;
                at += 2;
                match escaped {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let digit = *input.get(at).ok_or(Fault::End)?;
                            if !digit.is_ascii_hexdigit() {
                                return Err(Fault::Byte(
                                    digit,
                                    "in \\u hexadecimal character escape",
                                ));
                            }
                            at += 1;
                        }
                    }
                    _ => return Err(Fault::Byte(escaped, "in string escape code")),
                }
            }
            control @ 0..=0x1f => return Err(Fault::Byte(control, "in string literal")),
            _ => at += 1,
        }
    }
}

fn number(input: &[u8], start: usize) -> Result<usize, Fault> {
    let mut at = start;
    if input[at] == b'-' {
        at = digit(input, at + 1, "in numeric literal")?;
    } else {
        at += 1;
    }
    if input[at - 1] != b'0' {
        at = digits(input, at);
    }
    if input.get(at) == Some(&b'.') {
        at = digits(
            input,
            digit(input, at + 1, "after decimal point in numeric literal")?,
        );
    }
    if let Some(b'e' | b'E') = input.get(at) {
        let sign = usize::from(matches!(input.get(at + 1), Some(b'+' | b'-')));
        at = digits(
            input,
            digit(input, at + 1 + sign, "in exponent of numeric literal")?,
        );
    }
    Ok(at)
}

fn digit(input: &[u8], at: usize, context: &'static str) -> Result<usize, Fault> {
    match *input.get(at).ok_or(Fault::End)? {
        b'0'..=b'9' => Ok(at + 1),
        other => Err(Fault::Byte(other, context)),
    }
}

fn digits(input: &[u8], mut at: usize) -> usize {
    while input.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    at
}

fn literal(input: &[u8], start: usize, word: &'static str) -> Result<usize, Fault> {
    for (offset, expected) in word.bytes().enumerate().skip(1) {
        let byte = *input.get(start + offset).ok_or(Fault::End)?;
        if byte != expected {
            return Err(Fault::Byte(byte, expectation(word, offset)));
        }
    }
    Ok(start + word.len())
}

/// Go's text for a literal that stops at the byte with this offset.
fn expectation(word: &str, offset: usize) -> &'static str {
    match (word, offset) {
        ("true", 1) => "in literal true (expecting 'r')",
        ("true", 2) => "in literal true (expecting 'u')",
        ("true", _) => "in literal true (expecting 'e')",
        ("false", 1) => "in literal false (expecting 'a')",
        ("false", 2) => "in literal false (expecting 'l')",
        ("false", 3) => "in literal false (expecting 's')",
        ("false", _) => "in literal false (expecting 'e')",
        (_, 1) => "in literal null (expecting 'u')",
        _ => "in literal null (expecting 'l')",
    }
}

fn skip_space(input: &[u8], mut at: usize) -> usize {
    while matches!(input.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// A byte as Go quotes it in an error.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        0..=0x1f | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_bad_byte_is_replaced_as_go_does() {
        // `utf8.DecodeRune` takes one byte at a time of what is no character.
        for (bytes, expected) in [
            (&b"a\xe2\x82b"[..], "a\u{fffd}\u{fffd}b"),
            (b"\xf0\x9f\x98", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xff\xc3\xa9\xc0", "\u{fffd}\u{e9}\u{fffd}"),
            ("é".as_bytes(), "é"),
        ] {
            assert_eq!(replaced(bytes), expected, "{bytes:?}");
        }
        assert_eq!(unquote(b"\"\\n\xe2\x82\""), "\n\u{fffd}\u{fffd}");
    }

    #[test]
    fn errors_read_as_go_writes_them() {
        for (input, text) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            (
                "nope",
                "invalid character 'o' in literal null (expecting 'u')",
            ),
            (
                "{a",
                "invalid character 'a' looking for beginning of object key string",
            ),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            (
                "{\"a\":1 \"b\"}",
                "invalid character '\"' after object key:value pair",
            ),
            ("[1 2]", "invalid character '2' after array element"),
            (
                "[1,]",
                "invalid character ']' looking for beginning of value",
            ),
            ("01", "invalid character '1' after top-level value"),
            ("-x", "invalid character 'x' in numeric literal"),
            (
                "1.x",
                "invalid character 'x' after decimal point in numeric literal",
            ),
            (
                "1ex",
                "invalid character 'x' in exponent of numeric literal",
            ),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            (
                "\"\\u12g4\"",
                "invalid character 'g' in \\u hexadecimal character escape",
            ),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            (
                "'a'",
                "invalid character '\\'' looking for beginning of value",
            ),
            (
                "\u{e9}",
                "invalid character 'Ã' looking for beginning of value",
            ),
        ] {
            assert_eq!(check(input.as_bytes()).unwrap_err(), text, "{input}");
        }
    }

    #[test]
    fn a_stream_ends_differently_from_a_text() {
        assert_eq!(first(b" ").unwrap_err(), "EOF");
        assert_eq!(first(b"{").unwrap_err(), "unexpected EOF");
        assert_eq!(first(b" {} x").unwrap(), b"{}");
    }

    #[test]
    fn members_and_elements_are_slices_of_the_input() {
        let input = br#"{ "a" : [1, {"x":2} ,"y"] , "\u0062":null}"#;
        let found = members(check(input).unwrap());
        assert_eq!(found[0].0, "a");
        assert_eq!(elements(found[0].1), [&b"1"[..], br#"{"x":2}"#, br#""y""#]);
        assert_eq!((found[1].0.as_ref(), found[1].1), ("b", &b"null"[..]));
        assert!(elements(b"[ ]").is_empty());
        assert!(members(b"{ }").is_empty());
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(
            unquote(br#""a\n\"\u00e9\ud83d\ude00\ud800x\/""#),
            "a\n\"é😀\u{fffd}x/"
        );
    }

    proptest! {
        /// The same texts are JSON here and for serde_json (numbers that overflow aside).
        #[test]
        fn it_agrees_with_serde_json(input in r#"[\[\]{}:,"\\a1-9.eE+\-tfn0 ]{0,12}"#) {
            let ours = check(input.as_bytes()).is_ok();
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&input).is_ok();
            prop_assert_eq!(ours, theirs, "{}", input);
        }

        #[test]
        fn arbitrary_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = check(&input);
            let _ = first(&input);
        }
    }
}
