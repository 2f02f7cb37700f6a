//! What a chain starts from.

use wire::json::write as json;

use super::merkle::{Hash, sha256};
use super::validator::{POWER, Validator};
use crate::chain::proto;
use crate::chain::time::BlockTime;
use crate::config::Config;

/// Fixed properties of a chain.
#[derive(Debug, Clone)]
pub(crate) struct Genesis {
    pub(crate) chain_id: String,
    pub(crate) time: BlockTime,
    pub(crate) max_block_bytes: u64,
    pub(crate) max_block_gas: Option<u64>,
    pub(crate) validator: Validator,
}

impl Genesis {
    pub(crate) fn new(config: &Config, time: BlockTime) -> Self {
        Self {
            chain_id: config.chain_id.clone(),
            time,
            max_block_bytes: config.max_block_bytes,
            max_block_gas: config.max_block_gas,
            validator: Validator::of_chain(&config.chain_id),
        }
    }

    /// SHA-256 over `HashedParams` (`types/params.go`): block size and gas.
    pub(crate) fn consensus_hash(&self) -> Hash {
        let mut params = Vec::with_capacity(16);
        proto::int_field(&mut params, 1, self.max_block_bytes.cast_signed());
        proto::int_field(&mut params, 2, self.max_gas());
        sha256(&params)
    }

    /// `max_gas` of the consensus parameters: -1 where gas has no limit.
    pub(crate) fn max_gas(&self) -> i64 {
        self.max_block_gas.map_or(-1, u64::cast_signed)
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
                &json::Hex(&self.validator.address),
                &|out: &mut Vec<u8>| self.write_public_key_json(out),
                &json::IntText(POWER),
            ],
        );
    }

    /// Appends the consensus parameters.
    pub(crate) fn write_params_json(&self, out: &mut Vec<u8>) {
        json::fill(
            out,
            r#"{"block":{"max_bytes":?,"max_gas":?},"evidence":{"max_age_num_blocks":"100000","max_age_duration":"172800000000000","max_bytes":"1048576"},"validator":{"pub_key_types":["ed25519"]},"version":{"app":"0"},"abci":{"vote_extensions_enable_height":"0"}}"#,
            &[
                &json::IntText(self.max_block_bytes),
                &json::IntText(self.max_gas()),
            ],
        );
    }

    /// Appends the validator's public key.
    pub(crate) fn write_public_key_json(&self, out: &mut Vec<u8>) {
        let template = r#"{"type":"tendermint/PubKeyEd25519","value":?}"#;
        json::fill(out, template, &[&json::Base64(&self.validator.public)]);
    }
}
