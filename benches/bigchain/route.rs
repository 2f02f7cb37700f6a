//! BigchainDB's rules for transactions, judged by the `jsonschema` crate.

use jsonschema::Validator;
use serde_json::Value as Json;

const COMMON: &str = include_str!("common.json");
const CREATE: &str = include_str!("create.json");
const TRANSFER: &str = include_str!("transfer.json");

/// The rules compiled for the `jsonschema` crate.
#[derive(Debug)]
pub(crate) struct JsonSchema {
    common: Validator,
    create: Validator,
    transfer: Validator,
}

impl JsonSchema {
    /// Compiles the rules. Do it once: it takes far longer than a check.
    pub(crate) fn new() -> Self {
        Self {
            common: compiled(COMMON),
            create: compiled(CREATE),
            transfer: compiled(TRANSFER),
        }
    }

    /// Whether a body read by `serde_json` follows the schema of its operation.
    pub(crate) fn accepts(&self, body: &Json) -> bool {
        let own = match body.get("operation").and_then(Json::as_str) {
            Some("TRANSFER") => &self.transfer,
            _ => &self.create,
        };
        self.common.is_valid(body) && own.is_valid(body)
    }
}

fn compiled(rules: &str) -> Validator {
    let rules = serde_json::from_str(rules).expect("the rules are JSON");
    jsonschema::draft4::new(&rules).expect("the rules are a schema")
}
