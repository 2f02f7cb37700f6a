//! The one validator: its key, its address, its signature under a block.

use ed25519_dalek::{Signer, SigningKey};

use super::header::BlockId;
use super::merkle::{self, Hash, sha256};
use crate::chain::proto;
use crate::chain::time::BlockTime;

/// Bytes of a validator's address.
pub(crate) const ADDRESS_LEN: usize = 20;
/// Voting power of the only validator, as `cometbft init` writes it.
pub(crate) const POWER: i64 = 10;

/// The key that proposes and signs every block.
#[derive(Debug, Clone)]
pub(crate) struct Validator {
    key: SigningKey,
    pub(crate) public: [u8; 32],
    pub(crate) address: [u8; ADDRESS_LEN],
}

impl Validator {
    /// The validator of a chain: its key follows from the chain's name, so that a node that starts
    /// again signs as before. It is no secret.
    pub(crate) fn of_chain(chain_id: &str) -> Self {
        let key = SigningKey::from_bytes(&sha256(
            format!("devnode validator of {chain_id}").as_bytes(),
        ));
        let public = key.verifying_key().to_bytes();
        Self {
            key,
            public,
            address: address(&public),
        }
    }

    /// Hash of the validator set: a Merkle tree over `SimpleValidator`.
    pub(crate) fn set_hash(&self) -> Hash {
        let mut public_key = Vec::with_capacity(34);
        proto::message(&mut public_key, 1, &self.public);
        let mut simple = Vec::with_capacity(40);
        proto::message(&mut simple, 1, &public_key);
        proto::int_field(&mut simple, 2, POWER);
        merkle::root(&[simple])
    }

    /// Signs a precommit.
    pub(crate) fn sign(&self, vote: &Vote<'_>) -> [u8; 64] {
        self.key.sign(&vote.sign_bytes()).to_bytes()
    }
}

/// Address of a public key: the first 20 bytes of its SHA-256.
pub(crate) fn address(public: &[u8]) -> [u8; ADDRESS_LEN] {
    let mut address = [0; ADDRESS_LEN];
    address.copy_from_slice(&sha256(public)[..ADDRESS_LEN]);
    address
}

/// A precommit of round 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vote<'a> {
    pub(crate) chain_id: &'a str,
    pub(crate) height: u64,
    pub(crate) block_id: &'a BlockId,
    pub(crate) time: BlockTime,
}

impl Vote<'_> {
    /// `CanonicalVote` with its length in front: what is signed.
    fn sign_bytes(&self) -> Vec<u8> {
        const PRECOMMIT: i64 = 2;
        let mut vote = Vec::with_capacity(160);
        proto::int_field(&mut vote, 1, PRECOMMIT);
        proto::sfixed64_field(&mut vote, 2, self.height.cast_signed());
        proto::message(&mut vote, 4, &self.block_id.proto());
        proto::message(&mut vote, 5, &self.time.proto());
        proto::bytes_field(&mut vote, 6, self.chain_id.as_bytes());
        let mut delimited = Vec::with_capacity(vote.len() + 2);
        proto::varint(&mut delimited, vote.len() as u64);
        delimited.extend_from_slice(&vote);
        delimited
    }
}
