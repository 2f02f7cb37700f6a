//! What can be wrong with a text, a draft or a transaction, and the classes of refusals.

use std::fmt;

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
