//! Other values for the keys of the files that a node's `init` wrote. A key that a file does not have is an
//! error: the node itself would ignore it.

use std::fmt;
use std::net::SocketAddr;

use serde_json::Value as Json;
use toml::{Table, Value};

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

/// The known name that a mistyped one was meant to be, if there is one within 4 typing errors.
pub fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(unknown, name), name))
        .min()
        .filter(|(distance, _)| *distance <= MAX_TYPING_ERRORS)
        .map(|(_, name)| name)
}

/// Further apart than this two keys are different words.
const MAX_TYPING_ERRORS: usize = 4;

/// Why a value cannot be put under a key: what is wrong with the key, and what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DottedError(String);

/// A table or an array on the way to a value.
enum Place<'a> {
    Table(&'a mut Table),
    Array(&'a mut Vec<Value>),
}

/// Puts a value under a dotted key; tables that are missing on the way are made.
///
/// # Errors
/// When the way leads through a value that has no parts, or past the end of an array.
pub fn assign(table: &mut Table, key: &str, value: Value) -> Result<(), DottedError> {
    let parts: Vec<&str> = key.split('.').collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(DottedError(format!(
            "{key:?} is no key; write names joined by dots, e.g. settings.connections"
        )));
    }
    let mut place = Place::Table(table);
    for (depth, part) in parts.iter().enumerate() {
        let below = match place {
            Place::Table(table) => table
                .entry(*part)
                .or_insert_with(|| Value::Table(Table::new())),
            Place::Array(array) => {
                let length = array.len();
                let position = part.parse().ok();
                let element = position.and_then(|position: usize| array.get_mut(position));
                element.ok_or_else(|| {
                    DottedError(format!(
                        "{key}: {} has {length} elements; give the position of one, from 0",
                        parts[..depth].join(".")
                    ))
                })?
            }
        };
        if depth + 1 == parts.len() {
            *below = value;
            break;
        }
        place = match below {
            Value::Table(table) => Place::Table(table),
            Value::Array(array) => Place::Array(array),
            _ => {
                return Err(DottedError(format!(
                    "{key}: {} is a value and has nothing below it",
                    parts[..=depth].join(".")
                )));
            }
        };
    }
    Ok(())
}

/// A table of values under dotted keys that are known to be well formed.
pub(crate) fn table<const N: usize>(values: [(&str, Value); N]) -> Table {
    let mut table = Table::new();
    for (key, value) in values {
        assign(&mut table, key, value).expect("the keys are well formed");
    }
    table
}

/// Reads `KEY=VALUE`; a value that is no TOML is taken as a text.
///
/// # Errors
/// Without a `=`.
pub fn parse_assignment(text: &str) -> Result<(String, Value), DottedError> {
    let (key, value) = text.split_once('=').ok_or_else(|| {
        DottedError(format!(
            "{text:?} has no =; write KEY=VALUE, e.g. mempool.size=1000"
        ))
    })?;
    let parsed = format!("x = {value}")
        .parse::<Table>()
        .ok()
        .and_then(|mut parsed| parsed.remove("x"))
        .unwrap_or_else(|| Value::String(value.into()));
    Ok((key.trim().into(), parsed))
}

/// Every value of a table that is no table itself, under its dotted key, in the table's order.
pub fn leaves(table: &Table) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    gather(table, "", &mut found);
    found
}

fn gather(table: &Table, above: &str, found: &mut Vec<(String, Value)>) {
    for (name, value) in table {
        let key = if above.is_empty() {
            name.clone()
        } else {
            format!("{above}.{name}")
        };
        match value {
            Value::Table(below) => gather(below, &key, found),
            value => found.push((key, value.clone())),
        }
    }
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

#[cfg(test)]
mod dotted_tests {
    use super::*;

    fn table() -> Table {
        "settings.size = 5\n[[phases]]\nrate = 1\n[[phases]]\nrate = 2\n"
            .parse()
            .unwrap()
    }

    #[test]
    fn values_are_put_under_tables_and_into_arrays() {
        let mut table = table();
        assign(&mut table, "phases.1.rate", Value::Integer(7)).unwrap();
        assign(&mut table, "node.cometbft.mempool.size", Value::Integer(9)).unwrap();
        let leaves = leaves(&table);
        assert!(leaves.contains(&("node.cometbft.mempool.size".into(), Value::Integer(9))));
        assert_eq!(table["phases"][1]["rate"], Value::Integer(7));
        assert_eq!(table["phases"][0]["rate"], Value::Integer(1));
    }

    #[test]
    fn wrong_ways_say_where_they_end() {
        let mut table = table();
        let mut wrong = |key: &str| {
            assign(&mut table, key, Value::Integer(1))
                .unwrap_err()
                .to_string()
        };
        assert!(wrong("settings.size.x").contains("settings.size is a value"));
        assert!(wrong("phases.2.rate").contains("phases has 2 elements"));
        assert!(wrong("phases.first").contains("position of one"));
        assert!(wrong("phases..rate").contains("is no key"));
    }

    #[test]
    fn assignments_are_toml_or_text() {
        let value = |text| parse_assignment(text).unwrap().1;
        assert_eq!(value("a.b=5"), Value::Integer(5));
        assert_eq!(value("a.b=true"), Value::Boolean(true));
        assert_eq!(value("a.b=30s"), Value::String("30s".into()));
        assert_eq!(value("a=[1, 2]").as_array().unwrap().len(), 2);
        assert!(parse_assignment("a.b").is_err());
    }
}
