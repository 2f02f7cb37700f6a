//! The same rules, judged by the `jsonschema` crate.

use jsonschema::Validator;
use serde_json::{Map, Number, Value as Json};

use super::{COMMON, CREATE, TRANSFER};
use crate::json::{Integer, Value};

/// The rules compiled for the `jsonschema` crate: the reference for [`accepts`](super::accepts),
/// and the way to further tools, since the rules are plain JSON Schema.
#[derive(Debug)]
pub struct JsonSchema {
    common: Validator,
    create: Validator,
    transfer: Validator,
}

impl Default for JsonSchema {
    fn default() -> Self {
        Self::new()
    }
}

impl JsonSchema {
    /// Compiles the rules. Do it once: it takes far longer than a check.
    pub fn new() -> Self {
        Self {
            common: compiled(COMMON),
            create: compiled(CREATE),
            transfer: compiled(TRANSFER),
        }
    }

    /// Whether a body follows the schema of its operation.
    pub fn accepts(&self, body: &Value) -> bool {
        serde_value(body).is_some_and(|body| self.accepts_serde(&body))
    }

    /// Whether a body read by `serde_json` follows the schema of its operation.
    pub fn accepts_serde(&self, body: &Json) -> bool {
        let own = match body.get("operation").and_then(Json::as_str) {
            Some("TRANSFER") => &self.transfer,
            _ => &self.create,
        };
        self.common.is_valid(body) && own.is_valid(body)
    }
}

fn compiled(rules: &str) -> Validator {
    let rules = serde_json::from_str(rules).expect("the rules of this crate are JSON");
    jsonschema::draft4::new(&rules).expect("the rules of this crate are a schema")
}

/// The value as `serde_json` has it; nothing if it holds `NaN` or an infinity. Integers beyond 64
/// bits become floats, which the original's validators do not count as integers.
fn serde_value(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Null => Json::Null,
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Integer(Integer::Small(number)) => Json::from(*number),
        Value::Integer(Integer::Big(digits)) => match digits.parse::<u64>() {
            Ok(number) => Json::from(number),
            Err(_) => serde_float(digits.parse().unwrap_or(f64::MAX).clamp(f64::MIN, f64::MAX))?,
        },
        Value::Float(float) => serde_float(*float)?,
        Value::String(text) => Json::String(text.clone()),
        Value::Array(items) => Json::Array(items.iter().map(serde_value).collect::<Option<_>>()?),
        Value::Object(object) => Json::Object(
            object
                .iter()
                .map(|(name, value)| Some((name.to_owned(), serde_value(value)?)))
                .collect::<Option<Map<_, _>>>()?,
        ),
    })
}

/// The crate counts every float from 2^63 on as an integer, so a large one with a fraction stands for those; no bound
/// of the rules lies between.
fn serde_float(float: f64) -> Option<Json> {
    const WITH_FRACTION: f64 = 4_503_599_627_370_495.5;
    let stands_for = match float.abs() < 9_223_372_036_854_775_808.0 {
        true => float,
        false if float.is_finite() => WITH_FRACTION.copysign(float),
        false => return None,
    };
    Number::from_f64(stands_for).map(Json::Number)
}
