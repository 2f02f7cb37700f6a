//! Outputs, blocks and validators.

use bigchain::Id;
use serde::Serialize;

use super::answer;
use super::arguments::{self, Arguments};
use super::transactions::{list, text_of};
use crate::app::bigchaindb::{Bigchaindb, OutputFilter};
use crate::chain::validator::POWER;
use crate::http::{Request, Response};
use crate::node::Node;

#[derive(Debug, Serialize)]
struct Output {
    output_index: u32,
    transaction_id: String,
}

/// Outputs in one answer at most: 11 MB of them.
const MOST_OUTPUTS: usize = 100_000;

/// `GET /api/v1/outputs?public_key=`.
pub(super) fn outputs(app: &Bigchaindb, request: &Request) -> Response {
    let asked = (|| {
        let arguments = Arguments::of(request);
        let key = arguments.required("public_key", arguments::public_key)?;
        let filter = arguments.optional("spent", arguments::spent)?;
        arguments.only(&["public_key", "spent"])?;
        Ok((key, filter.unwrap_or(OutputFilter::All)))
    })();
    let (key, filter) = match asked {
        Ok(asked) => asked,
        Err(answer) => return answer,
    };
    let found = key.map_or_else(Vec::new, |key| app.state().outputs(&key, filter));
    if found.len() > MOST_OUTPUTS {
        let instead = "ask with spent=false or spent=true, or follow the blocks";
        return answer::too_many("outputs", found.len(), MOST_OUTPUTS, instead);
    }
    let found: Vec<Output> = found
        .into_iter()
        .map(|output| Output {
            output_index: output.index,
            transaction_id: output.transaction.to_string(),
        })
        .collect();
    answer::value(200, &found)
}

/// `GET /api/v1/blocks?transaction_id=`.
pub(super) fn blocks_with(app: &Bigchaindb, request: &Request) -> Response {
    let asked = (|| {
        let arguments = Arguments::of(request);
        let id = arguments.required("transaction_id", arguments::text)?;
        arguments.only(&["transaction_id"])?;
        Ok(id)
    })();
    match asked {
        Ok(id) => {
            let place = id.parse::<Id>().ok().and_then(|id| app.state().place(&id));
            let heights: Vec<u64> = place.into_iter().map(|place| place.height).collect();
            answer::value(200, &heights)
        }
        Err(answer) => answer,
    }
}

/// `GET /api/v1/blocks/HEIGHT`.
pub(super) fn block(node: &Node, height: &str) -> Response {
    let height = height.parse::<u64>().ok();
    if height == Some(0) {
        return answer::json(200, br#"{"height": 0, "transactions": []}"#.to_vec());
    }
    let Some(block) = height.and_then(|height| node.store().block(height).cloned()) else {
        return answer::not_found();
    };
    let valid = block
        .txs
        .iter()
        .enumerate()
        .filter(|(index, _)| block.code(*index) == 0);
    let transactions = list(valid.filter_map(|(_, tx)| text_of(tx)));
    let height = block.header.height;
    let body = format!(r#"{{"height": {height}, "transactions": {transactions}}}"#);
    answer::json(200, body.into_bytes())
}

#[derive(Debug, Serialize)]
struct Validator {
    public_key: ValidatorKey,
    voting_power: i64,
}

#[derive(Debug, Serialize)]
struct ValidatorKey {
    #[serde(rename = "type")]
    kind: &'static str,
    value: String,
}

/// `GET /api/v1/validators`.
pub(super) fn validators(node: &Node) -> Response {
    let value = base64_simd::STANDARD.encode_to_string(node.genesis.validator.public);
    let validator = Validator {
        public_key: ValidatorKey {
            kind: "ed25519-base64",
            value,
        },
        voting_power: POWER,
    };
    answer::value(200, &[validator])
}

/// `GET /api/v1/assets?search=` and `…/metadata?search=`.
pub(super) fn search(request: &Request) -> Response {
    match Arguments::of(request).required("search", arguments::text) {
        Ok(text) if text.is_empty() => answer::error(400, "text_search cannot be empty"),
        Ok(_) => answer::error(
            501,
            "text search is a function of MongoDB, which is not here",
        ),
        Err(answer) => answer,
    }
}
