//! The chain of app hashes.

use crate::transaction::{Id, sha3};

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
