//! Ed25519 keys in the original's form: 32 bytes, written in base58 with Bitcoin's alphabet.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::{Signer, SigningKey};

use crate::error::Error;

/// A public key. Any 32 bytes: whether they are a point of the curve shows when a signature is
/// checked, as in the original.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PublicKey(pub [u8; 32]);

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bs58::encode(self.0).into_string())
    }
}

impl FromStr for PublicKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        key_bytes(text, "Public").map(Self)
    }
}

/// A key pair that signs.
#[derive(Clone, Debug)]
pub struct KeyPair {
    signing: SigningKey,
    public: PublicKey,
}

impl KeyPair {
    /// The pair of a 32 byte seed.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let signing = SigningKey::from_bytes(&seed);
        let public = PublicKey(signing.verifying_key().to_bytes());
        Self { signing, public }
    }

    /// The pair of a private key as the original writes it: the seed in base58.
    ///
    /// # Errors
    /// [`Error::Key`] when the text is not 32 bytes in base58.
    pub fn from_private_key(text: &str) -> Result<Self, Error> {
        key_bytes(text, "Private").map(Self::from_seed)
    }

    /// The public key.
    pub const fn public(&self) -> PublicKey {
        self.public
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.signing.sign(message).to_bytes()
    }
}

/// A key of 32 bytes never takes more than 44 characters; a longer text is not decoded, because
/// base58 costs the square of its length.
const LONGEST_KEY_TEXT: usize = 64;

fn key_bytes(text: &str, which: &str) -> Result<[u8; 32], Error> {
    if text.len() > LONGEST_KEY_TEXT {
        return Err(Error::Key(format!(
            "{which} key must be 32 bytes, was a text of {} characters",
            text.len()
        )));
    }
    let mut bytes = [0; LONGEST_KEY_TEXT];
    let length = bs58::decode(text)
        .onto(&mut bytes)
        .map_err(|error| Error::Key(format!("{which} key must be base58: {error}")))?;
    <[u8; 32]>::try_from(&bytes[..length])
        .map_err(|_| Error::Key(format!("{which} key must be 32 bytes, was: {length}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_and_write_as_the_original_does() {
        let alice = KeyPair::from_seed([1; 32]);
        let text = "AKnL4NNf3DGWZJS6cPknBuEGnVsV4A4m5tgebLHaRSZ9";
        assert_eq!(alice.public().to_string(), text);
        assert_eq!(text.parse(), Ok(alice.public()));
        let private = "4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi";
        assert_eq!(
            KeyPair::from_private_key(private).unwrap().public(),
            alice.public()
        );
        for text in [
            "",
            "0",
            "1111",
            &"1".repeat(43),
            &"z".repeat(44),
            &"z".repeat(100_000),
            "é",
        ] {
            assert!(text.parse::<PublicKey>().is_err(), "{text}");
        }
    }
}
