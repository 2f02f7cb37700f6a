//! Crypto-conditions (the Interledger draft, version 02/03): a condition is the hash of what a spender
//! must present, a fulfillment presents it.
//!
//! Five kinds: preimage, prefix, threshold, RSA and Ed25519. BigchainDB uses Ed25519 and threshold;
//! a fulfillment of kind RSA is refused.

mod batch;
pub(crate) mod der;
mod ed25519;
mod fulfillment;
mod uri;

use sha2::{Digest, Sha256};

pub use batch::Batch;
pub use ed25519::Ed25519;
pub use fulfillment::{Fulfillment, Prefix, Threshold, ThresholdDraft};
pub use uri::MAX_NESTING;

use crate::error::Error;

/// The five kinds of conditions, numbered as in their encodings.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// Fulfilled by bytes that hash to the fingerprint.
    Preimage,
    /// A condition over a message with bytes put before it.
    Prefix,
    /// m of n conditions.
    Threshold,
    /// An RSA-PSS signature.
    Rsa,
    /// An Ed25519 signature.
    Ed25519,
}

impl Kind {
    /// All kinds in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Preimage,
        Self::Prefix,
        Self::Threshold,
        Self::Rsa,
        Self::Ed25519,
    ];

    /// The name in URIs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Preimage => "preimage-sha-256",
            Self::Prefix => "prefix-sha-256",
            Self::Threshold => "threshold-sha-256",
            Self::Rsa => "rsa-sha-256",
            Self::Ed25519 => "ed25519-sha-256",
        }
    }

    /// The tag of its encodings.
    pub(crate) const fn tag(self) -> u8 {
        0xa0 | self as u8
    }

    pub(crate) fn of_tag(tag: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.tag() == tag)
    }

    fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether conditions of this kind hold others and name their kinds.
    const fn is_compound(self) -> bool {
        matches!(self, Self::Prefix | Self::Threshold)
    }
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Kinds(u8);

impl Kinds {
    /// The set without members.
    pub const EMPTY: Self = Self(0);

    /// The set with one more kind.
    #[must_use]
    pub const fn with(self, kind: Kind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// The set without a kind.
    #[must_use]
    pub const fn without(self, kind: Kind) -> Self {
        Self(self.0 & !(1 << kind as u8))
    }

    /// All members of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether there is no member.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL
            .into_iter()
            .filter(move |kind| self.0 & (1 << *kind as u8) != 0)
    }

    /// The names, sorted, as they stand in URIs.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.iter().map(Kind::name).collect();
        names.sort_unstable();
        names
    }

    /// Unused bits and content of a bit string whose bit 0 is the leftmost.
    fn bit_string(self) -> [u8; 2] {
        let bits = self.0.reverse_bits();
        let unused = if bits == 0 { 0 } else { bits.trailing_zeros() };
        [u8::try_from(unused).unwrap_or(0), bits]
    }

    fn of_bit_string(content: &[u8]) -> Result<Self, Error> {
        let (unused, bits) = match content {
            [0] => return Ok(Self::EMPTY),
            [unused @ 0..=7, bits @ ..] => (*unused, bits),
            _ => return Err(Error::Der("a bit string without its count of unused bits")),
        };
        let [bits] = bits else {
            return Err(Error::Der("more kinds than there are"));
        };
        let kinds = Self(bits.reverse_bits());
        if kinds.0 >= 1 << Kind::ALL.len() {
            return Err(Error::Der("a kind that does not exist"));
        }
        if bits & ((1_u16 << unused) - 1) as u8 != 0 {
            return Err(Error::Der("wrong count of unused bits"));
        }
        Ok(kinds)
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
    /// The kinds of the conditions inside, without its own.
    pub subtypes: Kinds,
}

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
        if self.kind.is_compound() {
            let bits = self.subtypes.bit_string();
            // An empty set has no content but the count of unused bits.
            let length = if self.subtypes.is_empty() { 1 } else { 2 };
            der::write(0x82, &bits[..length], &mut content);
        }
        der::wrapped(self.kind.tag(), &content)
    }

    /// Reads a condition in DER.
    ///
    /// # Errors
    /// [`Error::Der`] when the bytes do not begin with a condition.
    pub fn from_der(bytes: &[u8]) -> Result<Self, Error> {
        Self::read(&mut der::Reader::new(bytes))
    }

    pub(crate) fn read(reader: &mut der::Reader<'_>) -> Result<Self, Error> {
        let (tag, mut content) = reader.nested()?;
        let kind = Kind::of_tag(tag).ok_or(Error::Der("a kind that does not exist"))?;
        let fingerprint = content
            .content(0x80)?
            .try_into()
            .map_err(|_| Error::Der("a fingerprint has 32 bytes"))?;
        let cost = content.integer(0x81)?;
        let subtypes = if kind.is_compound() {
            Kinds::of_bit_string(content.content(0x82)?)?
        } else {
            Kinds::EMPTY
        };
        content.end()?;
        Ok(Self {
            kind,
            fingerprint,
            cost,
            subtypes,
        })
    }
}

fn hash(contents: &[u8]) -> [u8; 32] {
    Sha256::digest(contents).into()
}
