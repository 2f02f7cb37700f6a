//! Other values for the keys of the files that a node's `init` wrote. A key that a file does not have is an
//! error: the node itself would ignore it.

use std::fmt;
use std::net::SocketAddr;

use serde_json::Value as Json;
use toml::{Table, Value};

use crate::dotted::{assign, leaves, table};
use crate::nearest::nearest;

/// Why a setting cannot be applied: which key of which file, and what it takes.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SettingError(String);

fn unreadable(file: &str, problem: &dyn fmt::Display) -> SettingError {
    let text = format!("cannot read {file} as the node's `init` wrote it: {problem}");
    SettingError(text)
}

/// The file with other values for keys that it has.
pub(crate) fn with_values(
    file: &str,
    text: &str,
    overrides: &[&Table],
) -> Result<String, SettingError> {
    let unreadable = |problem: &dyn fmt::Display| unreadable(file, problem);
    let mut config: Table = toml::from_str(text).map_err(|error| unreadable(&error))?;
    let known = leaves(&config);
    for (key, value) in overrides.iter().flat_map(|table| leaves(table)) {
        let Some((_, before)) = known.iter().find(|(name, _)| *name == key) else {
            return Err(unknown(file, &key, known.iter().map(|(name, _)| name)));
        };
        if before.type_str() != value.type_str() {
            let expected = before.type_str();
            return Err(SettingError(format!(
                "{key} of {file} is a {expected}, e.g. {before}, not {value}"
            )));
        }
        assign(&mut config, &key, value).expect("the key is one of the file's");
    }
    toml::to_string(&config).map_err(|error| unreadable(&error))
}

/// What turns the metrics of a CometBFT on, if its `config.toml` has them.
pub(crate) fn with_metrics(text: &str, address: SocketAddr) -> Table {
    if !text.contains("prometheus_listen_addr") {
        return Table::new();
    }
    let address = address.to_string().into();
    table([
        ("instrumentation.prometheus", true.into()),
        ("instrumentation.prometheus_listen_addr", address),
    ])
}

/// The genesis with other values for keys that it has. It writes numbers as texts.
pub(crate) fn with_genesis(text: &str, overrides: &Table) -> Result<String, SettingError> {
    let file = "genesis.json";
    let unreadable = |error: serde_json::Error| unreadable(file, &error);
    let mut genesis: Json = serde_json::from_str(text).map_err(unreadable)?;
    let mut known = Vec::new();
    pointers(&genesis, "", &mut known);
    for (key, value) in leaves(overrides) {
        let pointer = format!("/{}", key.replace('.', "/"));
        let Some(place) = genesis.pointer_mut(&pointer) else {
            return Err(unknown(file, &key, &known));
        };
        *place = match (&*place, value) {
            (Json::String(_), Value::Integer(number)) => Json::String(number.to_string()),
            (_, value) => serde_json::to_value(value).map_err(unreadable)?,
        };
    }
    serde_json::to_string_pretty(&genesis).map_err(unreadable)
}

fn pointers(value: &Json, above: &str, found: &mut Vec<String>) {
    let Json::Object(object) = value else {
        found.push(above.into());
        return;
    };
    for (name, below) in object {
        let dot = if above.is_empty() { "" } else { "." };
        pointers(below, &format!("{above}{dot}{name}"), found);
    }
}

fn unknown<'a>(file: &str, key: &str, known: impl IntoIterator<Item = &'a String>) -> SettingError {
    let nearest = nearest(key, known.into_iter().map(String::as_str));
    let hint = nearest.map_or(String::new(), |near| format!("; did you mean {near}?"));
    SettingError(format!("{file} of this node has no key {key}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str =
        "log_level = \"info\"\n[rpc]\nladdr = \"tcp://127.0.0.1:26657\"\n[mempool]\nsize = 5000\n";

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn known_keys_get_other_values() {
        let text = with_values(
            "config.toml",
            CONFIG,
            &[&table("mempool.size = 10"), &table("rpc.laddr = \"x\"")],
        )
        .unwrap();
        let config = table(&text);
        assert_eq!(config["mempool"]["size"], Value::Integer(10));
        assert_eq!(config["rpc"]["laddr"], Value::String("x".into()));
        assert_eq!(config["log_level"], Value::String("info".into()));
    }

    #[test]
    fn a_wrong_key_or_type_is_an_error_and_not_a_default() {
        let problem = |overrides: &str| {
            with_values("config.toml", CONFIG, &[&table(overrides)])
                .unwrap_err()
                .to_string()
        };
        let text = problem("mempool.sise = 10");
        assert!(
            text.contains("no key mempool.sise; did you mean mempool.size?"),
            "{text}"
        );
        let text = problem("mempool.size = \"10\"");
        assert!(
            text.contains("mempool.size of config.toml is a integer, e.g. 5000"),
            "{text}"
        );
    }

    #[test]
    fn the_genesis_keeps_its_way_of_writing_numbers() {
        let genesis = r#"{"consensus_params":{"block":{"max_bytes":"22020096"}},"validators":[]}"#;
        let text = with_genesis(genesis, &table("consensus_params.block.max_bytes = 5")).unwrap();
        assert!(text.contains(r#""max_bytes": "5""#), "{text}");
        let error = with_genesis(genesis, &table("consensus_params.block.max_byte = 5"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("did you mean consensus_params.block.max_bytes?"),
            "{error}"
        );
    }
}
