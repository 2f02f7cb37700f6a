//! BigchainDB transactions: crypto-conditions, canonical JSON, CREATE and TRANSFER of version 2.0,
//! and every check of BigchainDB 2.2.2 in its order and with its classes of refusal.
//!
//! It is pure: bytes in, verdicts out. It has no network, no files, no clock, no threads and no
//! randomness, and it is not a node: what is committed is asked from a [`Ledger`].
//!
//! Read first: [`Transaction`], which a body becomes when it passes all checks that need no
//! ledger; [`Create`] and [`Transfer`], which build one; [`Fulfillment`], what its signatures are.
//!
//! ```
//! use bigchain::{Create, KeyPair, MemoryLedger, Output, Transaction, Transfer};
//!
//! let (alice, bob) = (KeyPair::from_seed([1; 32]), KeyPair::from_seed([2; 32]));
//! let created = Create::new()
//!     .signer(alice.public())
//!     .output(Output::to(&[alice.public()], 1)?)
//!     .sign(&[&alice])?;
//! let given = Transfer::of(&created)
//!     .spend(&created, 0)
//!     .output(Output::to(&[bob.public()], 1)?)
//!     .sign(&[&alice])?;
//!
//! let mut ledger = MemoryLedger::default();
//! for text in [created.text(), given.text()] {
//!     let received = Transaction::from_text(text.as_bytes())?;
//!     received.validate(&ledger)?;
//!     assert!(ledger.apply(&received));
//! }
//! let again = Transaction::from_text(given.text().as_bytes())?;
//! assert!(again.validate(&ledger).unwrap_err().to_string().ends_with("was already spent"));
//! # Ok::<(), bigchain::Error>(())
//! ```
//!
//! # Where it differs from the original, on purpose
//!
//! The original answers some bodies with a crash (HTTP 500). Here each is a [`Refusal`]:
//!
//! | body | original | here |
//! |---|---|---|
//! | `id` that is not hexadecimal text, or not text | crash | `InvalidHash` |
//! | body that is not an object; `operation` that is a list | crash | `SchemaValidationError` |
//! | `version` or `amount` with a newline at the end | crash | `SchemaValidationError` |
//! | `NaN` or an infinity in asset or metadata | crash (inferred, not tried) | `SchemaValidationError` |
//! | a key in `details` that is not 32 bytes in base58 | crash | `ValidationError` |
//! | `owners_before` that is `null` | crash | `ValidationError` |
//! | fulfillment of one character, or of a kind that does not exist | crash | `InvalidSignature` |
//! | `output_index` that the transaction spent does not have | crash | `InputDoesNotExist` |
//! | a body nested deeper than 512 levels, or longer than 1 MiB | not tried | [`Error::Json`] |
//! | half a surrogate pair in any text | its serialiser raises an error | [`Error::Json`] |
//!
//! Elections and votes pass the original's schema and belong to validators; they are refused with
//! `ValidationError`.
//!
//! What the original forgets to check is not checked.

pub mod base64url;
pub mod condition;
pub mod json;
mod keys;
pub mod schema;
mod transaction;

use std::fmt;

pub use self::condition::{Condition, Fulfillment};
pub use self::keys::{KeyPair, PublicKey};
use self::transaction::sha3;
pub use self::transaction::{
    Coin, Create, CreateTemplate, Details, Effect, Found, Id, Input, Ledger, Link, MAX_AMOUNT,
    MAX_THRESHOLDS, Made, MemoryLedger, Operation, Output, Proof, SignatureBatch, Transaction,
    Transfer, TransferTemplate,
};

/// The app hash of a chain, as the hexadecimal text whose ASCII bytes go to Tendermint; empty
/// before the first transaction.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AppHash(String);

impl AppHash {
    /// The hash from its text, as a node stores it.
    pub const fn from_text(text: String) -> Self {
        Self(text)
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The hash after a block with these transactions; the same hash if there are none.
    pub fn after(&self, transactions: &[Id]) -> Self {
        if transactions.is_empty() {
            return self.clone();
        }
        let own = transactions_hash(transactions);
        Self(hex(&sha3(format!("{}{own}", self.0).as_bytes())))
    }
}

/// The hash of a block's transactions: SHA3-256 of their ids as text; empty without transactions.
fn transactions_hash(transactions: &[Id]) -> String {
    if transactions.is_empty() {
        return String::new();
    }
    let ids: String = transactions.iter().map(Id::to_string).collect();
    hex(&sha3(ids.as_bytes()))
}

fn hex(hash: &[u8; 32]) -> String {
    Id(*hash).to_string()
}

/// An error of this crate.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// The text is not JSON, or goes past a limit.
    #[error("json: {problem} at byte {at}")]
    Json {
        /// Where the reader stopped, in bytes from the start.
        at: usize,
        /// What it found there.
        problem: JsonProblem,
    },
    /// The text is not base64url without padding.
    #[error("base64url: {0}")]
    Base64(&'static str),
    /// The bytes are not the DER of a fulfillment or condition.
    #[error("der: {0}")]
    Der(&'static str),
    /// The text is not a key: 32 bytes in base58.
    #[error("key: {0}")]
    Key(String),
    /// The output cannot be made: no owner, or an amount outside 1 to 9 × 10^18.
    #[error("output: {0}")]
    Output(&'static str),
    /// A draft cannot be signed with the keys given.
    #[error("input {input} cannot be signed: not enough of its keys were given")]
    MissingKey {
        /// The index of the input in the draft.
        input: usize,
    },
    /// The transaction is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// What the JSON reader found wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum JsonProblem {
    /// Not JSON.
    #[error("not json")]
    Syntax,
    /// Not UTF-8.
    #[error("not utf-8")]
    NotUtf8,
    /// Half a surrogate pair: it has no UTF-8 form, so nothing could be hashed.
    #[error("lone surrogate")]
    LoneSurrogate,
    /// More levels than [`crate::json::MAX_DEPTH`].
    #[error("nested too deeply")]
    TooDeep,
    /// More bytes than [`crate::json::MAX_BYTES`].
    #[error("text too long")]
    TooLong,
}

/// The class of a refusal; each variant has the name of the original's exception.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Class {
    /// The id is missing or is not the hash of the body.
    InvalidHash,
    /// The body does not follow the schema.
    SchemaValidationError,
    /// A key or a language that the database cannot hold, or something this crate does not admit.
    ValidationError,
    /// A fulfillment that cannot be read, or does not fulfill.
    InvalidSignature,
    /// An amount out of range, or sums that differ.
    AmountError,
    /// A hundred nested thresholds or more.
    ThresholdTooDeep,
    /// The transaction exists already.
    DuplicateTransaction,
    /// A transaction or output that is to be spent does not exist.
    InputDoesNotExist,
    /// An output is spent twice.
    DoubleSpend,
    /// The inputs are not of the asset named.
    AssetIdMismatch,
}

/// Why a transaction is refused. Its `Display` is the text of the original's HTTP answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The class of the refusal.
    pub class: Class,
    /// The text of the original's exception, without the class.
    pub text: String,
}

impl Refusal {
    /// A refusal of a class with a text.
    pub fn new(class: Class, text: impl Into<String>) -> Self {
        Self {
            class,
            text: text.into(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            Class::SchemaValidationError => {
                write!(f, "Invalid transaction schema: {}", self.text)
            }
            class => write!(f, "Invalid transaction ({class:?}): {}", self.text),
        }
    }
}

impl std::error::Error for Refusal {}
