//! The schema of transactions, checked in one pass over the body.
//!
//! The rules are those of the original's JSON Schema, which `benches/bigchain/` has as files. A pattern that ends in
//! `$` admits no newline at the end, as in the original's first validator (its second one admits it, and the
//! contradiction crashes it). `NaN` and the infinities are no JSON, so a body with one is refused.

use crate::json::{Object, Value};

/// Whether a body follows the schema of its operation.
pub fn accepts(body: &Value) -> bool {
    let Some(fields) = exactly(body, 7) else {
        return false;
    };
    let (Some(operation), Some(asset), Some(inputs)) = (
        fields.get("operation").and_then(Value::as_str),
        fields.get("asset"),
        fields.get("inputs").and_then(Value::as_array),
    ) else {
        return false;
    };
    let spends = match operation {
        "TRANSFER" => {
            if inputs.is_empty() || !is_transfer_asset(asset) {
                return false;
            }
            Spends::Outputs
        }
        "CREATE" | "VALIDATOR_ELECTION" | "CHAIN_MIGRATION_ELECTION" | "VOTE" => {
            if inputs.len() != 1 || !is_create_asset(asset) {
                return false;
            }
            Spends::Nothing
        }
        _ => return false,
    };
    fields.iter().all(|(name, value)| match name {
        "operation" | "asset" => true,
        "inputs" => inputs.iter().all(|input| is_input(input, spends)),
        "id" => value.is_null() || value.as_str().is_some_and(is_digest),
        "outputs" => all(value, is_output),
        "metadata" => match value {
            Value::Null => true,
            Value::Object(metadata) => !metadata.is_empty() && is_finite(value),
            _ => false,
        },
        "version" => value.as_str() == Some("2.0"),
        _ => false,
    })
}

#[derive(Clone, Copy)]
enum Spends {
    Nothing,
    Outputs,
}

/// The object, if it has so many members.
fn exactly(value: &Value, count: usize) -> Option<&Object> {
    value.as_object().filter(|object| object.len() == count)
}

/// Whether it is an object of so many members, all of which pass.
fn has_exactly(value: &Value, count: usize, check: impl Fn(&str, &Value) -> bool) -> bool {
    exactly(value, count)
        .is_some_and(|object| object.iter().all(|(name, value)| check(name, value)))
}

fn all(value: &Value, check: impl Fn(&Value) -> bool) -> bool {
    value
        .as_array()
        .is_some_and(|items| items.iter().all(check))
}

fn is_create_asset(asset: &Value) -> bool {
    exactly(asset, 1)
        .and_then(|asset| asset.get("data"))
        .is_some_and(|data| match data {
            Value::Null => true,
            Value::Object(_) => is_finite(data),
            _ => false,
        })
}

fn is_transfer_asset(asset: &Value) -> bool {
    exactly(asset, 1)
        .and_then(|asset| asset.get("id"))
        .and_then(Value::as_str)
        .is_some_and(is_digest)
}

fn is_input(input: &Value, spends: Spends) -> bool {
    has_exactly(input, 3, |name, value| match (name, spends) {
        ("owners_before", _) => is_keys(value),
        ("fulfillment", _) => match value {
            Value::String(text) => is_fulfillment(text),
            other => is_details(other),
        },
        ("fulfills", Spends::Nothing) => value.is_null(),
        ("fulfills", Spends::Outputs) => is_link(value),
        _ => false,
    })
}

fn is_link(link: &Value) -> bool {
    has_exactly(link, 2, |name, value| match (name, value) {
        ("transaction_id", Value::String(id)) => is_digest(id),
        ("output_index", index) => index.as_u64().is_some(),
        _ => false,
    })
}

fn is_output(output: &Value) -> bool {
    has_exactly(output, 3, |name, value| match (name, value) {
        ("amount", Value::String(amount)) => is_amount(amount),
        ("condition", condition) => is_condition(condition),
        ("public_keys", keys) => is_keys(keys),
        _ => false,
    })
}

fn is_condition(condition: &Value) -> bool {
    has_exactly(condition, 2, |name, value| match (name, value) {
        ("details", details) => is_details(details),
        ("uri", Value::String(uri)) => is_condition_uri(uri),
        _ => false,
    })
}

fn is_keys(keys: &Value) -> bool {
    keys.is_null() || all(keys, |key| key.as_str().is_some_and(is_key))
}

fn is_details(details: &Value) -> bool {
    let Some(fields) = details.as_object() else {
        return false;
    };
    let field = |name| fields.get(name);
    match (fields.len(), field("type").and_then(Value::as_str)) {
        (2, Some("ed25519-sha-256")) => field("public_key")
            .and_then(Value::as_str)
            .is_some_and(is_key),
        (3, Some("threshold-sha-256")) => {
            field("threshold")
                .and_then(Value::as_i64)
                .is_some_and(|threshold| (1..=100).contains(&threshold))
                && field("subconditions").is_some_and(|inner| all(inner, is_details))
        }
        _ => false,
    }
}

/// Whether no float inside is `NaN` or infinite.
fn is_finite(value: &Value) -> bool {
    match value {
        Value::Float(float) => float.is_finite(),
        Value::Array(items) => items.iter().all(is_finite),
        Value::Object(object) => object.iter().all(|(_, value)| is_finite(value)),
        _ => true,
    }
}

/// 64 hexadecimal digits somewhere: the pattern has no anchors.
fn is_digest(text: &str) -> bool {
    has_run(text, 64, |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// 43 characters of a key somewhere. By a slip of the original `O`, `I`, `l` and `^` are among
/// them.
fn is_key(text: &str) -> bool {
    has_run(text, 43, |byte| {
        byte == b'^' || (byte != b'0' && byte.is_ascii_alphanumeric())
    })
}

fn is_amount(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_fulfillment(text: &str) -> bool {
    text.bytes().all(is_base64url)
}

/// Two or three parameters in any order, each perhaps with `&` after it; a fingerprint of up to
/// 86 characters.
fn is_condition_uri(text: &str) -> bool {
    let Some((fingerprint, mut query)) = text
        .strip_prefix("ni:///sha-256;")
        .and_then(|rest| rest.split_once('?'))
    else {
        return false;
    };
    if fingerprint.len() > 86 || !fingerprint.bytes().all(is_base64url) {
        return false;
    }
    let mut count = 0;
    while !query.is_empty() {
        let Some(rest) = after_parameter(query) else {
            return false;
        };
        query = rest.strip_prefix('&').unwrap_or(rest);
        count += 1;
    }
    (2..=3).contains(&count)
}

fn after_parameter(query: &str) -> Option<&str> {
    const WHOLE: [&str; 3] = [
        "fpt=ed25519-sha-256",
        "fpt=threshold-sha-256",
        "subtypes=ed25519-sha-256",
    ];
    if let Some(digits) = query.strip_prefix("cost=") {
        let rest = digits.trim_start_matches(|char: char| char.is_ascii_digit());
        return (rest.len() < digits.len()).then_some(rest);
    }
    WHOLE
        .into_iter()
        .find_map(|parameter| query.strip_prefix(parameter))
}

const fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn has_run(text: &str, wanted: usize, belongs: impl Fn(u8) -> bool) -> bool {
    let mut run = 0;
    for byte in text.bytes() {
        run = if belongs(byte) { run + 1 } else { 0 };
        if run == wanted {
            return true;
        }
    }
    false
}
