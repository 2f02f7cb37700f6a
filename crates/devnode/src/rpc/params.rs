//! Parameters of a call, decoded with CometBFT's rules and error texts (`libs/json`, which takes
//! 64-bit integers as strings, on top of Go's `encoding/json`).

use std::str::FromStr;

use wire::encoding::{decode_base64, decode_hex};
use wire::json::{self, Kind as JsonKind};

use super::table::{Caching, Kind, Method};

/// One decoded parameter; missing ones have the zero value of their kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Arg {
    Int(i64),
    Maybe(Option<i64>),
    Bool(bool),
    Text(String),
    Bytes(Vec<u8>),
    /// Evidence that is none.
    Nothing,
}

impl Arg {
    /// The zero value of a kind.
    pub(crate) fn zero(kind: Kind) -> Self {
        match kind {
            Kind::Int64 | Kind::Uint => Self::Int(0),
            Kind::MaybeInt64 | Kind::MaybeInt => Self::Maybe(None),
            Kind::Bool => Self::Bool(false),
            Kind::Text => Self::Text(String::new()),
            Kind::Tx | Kind::Bytes | Kind::HexBytes => Self::Bytes(Vec::new()),
            Kind::Evidence => Self::Nothing,
        }
    }

    fn is_zero(&self) -> bool {
        match self {
            Self::Int(value) => *value == 0,
            Self::Maybe(value) => value.is_none(),
            Self::Bool(value) => !value,
            Self::Text(value) => value.is_empty(),
            Self::Bytes(value) => value.is_empty(),
            Self::Nothing => true,
        }
    }
}

/// The decoded parameters of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Args(Vec<Arg>);

impl Args {
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// Each parameter of a method, decoded from its name and kind.
    ///
    /// # Errors
    /// The first that fails.
    pub(crate) fn of(
        method: &Method,
        mut decode: impl FnMut(&'static str, Kind) -> Result<Arg, String>,
    ) -> Result<Self, String> {
        let args = method.params.iter();
        args.map(|(name, kind)| decode(name, *kind))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(crate) fn int(&self, index: usize) -> i64 {
        match self.0.get(index) {
            Some(Arg::Int(value)) => *value,
            _ => 0,
        }
    }

    pub(crate) fn maybe(&self, index: usize) -> Option<i64> {
        match self.0.get(index) {
            Some(Arg::Maybe(value)) => *value,
            _ => None,
        }
    }

    pub(crate) fn flag(&self, index: usize) -> bool {
        matches!(self.0.get(index), Some(Arg::Bool(true)))
    }

    pub(crate) fn text(&self, index: usize) -> &str {
        match self.0.get(index) {
            Some(Arg::Text(value)) => value,
            _ => "",
        }
    }

    pub(crate) fn bytes(&self, index: usize) -> &[u8] {
        match self.0.get(index) {
            Some(Arg::Bytes(value)) => value,
            _ => &[],
        }
    }

    /// Takes a byte string out.
    pub(crate) fn take_bytes(&mut self, index: usize) -> Vec<u8> {
        match self.0.get_mut(index) {
            Some(Arg::Bytes(value)) => std::mem::take(value),
            _ => Vec::new(),
        }
    }

    /// Whether the answer of a method with these parameters may be cached.
    pub(crate) fn cacheable(&self, method: &Method) -> bool {
        match method.caching {
            Caching::Never => false,
            Caching::Always => true,
            Caching::With(index) => self.0.get(index).is_some_and(|arg| !arg.is_zero()),
        }
    }
}

/// Decodes the `params` of a JSON-RPC request: an object, an array, or null.
///
/// # Errors
/// The wire's text.
pub(crate) fn decode(method: &Method, params: &[u8]) -> Result<Args, String> {
    match JsonKind::of(params) {
        JsonKind::Object | JsonKind::Null => by_name(method, params),
        JsonKind::Array => by_position(method, &json::elements(params).collect::<Vec<_>>()),
        _ => Err(format!(
            "unknown type for JSON params: {}. Expected map or array",
            mismatch(params, "[]json.RawMessage")
        )),
    }
}

fn by_name(method: &Method, params: &[u8]) -> Result<Args, String> {
    // Null has no members.
    let given: Vec<_> = json::members(params).collect();
    Args::of(method, |name, kind| {
        match given.iter().rev().find(|(key, _)| key == name) {
            Some((_, value)) => decode_value(kind, value),
            None => Ok(Arg::zero(kind)),
        }
    })
}

fn by_position(method: &Method, given: &[&[u8]]) -> Result<Args, String> {
    let (wanted, count) = (method.params.len(), given.len());
    if count != wanted {
        let names: Vec<&str> = method.params.iter().map(|(name, _)| *name).collect();
        let names = names.join(" ");
        // Go shows raw JSON as the decimal values of its bytes.
        let shown = format!("{given:?}").replace(',', "");
        return Err(format!(
            "expected {wanted} parameters ([{names}]), got {count} ({shown})"
        ));
    }
    let mut given = given.iter();
    Args::of(method, |_, kind| {
        decode_value(kind, given.next().copied().unwrap_or(b"null"))
    })
}

/// Decodes one JSON value as `libs/json` does.
///
/// # Errors
/// The wire's text.
pub(crate) fn decode_value(kind: Kind, value: &[u8]) -> Result<Arg, String> {
    if value == b"null" {
        return Ok(Arg::zero(kind));
    }
    match kind {
        Kind::Int64 => integer(value, "int64").map(Arg::Int),
        Kind::MaybeInt64 => integer(value, "int64").map(|value| Arg::Maybe(Some(value))),
        Kind::MaybeInt => integer(value, "int").map(|value| Arg::Maybe(Some(value))),
        Kind::Uint => integer(value, "uint").map(Arg::Int),
        Kind::Bool => typed(value, JsonKind::Bool, "bool").map(|value| Arg::Bool(value == b"true")),
        Kind::Text => typed(value, JsonKind::String, "string")
            .map(|value| Arg::Text(json::unquote(value).into_owned())),
        Kind::Tx => byte_string(value, "types.Tx").map(Arg::Bytes),
        Kind::Bytes => byte_string(value, "[]uint8").map(Arg::Bytes),
        Kind::HexBytes => hex_string(value).map(Arg::Bytes),
        Kind::Evidence => Err(evidence(value)),
    }
}

/// Checks the text of a value and its kind.
fn typed<'a>(value: &'a [u8], kind: JsonKind, go_type: &str) -> Result<&'a [u8], String> {
    let value = json::check(value).map_err(text_of)?;
    if JsonKind::of(value) == kind {
        Ok(value)
    } else {
        Err(mismatch(value, go_type))
    }
}

fn text_of(fault: json::Fault) -> String {
    fault.to_string()
}

/// Go's text for a value of another kind than the type's.
fn mismatch(value: &[u8], go_type: &str) -> String {
    let kind = JsonKind::of(value).name();
    format!("json: cannot unmarshal {kind} into Go value of type {go_type}")
}

fn integer(value: &[u8], go_type: &str) -> Result<i64, String> {
    let [b'"', inner @ .., b'"'] = value else {
        return Err(format!(
            "invalid 64-bit integer encoding {}, expected string",
            go_quoted(value)
        ));
    };
    let inner = json::check(inner).map_err(text_of)?;
    let number = number(inner, go_type)?;
    if go_type == "uint" && number < 0 {
        return Err(out_of_range(inner, go_type));
    }
    Ok(number)
}

/// A number of a type, or null for zero.
fn number<T: Default + FromStr>(value: &[u8], go_type: &str) -> Result<T, String> {
    match JsonKind::of(value) {
        JsonKind::Null => Ok(T::default()),
        JsonKind::Number => std::str::from_utf8(value)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| out_of_range(value, go_type)),
        _ => Err(mismatch(value, go_type)),
    }
}

fn out_of_range(value: &[u8], go_type: &str) -> String {
    let text = String::from_utf8_lossy(value);
    format!("json: cannot unmarshal number {text} into Go value of type {go_type}")
}

fn byte_string(value: &[u8], go_type: &str) -> Result<Vec<u8>, String> {
    let value = json::check(value).map_err(text_of)?;
    match JsonKind::of(value) {
        JsonKind::String => decode_base64(json::unquote(value).as_bytes()),
        JsonKind::Array => json::elements(value)
            .map(|element| number(element, "uint8"))
            .collect(),
        _ => Err(mismatch(value, go_type)),
    }
}

fn hex_string(value: &[u8]) -> Result<Vec<u8>, String> {
    match value {
        [b'"', inner @ .., b'"'] => decode_hex(inner),
        _ => Err(format!(
            "invalid hex string: {}",
            String::from_utf8_lossy(value)
        )),
    }
}

/// Why a value is refused as evidence: this node has no kind of evidence.
fn evidence(value: &[u8]) -> String {
    let value = match typed(value, JsonKind::Object, "json.interfaceWrapper") {
        Ok(value) => value,
        Err(text) => return text,
    };
    match json::members(value).find(|(key, _)| key == "type") {
        Some((_, kind)) if kind.len() > 2 => format!("unknown type \"{}\"", json::unquote(kind)),
        _ => "interface type cannot be empty".to_owned(),
    }
}

/// Text in quotes, as Go's `%q`.
fn go_quoted(text: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            control if u32::from(control) < 0x20 => {
                quoted.push_str(&format!("\\x{:02x}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::table::find;

    fn error(kind: Kind, value: &str) -> String {
        decode_value(kind, value.as_bytes()).unwrap_err()
    }

    #[test]
    fn integers_are_strings() {
        assert_eq!(decode_value(Kind::Int64, b"\"-5\""), Ok(Arg::Int(-5)));
        assert_eq!(
            decode_value(Kind::MaybeInt64, b"null"),
            Ok(Arg::Maybe(None))
        );
        assert_eq!(
            error(Kind::Int64, "5"),
            "invalid 64-bit integer encoding \"5\", expected string"
        );
        assert_eq!(
            error(Kind::Int64, "\"x\""),
            "invalid character 'x' looking for beginning of value"
        );
        assert_eq!(error(Kind::Int64, "\"\""), "unexpected end of JSON input");
        assert_eq!(
            error(Kind::MaybeInt, "\"1.5\""),
            "json: cannot unmarshal number 1.5 into Go value of type int"
        );
        assert_eq!(
            error(Kind::Uint, "\"-1\""),
            "json: cannot unmarshal number -1 into Go value of type uint"
        );
    }

    #[test]
    fn byte_strings_are_base64_or_numbers() {
        assert_eq!(
            decode_value(Kind::Tx, b"\"YT0x\""),
            Ok(Arg::Bytes(b"a=1".to_vec()))
        );
        assert_eq!(
            decode_value(Kind::Tx, b"[97,61,49]"),
            Ok(Arg::Bytes(b"a=1".to_vec()))
        );
        assert_eq!(
            error(Kind::Tx, "5"),
            "json: cannot unmarshal number into Go value of type types.Tx"
        );
        assert_eq!(
            error(Kind::Bytes, "true"),
            "json: cannot unmarshal bool into Go value of type []uint8"
        );
    }

    #[test]
    fn hex_strings_have_quotes() {
        assert_eq!(error(Kind::HexBytes, "5"), "invalid hex string: 5");
    }

    #[test]
    fn positions_are_counted() {
        let block = find("block").unwrap();
        assert_eq!(
            decode(block, br#"["1","2"]"#).unwrap_err(),
            "expected 1 parameters ([height]), got 2 ([[34 49 34] [34 50 34]])"
        );
        assert_eq!(decode(block, br#"["7"]"#).unwrap().maybe(0), Some(7));
        assert_eq!(
            decode(block, br#"{"height":"7","height":"8"}"#)
                .unwrap()
                .maybe(0),
            Some(8)
        );
        assert!(
            decode(block, b"true")
                .unwrap_err()
                .ends_with("Expected map or array")
        );
    }

    #[test]
    fn an_answer_is_cacheable_if_its_height_is_named() {
        let block = find("block").unwrap();
        assert!(
            decode(block, br#"{"height":"0"}"#)
                .unwrap()
                .cacheable(block)
        );
        assert!(!decode(block, b"{}").unwrap().cacheable(block));
        assert!(
            decode(find("tx").unwrap(), b"{}")
                .unwrap()
                .cacheable(find("tx").unwrap())
        );
    }
}
