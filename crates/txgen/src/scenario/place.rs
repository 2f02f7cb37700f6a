//! Where in its file a phase, or a key of `[settings.cosmos]`, is at fault. The kinds of phases are told apart by one of their keys, and
//! serde loses the places of values on the way through such an enum, so they are looked up again.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use toml::{Spanned, Table, Value};

use super::phase::Phase;
use crate::settings::CosmosSettings;

/// The phases of a scenario with the places of their keys, whatever else is in the file.
#[derive(Deserialize)]
struct Phases {
    #[serde(default)]
    phases: Vec<Spanned<Keys>>,
}

type Keys = BTreeMap<Spanned<String>, Spanned<Value>>;

/// What is wrong with the first phase that is none, with its line; `None` when all are phases.
pub(crate) fn of_phase(text: &str) -> Option<String> {
    let file: Phases = toml::from_str(text).ok()?;
    file.phases.iter().find_map(|phase| {
        let keys = phase.get_ref();
        let message = wrong(keys.iter())?;
        let is_kind = |key: &Spanned<String>| key.get_ref() == "profile";
        // Alone beside the phase's kind, the key at fault is still wrong in the same way; the kind
        // itself is, when it is unknown, before all others.
        let (kind, others): (Vec<_>, Vec<_>) = keys.iter().partition(|(key, _)| is_kind(key));
        let at_fault = kind.into_iter().chain(others).find(|(key, _)| {
            let beside = keys
                .iter()
                .filter(|(other, _)| other == key || is_kind(other));
            wrong(beside).as_ref() == Some(&message) && !is_about_absence(&message)
        });
        let span = at_fault.map_or(phase.span(), |(key, value)| {
            key.span().start..value.span().end
        });
        Some(point_at(text, span, &message))
    })
}

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

/// Why these keys make no phase.
fn wrong<'a>(
    keys: impl Iterator<Item = (&'a Spanned<String>, &'a Spanned<Value>)>,
) -> Option<String> {
    let table: Table = keys
        .map(|(key, value)| (key.get_ref().clone(), value.get_ref().clone()))
        .collect();
    let error = Phase::deserialize(Value::Table(table)).err()?;
    Some(error.message().to_owned())
}

/// A key that is not there has no place of its own.
fn is_about_absence(message: &str) -> bool {
    message.starts_with("missing field")
}

/// The message under the line it is about, in the form of the parser's own.
pub(crate) fn point_at(text: &str, span: Range<usize>, message: &str) -> String {
    let before = text.get(..span.start).unwrap_or(text);
    let line = before.matches('\n').count();
    let column = before
        .rsplit('\n')
        .next()
        .map_or(0, |head| head.chars().count());
    let shown = text.lines().nth(line).unwrap_or_default();
    let number = (line + 1).to_string();
    let margin = " ".repeat(number.len());
    let room = shown.chars().count().saturating_sub(column).max(1);
    let length = text.get(span).map_or(1, |part| part.chars().count());
    let carets = "^".repeat(length.clamp(1, room));
    format!(
        "TOML parse error at line {number}, column {}\n{margin} |\n{number} | {shown}\n{margin} | {}{carets}\n{message}",
        column + 1,
        " ".repeat(column)
    )
}
