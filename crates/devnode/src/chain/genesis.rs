//! What a chain starts from.

use wire::json::write as json;

use super::block::BlockTime;
use crate::config::Config;
use crate::hash::sha256;

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
