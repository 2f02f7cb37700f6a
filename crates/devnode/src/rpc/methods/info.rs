//! The node itself, the application, the genesis.

use wire::json::write as json;

use super::chain;
use crate::app::bank;
use crate::app::kvstore::{self, QueryAnswer};
use crate::chain::block::Block;
use crate::chain::header::{APP_VERSION, optional};
use crate::chain::validator::POWER;
use crate::node::Node;
use crate::rpc::params::Args;

/// The version this node stands in for.
const VERSION: &str = "0.38.17";
/// What BigchainDB reports as its data.
const BIGCHAINDB: &str = "BigchainDB 2.2.2";
/// What the Cosmos SDK's test application reports as its data.
const BANK: &str = "SimApp";

pub(super) fn status(node: &Node) -> Vec<u8> {
    let (latest, earliest) = {
        let store = node.store();
        (store.latest().cloned(), store.earliest().cloned())
    };
    let tx_index = if node.config.tx_index { "on" } else { "off" };
    json::filled(
        r#"{"node_info":{"protocol_version":{"p2p":"8","block":"11","app":"1"},"id":?,"listen_addr":"tcp://127.0.0.1:0","network":?,"version":?,"channels":"40202122233038606100","moniker":?,"other":{"tx_index":?,"rpc_address":?}},"sync_info":{?,?,"catching_up":false},"validator_info":{"address":?,"pub_key":?,"voting_power":?}}"#,
        &[
            &json::Text(&node.node_id),
            &json::Text(&node.genesis.chain_id),
            &json::Text(VERSION),
            &json::Text(&node.config.moniker),
            &json::Text(tx_index),
            &json::Text(&format!("tcp://{}", node.addresses.rpc)),
            &|out: &mut Vec<u8>| sync_block(out, "latest", latest.as_deref()),
            &|out: &mut Vec<u8>| sync_block(out, "earliest", earliest.as_deref()),
            &json::Hex(&node.genesis.validator.address),
            &|out: &mut Vec<u8>| node.genesis.write_public_key_json(out),
            &json::IntText(POWER),
        ],
    )
}

/// Appends the four members about a block.
pub(super) fn sync_block(out: &mut Vec<u8>, which: &str, block: Option<&Block>) {
    let (hash, app_hash, height, time) = match block {
        Some(block) => (
            optional(&block.id.hash),
            block.header.app_hash.as_slice(),
            block.header.height,
            block.header.time.text(),
        ),
        None => (&[][..], &[][..], 0, "1970-01-01T00:00:00Z".to_owned()),
    };
    let which = json::Raw(which);
    json::fill(
        out,
        r#""?_block_hash":?,"?_app_hash":?,"?_block_height":?,"?_block_time":?"#,
        &[
            &which,
            &json::Hex(hash),
            &which,
            &json::Hex(app_hash),
            &which,
            &json::IntText(height),
            &which,
            &json::Text(&time),
        ],
    );
}

pub(super) fn net_info() -> Vec<u8> {
    br#"{"listening":true,"listeners":["Listener(@)"],"n_peers":"0","peers":[]}"#.to_vec()
}

pub(super) fn genesis(node: &Node) -> Vec<u8> {
    json::filled(r#"{"genesis":?}"#, &[&json::With(write_genesis, node)])
}

fn write_genesis(out: &mut Vec<u8>, node: &Node) {
    node.genesis.write_json(out);
}

pub(super) fn genesis_chunked(node: &Node, chunk: i64) -> Result<Vec<u8>, String> {
    if chunk != 0 {
        return Err(format!("there are 0 chunks, {chunk} is invalid"));
    }
    let mut document = Vec::with_capacity(700);
    node.genesis.write_json(&mut document);
    let template = r#"{"chunk":"0","total":"1","data":?}"#;
    Ok(json::filled(template, &[&json::Base64(&document)]))
}

pub(super) fn abci_info(node: &Node) -> Vec<u8> {
    let (data, height) = match node.app.kvstore() {
        Some(app) => (format!(r#"{{"size":{}}}"#, app.size()), app.height()),
        None if node.app.bank().is_some() => (BANK.to_owned(), node.store().height()),
        None => (BIGCHAINDB.to_owned(), node.store().height()),
    };
    let last_height = |out: &mut Vec<u8>| {
        if height > 0 {
            json::fill(out, r#","last_block_height":?"#, &[&json::IntText(height)]);
        }
    };
    json::filled(
        r#"{"response":{"data":?,"version":?,"app_version":??,"last_block_app_hash":?}}"#,
        &[
            &json::Text(&data),
            &json::Text(kvstore::ABCI_VERSION),
            &json::IntText(APP_VERSION),
            &last_height,
            &json::Base64(&node.app.app_hash()),
        ],
    )
}

pub(super) fn abci_query(node: &Node, args: &Args) -> Vec<u8> {
    let key = args.bytes(1);
    if let Some(bank) = node.app.bank() {
        return bank_query(&bank.query(args.text(0), key));
    }
    let answer = match node.app.kvstore() {
        Some(app) => app.query(args.text(0), key, args.flag(3)),
        // BigchainDB does not answer queries: its state is read over its own API.
        None => QueryAnswer::default(),
    };
    json::filled(
        r#"{"response":{"code":0,"log":?,"info":"","index":?,"key":?,"value":?,"proofOps":null,"height":?,"codespace":""}}"#,
        &[
            &json::Text(answer.log),
            &json::IntText(answer.index),
            &|out: &mut Vec<u8>| json::base64_or_null(out, (!key.is_empty()).then_some(key)),
            &|out: &mut Vec<u8>| json::base64_or_null(out, answer.value.as_deref()),
            &json::IntText(answer.height),
        ],
    )
}

/// An answer as the SDK gives it: without the key that was asked for, with a code and its name space.
fn bank_query(answer: &bank::QueryAnswer) -> Vec<u8> {
    json::filled(
        r#"{"response":{"code":?,"log":?,"info":"","index":"0","key":null,"value":?,"proofOps":null,"height":?,"codespace":?}}"#,
        &[
            &json::Int(answer.code),
            &json::Text(&answer.log),
            &|out: &mut Vec<u8>| json::base64_or_null(out, answer.value.as_deref()),
            &json::IntText(answer.height),
            &json::Text(answer.codespace),
        ],
    )
}

/// The state of consensus between two blocks, which is where this node always is.
pub(super) fn consensus_state(node: &Node) -> Vec<u8> {
    let (height, start) = next_round(node);
    json::filled(
        r#"{"round_state":{"height/round/step":?,"start_time":?,"proposal_block_hash":"","locked_block_hash":"","valid_block_hash":"","height_vote_set":?,"proposer":{"address":?,"index":0}}}"#,
        &[
            &json::Text(&format!("{height}/0/{}", step(node))),
            &json::Text(&start),
            &json::With(no_votes, node),
            &json::Hex(&node.genesis.validator.address),
        ],
    )
}

pub(super) fn dump_consensus_state(node: &Node) -> Vec<u8> {
    let (height, start) = next_round(node);
    let (start, validators) = (json::Text(&start), json::With(validator_set, node));
    json::filled(
        r#"{"round_state":{"height":?,"round":0,"step":?,"start_time":?,"commit_time":?,"validators":?,"proposal":null,"proposal_block":null,"proposal_block_parts":null,"locked_round":-1,"locked_block":null,"locked_block_parts":null,"valid_round":-1,"valid_block":null,"valid_block_parts":null,"votes":?,"commit_round":-1,"last_commit":{"votes":[],"votes_bit_array":"BA{1:x} 10/10 = 1.00","peer_maj_23s":{}},"last_validators":?,"triggered_timeout_precommit":false},"peers":[]}"#,
        &[
            &json::IntText(height),
            &json::Int(step(node)),
            &start,
            &start,
            &validators,
            &json::With(no_votes, node),
            &validators,
        ],
    )
}

fn validator_set(out: &mut Vec<u8>, node: &Node) {
    let validator = json::With(chain::validator, node);
    let template = r#"{"validators":[?],"proposer":?}"#;
    json::fill(out, template, &[&validator, &validator]);
}

/// Appends the votes of each round that the node looks at: none.
fn no_votes(out: &mut Vec<u8>, node: &Node) {
    let rounds = match step(node) {
        WAITS_FOR_TXS => 0..2,
        _ => 0..1,
    };
    json::array(out, rounds, |out, round| {
        json::fill(
            out,
            r#"{"round":?,"prevotes":["nil-Vote"],"prevotes_bit_array":"BA{1:_} 0/10 = 0.00","precommits":["nil-Vote"],"precommits_bit_array":"BA{1:_} 0/10 = 0.00"}"#,
            &[&json::Int(round)],
        );
    });
}

/// Step of a node that waits for the time of its next block.
const WAITS_FOR_TIME: u8 = 1;
/// Step of a node that waits for transactions.
const WAITS_FOR_TXS: u8 = 2;

fn step(node: &Node) -> u8 {
    if node.config.create_empty_blocks || node.needs_proof_block() {
        WAITS_FOR_TIME
    } else {
        WAITS_FOR_TXS
    }
}

fn next_round(node: &Node) -> (u64, String) {
    let store = node.store();
    let start = store.latest().map_or_else(
        || node.genesis.time.text(),
        |block| block.header.time.text(),
    );
    (store.height() + 1, start)
}
