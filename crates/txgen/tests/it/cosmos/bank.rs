//! The built-in bank, beside what was recorded of a real chain of the Cosmos SDK.

use std::collections::BTreeMap;

use chain_cosmos::fixture::{BankAccount, BankConfig, BankKind};
use devnode::{Blueprint, Config};
use serde_json::{Map, Value, json};
use testkit::Simd;

use super::trials::{key, prefix, said};
use crate::support::Node;

/// A built-in node with the accounts of the chain.
fn bank() -> Node {
    let config = Config {
        chain_id: Simd::CHAIN.to_owned(),
        max_block_gas: Some(2_000_000),
        ..Config::default()
    };
    // Number 0 is the validator's there.
    let accounts = [30].into_iter().chain(0..20).map(|number| {
        let amount = 10_000_000;
        let address = prefix().write(key(number).address());
        BankAccount { address, amount }
    });
    let config = config.with(BankConfig {
        min_gas_price: "0.01stake".to_owned(),
        accounts: accounts.collect(),
        ..BankConfig::default()
    });
    let kind = &BankKind;
    Node::start(Blueprint { kind, config })
}

/// What simd (ibc-go v8.8.0, Cosmos SDK 0.50.9) says.
pub(super) fn recorded() -> Map<String, Value> {
    serde_json::from_str(include_str!("simd-0.50.json")).unwrap()
}

/// What is said differently, as `name: field`; a hundredth of the gas used is not: simd counts it read by read, the bank
/// by a model.
pub(super) fn differences(
    ours: &Map<String, Value>,
    theirs: &Map<String, Value>,
) -> BTreeMap<String, [Value; 2]> {
    let none = json!({});
    let mut differences = BTreeMap::new();
    for name in ours.keys().chain(theirs.keys()) {
        let [ours, theirs] = [ours, theirs].map(|said| said.get(name).unwrap_or(&none));
        let fields = [ours, theirs].map(|said| said.as_object().unwrap().keys());
        for field in fields.into_iter().flatten() {
            let pair = [ours, theirs].map(|said| &said[field]);
            let gas = |said: &Value| said.as_str().and_then(|gas| gas.parse::<f64>().ok());
            let differs = match pair.map(gas) {
                [Some(used), Some(counted)] if field == "gas_used" => {
                    (used / counted - 1.0).abs() >= 0.01
                }
                _ => pair[0] != pair[1],
            };
            if differs {
                differences.insert(format!("{name}: {field}"), pair.map(Value::clone));
            }
        }
    }
    differences
}

/// The built-in node's bank refuses what simd refuses, with its code, its name space and its words; its blocks say of the rest
/// what simd's do, except events, which the bank has none of. At b2c1579 a fee in another coin was free, and nothing but
/// funds made a message fail.
#[test]
fn the_built_in_bank_says_what_simd_says() {
    assert_eq!(
        differences(&said(&bank().url()), &recorded()),
        BTreeMap::new()
    );
}
