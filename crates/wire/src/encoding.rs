//! Encodings as Go reads them: hex, which CometBFT writes too, base64, and the queries and forms
//! of `net/url`.

use std::borrow::Cow;
use std::fmt::Write as _;

use hex_simd::{AsciiCase, Out};

/// The 32 bytes that 64 hexadecimal digits of either case stand for; none for any other text.
#[inline]
pub fn decode_hash(digits: &[u8]) -> Option<[u8; 32]> {
    let digits: &[u8; 64] = digits.try_into().ok()?;
    let mut hash = [0; 32];
    hex_simd::decode(digits, Out::from_slice(&mut hash)).ok()?;
    Some(hash)
}

/// Appends upper-case hex.
pub fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    hex_simd::encode_append(bytes, out, AsciiCase::Upper);
}

/// Upper-case hex as text.
pub fn hex_text(bytes: &[u8]) -> String {
    hex_simd::encode_to_string(bytes, AsciiCase::Upper)
}

/// Hex of either case; none for any other text.
pub fn decode_hex(digits: &[u8]) -> Option<Vec<u8>> {
    hex_simd::decode_to_vec(digits).ok()
}

/// Standard base64 as Go reads it, which overlooks line ends, and bits behind the last byte; none for any other text.
pub fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    if let Ok(bytes) = base64_simd::STANDARD.decode_to_vec(text) {
        return Some(bytes);
    }
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let text: Vec<u8> = text
        .iter()
        .copied()
        .filter(|byte| !is_break(byte))
        .collect();
    let is_whole = text.len().is_multiple_of(4) && !text.iter().any(u8::is_ascii_whitespace);
    let bytes = is_whole.then(|| base64_simd::forgiving_decode_to_vec(&text));
    bytes?.ok()
}

/// The pairs of a query or of a form, decoded. Pairs with a semicolon or with a broken escape are
/// left out.
pub fn pairs(query: &[u8]) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
    query.split(|byte| *byte == b'&').filter_map(|pair| {
        if pair.is_empty() || memchr::memchr(b';', pair).is_some() {
            return None;
        }
        let (key, value) = match memchr::memchr(b'=', pair) {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &[][..]),
        };
        Some((unescape(key, Plus::Space)?, unescape(value, Plus::Space)?))
    })
}

/// What a plus sign stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plus {
    /// In a path: itself.
    Literal,
    /// In a query: a space.
    Space,
}

/// A text with percent escapes in place of all bytes that are not plain. Only ASCII may be.
pub fn escape(text: &[u8], is_plain: impl Fn(u8) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for byte in text {
        if is_plain(*byte) {
            escaped.push(char::from(*byte));
        } else {
            write!(escaped, "%{byte:02X}").expect("a string takes everything");
        }
    }
    escaped
}

/// Undoes percent escapes; none if one is broken.
pub fn unescape(text: &[u8], plus: Plus) -> Option<Cow<'_, [u8]>> {
    if memchr::memchr2(b'%', b'+', text).is_none() {
        return Some(Cow::Borrowed(text));
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        match first {
            b'+' if plus == Plus::Space => decoded.push(b' '),
            b'%' => {
                let (digits, tail) = tail.split_first_chunk::<2>()?;
                let value = |digit: u8| char::from(digit).to_digit(16);
                let byte = value(digits[0])? << 4 | value(digits[1])?;
                decoded.push(u8::try_from(byte).ok()?);
                rest = tail;
            }
            other => decoded.push(*other),
        }
    }
    Some(Cow::Owned(decoded))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn base64_is_read_as_go_reads_it() {
        for (text, bytes) in [
            ("YT\r\n0x", "a=1"),
            ("YT1=", "a="),
            ("YQ=\n=", "a"),
            ("YR==", "a"),
            ("", ""),
        ] {
            let read = decode_base64(text.as_bytes());
            assert_eq!(read.as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        for text in [
            "!!", "YT0x!", "YQ", "YT0xYQ=", "YQ=x", "YQ==x", "YQ==YQ==", "Y===", "YT0xY", "=",
            "====", "YT 0x", "YT0\t",
        ] {
            assert_eq!(decode_base64(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn hex_is_of_either_case() {
        assert_eq!(decode_hex(b"aB01"), Some(vec![0xab, 1]));
        assert_eq!(decode_hex(b"zz"), None);
        assert_eq!(decode_hex(b"abc"), None);
    }

    proptest! {
        #[test]
        fn base64_of_anything_comes_back(bytes in prop::collection::vec(any::<u8>(), 0..100), break_at in 0_usize..100) {
            let mut text = base64_simd::STANDARD.encode_to_string(&bytes).into_bytes();
            text.insert(break_at.min(text.len()), b'\n');
            prop_assert_eq!(decode_base64(&text), Some(bytes));
        }

        #[test]
        fn what_is_escaped_comes_back(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let escaped = escape(&bytes, |byte| byte.is_ascii_alphanumeric());
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'%';
            prop_assert!(escaped.bytes().all(plain));
            let decoded = unescape(escaped.as_bytes(), Plus::Space).unwrap();
            prop_assert_eq!(&*decoded, &*bytes);
        }

        #[test]
        fn hashes_of_both_cases_decode(hash: [u8; 32]) {
            let upper = hex_text(&hash);
            prop_assert_eq!(decode_hash(upper.as_bytes()), Some(hash));
            prop_assert_eq!(decode_hash(upper.to_lowercase().as_bytes()), Some(hash));
        }

        #[test]
        fn any_other_hash_is_refused(hash: [u8; 32], at in 0usize..64, digit: u8) {
            prop_assume!(!digit.is_ascii_hexdigit());
            let mut text = hex_text(&hash).into_bytes();
            prop_assert_eq!(decode_hash(&text[1..]), None);
            prop_assert_eq!(decode_hash(&[&text[..], b"00"].concat()), None);
            text[at] = digit;
            prop_assert_eq!(decode_hash(&text), None);
        }
    }

    #[test]
    fn broken_pairs_are_left_out() {
        let found: Vec<_> = pairs(b"a=1&&b;c=2&d=%zz&%65=f+%2b&g").collect();
        let shown: Vec<(&[u8], &[u8])> = found
            .iter()
            .map(|(key, value)| (key.as_ref(), value.as_ref()))
            .collect();
        assert_eq!(shown, [(&b"a"[..], &b"1"[..]), (b"e", b"f +"), (b"g", b"")]);
    }

    #[test]
    fn a_plus_in_a_path_is_a_plus() {
        assert_eq!(unescape(b"a+%41", Plus::Literal).unwrap().as_ref(), b"a+A");
        assert_eq!(unescape(b"%4", Plus::Literal), None);
        assert_eq!(unescape(b"%+1", Plus::Literal), None);
    }
}
