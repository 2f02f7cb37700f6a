//! Values of a TOML document under dotted keys: `phases.0.rate`, `node.cometbft.mempool.size`.

use toml::{Table, Value};

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
