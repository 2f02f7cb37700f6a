//! Reading the vector files.

use std::collections::HashMap;
use std::path::PathBuf;

use bigchain::json::{Value, parse};
use bigchain::{KeyPair, MemoryLedger, Transaction};

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

pub(crate) fn load(name: &str) -> Value {
    let text = std::fs::read(folder().join(name)).unwrap();
    parse(&text).unwrap()
}

pub(crate) fn str_of<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap()
}

pub(crate) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).unwrap()
}

pub(crate) fn strings(value: &Value, name: &str) -> Vec<String> {
    list(value, name)
        .iter()
        .map(|item| item.as_str().unwrap().to_owned())
        .collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// The vectors of `valid.json` by name.
pub(crate) fn valid() -> Vec<Value> {
    list(&load("valid.json"), "vectors").to_vec()
}

pub(crate) fn transactions() -> HashMap<String, Transaction> {
    valid()
        .iter()
        .map(|vector| {
            let transaction = Transaction::from_value(vector.get("tx").unwrap().clone());
            (str_of(vector, "name").to_owned(), transaction.unwrap())
        })
        .collect()
}

pub(crate) fn ledger_with<'a>(
    known: &HashMap<String, Transaction>,
    names: impl Iterator<Item = &'a String>,
) -> MemoryLedger {
    let mut ledger = MemoryLedger::default();
    for name in names {
        assert!(ledger.apply(&known[name]), "{name}");
    }
    ledger
}

/// The key pairs of `keys.json` by name.
pub(crate) fn pairs() -> HashMap<String, KeyPair> {
    load("keys.json")
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, keys)| {
            let pair = KeyPair::from_private_key(str_of(keys, "private_key")).unwrap();
            assert_eq!(pair.public().to_string(), str_of(keys, "public_key"));
            assert_eq!(hex(&pair.public().0), str_of(keys, "public_key_hex"));
            (name.to_owned(), pair)
        })
        .collect()
}
