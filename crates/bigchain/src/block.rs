//! Hashes of blocks: the chain of app hashes, and the Merkle root of unspent outputs.

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
pub fn transactions_hash(transactions: &[Id]) -> String {
    if transactions.is_empty() {
        return String::new();
    }
    let ids: String = transactions.iter().map(Id::to_string).collect();
    hex(&sha3(ids.as_bytes()))
}

/// The Merkle root of unspent outputs: leaves are the hashes of id and index, sorted; a layer of
/// odd length repeats its last hash. Any order of the outputs gives the same root.
pub fn unspent_root(outputs: &[(Id, u64)]) -> [u8; 32] {
    let mut layer: Vec<[u8; 32]> = outputs
        .iter()
        .map(|(id, index)| sha3(format!("{id}{index}").as_bytes()))
        .collect();
    layer.sort_unstable();
    while layer.len() > 1 {
        layer = layer
            .chunks(2)
            .map(|pair| sha3(&[pair[0], *pair.last().unwrap_or(&pair[0])].concat()))
            .collect();
    }
    layer.first().copied().unwrap_or_else(|| sha3(&[]))
}

fn hex(hash: &[u8; 32]) -> String {
    Id(*hash).to_string()
}
