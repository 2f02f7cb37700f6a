//! Writes JSON as CometBFT does: 64-bit integers are strings, hashes upper-case hex, byte strings
//! base64, and text is escaped as Go's `encoding/json` escapes it.

/// Appends `text` as it is.
pub(crate) fn raw(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends a 64-bit integer as a JSON string, as `libs/json` of CometBFT 0.38 does.
pub(crate) fn int_text(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.push(b'"');
    int(out, value);
    out.push(b'"');
}

/// Appends a plain JSON number.
pub(crate) fn int(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends quoted upper-case hex.
pub(crate) fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push(b'"');
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
    out.push(b'"');
}

/// Upper-case hex as text.
pub(crate) fn hex_text(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len() * 2 + 2);
    hex(&mut out, bytes);
    String::from_utf8_lossy(&out[1..out.len() - 1]).into_owned()
}

/// Appends quoted base64.
pub(crate) fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    base64_simd::STANDARD.encode_append(bytes, out);
    out.push(b'"');
}

/// Appends quoted base64, or `null` for nothing: Go's nil slice.
pub(crate) fn base64_or_null(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => base64(out, bytes),
        None => raw(out, "null"),
    }
}

/// Appends a quoted string, escaped as Go's `json.Marshal` does (HTML characters too).
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for character in text.chars() {
        match character {
            '"' => raw(out, "\\\""),
            '\\' => raw(out, "\\\\"),
            '\n' => raw(out, "\\n"),
            '\r' => raw(out, "\\r"),
            '\t' => raw(out, "\\t"),
            '\u{8}' => raw(out, "\\b"),
            '\u{c}' => raw(out, "\\f"),
            '<' | '>' | '&' | '\0'..='\u{1f}' | '\u{2028}' | '\u{2029}' => {
                raw(out, &format!("\\u{:04x}", u32::from(character)));
            }
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

/// Appends a quoted string of bytes that may not be UTF-8; each broken one becomes U+FFFD.
pub(crate) fn string_lossy(out: &mut Vec<u8>, bytes: &[u8]) {
    string(out, &super::gojson::replaced(bytes));
}

/// Appends `items`, separated by commas, in brackets.
pub(crate) fn array<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_is_escaped_as_go_does() {
        assert_eq!(
            written(|out| string(out, "a<b>&\"\\\n\u{1}\u{2028}é")),
            r#""a\u003cb\u003e\u0026\"\\\n\u0001\u2028é""#
        );
        assert_eq!(written(|out| string_lossy(out, b"a\xff")), "\"a\u{fffd}\"");
    }

    #[test]
    fn numbers_and_bytes_have_their_forms() {
        assert_eq!(written(|out| int_text(out, -5_i64)), "\"-5\"");
        assert_eq!(written(|out| hex(out, &[0xab, 1])), "\"AB01\"");
        assert_eq!(written(|out| base64(out, b"a=1")), "\"YT0x\"");
        assert_eq!(written(|out| array(out, [1, 2], int)), "[1,2]");
    }
}
