//! Values of a TOML document under dotted keys: `phases.0.rate`, `node.cometbft.mempool.size`.

use toml::{Table, Value};

/// Why a value cannot be put under a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DottedError {
    /// The key is empty, or has an empty part.
    #[error("{key:?} is no key; write names joined by dots, e.g. settings.connections")]
    Key {
        /// The key.
        key: String,
    },
    /// A part of the key names something that has no parts.
    #[error("{key}: {part} is a value and has nothing below it")]
    NotATable {
        /// The key.
        key: String,
        /// The part up to what is no table.
        part: String,
    },
    /// A part that points into an array is no position in it.
    #[error("{key}: {part} has {length} elements; give the position of one, from 0")]
    Position {
        /// The key.
        key: String,
        /// The array.
        part: String,
        /// Its elements.
        length: usize,
    },
    /// It is not of the form `KEY=VALUE`.
    #[error("{text:?} has no =; write KEY=VALUE, e.g. mempool.size=1000")]
    Assignment {
        /// What was given.
        text: String,
    },
}

/// Puts a value under a dotted key; tables that are missing on the way are made.
///
/// # Errors
/// When the way leads through a value that has no parts, or past the end of an array.
pub fn assign(table: &mut Table, key: &str, value: Value) -> Result<(), DottedError> {
    let parts: Vec<&str> = key.split('.').collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(DottedError::Key { key: key.into() });
    }
    let (last, way) = parts.split_last().expect("a split has at least one part");
    let mut place = Place::Table(table);
    for (depth, part) in way.iter().enumerate() {
        place = place.below(part).map_err(|wrong| {
            let end = match wrong {
                Wrong::Value => depth + 1,
                Wrong::Position(_) => depth,
            };
            wrong.at(key, &way[..end])
        })?;
    }
    place.put(last, value).map_err(|wrong| wrong.at(key, way))
}

/// Reads `KEY=VALUE`; a value that is no TOML is taken as a text.
///
/// # Errors
/// Without a `=`.
pub fn parse_assignment(text: &str) -> Result<(String, Value), DottedError> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| DottedError::Assignment { text: text.into() })?;
    let parsed = format!("x = {value}")
        .parse::<Table>()
        .ok()
        .and_then(|mut parsed| parsed.remove("x"))
        .unwrap_or_else(|| Value::String(value.into()));
    Ok((key.trim().into(), parsed))
}

/// Every value of a table that is no table itself, under its dotted key, in the table's order.
#[must_use]
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

/// A table or an array on the way to a value.
enum Place<'a> {
    Table(&'a mut Table),
    Array(&'a mut Vec<Value>),
}

/// What is wrong with a step, before it is known where.
enum Wrong {
    Value,
    Position(usize),
}

impl Wrong {
    fn at(self, key: &str, way: &[&str]) -> DottedError {
        let part = way.join(".");
        match self {
            Self::Value => DottedError::NotATable {
                key: key.into(),
                part,
            },
            Self::Position(length) => DottedError::Position {
                key: key.into(),
                part,
                length,
            },
        }
    }
}

impl<'a> Place<'a> {
    fn below(self, part: &str) -> Result<Self, Wrong> {
        let value = match self {
            Self::Table(table) => table
                .entry(part)
                .or_insert_with(|| Value::Table(Table::new())),
            Self::Array(array) => element(array, part)?,
        };
        match value {
            Value::Table(table) => Ok(Self::Table(table)),
            Value::Array(array) => Ok(Self::Array(array)),
            _ => Err(Wrong::Value),
        }
    }

    fn put(self, part: &str, value: Value) -> Result<(), Wrong> {
        match self {
            Self::Table(table) => {
                table.insert(part.into(), value);
            }
            Self::Array(array) => *element(array, part)? = value,
        }
        Ok(())
    }
}

fn element<'a>(array: &'a mut [Value], part: &str) -> Result<&'a mut Value, Wrong> {
    let length = array.len();
    let position: Option<usize> = part.parse().ok();
    position
        .and_then(|position| array.get_mut(position))
        .ok_or(Wrong::Position(length))
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
