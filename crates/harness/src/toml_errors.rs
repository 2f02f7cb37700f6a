//! What is wrong in a TOML file: the line and column, and the key that was probably meant.
//!
//! The kinds of phases are distinguished by one of their keys. Serde loses the places of values on the way through such
//! an enum, so they are looked up again.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use servers::nearest;
use toml::{Spanned, Table, Value};

use crate::Phase;

/// The phases of a scenario with the places of their keys, whatever else is in the file.
#[derive(Deserialize)]
struct Phases {
    #[serde(default)]
    phases: Vec<Spanned<Keys>>,
}

type Keys = BTreeMap<Spanned<String>, Spanned<Value>>;

/// What is wrong with the first phase that is none, with its line; `None` when all are phases.
pub fn place_of_phase(text: &str) -> Option<String> {
    let file: Phases = toml::from_str(text).ok()?;
    file.phases.iter().find_map(|phase| {
        let keys = phase.get_ref();
        let message = wrong(keys.iter())?;
        if let Some((key, value)) = mistyped_kind(&message, keys) {
            let said = format!("unknown field `{}`, expected `profile`", key.get_ref());
            return Some(point_at(text, key.span().start..value.span().end, &said));
        }
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

/// The key that was to be the kind of a phase without one.
fn mistyped_kind<'a>(
    message: &str,
    keys: &'a Keys,
) -> Option<(&'a Spanned<String>, &'a Spanned<Value>)> {
    let is_near = |(key, _): &(&Spanned<String>, _)| {
        key.get_ref().starts_with("pro") && nearest(key.get_ref(), ["profile"]).is_some()
    };
    let mut near = keys.iter().filter(is_near);
    near.next().filter(|_| message == "missing field `profile`")
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
pub fn point_at(text: &str, span: Range<usize>, message: &str) -> String {
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

/// Adds the nearest known key to serde's "unknown field `x`, expected one of `a`, `b`". Of a table that has another
/// one's keys in it serde names none: those are `flattened`.
pub fn with_suggestion(message: &str, flattened: &[&str]) -> String {
    let Some((_, rest)) = message.split_once("unknown field `") else {
        return message.trim_end().into();
    };
    let Some((unknown, expected)) = rest.split_once('`') else {
        return message.trim_end().into();
    };
    // The next line names the table.
    let expected = expected.lines().next().unwrap_or_default();
    let mut known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    if known.is_empty() {
        known.extend(flattened);
    }
    let Some(key) = nearest(unknown, known) else {
        return message.trim_end().into();
    };
    // The one that was meant stands in place of all there are.
    let before = message.split("unknown field `").next().unwrap_or_default();
    let mut after = rest.lines();
    after.next();
    let said = format!("{before}unknown field `{unknown}`; did you mean `{key}`?");
    let lines: Vec<&str> = std::iter::once(said.as_str()).chain(after).collect();
    lines.join("\n").trim_end().into()
}
