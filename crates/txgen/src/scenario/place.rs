//! Where in its file a key of `[settings.cosmos]` is at fault, and what was meant by a key that is unknown.

use std::collections::BTreeMap;

use clap::{Args as _, Command};
use harness::toml_errors::{self, point_at};
use serde::Deserialize;
use toml::{Spanned, Table, Value};

use crate::settings::CosmosSettings;

type Keys = BTreeMap<Spanned<String>, Spanned<Value>>;

/// What is wrong with the first key of `[settings.cosmos]` that is none, with its line: in that table are the keys of
/// another one, behind which serde loses places, too.
pub(crate) fn of_accounts(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct File {
        settings: Settings,
    }
    #[derive(Deserialize)]
    struct Settings {
        cosmos: Keys,
    }
    let file: File = toml::from_str(text).ok()?;
    file.settings.cosmos.iter().find_map(|(key, value)| {
        let alone = Table::from_iter([(key.get_ref().clone(), value.get_ref().clone())]);
        let error = CosmosSettings::deserialize(Value::Table(alone)).err()?;
        let span = key.span().start..value.span().end;
        Some(point_at(text, span, error.message()))
    })
}

/// Adds the nearest known key to serde's "unknown field `x`, expected one of `a`, `b`".
pub(crate) fn with_suggestion(message: &str) -> String {
    let cosmos = CosmosSettings::augment_args(Command::new(""));
    let keys: Vec<&str> = cosmos
        .get_arguments()
        .map(|flag| flag.get_id().as_str())
        .collect();
    toml_errors::with_suggestion(message, &keys)
}
