//! The methods that Tendermint 0.31.5 answers in another shape.

use std::sync::Arc;

use wire::encoding::hex_text;
use wire::json::write as json;

use super::{chain, search};
use crate::chain::block::Block;
use crate::chain::tendermint;
use crate::chain::validator::POWER;
use crate::node::Node;
use crate::rpc::params::Args;
use crate::rpc::table::Name;

/// The answer to a method that only reads; none if CometBFT's has the same shape.
pub(super) fn read(node: &Node, name: Name, args: &Args) -> Option<Result<Vec<u8>, String>> {
    Some(match name {
        Name::Block => find(node, args.maybe(0)).map(|block| {
            let values = [
                &json::With(tendermint::block_meta, &*block) as _,
                &json::With(tendermint::block, &*block) as _,
            ];
            json::filled(r#"{"block_meta":?,"block":?}"#, &values)
        }),
        Name::BlockResults => find(node, args.maybe(0)).map(|block| {
            let mut out = Vec::new();
            tendermint::block_results(&mut out, &block);
            out
        }),
        Name::Blockchain => chain::blockchain(node, args, tendermint::block_meta),
        Name::ConsensusParams => Ok(consensus_params(node)),
        Name::Status => Ok(status(node)),
        Name::Tx => tx(node, args.bytes(0)),
        _ => return None,
    })
}

fn find(node: &Node, wanted: Option<i64>) -> Result<Arc<Block>, String> {
    let store = node.store();
    let latest = store.height().cast_signed();
    let height = wanted.unwrap_or(latest);
    if height <= 0 {
        return Err("Height must be greater than 0".to_owned());
    }
    if height > latest {
        let text = "Height must be less than or equal to the current blockchain height";
        return Err(text.to_owned());
    }
    let block = store.block(height.cast_unsigned()).cloned();
    block.ok_or_else(|| format!("Could not find results for height #{height}"))
}

fn consensus_params(node: &Node) -> Vec<u8> {
    let height = node.store().height();
    json::filled(
        r#"{"block_height":?,"consensus_params":{"block":{"max_bytes":?,"max_gas":?,"time_iota_ms":"1000"},"evidence":{"max_age":"100000"},"validator":{"pub_key_types":["ed25519"]}}}"#,
        &[
            &json::IntText(height),
            &json::IntText(node.genesis.max_block_bytes),
            &json::IntText(node.genesis.max_gas()),
        ],
    )
}

fn status(node: &Node) -> Vec<u8> {
    let latest = node.store().latest().cloned();
    let tx_index = if node.config.tx_index { "on" } else { "off" };
    json::filled(
        r#"{"node_info":{"protocol_version":{"p2p":"7","block":"10","app":"0"},"id":?,"listen_addr":"tcp://127.0.0.1:0","network":?,"version":"0.31.5","channels":"4020212223303800","moniker":?,"other":{"tx_index":?,"rpc_address":?}},"sync_info":{?,"catching_up":false},"validator_info":{"address":?,"pub_key":?,"voting_power":?}}"#,
        &[
            &json::Text(&node.node_id),
            &json::Text(&node.genesis.chain_id),
            &json::Text(&node.config.moniker),
            &json::Text(tx_index),
            &json::Text(&format!("tcp://{}", node.addresses.rpc)),
            &|out: &mut Vec<u8>| super::info::sync_block(out, "latest", latest.as_deref()),
            &json::Hex(&node.genesis.validator.address),
            &|out: &mut Vec<u8>| node.genesis.write_public_key_json(out),
            &json::IntText(POWER),
        ],
    )
}

fn tx(node: &Node, hash: &[u8]) -> Result<Vec<u8>, String> {
    let (block, index) = search::find(node, hash)
        .map(|found| (found.block, found.index))
        .ok_or_else(|| format!("Tx ({}) not found", hex_text(hash)))?;
    let tx = &block.txs[index];
    Ok(json::filled(
        r#"{"hash":?,"height":?,"index":?,"tx_result":?,"tx":?}"#,
        &[
            &json::Hex(&tx.hash),
            &json::IntText(block.header.height),
            &json::Int(index),
            &json::With(tendermint::result, &block.code(index)),
            &json::Base64(&tx.bytes),
        ],
    ))
}
