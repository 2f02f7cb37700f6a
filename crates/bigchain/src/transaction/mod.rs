//! BigchainDB's transactions of version 2.0: their parts, the text of them that is hashed or signed, and their id.

mod build;
mod effect;
mod read;
mod template;

use std::fmt;
use std::str::FromStr;

use hex_simd::{AsciiCase, Out};
use sha3::{Digest, Sha3_256};

use crate::condition::{Condition, Fulfillment, Kind, ThresholdDraft};
use crate::error::{Class, Error, Refusal};
use crate::json::{Object, Style, Value, write_items, write_members, write_object, write_value};
use crate::keys::{KeyPair, PublicKey};

pub use self::build::{Create, Transfer};
pub use self::effect::{Coin, Effect, Found, Ledger, Made, MemoryLedger};
pub use self::read::SignatureBatch;
pub use self::template::{CreateTemplate, TransferTemplate};

/// The largest amount of an output.
pub const MAX_AMOUNT: u64 = 9_000_000_000_000_000_000;

/// The id of a transaction: SHA3-256 of its body with the id left out. Written as 64 lower-case
/// hexadecimal digits.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Id(pub [u8; 32]);

impl Id {
    /// The id that belongs to a body; the id in the body itself is ignored.
    pub fn of(body: &Object) -> Self {
        id_of(body)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 64];
        let text = hex_simd::encode_as_str(&self.0, Out::from_slice(&mut text), AsciiCase::Lower);
        f.write_str(text)
    }
}

impl FromStr for Id {
    type Err = Error;

    /// Reads 64 lower-case hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut id = [0; 32];
        let is_id = text.len() == 64
            && !text.bytes().any(|byte| byte.is_ascii_uppercase())
            && hex_simd::decode(text.as_bytes(), Out::from_slice(&mut id)).is_ok();
        if is_id {
            return Ok(Self(id));
        }
        let why = "an id is 64 lower-case hexadecimal digits";
        Err(Error::Key(why.to_owned()))
    }
}

/// What a transaction does.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Operation {
    /// Makes an asset.
    Create,
    /// Gives shares of an asset to other owners.
    Transfer,
}

impl Operation {
    /// The name in the body.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Transfer => "TRANSFER",
        }
    }
}

/// A reference to an output.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Link {
    /// The id of the transaction, as the body has it: the schema admits more around 64 digits.
    pub transaction_id: String,
    /// The index of the output.
    pub output_index: u64,
}

/// The fulfillment of an input, or what the body has instead of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Proof {
    /// A fulfillment.
    Signed(Fulfillment),
    /// The details of a condition: the schema admits an input that is not signed yet, validation
    /// does not.
    Unsigned(Details),
}

/// An input: an output to spend, and the proof that its owners agree.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The output it spends; none on CREATE.
    pub fulfills: Option<Link>,
    /// The owners before, as the body has them.
    pub owners_before: Vec<String>,
    /// What fulfills the output's condition.
    pub proof: Proof,
}

/// An output: shares of an asset, and the condition to spend them.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// How many shares of the asset, 1 to [`MAX_AMOUNT`].
    pub amount: u64,
    /// The condition to spend it, with its keys.
    pub details: Details,
    /// The owners after, as the body has them; nothing if it has `null`.
    pub public_keys: Option<Vec<String>>,
}

impl Output {
    /// An output to owners who must all sign to spend it.
    ///
    /// # Errors
    /// [`Error::Output`] without owners, with more than 100, or with an amount that is not 1 to
    /// [`MAX_AMOUNT`].
    pub fn to(owners: &[PublicKey], amount: u64) -> Result<Self, Error> {
        let details = Details::all_of(owners).ok_or(Error::Output("it needs 1 to 100 owners"))?;
        Self::with_details(details, amount)
    }

    /// An output with any details; its `public_keys` are the keys in them.
    ///
    /// # Errors
    /// [`Error::Output`] with an amount that is not 1 to [`MAX_AMOUNT`].
    pub fn with_details(details: Details, amount: u64) -> Result<Self, Error> {
        if !(1..=MAX_AMOUNT).contains(&amount) {
            return Err(Error::Output("its amount must be 1 to 9 × 10^18"));
        }
        let keys = details.keys().iter().map(PublicKey::to_string).collect();
        Ok(Self {
            amount,
            details,
            public_keys: Some(keys),
        })
    }

    /// The condition to be fulfilled to spend it.
    pub fn condition(&self) -> Condition {
        self.details.condition()
    }

    fn to_value(&self) -> Value {
        let condition = Object::new()
            .with("details", self.details.to_value())
            .with("uri", self.condition().to_string());
        let keys = self.public_keys.as_ref().map_or(Value::Null, |keys| {
            Value::Array(keys.iter().map(|key| key.as_str().into()).collect())
        });
        Object::new()
            .with("amount", self.amount.to_string())
            .with("condition", condition)
            .with("public_keys", keys)
            .into()
    }
}

/// A transaction that has passed every check that needs no ledger, except that of its signatures.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    id: Id,
    operation: Operation,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    body: Object,
}

impl Transaction {
    /// Its id.
    pub const fn id(&self) -> Id {
        self.id
    }

    /// Its operation.
    pub const fn operation(&self) -> Operation {
        self.operation
    }

    /// Its inputs.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Its outputs.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The whole body as it was read, members in their order.
    pub const fn body(&self) -> &Object {
        &self.body
    }

    /// The data of the asset it makes: an object or `null`; nothing on TRANSFER.
    pub fn asset_data(&self) -> Option<&Value> {
        self.body.get("asset").and_then(|asset| asset.get("data"))
    }

    /// The metadata: an object or `null`.
    pub fn metadata(&self) -> &Value {
        self.body.get("metadata").unwrap_or(&Value::Null)
    }

    /// The id of the asset: on CREATE its own, on TRANSFER the one it names, which may be any
    /// text with 64 hexadecimal digits in it until [`Transaction::validate`] has passed.
    pub fn asset_id(&self) -> String {
        match self.operation {
            Operation::Create => self.id.to_string(),
            Operation::Transfer => self.transfer_asset().to_owned(),
        }
    }

    fn transfer_asset(&self) -> &str {
        self.body
            .get("asset")
            .and_then(|asset| asset.get("id"))
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The text that BigchainDB sends to Tendermint: Python's default JSON. BigchainDB's benchmark reports its
    /// size.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(1024);
        write_object(&self.body, Style::Python, &mut text);
        text
    }
}

/// Which fields are null in the text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Masked {
    /// The id: this text's hash is the id.
    Id,
    /// The id and every fulfillment: this text is signed.
    IdAndFulfillments,
}

/// The canonical text of a body with fields masked.
fn masked_text(body: &Object, masked: Masked) -> String {
    let mut out = String::with_capacity(1024);
    write_members(
        body,
        Style::Canonical,
        &mut out,
        |name, value, out| match (name, value, masked) {
            ("id", ..) => out.push_str("null"),
            ("inputs", Value::Array(inputs), Masked::IdAndFulfillments) => {
                write_items(inputs, Style::Canonical, out, write_unsigned);
            }
            _ => write_value(value, Style::Canonical, out),
        },
    );
    out
}

fn write_unsigned(input: &Value, out: &mut String) {
    let Some(input) = input.as_object() else {
        return;
    };
    write_members(
        input,
        Style::Canonical,
        out,
        |name, value, out| match name {
            "fulfillment" => out.push_str("null"),
            _ => write_value(value, Style::Canonical, out),
        },
    );
}

/// The id of a body.
fn id_of(body: &Object) -> Id {
    Id(sha3(masked_text(body, Masked::Id).as_bytes()))
}

/// The digests that the inputs of a body sign, one for each link given.
fn digests<'a>(
    body: &Object,
    links: impl Iterator<Item = Option<&'a Link>>,
) -> impl Iterator<Item = [u8; 32]> {
    let message = masked_text(body, Masked::IdAndFulfillments);
    let hasher = Sha3_256::new_with_prefix(message.as_bytes());
    links.map(move |spent| digest(hasher.clone(), spent))
}

/// The digest that an input signs: of the unsigned body, and of the output that it spends.
fn digest(body: Sha3_256, spent: Option<&Link>) -> [u8; 32] {
    let hasher = match spent {
        None => body,
        Some(link) => body
            .chain_update(&link.transaction_id)
            .chain_update(link.output_index.to_string()),
    };
    hasher.finalize().into()
}

pub(crate) fn sha3(bytes: &[u8]) -> [u8; 32] {
    Sha3_256::digest(bytes).into()
}

/// At most so many thresholds may stand inside each other: the original refuses the hundredth.
pub const MAX_THRESHOLDS: usize = 99;

/// The keys that may spend an output.
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
    fn fulfil(&self, digest: &[u8], pairs: &[&KeyPair]) -> Option<Fulfillment> {
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

    fn to_value(&self) -> Value {
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
    fn read(details: &Value) -> Result<Self, Refusal> {
        Self::read_within(details, MAX_THRESHOLDS + 1)
    }

    fn read_within(details: &Value, levels_left: usize) -> Result<Self, Refusal> {
        if levels_left == 0 {
            return Err(Refusal::new(Class::ThresholdTooDeep, ""));
        }
        if let Some(key) = details.get("public_key").and_then(Value::as_str) {
            return key.parse().map(Self::Key).map_err(|error| {
                let text = match error {
                    Error::Key(text) => text,
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
