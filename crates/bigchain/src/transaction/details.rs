//! Conditions with their keys, as outputs spell them out.

use crate::condition::{Condition, Fulfillment, Kind, ThresholdDraft};
use crate::json::{Object, Value};
use crate::keys::{KeyPair, PublicKey};
use crate::{Class, Refusal};

/// At most so many thresholds may stand inside each other: the original refuses the hundredth.
pub const MAX_THRESHOLDS: usize = 99;

/// Who may spend an output.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Details {
    /// The owner of a key.
    Key(PublicKey),
    /// Some of several.
    Threshold {
        /// How many, 1 to 100.
        threshold: u32,
        /// Of whom.
        subconditions: Vec<Self>,
    },
}

impl Details {
    /// All owners together: one key alone, or an n-of-n threshold. Nothing for no owner and for
    /// more than 100, the highest threshold of the schema.
    pub fn all_of(owners: &[PublicKey]) -> Option<Self> {
        match owners {
            [] => None,
            [owner] => Some(Self::Key(*owner)),
            owners => Some(Self::Threshold {
                threshold: u32::try_from(owners.len()).ok().filter(|n| *n <= 100)?,
                subconditions: owners.iter().copied().map(Self::Key).collect(),
            }),
        }
    }

    /// The condition they stand for.
    pub fn condition(&self) -> Condition {
        match self {
            Self::Key(key) => Condition::of_key(*key),
            Self::Threshold {
                threshold,
                subconditions,
            } => {
                let inner: Vec<Condition> = subconditions.iter().map(Self::condition).collect();
                Condition::threshold(*threshold, &inner)
            }
        }
    }

    /// The keys in them, in their order, each once.
    pub fn keys(&self) -> Vec<PublicKey> {
        let mut keys = Vec::new();
        self.collect_keys(&mut keys);
        let mut seen = std::collections::HashSet::new();
        keys.retain(|key| seen.insert(*key));
        keys
    }

    fn collect_keys(&self, keys: &mut Vec<PublicKey>) {
        match self {
            Self::Key(key) => keys.push(*key),
            Self::Threshold { subconditions, .. } => {
                for inner in subconditions {
                    inner.collect_keys(keys);
                }
            }
        }
    }

    /// Signs a digest with the pairs at hand; nothing if they do not suffice.
    pub(super) fn fulfil(&self, digest: &[u8], pairs: &[&KeyPair]) -> Option<Fulfillment> {
        match self {
            Self::Key(key) => {
                let pair = pairs.iter().find(|pair| pair.public() == *key)?;
                Some(Fulfillment::Ed25519(crate::condition::Ed25519 {
                    public_key: key.0,
                    signature: pair.sign(digest),
                }))
            }
            Self::Threshold {
                threshold,
                subconditions,
            } => {
                let draft = subconditions
                    .iter()
                    .fold(ThresholdDraft::new(), |draft, inner| {
                        match inner.fulfil(digest, pairs) {
                            Some(fulfillment) => draft.fulfilled(fulfillment),
                            None => draft.unfulfilled(inner.condition()),
                        }
                    });
                draft.seal(*threshold).map(Fulfillment::Threshold)
            }
        }
    }

    pub(super) fn to_value(&self) -> Value {
        let object = Object::new();
        match self {
            Self::Key(key) => object
                .with("type", Kind::Ed25519.name())
                .with("public_key", key.to_string()),
            Self::Threshold {
                threshold,
                subconditions,
            } => object
                .with("type", Kind::Threshold.name())
                .with("threshold", i64::from(*threshold))
                .with(
                    "subconditions",
                    Value::Array(subconditions.iter().map(Self::to_value).collect()),
                ),
        }
        .into()
    }

    /// Reads details that follow the schema.
    pub(super) fn read(details: &Value) -> Result<Self, Refusal> {
        Self::read_within(details, MAX_THRESHOLDS + 1)
    }

    fn read_within(details: &Value, levels_left: usize) -> Result<Self, Refusal> {
        if levels_left == 0 {
            return Err(Refusal::new(Class::ThresholdTooDeep, ""));
        }
        if let Some(key) = details.get("public_key").and_then(Value::as_str) {
            return key.parse().map(Self::Key).map_err(|error| {
                let text = match error {
                    crate::Error::Key(text) => text,
                    other => other.to_string(),
                };
                Refusal::new(Class::ValidationError, text)
            });
        }
        let field = |name| details.get(name);
        let inner = field("subconditions").and_then(Value::as_array);
        Ok(Self::Threshold {
            threshold: field("threshold")
                .and_then(Value::as_i64)
                .and_then(|threshold| u32::try_from(threshold).ok())
                .unwrap_or(u32::MAX),
            subconditions: inner
                .unwrap_or_default()
                .iter()
                .map(|inner| Self::read_within(inner, levels_left - 1))
                .collect::<Result<_, _>>()?,
        })
    }
}
