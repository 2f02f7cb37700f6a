//! Queries and forms as Go's `net/url` reads them.

use std::borrow::Cow;

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
    use super::*;

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
