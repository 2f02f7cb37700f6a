//! Reads hex and base64 as Go does, with its error texts.

/// Hex of either case, with Go's error texts.
///
/// # Errors
/// The wire's text.
pub(crate) fn hex(digits: &[u8]) -> Result<Vec<u8>, String> {
    let value = |digit: u8| {
        char::from(digit)
            .to_digit(16)
            .and_then(|value| u8::try_from(value).ok())
            .ok_or_else(|| {
                format!(
                    "encoding/hex: invalid byte: U+{digit:04X} '{}'",
                    char::from(digit)
                )
            })
    };
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    let (pairs, rest) = digits.as_chunks::<2>();
    for [high, low] in pairs {
        bytes.push(value(*high)? << 4 | value(*low)?);
    }
    match rest.first() {
        Some(digit) => {
            value(*digit)?;
            Err("encoding/hex: odd length hex string".to_owned())
        }
        None => Ok(bytes),
    }
}

/// Standard base64, read as leniently as Go does: line ends are skipped, unused bits ignored.
///
/// # Errors
/// Go's text with the offset it reports.
pub(crate) fn base64(text: &[u8]) -> Result<Vec<u8>, String> {
    if let Ok(bytes) = base64_simd::STANDARD.decode_to_vec(text) {
        return Ok(bytes);
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut at = 0;
    while at < text.len() {
        at = quantum(text, at, &mut bytes)
            .map_err(|at| format!("illegal base64 data at input byte {at}"))?;
    }
    Ok(bytes)
}

/// Four characters of base64. Returns where the next four start, or the offset of the fault.
fn quantum(text: &[u8], mut at: usize, bytes: &mut Vec<u8>) -> Result<usize, usize> {
    let mut bits = 0_u32;
    let mut count = 0;
    while count < 4 {
        let Some(character) = text.get(at) else {
            return if count == 0 { Ok(at) } else { Err(at - count) };
        };
        at += 1;
        match sextet(*character) {
            Some(value) => {
                bits = bits << 6 | value;
                count += 1;
            }
            None if matches!(character, b'\r' | b'\n') => {}
            None if *character == b'=' && count >= 2 => {
                return padding(text, at, (bits, count), bytes);
            }
            None => return Err(at - 1),
        }
    }
    bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
    Ok(at)
}

/// The end of a text after its first `=`.
fn padding(
    text: &[u8],
    mut at: usize,
    (bits, count): (u32, usize),
    bytes: &mut Vec<u8>,
) -> Result<usize, usize> {
    let skip = |mut at: usize| {
        while matches!(text.get(at), Some(b'\r' | b'\n')) {
            at += 1;
        }
        at
    };
    if count == 2 {
        at = skip(at);
        match text.get(at) {
            None => return Err(text.len()),
            Some(b'=') => at += 1,
            Some(_) => return Err(at - 1),
        }
    }
    at = skip(at);
    let aligned = bits << (6 * (4 - count));
    bytes.extend_from_slice(&aligned.to_be_bytes()[1..count]);
    if at < text.len() { Err(at) } else { Ok(at) }
}

fn sextet(character: u8) -> Option<u32> {
    let value = match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn base64_is_read_as_go_reads_it() {
        assert_eq!(base64(b"YT\r\n0x"), Ok(b"a=1".to_vec()));
        assert_eq!(base64(b"YT1="), Ok(b"a=".to_vec()));
        for (text, at) in [
            ("!!", 0),
            ("YT0x!", 4),
            ("YQ", 0),
            ("YT0xYQ=", 7),
            ("YQ=x", 2),
            ("YQ==x", 4),
            ("Y===", 1),
            ("YT0xY", 4),
        ] {
            assert_eq!(
                base64(text.as_bytes()).unwrap_err(),
                format!("illegal base64 data at input byte {at}"),
                "{text}"
            );
        }
    }

    #[test]
    fn hex_errors_name_the_byte() {
        assert_eq!(hex(b"aB01"), Ok(vec![0xab, 1]));
        assert_eq!(
            hex(b"zz").unwrap_err(),
            "encoding/hex: invalid byte: U+007A 'z'"
        );
        assert_eq!(
            hex(b"abc").unwrap_err(),
            "encoding/hex: odd length hex string"
        );
    }

    proptest! {
        #[test]
        fn base64_of_anything_comes_back(bytes in prop::collection::vec(any::<u8>(), 0..100), break_at in 0_usize..100) {
            let mut text = base64_simd::STANDARD.encode_to_string(&bytes).into_bytes();
            text.insert(break_at.min(text.len()), b'\n');
            prop_assert_eq!(base64(&text), Ok(bytes));
        }
    }
}
