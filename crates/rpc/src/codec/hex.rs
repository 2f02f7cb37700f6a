//! Hexadecimal hashes, upper or lower case.

/// The 32 bytes that 64 hexadecimal digits stand for; `None` for any other text.
pub(crate) fn decode_hash(text: &[u8]) -> Option<[u8; 32]> {
    let digits: &[u8; 64] = text.try_into().ok()?;
    let mut hash = [0; 32];
    let mut bad = 0;
    for (byte, pair) in hash.iter_mut().zip(digits.as_chunks::<2>().0) {
        let (high, low) = (NIBBLES[pair[0] as usize], NIBBLES[pair[1] as usize]);
        // One test after the loop is cheaper than one for every digit.
        bad |= high | low;
        *byte = high << 4 | low & 0x0f;
    }
    (bad & 0xf0 == 0).then_some(hash)
}

/// `bytes` in upper case, as CometBFT prints hashes.
#[cfg(test)]
pub(crate) fn write_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| char::from(DIGITS[nibble as usize]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

const NIBBLES: [u8; 256] = {
    let mut table = [0xff; 256];
    let mut value = 0;
    while value < 16 {
        table[b"0123456789abcdef"[value as usize] as usize] = value;
        table[b"0123456789ABCDEF"[value as usize] as usize] = value;
        value += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_cases_decode(hash: [u8; 32]) {
            let upper = write_hex(&hash);
            prop_assert_eq!(decode_hash(upper.as_bytes()), Some(hash));
            prop_assert_eq!(decode_hash(upper.to_lowercase().as_bytes()), Some(hash));
        }

        #[test]
        fn anything_else_is_refused(hash: [u8; 32], at in 0usize..64, digit: u8) {
            prop_assume!(!digit.is_ascii_hexdigit());
            let mut text = write_hex(&hash).into_bytes();
            text[at] = digit;
            prop_assert_eq!(decode_hash(&text), None);
            prop_assert_eq!(decode_hash(&text[1..]), None);
        }
    }
}
