//! Parameters from a URI: `?height=5&tx="a=1"&hash=0xAB`, with the rules of
//! `rpc/jsonrpc/server/http_uri_handler.go` of CometBFT 0.38.

use wire::encoding::decode_hex;
use wire::json;
use wire::query::pairs;

use super::params::{Arg, Args, decode_value};
use super::table::{Kind, Method};

/// Decodes the parameters of a method from the query of a URI, and from a form in the body for
/// those that the query does not have.
///
/// # Errors
/// The wire's text.
pub(crate) fn decode(method: &Method, query: &str, form: &str) -> Result<Args, String> {
    let find = |from: &str, name: &str| {
        pairs(from.as_bytes())
            .find(|(key, _)| key.as_ref() == name.as_bytes())
            .map(|(_, value)| value.into_owned())
            .filter(|value| !value.is_empty())
    };
    Args::of(method, |name, kind| {
        match find(query, name).or_else(|| find(form, name)) {
            Some(value) => decode_text(kind, &value),
            None => Ok(Arg::zero(kind)),
        }
    })
}

fn decode_text(kind: Kind, text: &[u8]) -> Result<Arg, String> {
    let is_integer = matches!(
        kind,
        Kind::Int64 | Kind::MaybeInt64 | Kind::MaybeInt | Kind::Uint
    );
    let is_bytes = matches!(kind, Kind::Tx | Kind::Bytes | Kind::HexBytes);
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if is_integer && !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) {
        return decode_value(kind, &[b"\"", text, b"\""].concat());
    }
    if let [b'0', b'x' | b'X', digits @ ..] = text {
        if is_bytes {
            return decode_hex(digits).map(Arg::Bytes);
        }
        if kind == Kind::Text {
            return decode_hex(digits)
                .map(|bytes| Arg::Text(String::from_utf8_lossy(&bytes).into_owned()));
        }
        return Err(format!(
            "got a hex string arg, but expected '{}'",
            go_kind(kind)
        ));
    }
    if is_bytes && text.starts_with(b"\"") && text.ends_with(b"\"") {
        let value = json::check(text).map_err(|fault| fault.to_string())?;
        return Ok(Arg::Bytes(json::unquote(value).as_bytes().to_vec()));
    }
    decode_value(kind, text)
}

fn go_kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Int64 | Kind::MaybeInt64 => "int64",
        Kind::MaybeInt => "int",
        Kind::Uint => "uint",
        Kind::Bool => "bool",
        Kind::Evidence => "interface",
        Kind::Text | Kind::Tx | Kind::Bytes | Kind::HexBytes => "string",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::table::find;

    fn args(method: &str, query: &str) -> Result<Args, String> {
        decode(find(method).unwrap(), query, "")
    }

    #[test]
    fn numbers_are_bare_or_quoted() {
        assert_eq!(args("block", "height=5").unwrap().maybe(0), Some(5));
        assert_eq!(args("block", "height=%225%22").unwrap().maybe(0), Some(5));
        assert_eq!(args("block", "height=").unwrap().maybe(0), None);
        assert_eq!(
            args("block", "height=abc").unwrap_err(),
            "invalid 64-bit integer encoding \"abc\", expected string"
        );
        assert_eq!(
            args("block", "height=0x5").unwrap_err(),
            "got a hex string arg, but expected 'int64'"
        );
    }

    #[test]
    fn byte_strings_are_quoted_or_hex() {
        assert_eq!(args("check_tx", "tx=%22a%3D1%22").unwrap().bytes(0), b"a=1");
        assert_eq!(args("check_tx", "tx=\"a=1\"").unwrap().bytes(0), b"a=1");
        assert_eq!(args("check_tx", "tx=0x613d31").unwrap().bytes(0), b"a=1");
        assert_eq!(
            args("header_by_hash", "hash=\"AB\"").unwrap().bytes(0),
            b"AB"
        );
        assert_eq!(
            args("header_by_hash", "hash=AB").unwrap_err(),
            "invalid hex string: AB"
        );
        assert!(args("check_tx", "tx=abc").is_err());
    }

    #[test]
    fn escapes_and_forms_are_understood() {
        assert_eq!(
            args("tx_search", "query=%22tx.height+=+5%22&prove=true")
                .unwrap()
                .text(0),
            "tx.height = 5"
        );
        assert_eq!(
            args("block", "height=%zz&height=7").unwrap().maybe(0),
            Some(7)
        );
        assert_eq!(
            decode(find("block").unwrap(), "", "height=9")
                .unwrap()
                .maybe(0),
            Some(9)
        );
    }
}
