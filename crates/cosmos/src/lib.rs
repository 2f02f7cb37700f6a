//! Transactions of Cosmos SDK chains: protobuf, SIGN_MODE_DIRECT, secp256k1, bech32 addresses, accounts
//! from a seed or a mnemonic, and the queries for what a transaction needs.
//!
//! It is pure: bytes in, bytes out. It has no network, no files, no clock and no randomness, and it is
//! not a node: what a chain makes of a transaction is `devnode`'s application `bank`.
//!
//! Read first: `Draft`, the content of a transaction; `Signing`, which makes bytes of it; `SignedTx`, the same read
//! back. These need the feature `wallet`; without it there is what a proxy needs, [`Outline`], and no library of
//! keys.
//!
//! Field numbers and rules are those of `proto/cosmos` in Cosmos SDK 0.50; `unordered` and
//! `timeout_timestamp` those of 0.53.
//!
//! ```
//! # #[cfg(feature = "wallet")] {
//! use cosmos::{Coin, Draft, Fee, Keys, Message, Prefix, SignedTx, Signer, Signing};
//!
//! let (keys, prefix) = (Keys::from_seed(7), Prefix::new("cosmos")?);
//! let (alice, bob) = (keys.key(0)?, keys.key(1)?);
//! let coin = Coin::new(1, "stake");
//! let message = Message::send(&prefix, alice.address(), bob.address(), &coin);
//! let fee = Fee { coins: vec![], gas: 100_000 };
//! let draft = Draft::new(std::slice::from_ref(&message), &fee);
//! let signer = Signer { key: &alice, account_number: 3, sequence: 0 };
//!
//! let mut bytes = Vec::new();
//! Signing::default().sign("tide-1", &draft, &signer, &mut bytes);
//! let read = SignedTx::read(&bytes)?;
//! assert!(read.is_signed_for("tide-1", 3));
//! assert!(!read.is_signed_for("tide-1", 4));
//! # }
//! # Ok::<(), cosmos::Error>(())
//! ```

mod address;
mod coin;
#[cfg(feature = "wallet")]
mod key;
mod message;
#[cfg(feature = "messages")]
mod message_types;
mod outline;
mod public_key;
pub mod query;
#[cfg(feature = "wallet")]
mod signed;
#[cfg(feature = "messages")]
mod template;

pub use address::{Address, Prefix};
pub use coin::{Coin, GasPrice, decimal};
#[cfg(feature = "wallet")]
pub use key::{Key, Keys};
pub use message::{Message, Party, Transfer};
#[cfg(feature = "messages")]
pub use message_types::MessageTypes;
pub use outline::{Outline, Place};
pub use public_key::PublicKey;
#[cfg(feature = "wallet")]
pub use signed::{Draft, Fee, Signed, SignedTx, Signer, Signing};
#[cfg(feature = "messages")]
pub use template::{Filling, Template};
pub use wire::proto;

impl From<proto::Malformed> for Error {
    fn from(proto::Malformed(what): proto::Malformed) -> Self {
        Self::Malformed(what)
    }
}

/// Why something cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are no message of the kind that was expected.
    #[error("{0} is no protobuf message of its kind")]
    Malformed(&'static str),
    /// A text that should be an address.
    #[error("{text:?} is no address of a chain with the prefix {prefix:?}")]
    Address {
        /// The text.
        text: String,
        /// The chain's prefix.
        prefix: String,
    },
    /// A prefix that bech32 does not allow.
    #[error("{0:?} is no bech32 prefix; use lower-case letters, for instance cosmos")]
    Prefix(String),
    /// Not words of BIP-39.
    #[error("the mnemonic is none of BIP-39's ({0}); it has 12 to 24 English words")]
    Mnemonic(String),
    /// Not a path of BIP-32.
    #[error("{text:?} is no derivation path ({problem}); the usual one is m/44'/118'/0'/0")]
    Path {
        /// The text.
        text: String,
        /// The error of BIP-32.
        problem: String,
    },
    /// Not an amount with its unit.
    #[error(
        "{0:?} is no amount of coins; write the number and the denomination, for instance 200stake"
    )]
    Coin(String),
    /// Not a description of a message.
    #[error("{0}")]
    Template(String),
    /// Not an account that signs with one secp256k1 key.
    #[error("the account is a {0}, which this program does not sign for; use a plain account")]
    Account(String),
}
