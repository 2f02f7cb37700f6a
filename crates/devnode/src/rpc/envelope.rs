//! The request around the parameters, decoded as CometBFT's `RPCRequest` is.

use super::answer::Id;
use crate::wire::gojson;

/// A request; without an id it is a notification, which is neither executed nor answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    pub(crate) id: Option<Id>,
    pub(crate) method: String,
    /// JSON of the parameters, if there are any.
    pub(crate) params: Option<&'a [u8]>,
}

/// Go's name of the type that a request is decoded into.
const TYPE: &str = "struct { JSONRPC string \"json:\\\"jsonrpc\\\"\"; ID interface {} \
                    \"json:\\\"id,omitempty\\\"\"; Method string \"json:\\\"method\\\"\"; \
                    Params json.RawMessage \"json:\\\"params\\\"\" }";

/// Decodes a checked value.
///
/// # Errors
/// Go's text.
pub(crate) fn decode(value: &[u8]) -> Result<Request<'_>, String> {
    let mut request = Request {
        id: None,
        method: String::new(),
        params: None,
    };
    match gojson::kind(value) {
        "null" => return Ok(request),
        "object" => {}
        other => {
            return Err(format!(
                "json: cannot unmarshal {other} into Go value of type {TYPE}"
            ));
        }
    }
    let mut id = None;
    let mut wrong = None;
    for (key, value) in gojson::members(value) {
        // Go takes a key whatever its case.
        match key.to_ascii_lowercase().as_str() {
            "jsonrpc" => drop(text(value, "jsonrpc", &mut wrong)),
            "method" => {
                if let Some(method) = text(value, "method", &mut wrong) {
                    request.method = method;
                }
            }
            "id" => id = Some(value),
            "params" => request.params = Some(value),
            _ => {}
        }
    }
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    request.id = id.map(decode_id).transpose()?.flatten();
    Ok(request)
}

/// A string member; null leaves it as it was, anything else is remembered as wrong.
fn text(value: &[u8], field: &str, wrong: &mut Option<String>) -> Option<String> {
    match gojson::kind(value) {
        "string" => Some(gojson::unquote(value).into_owned()),
        "null" => None,
        other => {
            wrong.get_or_insert_with(|| {
                format!(
                    "json: cannot unmarshal {other} into Go struct field .{field} of type string"
                )
            });
            None
        }
    }
}

fn decode_id(value: &[u8]) -> Result<Option<Id>, String> {
    let unknown = |kind: &str| {
        Err(format!(
            "json-rpc ID ({}) is of unknown type ({kind})",
            go_value(value)
        ))
    };
    match gojson::kind(value) {
        "null" => Ok(None),
        "string" => Ok(Some(Id::Text(gojson::unquote(value).into_owned()))),
        "number" => number(value).map(|number| Some(Id::Number(number))),
        "bool" => unknown("bool"),
        "array" => unknown("[]interface {}"),
        _ => unknown("map[string]interface {}"),
    }
}

/// A number as Go makes an `int` of it: through a 64-bit float, cut off.
fn number(value: &[u8]) -> Result<i64, String> {
    let text = String::from_utf8_lossy(value);
    let float: f64 = text.parse().unwrap_or(f64::INFINITY);
    if float.is_infinite() {
        return Err(format!(
            "json: cannot unmarshal number {text} into Go struct field .id of type float64"
        ));
    }
    // Out of range gives the smallest integer on amd64.
    let in_range = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
    #[allow(clippy::cast_possible_truncation)]
    Ok(if in_range { float as i64 } else { i64::MIN })
}

/// A value as Go's `%v` shows it.
fn go_value(value: &[u8]) -> String {
    match gojson::kind(value) {
        "null" => "<nil>".to_owned(),
        "string" => gojson::unquote(value).into_owned(),
        "array" => {
            let shown: Vec<String> = gojson::elements(value).into_iter().map(go_value).collect();
            format!("[{}]", shown.join(" "))
        }
        "object" => {
            let mut shown: Vec<String> = gojson::members(value)
                .into_iter()
                .map(|(key, value)| format!("{key}:{}", go_value(value)))
                .collect();
            shown.sort();
            format!("map[{}]", shown.join(" "))
        }
        _ => String::from_utf8_lossy(value).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(json: &str) -> Result<Option<Id>, String> {
        decode(json.as_bytes()).map(|request| request.id)
    }

    #[test]
    fn ids_are_strings_or_whole_numbers() {
        assert_eq!(id_of(r#"{"id":"a"}"#), Ok(Some(Id::Text("a".to_owned()))));
        assert_eq!(id_of(r#"{"ID":8.7}"#), Ok(Some(Id::Number(8))));
        assert_eq!(
            id_of(r#"{"id":9007199254740993}"#),
            Ok(Some(Id::Number(9_007_199_254_740_992)))
        );
        assert_eq!(id_of(r#"{"id":1e30}"#), Ok(Some(Id::Number(i64::MIN))));
        assert_eq!(id_of(r#"{"id":null}"#), Ok(None));
        assert_eq!(id_of("null"), Ok(None));
        assert_eq!(
            id_of(r#"{"id":{"b":[1,"x"]}}"#).unwrap_err(),
            "json-rpc ID (map[b:[1 x]]) is of unknown type (map[string]interface {})"
        );
    }

    #[test]
    fn the_first_wrong_type_is_told() {
        assert_eq!(
            id_of(r#"{"method":3,"jsonrpc":true}"#).unwrap_err(),
            "json: cannot unmarshal number into Go struct field .method of type string"
        );
    }
}
