//! Base64url without padding, the text form of fulfillments and fingerprints.

use base64_simd::URL_SAFE_NO_PAD;

use crate::Mode;
use crate::error::Error;

/// Writes bytes as base64url.
pub fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode_to_string(bytes)
}

/// Reads base64url.
///
/// In compatible mode the unused bits of the last character may be set, as Python allows.
///
/// # Errors
/// [`Error::Base64`] on any other character, on a length of 4n + 1, and, in strict mode, on unused
/// bits that are set.
pub fn decode(text: &str, mode: Mode) -> Result<Vec<u8>, Error> {
    if text.len() % 4 == 1 {
        return Err(Error::Base64("no text has this length"));
    }
    match URL_SAFE_NO_PAD.decode_to_vec(text) {
        Ok(bytes) => Ok(bytes),
        Err(_) if mode == Mode::Compatible => decode_loosely(text),
        Err(_) => Err(Error::Base64("not canonical base64url without padding")),
    }
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
    fn unused_bits_are_refused_in_strict_mode_only() {
        assert_eq!(decode("AB", Mode::Compatible).unwrap(), [0]);
        assert!(decode("AB", Mode::Strict).is_err());
        assert_eq!(decode("AA", Mode::Strict).unwrap(), [0]);
        for text in ["A", "AAAAA", "A=", "A+", "A/A", "AA==", "Ä", "A B"] {
            assert!(decode(text, Mode::Compatible).is_err(), "{text}");
        }
    }
}
