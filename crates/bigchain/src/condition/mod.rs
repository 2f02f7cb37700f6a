//! Crypto-conditions (the Interledger draft, version 02/03): a condition is the hash of what a spender
//! must present, a fulfillment presents it: what it is, what it costs, how it is written and checked.
//!
//! Of the draft's five kinds there are the two that outputs of BigchainDB can name: Ed25519 and threshold. A
//! fulfillment of another kind is refused.

pub(crate) mod der;
mod ed25519;

use std::fmt;

use sha2::{Digest, Sha256};

use self::der::Reader;
use crate::base64url;
use crate::error::Error;

pub use self::ed25519::{Batch, Ed25519};

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
        threshold_condition(threshold, conditions)
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

    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
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

/// What fulfills a condition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fulfillment {
    /// Several fulfillments, and the conditions that were not needed.
    Threshold(Threshold),
    /// An Ed25519 signature.
    Ed25519(Ed25519),
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

/// The draft's cost of each member of a threshold.
const MEMBER_COST: u64 = 1_024;

/// Deepest nesting of thresholds that is read; the bound of the recursion.
pub const MAX_NESTING: usize = 100;

impl Fulfillment {
    /// Reads a fulfillment from its text.
    ///
    /// # Errors
    /// [`Error::Base64`] or [`Error::Der`]. It admits what the original's decoder admits: bytes after the end, lengths
    /// in more bytes than they take, sets in any order.
    pub fn from_uri(text: &str) -> Result<Self, Error> {
        Self::from_der(&base64url::decode(text)?)
    }

    /// Reads a fulfillment in DER.
    ///
    /// # Errors
    /// [`Error::Der`], as [`Self::from_uri`].
    pub fn from_der(bytes: &[u8]) -> Result<Self, Error> {
        Self::read(&mut Reader::new(bytes), MAX_NESTING)
    }

    fn read(reader: &mut Reader<'_>, levels_left: usize) -> Result<Self, Error> {
        let (tag, mut content) = reader.nested()?;
        let kind = Kind::of_tag(tag)?;
        let levels_left = levels_left
            .checked_sub(1)
            .ok_or(Error::Der("nested too deeply"))?;
        let fulfillment = match kind {
            Kind::Threshold => Self::Threshold(Threshold::read(&mut content, levels_left)?),
            Kind::Ed25519 => Self::Ed25519(Ed25519::read(&mut content)?),
        };
        content.end()?;
        Ok(fulfillment)
    }

    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Threshold(_) => Kind::Threshold,
            Self::Ed25519(_) => Kind::Ed25519,
        }
    }

    /// The condition it fulfills. Costs beyond 64 bits stay at the largest number.
    pub fn condition(&self) -> Condition {
        match self {
            Self::Ed25519(ed25519) => ed25519::condition(&ed25519.public_key),
            Self::Threshold(threshold) => {
                threshold_condition(threshold.threshold(), &threshold.all_conditions())
            }
        }
    }

    /// The bytes whose SHA-256 is the fingerprint.
    pub fn fingerprint_contents(&self) -> Vec<u8> {
        match self {
            Self::Ed25519(ed25519) => ed25519::fingerprint_contents(&ed25519.public_key).to_vec(),
            Self::Threshold(threshold) => {
                threshold_contents(threshold.threshold(), &threshold.all_conditions())
            }
        }
    }

    /// The fulfillment in DER.
    pub fn to_der(&self) -> Vec<u8> {
        match self {
            Self::Ed25519(ed25519) => ed25519.to_der().to_vec(),
            Self::Threshold(threshold) => threshold.to_der(),
        }
    }

    /// The fulfillment as text: its DER in base64url.
    pub fn to_uri(&self) -> String {
        match self {
            Self::Ed25519(ed25519) => base64url::encode(&ed25519.to_der()),
            Self::Threshold(threshold) => base64url::encode(&threshold.to_der()),
        }
    }

    /// Whether it fulfills its condition for this message.
    pub fn verify(&self, message: &[u8]) -> bool {
        match self {
            Self::Threshold(threshold) => threshold
                .fulfillments
                .iter()
                .all(|fulfillment| fulfillment.verify(message)),
            Self::Ed25519(ed25519) => ed25519.verify(message),
        }
    }

    /// Puts its signatures into a batch.
    pub fn verify_later(&self, message: &[u8], batch: &mut Batch) {
        match self {
            Self::Ed25519(ed25519) => batch.push(*ed25519, message),
            Self::Threshold(threshold) => {
                for fulfillment in &threshold.fulfillments {
                    fulfillment.verify_later(message, batch);
                }
            }
        }
    }
}

impl Threshold {
    fn read(content: &mut Reader<'_>, levels_left: usize) -> Result<Self, Error> {
        let mut fulfillments = Reader::new(content.content(0xa0)?);
        let mut conditions = Reader::new(content.content(0xa1)?);
        Ok(Self {
            fulfillments: fulfillments.all(|reader| Fulfillment::read(reader, levels_left))?,
            conditions: conditions.all(Condition::read)?,
        })
    }

    fn to_der(&self) -> Vec<u8> {
        let mut content = Vec::new();
        let fulfillments = self.fulfillments.iter().map(Fulfillment::to_der);
        der::write_set(0xa0, fulfillments.collect(), &mut content);
        let conditions = self.conditions.iter().map(Condition::to_der);
        der::write_set(0xa1, conditions.collect(), &mut content);
        der::wrapped(Kind::Threshold.tag(), &content)
    }

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
fn threshold_condition(threshold: u32, conditions: &[Condition]) -> Condition {
    let mut costs: Vec<u64> = conditions.iter().map(|inner| inner.cost).collect();
    costs.sort_unstable_by(|one, two| two.cmp(one));
    let cost = costs
        .iter()
        .take(usize::try_from(threshold).unwrap_or(usize::MAX))
        .fold(MEMBER_COST * conditions.len() as u64, |sum, &cost| {
            sum.saturating_add(cost)
        });
    Condition {
        kind: Kind::Threshold,
        fingerprint: hash(&threshold_contents(threshold, conditions)),
        cost,
        holds_keys: conditions
            .iter()
            .any(|inner| inner.holds_keys || inner.kind == Kind::Ed25519),
    }
}

fn threshold_contents(threshold: u32, conditions: &[Condition]) -> Vec<u8> {
    let mut content = Vec::new();
    der::write_integer(0x80, u64::from(threshold), &mut content);
    let encoded = conditions.iter().map(Condition::to_der).collect();
    der::write_set(0xa1, encoded, &mut content);
    der::wrapped(0x30, &content)
}
