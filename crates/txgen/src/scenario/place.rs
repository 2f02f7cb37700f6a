//! Where in its file a key outside the phases is at fault, and what was meant by a key that is unknown.

use std::collections::BTreeMap;
use std::ops::Range;

use clap::{Args as _, Command};
use harness::toml_errors::{self, point_at};
use serde::Deserialize;
use toml::{Spanned, Table, Value};

use super::Scenario;
use crate::chains::ChainSettings;
use crate::settings::Settings;

type Keys = BTreeMap<Spanned<String>, Spanned<Value>>;

/// What is wrong with the first key of `[settings]`, or of a chain's table in it, that is none, with its line.
pub(crate) fn of_settings(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct File {
        settings: Keys,
    }
    let file: File = toml::from_str(text).ok()?;
    file.settings.iter().find_map(|(key, value)| {
        let span = key.span().start..value.span().end;
        match value.get_ref() {
            Value::Table(inner) if ChainSettings::is_table(key.get_ref()) => {
                let table = key.get_ref();
                let wrong = |(key, value): (&String, &Value)| {
                    let message = ChainSettings::check(table, key, value)?;
                    Some(point_at(text, line_of(text, span.clone(), key), &message))
                };
                inner.iter().find_map(wrong)
            }
            value => {
                let alone = Table::from_iter([(key.get_ref().clone(), value.clone())]);
                let error = Settings::deserialize(Value::Table(alone)).err()?;
                Some(point_at(text, span, error.message()))
            }
        }
    })
}

/// The first key of the file, or of a table in it, that is none, with its line: each table is read alone, so that
/// nothing which is missing elsewhere hides it.
pub(crate) fn of_unknown_key(text: &str) -> Option<String> {
    let file: Keys = toml::from_str(text).ok()?;
    file.iter().find_map(|(key, value)| {
        let alone = Table::from_iter([(key.get_ref().clone(), value.get_ref().clone())]);
        let error = Scenario::deserialize(Value::Table(alone)).err()?;
        let (unknown, _) = error
            .message()
            .strip_prefix("unknown field `")?
            .split_once('`')?;
        let line = line_of(text, key.span(), unknown);
        Some(point_at(text, line, error.message()))
    })
}

/// The line of a key inside a table.
fn line_of(text: &str, table: Range<usize>, key: &str) -> Range<usize> {
    let mut at = table.start;
    for line in text.get(table.start..).unwrap_or_default().split('\n') {
        let name = line.split('=').next().unwrap_or_default();
        if name.trim() == key {
            let indent = line.len() - line.trim_start().len();
            return at + indent..at + line.trim_end().len();
        }
        at += line.len() + 1;
    }
    table
}

/// Adds the nearest known key to serde's "unknown field `x`, expected one of `a`, `b`".
pub(crate) fn with_suggestion(message: &str) -> String {
    // Serde names none where structs are flattened into one.
    let all = Settings::augment_args(Command::new(""));
    let keys: Vec<&str> = all
        .get_arguments()
        .map(|flag| flag.get_id().as_str())
        .collect();
    toml_errors::with_suggestion(message, &keys)
}
