//! What was meant by a key that is unknown.

use clap::{Args as _, Command};
use servers::nearest;

use crate::settings::CosmosSettings;

/// Adds the nearest known key to serde's "unknown field `x`, expected one of `a`, `b`".
pub(crate) fn with_suggestion(message: &str) -> String {
    let Some((_, rest)) = message.split_once("unknown field `") else {
        return message.trim_end().into();
    };
    let Some((unknown, expected)) = rest.split_once('`') else {
        return message.trim_end().into();
    };
    let mut known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    let cosmos = CosmosSettings::augment_args(Command::new(""));
    if known.is_empty() {
        // Of a table with another one's keys in it, serde names none: that is [settings.cosmos].
        known.extend(cosmos.get_arguments().map(|flag| flag.get_id().as_str()));
    }
    match nearest(unknown, known) {
        Some(key) => format!("{}\ndid you mean `{key}`?", message.trim_end()),
        None => message.trim_end().into(),
    }
}
