//! Base64url without padding, the text form of fulfillments and fingerprints.

use base64_simd::URL_SAFE_NO_PAD;

use crate::error::Error;

/// Writes bytes as base64url.
pub fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode_to_string(bytes)
}

/// Reads base64url.
///
/// The unused bits of the last character may be set, as Python allows.
///
/// # Errors
/// [`Error::Base64`] on any other character, and on a length of 4n + 1.
pub fn decode(text: &str) -> Result<Vec<u8>, Error> {
    if text.len() % 4 == 1 {
        return Err(Error::Base64("no text has this length"));
    }
    URL_SAFE_NO_PAD
        .decode_to_vec(text)
        .or_else(|_| decode_loosely(text))
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn decode_loosely(text: &str) -> Result<Vec<u8>, Error> {
    const REFUSED: Error = Error::Base64("not base64url without padding");
    let mut cleaned = text.as_bytes().to_vec();
    let unused_bits = match text.len() % 4 {
        2 => 4,
        3 => 2,
        _ => return Err(REFUSED),
    };
    let last = cleaned.last_mut().ok_or(REFUSED)?;
    let value = ALPHABET
        .iter()
        .position(|letter| letter == last)
        .ok_or(REFUSED)?;
    *last = ALPHABET[value >> unused_bits << unused_bits];
    URL_SAFE_NO_PAD.decode_to_vec(cleaned).map_err(|_| REFUSED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_bits_may_be_set() {
        assert_eq!(decode("AB").unwrap(), [0]);
        assert_eq!(decode("AA").unwrap(), [0]);
        for text in ["A", "AAAAA", "A=", "A+", "A/A", "AA==", "Ä", "A B"] {
            assert!(decode(text).is_err(), "{text}");
        }
    }
}
