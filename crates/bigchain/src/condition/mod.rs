//! Crypto-conditions (the Interledger draft, version 02/03): a condition is the hash of what a spender
//! must present, a fulfillment presents it.
//!
//! Of the draft's five kinds there are the two that outputs of BigchainDB can name: Ed25519 and threshold. A
//! fulfillment of another kind is refused.

pub(crate) mod der;
mod ed25519;
mod fulfillment;

use std::fmt;

use sha2::{Digest, Sha256};

pub use self::ed25519::{Batch, Ed25519};
pub use self::fulfillment::{Fulfillment, MAX_NESTING, Threshold, ThresholdDraft};
use crate::{Error, base64url};

/// The kinds of conditions.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// m of n conditions.
    Threshold,
    /// An Ed25519 signature.
    Ed25519,
}

impl Kind {
    /// The name in URIs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Threshold => "threshold-sha-256",
            Self::Ed25519 => "ed25519-sha-256",
        }
    }

    /// The tag of its encodings: 0xa0 and its number in the draft.
    pub(crate) const fn tag(self) -> u8 {
        match self {
            Self::Threshold => 0xa2,
            Self::Ed25519 => 0xa4,
        }
    }

    pub(crate) fn of_tag(tag: u8) -> Result<Self, Error> {
        [Self::Threshold, Self::Ed25519]
            .into_iter()
            .find(|kind| kind.tag() == tag)
            .ok_or(Error::Der("neither Ed25519 nor a threshold"))
    }
}

/// A condition: what must be shown, as a hash of constant size.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Condition {
    /// The kind of the fulfillment wanted.
    pub kind: Kind,
    /// SHA-256 of the fingerprint contents.
    pub fingerprint: [u8; 32],
    /// What checking costs at most, in the draft's units.
    pub cost: u64,
    /// Whether a key is anywhere inside a threshold: its only possible subtype besides its own kind.
    pub holds_keys: bool,
}

/// The subtypes of a threshold with keys inside: unused bits, and bit 4 from the left for Ed25519.
const KEYS_INSIDE: [u8; 2] = [3, 0x08];
/// The subtypes of a threshold of nothing, or of thresholds of nothing.
const NO_KEYS_INSIDE: [u8; 1] = [0];

impl Condition {
    /// The condition that a signature of a key fulfills.
    pub fn of_key(key: crate::keys::PublicKey) -> Self {
        ed25519::condition(&key.0)
    }

    /// A threshold of some of the conditions given; a threshold above their number cannot be
    /// fulfilled, and is not refused.
    pub fn threshold(threshold: u32, conditions: &[Self]) -> Self {
        fulfillment::threshold_condition(threshold, conditions)
    }

    /// The condition in DER.
    pub fn to_der(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(48);
        der::write(0x80, &self.fingerprint, &mut content);
        der::write_integer(0x81, self.cost, &mut content);
        if self.kind == Kind::Threshold {
            let subtypes: &[u8] = if self.holds_keys {
                &KEYS_INSIDE
            } else {
                &NO_KEYS_INSIDE
            };
            der::write(0x82, subtypes, &mut content);
        }
        der::wrapped(self.kind.tag(), &content)
    }

    fn read(reader: &mut der::Reader<'_>) -> Result<Self, Error> {
        let (tag, mut content) = reader.nested()?;
        let kind = Kind::of_tag(tag)?;
        let fingerprint = content
            .content(0x80)?
            .try_into()
            .map_err(|_| Error::Der("a fingerprint has 32 bytes"))?;
        let cost = content.integer(0x81)?;
        let holds_keys = kind == Kind::Threshold
            && match content.content(0x82)? {
                subtypes if subtypes == KEYS_INSIDE => true,
                subtypes if subtypes == NO_KEYS_INSIDE => false,
                _ => return Err(Error::Der("other subtypes than Ed25519")),
            };
        content.end()?;
        Ok(Self {
            kind,
            fingerprint,
            cost,
            holds_keys,
        })
    }
}

impl fmt::Display for Condition {
    /// The condition as a URI: `ni:///sha-256;` fingerprint `?fpt=` kind `&cost=` number, and `&subtypes=`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ni:///sha-256;{}?fpt={}&cost={}",
            base64url::encode(&self.fingerprint),
            self.kind.name(),
            self.cost
        )?;
        if self.holds_keys {
            write!(f, "&subtypes={}", Kind::Ed25519.name())?;
        }
        Ok(())
    }
}

fn hash(contents: &[u8]) -> [u8; 32] {
    Sha256::digest(contents).into()
}
