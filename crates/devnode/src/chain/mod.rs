//! The chain: what it starts from, and its blocks with their hashes. [`store`] has those that are kept, [`render`] writes
//! them as JSON.

pub(crate) mod render;
pub(crate) mod store;

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use wire::{json::write as json, proto};

use crate::{
    app::{Outcome, Tx},
    config::Config,
    hash::{self, Hash, sha256},
};

/// What a block's hash covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) chain_id: String,
    pub(crate) height: u64,
    pub(crate) time: BlockTime,
    /// Hash of the block before; none of the first.
    pub(crate) previous: Option<Hash>,
    /// Merkle root over the hashes of the transactions.
    pub(crate) data_hash: Hash,
    /// Hash of the application before this block.
    pub(crate) app_hash: Vec<u8>,
    /// Merkle root over the results of the block before.
    pub(crate) last_results_hash: Hash,
    pub(crate) proposer: [u8; 20],
}

/// A final block with everything a query may ask about it.
#[derive(Debug)]
pub struct Block {
    pub(crate) header: Header,
    pub(crate) hash: Hash,
    /// When it was voted for: the time of the next block.
    pub(crate) voted: BlockTime,
    /// Its transactions in order.
    pub txs: Vec<Tx>,
    /// Result codes of transactions that failed, by index in ascending order; all others are 0.
    pub(crate) failed: Vec<(u32, u32)>,
    /// Outcomes of the transactions, of an application that gives any; else empty.
    pub(crate) outcomes: Vec<Outcome>,
    /// Hash of the application after this block; the next header carries it.
    pub(crate) app_hash: Vec<u8>,
}

/// What the next block needs to know of the one before.
#[derive(Debug, Clone)]
pub(crate) struct Previous {
    pub(crate) hash: Option<Hash>,
    pub(crate) voted: Option<BlockTime>,
    pub(crate) app_hash: Vec<u8>,
    pub(crate) results_hash: Hash,
}

/// What the first block, or the next, is made of.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) height: u64,
    pub(crate) txs: Vec<Tx>,
    pub(crate) previous: Previous,
}

impl Block {
    /// Builds and hashes the block of a proposal. What its execution does is not in it yet.
    pub(crate) fn new(genesis: &Genesis, proposal: Proposal, now: BlockTime) -> Self {
        let Proposal {
            height,
            txs,
            previous,
        } = proposal;
        let hashes: Vec<Hash> = txs.iter().map(|tx| tx.hash).collect();
        let header = Header {
            chain_id: genesis.chain_id.clone(),
            height,
            // The time of a block is when the one before was voted for; the first has that of the genesis.
            time: previous.voted.unwrap_or(genesis.time),
            previous: previous.hash,
            data_hash: hash::root(&hashes),
            app_hash: previous.app_hash,
            last_results_hash: previous.results_hash,
            proposer: genesis.address(),
        };
        let mut text = Vec::with_capacity(1024);
        render::header(&mut text, &header);
        Self {
            hash: sha256(&text),
            voted: now.max(header.time.next_millisecond()),
            header,
            txs,
            failed: Vec::new(),
            outcomes: Vec::new(),
            app_hash: Vec::new(),
        }
    }

    /// Its height.
    pub fn height(&self) -> u64 {
        self.header.height
    }

    /// Result code of a transaction.
    pub fn code(&self, index: usize) -> u32 {
        let place = self
            .failed
            .binary_search_by_key(&index, |(failed, _)| *failed as usize);
        place.map_or(0, |at| self.failed[at].1)
    }

    /// What executing a transaction gave beside its code.
    pub(crate) fn outcome(&self, index: usize) -> &Outcome {
        self.outcomes.get(index).unwrap_or(Outcome::NONE)
    }

    /// Root over the results (`ABCIResults.Hash`): only code, data and gas count.
    pub(crate) fn results_hash(&self) -> Hash {
        let result = |index| {
            let outcome = self.outcome(index);
            let mut result = Vec::new();
            proto::number(&mut result, 1, self.code(index).into());
            proto::bytes(&mut result, 2, &outcome.data);
            proto::number(&mut result, 5, outcome.gas_wanted);
            proto::number(&mut result, 6, outcome.gas_used);
            result
        };
        let results: Vec<Vec<u8>> = (0..self.txs.len()).map(result).collect();
        hash::root(&results)
    }
}

/// Bytes that a transaction of this length takes in a block's data.
pub(crate) fn data_bytes(tx_len: usize) -> usize {
    proto::nested_len(tx_len)
}

/// A UTC instant with nanoseconds, as headers and votes carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockTime(i64);

impl BlockTime {
    /// What the wall clock shows.
    pub(crate) fn now() -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }

    #[cfg(test)]
    pub(crate) fn from_unix_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// One millisecond later: the least step between two block times
    /// (`voteTime` in `consensus/state.go`, CometBFT 0.38).
    fn next_millisecond(self) -> Self {
        Self(self.0 + 1_000_000)
    }

    /// RFC 3339 in UTC with the shortest fraction, as Go's `RFC3339Nano`.
    pub(crate) fn text(self) -> String {
        Timestamp::from_nanosecond(i128::from(self.0))
            .unwrap_or_default()
            .to_string()
    }
}

/// Fixed properties of a chain.
#[derive(Debug, Clone)]
pub(crate) struct Genesis {
    pub(crate) chain_id: String,
    pub(crate) time: BlockTime,
    pub(crate) max_block_bytes: u64,
    pub(crate) max_block_gas: Option<u64>,
    /// The public key of the one validator, which signs nothing.
    pub(crate) validator: [u8; 32],
}

impl Genesis {
    pub(crate) fn new(config: &Config, time: BlockTime) -> Self {
        let key = format!("devnode validator of {}", config.chain_id);
        Self {
            chain_id: config.chain_id.clone(),
            time,
            max_block_bytes: config.max_block_bytes,
            max_block_gas: config.max_block_gas,
            validator: sha256(key.as_bytes()),
        }
    }

    /// The validator's address: the first 20 bytes of its key's SHA-256.
    pub(crate) fn address(&self) -> [u8; ADDRESS_BYTES] {
        let mut address = [0; ADDRESS_BYTES];
        address.copy_from_slice(&sha256(&self.validator)[..ADDRESS_BYTES]);
        address
    }

    /// Bytes that a block has for transactions (`MaxDataBytesNoEvidence` in `types/block.go`: the
    /// overheads of block, header, and a commit of one validator taken off).
    pub(crate) fn max_data_bytes(&self) -> u64 {
        const BLOCK_OVERHEAD: u64 = 11;
        const HEADER: u64 = 626;
        const COMMIT_OF_ONE: u64 = 94 + 109 + 2;
        self.max_block_bytes
            .saturating_sub(BLOCK_OVERHEAD + HEADER + COMMIT_OF_ONE)
    }

    /// Appends the genesis document.
    pub(crate) fn write_json(&self, out: &mut Vec<u8>) {
        json::fill(
            out,
            r#"{"genesis_time":?,"chain_id":?,"initial_height":"1","consensus_params":?,"validators":[{"address":?,"pub_key":?,"power":?,"name":""}],"app_hash":""}"#,
            &[
                &json::Text(&self.time.text()),
                &json::Text(&self.chain_id),
                &|out: &mut Vec<u8>| self.write_params_json(out),
                &json::Hex(&self.address()),
                &|out: &mut Vec<u8>| self.write_public_key_json(out),
                &json::IntText(POWER),
            ],
        );
    }

    /// Appends the consensus parameters. `max_gas` is -1 where gas has no limit.
    pub(crate) fn write_params_json(&self, out: &mut Vec<u8>) {
        json::fill(
            out,
            r#"{"block":{"max_bytes":?,"max_gas":?},"evidence":{"max_age_num_blocks":"100000","max_age_duration":"172800000000000","max_bytes":"1048576"},"validator":{"pub_key_types":["ed25519"]},"version":{"app":"0"},"abci":{"vote_extensions_enable_height":"0"}}"#,
            &[
                &json::IntText(self.max_block_bytes),
                &json::IntText(self.max_block_gas.map_or(-1, u64::cast_signed)),
            ],
        );
    }

    /// Appends the validator's public key.
    pub(crate) fn write_public_key_json(&self, out: &mut Vec<u8>) {
        let template = r#"{"type":"tendermint/PubKeyEd25519","value":?}"#;
        json::fill(out, template, &[&json::Base64(&self.validator)]);
    }
}

/// Voting power of the only validator, as `cometbft init` writes it.
pub const POWER: i64 = 10;
/// Bytes of a validator's address.
const ADDRESS_BYTES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_go_writes_them() {
        assert_eq!(BlockTime::from_unix_nanos(0).text(), "1970-01-01T00:00:00Z");
        assert_eq!(
            BlockTime::from_unix_nanos(1_795_227_520_191_902_085).text(),
            "2026-11-21T02:18:40.191902085Z"
        );
        assert_eq!(
            BlockTime::from_unix_nanos(951_782_400_500_000_000).text(),
            "2000-02-29T00:00:00.5Z"
        );
    }
}
