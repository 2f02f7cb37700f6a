//! Strings as Go's `encoding/json` reads and writes them.

use std::borrow::Cow;

/// The text of a scanned string, quotes included: escapes undone, what is no character U+FFFD.
pub(crate) fn unquote(string: &[u8]) -> Cow<'_, str> {
    let inner = string
        .get(1..string.len().saturating_sub(1))
        .unwrap_or_default();
    if memchr::memchr(b'\\', inner).is_none() {
        return match std::str::from_utf8(inner) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(repair(inner)),
        };
    }
    let mut text = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        text.extend_from_slice(&rest[..at]);
        let (character, used) = unescape(&rest[at..]);
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &rest[at + used..];
    }
    text.extend_from_slice(rest);
    Cow::Owned(repair(&text))
}

/// Text with a U+FFFD for each byte that belongs to no character, as Go repairs it
/// (`String::from_utf8_lossy` puts one for several).
fn repair(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// The character of an escape and the bytes it takes.
fn unescape(escape: &[u8]) -> (char, usize) {
    let character = match escape.get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return unescape_unicode(escape),
        Some(other) => char::from(*other),
        None => return (char::REPLACEMENT_CHARACTER, 1),
    };
    (character, 2)
}

fn unescape_unicode(escape: &[u8]) -> (char, usize) {
    let unit = |from: usize| {
        let digits = std::str::from_utf8(escape.get(from..from + 4)?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let first = unit(2).unwrap_or(0xfffd);
    if (0xd800..0xdc00).contains(&first)
        && escape.get(6..8) == Some(b"\\u")
        && let Some(second) = unit(8).filter(|unit| (0xdc00..0xe000).contains(unit))
    {
        let point = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return (
            char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER),
            12,
        );
    }
    let character = char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER);
    (character, escape.len().min(6))
}

/// Appends a quoted string as `json.Marshal` writes it, HTML characters escaped.
pub(crate) fn quote(out: &mut Vec<u8>, text: &str) {
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

/// Whether a key means `name` (lower case) to Go: letters of either case are the same, and so are
/// the two characters outside ASCII whose case folds to a letter inside it
/// (`foldName` in `encoding/json/fold.go`).
pub(super) fn folds_to(key: &str, name: &str) -> bool {
    let fold = |character: char| match character {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(name.chars())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_undone() {
        assert_eq!(
            unquote(br#""a\n\"\u00e9\ud83d\ude00\ud800x\/\udc00""#),
            "a\n\"é😀\u{fffd}x/\u{fffd}"
        );
        assert_eq!(unquote(b"\"a\xffb\""), "a\u{fffd}b");
        assert_eq!(
            unquote(b"\"\xe2\x80 \\n\xf0\x9f\x92\""),
            "\u{fffd}\u{fffd} \n\u{fffd}\u{fffd}\u{fffd}"
        );
        assert_eq!(unquote(br#""\ud800\ud800""#), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn text_is_escaped_as_go_does() {
        let mut out = Vec::new();
        quote(&mut out, "a<b>&\"\\\n\u{1}\u{2028}\u{7f}é");
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "\"a\\u003cb\\u003e\\u0026\\\"\\\\\\n\\u0001\\u2028\u{7f}é\""
        );
    }

    #[test]
    fn keys_fold_as_in_go() {
        assert!(folds_to("PaRamS", "params"));
        assert!(folds_to("param\u{17f}", "params"));
        assert!(!folds_to("param", "params"));
        assert!(!folds_to("\u{131}d", "id"));
    }

    proptest! {
        #[test]
        fn what_is_quoted_is_unquoted(text in any::<String>()) {
            let mut out = Vec::new();
            quote(&mut out, &text);
            prop_assert_eq!(unquote(&out), text.as_str());
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
