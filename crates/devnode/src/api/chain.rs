//! Outputs, blocks and validators.

use std::sync::Arc;

use bigchain::Id;
use serde_json::{Value, json};

use super::arguments::{self, Arguments};
use super::transactions::{list, text_of};
use super::{Answer, answer};
use crate::app::bigchaindb::{Bigchaindb, OutputFilter};
use crate::chain::block::Block;
use crate::chain::validator::POWER;
use crate::http::{Request, Response};
use crate::node::Node;

/// Outputs in one answer at most: 11 MB of them.
const MOST_OUTPUTS: usize = 100_000;

/// `GET /api/v1/outputs?public_key=`.
pub(super) fn outputs(app: &Bigchaindb, request: &Request) -> Answer {
    let arguments = Arguments::of(request);
    let key = arguments.required("public_key", arguments::public_key)?;
    let filter = arguments.optional("spent", arguments::spent)?;
    arguments.only(&["public_key", "spent"])?;
    let filter = filter.unwrap_or(OutputFilter::All);
    let found = key.map_or_else(Vec::new, |key| app.state().outputs(&key, filter));
    if found.len() > MOST_OUTPUTS {
        let instead = "ask with spent=false or spent=true, or follow the blocks";
        let refusal = answer::too_many("outputs", found.len(), MOST_OUTPUTS, instead);
        return Err(refusal);
    }
    let found: Vec<Value> = found
        .into_iter()
        .map(|output| {
            let transaction = output.transaction.to_string();
            json!({"output_index": output.index, "transaction_id": transaction})
        })
        .collect();
    Ok(answer::value(200, &Value::from(found)))
}

/// `GET /api/v1/blocks?transaction_id=`.
pub(super) fn blocks_with(app: &Bigchaindb, request: &Request) -> Answer {
    let arguments = Arguments::of(request);
    let id = arguments.required("transaction_id", arguments::text)?;
    arguments.only(&["transaction_id"])?;
    let place = id.parse::<Id>().ok().and_then(|id| app.state().place(&id));
    let heights: Vec<u64> = place.into_iter().map(|place| place.height).collect();
    Ok(answer::value(200, &Value::from(heights)))
}

/// `GET /api/v1/blocks/HEIGHT`.
pub(super) async fn block(node: &Arc<Node>, height: &str) -> Answer {
    let height = height.parse::<u64>().ok();
    if height == Some(0) {
        let body = br#"{"height": 0, "transactions": []}"#;
        return Ok(answer::json_text(200, body.to_vec()));
    }
    let block = height.and_then(|height| node.store().block(height).cloned());
    let block = block.ok_or_else(answer::not_found)?;
    let body = node.read(move |_| block_text(&block)).await;
    Ok(answer::json_text(200, body.into_bytes()))
}

fn block_text(block: &Block) -> String {
    let valid = block
        .txs
        .iter()
        .enumerate()
        .filter(|(index, _)| block.code(*index) == 0);
    let transactions = list(valid.filter_map(|(_, tx)| text_of(tx)));
    let height = block.header.height;
    format!(r#"{{"height": {height}, "transactions": {transactions}}}"#)
}

/// `GET /api/v1/validators`.
pub(super) fn validators(node: &Node) -> Response {
    let key = base64_simd::STANDARD.encode_to_string(node.genesis.validator.public);
    let key = json!({"type": "ed25519-base64", "value": key});
    answer::value(200, &json!([{"public_key": key, "voting_power": POWER}]))
}

/// `GET /api/v1/assets?search=` and `…/metadata?search=`: the refusal.
pub(super) fn search(request: &Request) -> Response {
    match Arguments::of(request).required("search", arguments::text) {
        Ok(text) if text.is_empty() => answer::error(400, "text_search cannot be empty"),
        Ok(_) => {
            let why = "text search is a function of MongoDB, which is not here";
            answer::error(501, why)
        }
        Err(refusal) => refusal,
    }
}
