//! Fulfillments: what they are, what they cost, how they are written and checked.

use super::{Batch, Condition, Ed25519, Kind, Kinds, der, ed25519, hash};
use crate::base64url;

/// What fulfills a condition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fulfillment {
    /// Bytes whose hash is the fingerprint.
    Preimage(Vec<u8>),
    /// A fulfillment for a message with bytes put before it.
    Prefix(Box<Prefix>),
    /// Several fulfillments, and the conditions that were not needed.
    Threshold(Threshold),
    /// An Ed25519 signature.
    Ed25519(Ed25519),
}

/// A fulfillment for a message with bytes put before it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Prefix {
    /// The bytes put before the message.
    pub prefix: Vec<u8>,
    /// The longest message it stands for, in bytes. It counts for the cost only: the draft wants
    /// longer messages refused, but the original's library does not, and the draft's own vector
    /// 0008 shows a longer one.
    pub max_message_length: u64,
    /// What fulfills for the longer message.
    pub fulfillment: Fulfillment,
}

/// Several fulfillments, as many as the threshold, and the conditions of the others.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Threshold {
    /// The fulfillments; their number is the threshold.
    pub fulfillments: Vec<Fulfillment>,
    /// The conditions that are not fulfilled.
    pub conditions: Vec<Condition>,
}

/// A threshold with perhaps more fulfillments than it needs.
#[derive(Clone, Debug, Default)]
pub struct ThresholdDraft {
    fulfillments: Vec<Fulfillment>,
    conditions: Vec<Condition>,
}

impl ThresholdDraft {
    /// A draft without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// The draft with one more fulfillment.
    #[must_use]
    pub fn fulfilled(mut self, fulfillment: Fulfillment) -> Self {
        self.fulfillments.push(fulfillment);
        self
    }

    /// The draft with one more condition that is not fulfilled.
    #[must_use]
    pub fn unfulfilled(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Keeps the fulfillments that make the shortest text and turns the others into their
    /// conditions; nothing if there are fewer than the threshold.
    #[must_use]
    pub fn seal(self, threshold: u32) -> Option<Threshold> {
        let threshold = usize::try_from(threshold).ok()?;
        if self.fulfillments.len() < threshold {
            return None;
        }
        let mut encoded: Vec<(Vec<u8>, Fulfillment)> = self
            .fulfillments
            .into_iter()
            .map(|fulfillment| (fulfillment.to_der(), fulfillment))
            .collect();
        encoded.sort_by(|(one, _), (two, _)| (one.len(), one).cmp(&(two.len(), two)));
        let spare = encoded.split_off(threshold);
        // The order of the encoding, so that what is read back is the same.
        encoded.sort_by(|(one, _), (two, _)| one.cmp(two));
        let mut conditions = self.conditions;
        conditions.extend(spare.iter().map(|(_, spare)| spare.condition()));
        conditions.sort_by_cached_key(Condition::to_der);
        Some(Threshold {
            fulfillments: encoded.into_iter().map(|(_, kept)| kept).collect(),
            conditions,
        })
    }
}

/// The draft's cost of each level of prefix and each member of a threshold.
const COMPOUND_COST: u64 = 1_024;

impl Fulfillment {
    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Preimage(_) => Kind::Preimage,
            Self::Prefix(_) => Kind::Prefix,
            Self::Threshold(_) => Kind::Threshold,
            Self::Ed25519(_) => Kind::Ed25519,
        }
    }

    /// The condition it fulfills. Costs beyond 64 bits stay at the largest number.
    pub fn condition(&self) -> Condition {
        let simple = |cost| Condition {
            kind: self.kind(),
            fingerprint: hash(&self.fingerprint_contents()),
            cost,
            subtypes: Kinds::EMPTY,
        };
        match self {
            Self::Preimage(preimage) => simple(preimage.len() as u64),
            Self::Ed25519(ed25519) => ed25519::condition(&ed25519.public_key),
            Self::Prefix(prefix) => {
                let inner = prefix.fulfillment.condition();
                Condition {
                    kind: Kind::Prefix,
                    fingerprint: hash(&prefix.fingerprint_contents(&inner)),
                    cost: (prefix.prefix.len() as u64)
                        .saturating_add(prefix.max_message_length)
                        .saturating_add(inner.cost)
                        .saturating_add(COMPOUND_COST),
                    subtypes: inner.subtypes.with(inner.kind).without(Kind::Prefix),
                }
            }
            Self::Threshold(threshold) => {
                threshold_condition(threshold.threshold(), &threshold.all_conditions())
            }
        }
    }

    /// The bytes whose SHA-256 is the fingerprint.
    pub fn fingerprint_contents(&self) -> Vec<u8> {
        match self {
            Self::Preimage(preimage) => preimage.clone(),
            Self::Ed25519(ed25519) => ed25519::fingerprint_contents(&ed25519.public_key).to_vec(),
            Self::Prefix(prefix) => prefix.fingerprint_contents(&prefix.fulfillment.condition()),
            Self::Threshold(threshold) => {
                threshold_contents(threshold.threshold(), &threshold.all_conditions())
            }
        }
    }

    /// The fulfillment in DER.
    pub fn to_der(&self) -> Vec<u8> {
        let mut content = Vec::new();
        match self {
            Self::Ed25519(ed25519) => return ed25519.to_der().to_vec(),
            Self::Preimage(preimage) => der::write(0x80, preimage, &mut content),
            Self::Prefix(prefix) => {
                der::write(0x80, &prefix.prefix, &mut content);
                der::write_integer(0x81, prefix.max_message_length, &mut content);
                der::write(0xa2, &prefix.fulfillment.to_der(), &mut content);
            }
            Self::Threshold(threshold) => {
                let fulfillments = threshold.fulfillments.iter().map(Self::to_der);
                der::write_set(0xa0, fulfillments.collect(), &mut content);
                let conditions = threshold.conditions.iter().map(Condition::to_der);
                der::write_set(0xa1, conditions.collect(), &mut content);
            }
        }
        der::wrapped(self.kind().tag(), &content)
    }

    /// The fulfillment as text: its DER in base64url.
    pub fn to_uri(&self) -> String {
        match self {
            Self::Ed25519(ed25519) => base64url::encode(&ed25519.to_der()),
            other => base64url::encode(&other.to_der()),
        }
    }

    /// Whether it fulfills its condition for this message.
    pub fn verify(&self, message: &[u8]) -> bool {
        match self {
            Self::Preimage(_) => true,
            Self::Prefix(prefix) => prefix.fulfillment.verify(&prefix.message(message)),
            Self::Threshold(threshold) => threshold
                .fulfillments
                .iter()
                .all(|fulfillment| fulfillment.verify(message)),
            Self::Ed25519(ed25519) => ed25519.verify(message),
        }
    }

    /// Checks all but the Ed25519 signatures, and puts these into a batch for later. `false` when
    /// it is known already that the fulfillment does not fulfill.
    pub fn verify_later(&self, message: &[u8], batch: &mut Batch) -> bool {
        match self {
            Self::Ed25519(ed25519) => {
                batch.push(*ed25519, message);
                true
            }
            Self::Prefix(prefix) => prefix
                .fulfillment
                .verify_later(&prefix.message(message), batch),
            Self::Threshold(threshold) => threshold
                .fulfillments
                .iter()
                .all(|fulfillment| fulfillment.verify_later(message, batch)),
            other => other.verify(message),
        }
    }
}

impl Prefix {
    fn message(&self, message: &[u8]) -> Vec<u8> {
        [&self.prefix, message].concat()
    }

    fn fingerprint_contents(&self, inner: &Condition) -> Vec<u8> {
        let mut content = Vec::new();
        der::write(0x80, &self.prefix, &mut content);
        der::write_integer(0x81, self.max_message_length, &mut content);
        der::write(0xa2, &inner.to_der(), &mut content);
        der::wrapped(0x30, &content)
    }
}

impl Threshold {
    /// How many must be fulfilled: as many as there are fulfillments.
    fn threshold(&self) -> u32 {
        u32::try_from(self.fulfillments.len()).unwrap_or(u32::MAX)
    }

    fn all_conditions(&self) -> Vec<Condition> {
        let fulfilled = self.fulfillments.iter().map(Fulfillment::condition);
        fulfilled.chain(self.conditions.iter().copied()).collect()
    }
}

/// A threshold costs its most expensive members, and something for each.
pub(super) fn threshold_condition(threshold: u32, conditions: &[Condition]) -> Condition {
    let mut costs: Vec<u64> = conditions.iter().map(|inner| inner.cost).collect();
    costs.sort_unstable_by(|one, two| two.cmp(one));
    let cost = costs
        .iter()
        .take(usize::try_from(threshold).unwrap_or(usize::MAX))
        .fold(COMPOUND_COST * conditions.len() as u64, |sum, &cost| {
            sum.saturating_add(cost)
        });
    let subtypes = conditions.iter().fold(Kinds::EMPTY, |kinds, inner| {
        kinds.union(inner.subtypes).with(inner.kind)
    });
    Condition {
        kind: Kind::Threshold,
        fingerprint: hash(&threshold_contents(threshold, conditions)),
        cost,
        subtypes: subtypes.without(Kind::Threshold),
    }
}

fn threshold_contents(threshold: u32, conditions: &[Condition]) -> Vec<u8> {
    let mut content = Vec::new();
    der::write_integer(0x80, u64::from(threshold), &mut content);
    let encoded = conditions.iter().map(Condition::to_der).collect();
    der::write_set(0xa1, encoded, &mut content);
    der::wrapped(0x30, &content)
}
