//! What the original's database cannot hold: some keys, and languages it does not know.

use crate::error::{Class, Refusal};
use crate::json::{Object, Value};

/// The languages of MongoDB's text search.
const LANGUAGES: &str = "danish dutch english finnish french german hungarian italian norwegian \
    portuguese romanian russian spanish swedish turkish none da nl en fi fr de hu it nb pt ro ru es sv tr";

/// Checks keys and languages of a body that follows the schema, in the original's order.
pub(super) fn check(body: &Object) -> Result<(), Refusal> {
    let parts = [
        (
            "asset",
            body.get("asset").and_then(|asset| asset.get("data")),
        ),
        ("metadata", body.get("metadata")),
    ];
    for (name, part) in parts {
        check_keys(name, part.unwrap_or(&Value::Null))?;
    }
    for (_, part) in parts {
        check_languages(part.unwrap_or(&Value::Null))?;
    }
    Ok(())
}

fn check_keys(part: &str, value: &Value) -> Result<(), Refusal> {
    match value {
        Value::Object(object) => object.iter().try_for_each(|(key, value)| {
            if key.starts_with('$') || key.contains(['.', '\0']) {
                return Err(Refusal::new(
                    Class::ValidationError,
                    format!(
                        "Invalid key name \"{key}\" in {part} object. The key name cannot \
                         contain characters \".\", \"$\" or null characters"
                    ),
                ));
            }
            check_keys(part, value)
        }),
        Value::Array(items) => items.iter().try_for_each(|item| check_keys(part, item)),
        _ => Ok(()),
    }
}

fn check_languages(value: &Value) -> Result<(), Refusal> {
    match value {
        Value::Object(object) => object.iter().try_for_each(|(key, value)| {
            if key != "language" {
                return check_languages(value);
            }
            let mut known = LANGUAGES.split(' ');
            if value
                .as_str()
                .is_some_and(|name| known.any(|language| language == name))
            {
                return Ok(());
            }
            Err(Refusal::new(
                Class::ValidationError,
                "a member `language` must name a language of MongoDB's text search",
            ))
        }),
        Value::Array(items) => items.iter().try_for_each(check_languages),
        _ => Ok(()),
    }
}
