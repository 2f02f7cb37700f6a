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
mod error;
pub mod json;
mod keys;
pub mod schema;
mod transaction;

pub use self::condition::{Condition, Fulfillment};
pub use self::error::{Class, Error, JsonProblem, Refusal};
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
