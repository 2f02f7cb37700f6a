//! Ed25519 signatures, one by one and many together: the kind that nearly every transaction uses, so its encodings are
//! templates.

use ed25519_dalek::{Signature, VerifyingKey, verify_batch};

use super::der::Reader;
use super::{Condition, Kind, hash};
use crate::error::Error;

/// An Ed25519 fulfillment: a key and its signature of the message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ed25519 {
    /// The public key.
    pub public_key: [u8; 32],
    /// The signature of the message.
    pub signature: [u8; 64],
}

/// The draft's constant cost of an Ed25519 signature.
const COST: u64 = 131_072;
const DER_BYTES: usize = 102;
const KEY_AT: usize = 4;
const SIGNATURE_AT: usize = 38;

impl Ed25519 {
    pub(super) fn read(content: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            public_key: content
                .content(0x80)?
                .try_into()
                .map_err(|_| Error::Der("a key has 32 bytes"))?,
            signature: content
                .content(0x81)?
                .try_into()
                .map_err(|_| Error::Der("a signature has 64 bytes"))?,
        })
    }

    pub(super) fn to_der(self) -> [u8; DER_BYTES] {
        let mut der = [0; DER_BYTES];
        der[..KEY_AT].copy_from_slice(&[0xa4, 0x64, 0x80, 0x20]);
        der[KEY_AT..KEY_AT + 32].copy_from_slice(&self.public_key);
        der[KEY_AT + 32..SIGNATURE_AT].copy_from_slice(&[0x81, 0x40]);
        der[SIGNATURE_AT..].copy_from_slice(&self.signature);
        der
    }

    /// Whether the signature is one of this message by this key.
    ///
    /// As strict as the library of the original: no key or commitment of small order, no
    /// encodings other than the canonical ones.
    pub fn verify(&self, message: &[u8]) -> bool {
        self.checked()
            .is_some_and(|(key, signature)| key.verify_strict(message, &signature).is_ok())
    }

    /// Key and signature, unless their encodings alone refuse them.
    fn checked(&self) -> Option<(VerifyingKey, Signature)> {
        let commitment: &[u8; 32] = self.signature[..32].try_into().ok()?;
        for point in [&self.public_key, commitment] {
            if !is_canonical(point) || is_small(point) {
                return None;
            }
        }
        let key = VerifyingKey::from_bytes(&self.public_key).ok()?;
        Some((key, Signature::from_bytes(&self.signature)))
    }
}

/// The condition of a key.
pub(super) fn condition(key: &[u8; 32]) -> Condition {
    Condition {
        kind: Kind::Ed25519,
        fingerprint: hash(&fingerprint_contents(key)),
        cost: COST,
        holds_keys: false,
    }
}

pub(super) fn fingerprint_contents(key: &[u8; 32]) -> [u8; 36] {
    let mut contents = [0; 36];
    contents[..4].copy_from_slice(&[0x30, 0x22, 0x80, 0x20]);
    contents[4..].copy_from_slice(key);
    contents
}

/// Whether the y coordinate is below the prime 2^255 - 19.
fn is_canonical(point: &[u8; 32]) -> bool {
    point[31] & 0x7f != 0x7f || point[0] < 0xed || point[1..31].iter().any(|&byte| byte != 0xff)
}

/// The y coordinates of the points of small order, and 0, 1 and -1 in their other encodings: the
/// list that libsodium refuses (its `ge25519_has_small_order`).
const SMALL: [[u8; 32]; 7] = [
    [0; 32],
    with_ends(1, 0, 0),
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98,
        0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53,
        0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67,
        0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac,
        0x03, 0x7a,
    ],
    with_ends(0xec, 0xff, 0x7f),
    with_ends(0xed, 0xff, 0x7f),
    with_ends(0xee, 0xff, 0x7f),
];

const fn with_ends(first: u8, middle: u8, last: u8) -> [u8; 32] {
    let mut bytes = [middle; 32];
    bytes[0] = first;
    bytes[31] = last;
    bytes
}

fn is_small(point: &[u8; 32]) -> bool {
    let mut unsigned = *point;
    unsigned[31] &= 0x7f;
    SMALL.contains(&unsigned)
}

/// Signatures to be checked together.
///
/// The coefficients of the batch come from its content alone, so every node that checks the same
/// signatures in the same order comes to the same verdict, and needs no randomness for it.
///
/// A batch that passes is as good as its signatures one by one, with one exception: a signer can
/// craft, with a key of its own, a signature with a part of small order, which
/// [`Ed25519::verify`] refuses and a batch may admit. No one else's signature can be made that way.
/// Where single and batched checks must agree on that too, check one by one.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    signed: Ed25519,
    message: Vec<u8>,
}

impl Batch {
    /// A batch without signatures.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a signature and the message it should be of.
    pub fn push(&mut self, signed: Ed25519, message: &[u8]) {
        self.entries.push(Entry {
            signed,
            message: message.to_vec(),
        });
    }

    /// How many signatures there are.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no signature.
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The verdict on every signature, in the order they were added.
    ///
    /// If the batch as a whole does not pass, each is checked by itself: one bad signature costs
    /// the others their saving, not their verdict.
    pub fn verify(&self) -> Vec<bool> {
        let checked: Vec<Option<(VerifyingKey, Signature)>> = self
            .entries
            .iter()
            .map(|entry| entry.signed.checked())
            .collect();
        let mut messages = Vec::with_capacity(self.entries.len());
        let mut signatures = Vec::with_capacity(self.entries.len());
        let mut keys = Vec::with_capacity(self.entries.len());
        for (entry, checked) in self.entries.iter().zip(&checked) {
            if let Some((key, signature)) = checked {
                messages.push(entry.message.as_slice());
                signatures.push(*signature);
                keys.push(*key);
            }
        }
        let together = keys.len() > 1 && verify_batch(&messages, &signatures, &keys).is_ok();
        self.entries
            .iter()
            .zip(&checked)
            .map(|(entry, checked)| {
                checked.as_ref().is_some_and(|(key, signature)| {
                    together || key.verify_strict(&entry.message, signature).is_ok()
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_point_listed_that_is_a_key_is_weak() {
        for point in SMALL {
            for sign in [0, 0x80] {
                let mut point = point;
                point[31] |= sign;
                if let Ok(key) = VerifyingKey::from_bytes(&point) {
                    assert!(key.is_weak(), "{point:02x?}");
                }
                assert!(is_small(&point));
            }
        }
        assert!(!is_small(&[1; 32]));
    }

    #[test]
    fn encodings_from_the_prime_on_are_not_canonical() {
        assert!(is_canonical(&with_ends(0xec, 0xff, 0x7f)));
        assert!(!is_canonical(&with_ends(0xed, 0xff, 0x7f)));
        assert!(!is_canonical(&with_ends(0xff, 0xff, 0xff)));
        assert!(is_canonical(&with_ends(0xff, 0xfe, 0xff)));
    }
}
