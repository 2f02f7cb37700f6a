//! What was meant by a key that is unknown.

use servers::nearest;

/// Adds the nearest known key to serde's "unknown field `x`, expected one of `a`, `b`".
pub(crate) fn with_suggestion(message: &str) -> String {
    let Some((_, rest)) = message.split_once("unknown field `") else {
        return message.trim_end().into();
    };
    let Some((unknown, expected)) = rest.split_once('`') else {
        return message.trim_end().into();
    };
    let known = expected.split('`').skip(1).step_by(2);
    match nearest(unknown, known) {
        Some(key) => format!("{}\ndid you mean `{key}`?", message.trim_end()),
        None => message.trim_end().into(),
    }
}
