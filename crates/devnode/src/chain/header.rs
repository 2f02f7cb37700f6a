//! Headers, block ids and commits, with their protobuf forms and hashes.

use super::merkle::{self, Hash};
use super::validator::ADDRESS_LEN;
use crate::chain::proto;
use crate::chain::time::BlockTime;

/// Block protocol of CometBFT 0.38.
pub(crate) const BLOCK_PROTOCOL: i64 = 11;

/// `app_version` that the applications report.
pub(crate) const APP_VERSION: i64 = 1;

/// A block's hash and the root over its parts; all zero before the first block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BlockId {
    pub(crate) hash: Option<Hash>,
    pub(crate) parts_total: u32,
    pub(crate) parts_hash: Option<Hash>,
}

impl BlockId {
    /// `BlockID`; `CanonicalBlockID` has the same form.
    pub(crate) fn proto(&self) -> Vec<u8> {
        let mut parts = Vec::with_capacity(40);
        proto::int_field(&mut parts, 1, i64::from(self.parts_total));
        proto::bytes_field(&mut parts, 2, optional(&self.parts_hash));
        let mut out = Vec::with_capacity(80);
        proto::bytes_field(&mut out, 1, optional(&self.hash));
        proto::message(&mut out, 2, &parts);
        out
    }
}

/// The bytes of a hash, none if there is no hash.
pub(crate) fn optional(hash: &Option<Hash>) -> &[u8] {
    hash.as_ref().map_or(&[], <[u8; 32]>::as_slice)
}

/// A block's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) chain_id: String,
    pub(crate) height: u64,
    pub(crate) time: BlockTime,
    pub(crate) last_block_id: BlockId,
    pub(crate) last_commit_hash: Hash,
    pub(crate) data_hash: Hash,
    pub(crate) validators_hash: Hash,
    pub(crate) consensus_hash: Hash,
    pub(crate) app_hash: Vec<u8>,
    pub(crate) last_results_hash: Hash,
    pub(crate) evidence_hash: Hash,
    pub(crate) proposer: [u8; ADDRESS_LEN],
}

impl Header {
    fn version_proto(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(4);
        proto::int_field(&mut out, 1, BLOCK_PROTOCOL);
        proto::int_field(&mut out, 2, APP_VERSION);
        out
    }

    /// Merkle root over the fourteen fields in order, each in its protobuf form.
    pub(crate) fn hash(&self) -> Hash {
        merkle::root(&[
            self.version_proto(),
            wrapped(self.chain_id.as_bytes()),
            wrapped_int(self.height.cast_signed()),
            self.time.proto(),
            self.last_block_id.proto(),
            wrapped(&self.last_commit_hash),
            wrapped(&self.data_hash),
            wrapped(&self.validators_hash),
            // The set never changes, so the next one has the same hash.
            wrapped(&self.validators_hash),
            wrapped(&self.consensus_hash),
            wrapped(&self.app_hash),
            wrapped(&self.last_results_hash),
            wrapped(&self.evidence_hash),
            wrapped(&self.proposer),
        ])
    }

    /// `Header`.
    pub(crate) fn proto(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        proto::message(&mut out, 1, &self.version_proto());
        proto::bytes_field(&mut out, 2, self.chain_id.as_bytes());
        proto::int_field(&mut out, 3, self.height.cast_signed());
        proto::message(&mut out, 4, &self.time.proto());
        proto::message(&mut out, 5, &self.last_block_id.proto());
        proto::bytes_field(&mut out, 6, &self.last_commit_hash);
        proto::bytes_field(&mut out, 7, &self.data_hash);
        proto::bytes_field(&mut out, 8, &self.validators_hash);
        proto::bytes_field(&mut out, 9, &self.validators_hash);
        proto::bytes_field(&mut out, 10, &self.consensus_hash);
        proto::bytes_field(&mut out, 11, &self.app_hash);
        proto::bytes_field(&mut out, 12, &self.last_results_hash);
        proto::bytes_field(&mut out, 13, &self.evidence_hash);
        proto::bytes_field(&mut out, 14, &self.proposer);
        out
    }
}

/// `StringValue` or `BytesValue`, which look alike; nothing for an empty value.
fn wrapped(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + 2);
    proto::bytes_field(&mut out, 1, value);
    out
}

/// `Int64Value`.
fn wrapped_int(value: i64) -> Vec<u8> {
    let mut out = Vec::with_capacity(11);
    proto::int_field(&mut out, 1, value);
    out
}

/// The validator's signature under a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommitSignature {
    pub(crate) address: [u8; ADDRESS_LEN],
    pub(crate) time: BlockTime,
    pub(crate) signature: [u8; 64],
}

impl CommitSignature {
    /// `block_id_flag` of a vote for the block.
    pub(crate) const FOR_BLOCK: i64 = 2;

    fn proto(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(110);
        proto::int_field(&mut out, 1, Self::FOR_BLOCK);
        proto::bytes_field(&mut out, 2, &self.address);
        proto::message(&mut out, 3, &self.time.proto());
        proto::bytes_field(&mut out, 4, &self.signature);
        out
    }
}

/// The signatures that made a block final. That of the height before the first has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) height: u64,
    pub(crate) block_id: BlockId,
    pub(crate) signature: Option<CommitSignature>,
}

impl Commit {
    /// Merkle root over the signatures.
    pub(crate) fn hash(&self) -> Hash {
        let signatures: Vec<Vec<u8>> = self.signature.iter().map(CommitSignature::proto).collect();
        merkle::root(&signatures)
    }

    /// `Commit`.
    pub(crate) fn proto(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(220);
        proto::int_field(&mut out, 1, self.height.cast_signed());
        proto::message(&mut out, 3, &self.block_id.proto());
        if let Some(signature) = &self.signature {
            proto::message(&mut out, 4, &signature.proto());
        }
        out
    }
}
