//! The node itself, the application, the genesis.

use wire::json::write as json;

use super::chain;
use crate::app::kvstore::{self, QueryAnswer};
use crate::chain::block::Block;
use crate::chain::header::optional;
use crate::chain::validator::POWER;
use crate::node::Node;
use crate::rpc::params::Args;

/// The version this node stands in for.
const VERSION: &str = "0.38.17";
/// What BigchainDB says of itself.
const BIGCHAINDB: &str = "BigchainDB 2.2.2";

pub(super) fn status(node: &Node) -> Vec<u8> {
    let (latest, earliest) = {
        let store = node.store();
        (store.latest().cloned(), store.earliest().cloned())
    };
    let mut out = Vec::with_capacity(1100);
    json::raw(
        &mut out,
        r#"{"node_info":{"protocol_version":{"p2p":"8","block":"11","app":"1"},"id":"#,
    );
    json::string(&mut out, &node.node_id);
    json::raw(&mut out, r#","listen_addr":"tcp://127.0.0.1:0","network":"#);
    json::string(&mut out, &node.genesis.chain_id);
    json::raw(&mut out, r#","version":"#);
    json::string(&mut out, VERSION);
    json::raw(&mut out, r#","channels":"40202122233038606100","moniker":"#);
    json::string(&mut out, &node.config.moniker);
    json::raw(&mut out, r#","other":{"tx_index":"#);
    json::string(&mut out, if node.config.tx_index { "on" } else { "off" });
    json::raw(&mut out, r#","rpc_address":"#);
    json::string(&mut out, &format!("tcp://{}", node.rpc_address));
    json::raw(&mut out, r#"}},"sync_info":{"#);
    sync_block(&mut out, "latest", latest.as_deref());
    out.push(b',');
    sync_block(&mut out, "earliest", earliest.as_deref());
    json::raw(
        &mut out,
        r#","catching_up":false},"validator_info":{"address":"#,
    );
    json::hex(&mut out, &node.genesis.validator.address);
    json::raw(&mut out, r#","pub_key":"#);
    node.genesis.write_public_key_json(&mut out);
    json::raw(&mut out, r#","voting_power":"#);
    json::int_text(&mut out, POWER);
    json::raw(&mut out, "}}");
    out
}

/// Appends the four members about a block.
fn sync_block(out: &mut Vec<u8>, which: &str, block: Option<&Block>) {
    let (hash, app_hash, height, time) = match block {
        Some(block) => (
            optional(&block.id.hash),
            block.header.app_hash.as_slice(),
            block.header.height,
            block.header.time.text(),
        ),
        None => (&[][..], &[][..], 0, "1970-01-01T00:00:00Z".to_owned()),
    };
    json::raw(out, &format!(r#""{which}_block_hash":"#));
    json::hex(out, hash);
    json::raw(out, &format!(r#","{which}_app_hash":"#));
    json::hex(out, app_hash);
    json::raw(out, &format!(r#","{which}_block_height":"#));
    json::int_text(out, height);
    json::raw(out, &format!(r#","{which}_block_time":"#));
    json::string(out, &time);
}

pub(super) fn net_info() -> Vec<u8> {
    br#"{"listening":true,"listeners":["Listener(@)"],"n_peers":"0","peers":[]}"#.to_vec()
}

pub(super) fn genesis(node: &Node) -> Vec<u8> {
    let mut out = Vec::with_capacity(700);
    json::raw(&mut out, r#"{"genesis":"#);
    node.genesis.write_json(&mut out);
    out.push(b'}');
    out
}

pub(super) fn genesis_chunked(node: &Node, chunk: i64) -> Result<Vec<u8>, String> {
    if chunk != 0 {
        return Err(format!("there are 0 chunks, {chunk} is invalid"));
    }
    let mut document = Vec::with_capacity(700);
    node.genesis.write_json(&mut document);
    let mut out = Vec::with_capacity(1000);
    json::raw(&mut out, r#"{"chunk":"0","total":"1","data":"#);
    json::base64(&mut out, &document);
    out.push(b'}');
    Ok(out)
}

pub(super) fn abci_info(node: &Node) -> Vec<u8> {
    let (data, height) = match node.app.kvstore() {
        Some(app) => (format!(r#"{{"size":{}}}"#, app.size()), app.height()),
        None => (BIGCHAINDB.to_owned(), node.store().height()),
    };
    let mut out = Vec::with_capacity(180);
    json::raw(&mut out, r#"{"response":{"data":"#);
    json::string(&mut out, &data);
    json::raw(&mut out, r#","version":"#);
    json::string(&mut out, kvstore::ABCI_VERSION);
    json::raw(&mut out, r#","app_version":"#);
    json::int_text(&mut out, kvstore::APP_VERSION);
    if height > 0 {
        json::raw(&mut out, r#","last_block_height":"#);
        json::int_text(&mut out, height);
    }
    json::raw(&mut out, r#","last_block_app_hash":"#);
    json::base64(&mut out, &node.app.app_hash());
    json::raw(&mut out, "}}");
    out
}

pub(super) fn abci_query(node: &Node, args: &Args) -> Vec<u8> {
    let key = args.bytes(1);
    let answer = match node.app.kvstore() {
        Some(app) => app.query(args.text(0), key, args.flag(3)),
        // BigchainDB does not answer queries: its state is asked over its own API.
        None => QueryAnswer::default(),
    };
    let mut out = Vec::with_capacity(200);
    json::raw(&mut out, r#"{"response":{"code":0,"log":"#);
    json::string(&mut out, answer.log);
    json::raw(&mut out, r#","info":"","index":"#);
    json::int_text(&mut out, answer.index);
    json::raw(&mut out, r#","key":"#);
    json::base64_or_null(&mut out, (!key.is_empty()).then_some(key));
    json::raw(&mut out, r#","value":"#);
    json::base64_or_null(&mut out, answer.value.as_deref());
    json::raw(&mut out, r#","proofOps":null,"height":"#);
    json::int_text(&mut out, answer.height);
    json::raw(&mut out, r#","codespace":""}}"#);
    out
}

/// A state of consensus between two blocks, which is where this node always is.
pub(super) fn consensus_state(node: &Node) -> Vec<u8> {
    let (height, start) = next_round(node);
    let mut out = Vec::with_capacity(500);
    json::raw(&mut out, r#"{"round_state":{"height/round/step":"#);
    json::string(&mut out, &format!("{height}/0/{}", step(node)));
    json::raw(&mut out, r#","start_time":"#);
    json::string(&mut out, &start);
    json::raw(
        &mut out,
        r#","proposal_block_hash":"","locked_block_hash":"","valid_block_hash":"","height_vote_set":"#,
    );
    no_votes(node, &mut out);
    json::raw(&mut out, r#","proposer":{"address":"#);
    json::hex(&mut out, &node.genesis.validator.address);
    json::raw(&mut out, r#","index":0}}}"#);
    out
}

pub(super) fn dump_consensus_state(node: &Node) -> Vec<u8> {
    let (height, start) = next_round(node);
    let mut out = Vec::with_capacity(2000);
    json::raw(&mut out, r#"{"round_state":{"height":"#);
    json::int_text(&mut out, height);
    json::raw(&mut out, r#","round":0,"step":"#);
    json::int(&mut out, step(node));
    json::raw(&mut out, r#","start_time":"#);
    json::string(&mut out, &start);
    json::raw(&mut out, r#","commit_time":"#);
    json::string(&mut out, &start);
    json::raw(&mut out, r#","validators":"#);
    validator_set(node, &mut out);
    json::raw(
        &mut out,
        r#","proposal":null,"proposal_block":null,"proposal_block_parts":null,"locked_round":-1,"locked_block":null,"locked_block_parts":null,"valid_round":-1,"valid_block":null,"valid_block_parts":null,"votes":"#,
    );
    no_votes(node, &mut out);
    json::raw(
        &mut out,
        r#","commit_round":-1,"last_commit":{"votes":[],"votes_bit_array":"BA{1:x} 10/10 = 1.00","peer_maj_23s":{}},"last_validators":"#,
    );
    validator_set(node, &mut out);
    json::raw(
        &mut out,
        r#","triggered_timeout_precommit":false},"peers":[]}"#,
    );
    out
}

fn validator_set(node: &Node, out: &mut Vec<u8>) {
    json::raw(out, r#"{"validators":["#);
    chain::validator(node, out);
    json::raw(out, r#"],"proposer":"#);
    chain::validator(node, out);
    out.push(b'}');
}

/// Appends the votes of each round that the node looks at: none.
fn no_votes(node: &Node, out: &mut Vec<u8>) {
    let rounds = if step(node) == WAITS_FOR_TXS {
        0..2
    } else {
        0..1
    };
    json::array(out, rounds, |out, round| {
        json::raw(out, r#"{"round":"#);
        json::int(out, round);
        json::raw(
            out,
            r#","prevotes":["nil-Vote"],"prevotes_bit_array":"BA{1:_} 0/10 = 0.00","precommits":["nil-Vote"],"precommits_bit_array":"BA{1:_} 0/10 = 0.00"}"#,
        );
    });
}

/// Step of a node that waits for the time of its next block.
const WAITS_FOR_TIME: u8 = 1;
/// Step of a node that waits for transactions.
const WAITS_FOR_TXS: u8 = 2;

fn step(node: &Node) -> u8 {
    if node.config.create_empty_blocks || node.owes_proof() {
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
