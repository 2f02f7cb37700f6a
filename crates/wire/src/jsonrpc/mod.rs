//! JSON-RPC requests as CometBFT writes and reads them.
//!
//! [`encode_broadcast`] writes the request that matters, [`PlainBroadcast`] recognises it in one
//! pass, and [`Request`] decodes any other with the rules of Go's `encoding/json` and of `RPCRequest` in CometBFT 0.38
//! (`rpc/jsonrpc/types/types.go`):
//!
//! - Keys match whatever their case; of repeated members the last one counts.
//! - `null` leaves `method` and `jsonrpc` as they were; any other wrong type is an error.
//! - A last `id` of `null`, or none, makes a notification, which is not executed.

mod broadcast;

pub use self::broadcast::{
    BroadcastMethod, PlainBroadcast, UnknownMethod, broadcast_len, encode_broadcast,
};

use std::borrow::Cow;

use crate::json::{Bracket, Fault, JsonString, Kind, Scanner, folds_to, quote, unquote};

/// A request; without an id it is a notification, which is neither executed nor answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request<'a> {
    /// To be echoed.
    pub id: Option<RequestId<'a>>,
    /// The method, without escapes; empty if there is none.
    pub method: Cow<'a, str>,
    /// JSON of the parameters, if there are any.
    pub params: Option<&'a [u8]>,
}

/// Why a value is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestFault {
    /// It is no JSON.
    #[error(transparent)]
    Json(#[from] Fault),
    /// It is neither an object nor null.
    #[error("a request is an object")]
    NotAnObject,
    /// This member is no string.
    #[error("its {0} is no string")]
    NotAString(&'static str),
    /// The id is neither a string nor a number, or one that is too large for a float.
    #[error("its id is neither a string nor a number")]
    Id,
}

impl<'a> Request<'a> {
    /// Decodes a value that was checked.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(value: &'a [u8]) -> Result<Self, RequestFault> {
        Self::read(&mut Scanner::new(value, crate::json::MAX_DEPTH))
    }

    /// Decodes the value at the scanner's position.
    ///
    /// # Errors
    /// What is wrong with it; the scanner is behind the value if that is not its JSON.
    pub fn read(scanner: &mut Scanner<'a>) -> Result<Self, RequestFault> {
        match scanner.peek() {
            Some(b'{') => {}
            first => {
                scanner.value()?;
                // Go decodes null into an empty request.
                return match first {
                    Some(b'n') => Ok(Self::default()),
                    _ => Err(RequestFault::NotAnObject),
                };
            }
        }
        let mut found = Members::default();
        let mut more = scanner.enter(Bracket::Object)?;
        while more {
            let key = scanner.key()?;
            let value = scanner.value()?;
            found.set(key, value);
            more = scanner.another(Bracket::Object)?;
        }
        found.request()
    }
}

/// What the members of a request came to.
#[derive(Default)]
struct Members<'a> {
    id: Option<&'a [u8]>,
    method: Option<&'a [u8]>,
    params: Option<&'a [u8]>,
    /// The first of them that cannot be decoded.
    wrong: Option<RequestFault>,
}

impl<'a> Members<'a> {
    fn set(&mut self, key: JsonString<'a>, value: &'a [u8]) {
        let Some(name) = member_name(key) else {
            return;
        };
        let wrong = match (name, Kind::of(value)) {
            ("params", _) => {
                self.params = Some(value);
                return;
            }
            ("id", kind) => {
                self.id = Some(value);
                // Go fails here even if another id follows.
                let is_wrong = kind == Kind::Number && RequestId::of(value).is_none();
                is_wrong.then_some(RequestFault::Id)
            }
            (_, Kind::Null) => None,
            ("method", Kind::String) => {
                self.method = Some(value);
                None
            }
            (_, Kind::String) => None,
            (name, _) => Some(RequestFault::NotAString(name)),
        };
        self.wrong = self.wrong.or(wrong);
    }

    fn request(self) -> Result<Request<'a>, RequestFault> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let id = match self.id {
            None | Some(b"null") => None,
            Some(value) => Some(RequestId::of(value).ok_or(RequestFault::Id)?),
        };
        Ok(Request {
            id,
            method: self.method.map_or(Cow::Borrowed(""), unquote),
            params: self.params,
        })
    }
}

/// The member that a key means to Go.
fn member_name(key: JsonString<'_>) -> Option<&'static str> {
    let bytes = key.bytes();
    let is_exact = |name: &&str| name.as_bytes() == bytes.as_ref();
    let exact = MEMBERS.into_iter().find(is_exact);
    exact.or_else(|| {
        let key = key.text();
        MEMBERS.into_iter().find(|name| folds_to(&key, name))
    })
}

const MEMBERS: [&str; 4] = ["jsonrpc", "id", "method", "params"];

/// The JSON text of an id, exactly as the node writes it into the answer: a string with Go's
/// escapes, or a whole number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId<'a>(Cow<'a, str>);

impl<'a> RequestId<'a> {
    /// The id of answers to requests that have none: URI requests and panics.
    pub const NONE: RequestId<'static> = RequestId(Cow::Borrowed("-1"));

    /// A number.
    pub fn number(number: i64) -> RequestId<'static> {
        RequestId(Cow::Owned(number.to_string()))
    }

    /// The text to be written behind `"id":`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A copy that outlives the request.
    pub fn to_static(&self) -> RequestId<'static> {
        RequestId(Cow::Owned(self.0.clone().into_owned()))
    }

    /// The id at the scanner's position, if it is one that the node echoes letter by letter.
    fn verbatim(scanner: &mut Scanner<'a>) -> Option<Self> {
        let first = scanner.peek()?;
        let start = scanner.position();
        if first == b'"' {
            scanner.verbatim()?;
        } else {
            exact_number(scanner)?;
        }
        let text = std::str::from_utf8(scanner.since(start)).ok()?;
        Some(Self(Cow::Borrowed(text)))
    }

    /// A scanned value as an id; none if it is of another kind, or a number out of range.
    fn of(value: &'a [u8]) -> Option<Self> {
        let mut scanner = Scanner::new(value, 0);
        if let Some(id) = Self::verbatim(&mut scanner)
            && scanner.rest().is_empty()
        {
            return Some(id);
        }
        match Kind::of(value) {
            Kind::String => {
                let mut text = Vec::with_capacity(value.len());
                quote(&mut text, &unquote(value));
                String::from_utf8(text)
                    .ok()
                    .map(|text| Self(Cow::Owned(text)))
            }
            Kind::Number => whole_number(value).map(RequestId::number),
            _ => None,
        }
    }
}

/// Past a number that every reader takes for the same and writes in the same way: not "-0", not
/// "01", no fraction, no exponent.
fn exact_number(scanner: &mut Scanner<'_>) -> Option<()> {
    let rest = scanner.rest();
    let digits = rest.strip_prefix(b"-").unwrap_or(rest);
    let is_negative = digits.len() < rest.len();
    let len = digits.iter().position(|byte| !byte.is_ascii_digit());
    let len = len.unwrap_or(digits.len());
    let is_exact = match digits.first()? {
        b'0' => len == 1 && !is_negative,
        _ => (1..=EXACT_DIGITS).contains(&len),
    };
    scanner.advance(len + usize::from(is_negative));
    (is_exact && !matches!(digits.get(len), Some(b'.' | b'e' | b'E'))).then_some(())
}

/// Largest number of digits that every reader takes for the same number: a double has 53 bits.
const EXACT_DIGITS: usize = 15;

/// A number as Go makes an `int` of it: read as a 64-bit float, its fraction cut off. None if it is
/// too large for a float.
fn whole_number(value: &[u8]) -> Option<i64> {
    let number: f64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    // What an int64 cannot hold becomes the least one on amd64.
    let fits = (-TWO_TO_63..TWO_TO_63).contains(&number);
    #[allow(clippy::cast_possible_truncation)]
    let whole = if fits { number as i64 } else { i64::MIN };
    number.is_finite().then_some(whole)
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(json: &str) -> Result<Option<String>, String> {
        Request::decode(json.as_bytes())
            .map(|request| request.id.map(|id| id.as_str().to_owned()))
            .map_err(|fault| fault.to_string())
    }

    #[test]
    fn ids_are_strings_or_whole_numbers() {
        for (json, id) in [
            (r#"{"id":"a"}"#, Some(r#""a""#)),
            (r#"{"id":"\u0061<"}"#, Some(r#""a\u003c""#)),
            (r#"{"ID":8.7}"#, Some("8")),
            (r#"{"id":-0}"#, Some("0")),
            (r#"{"id":9007199254740993}"#, Some("9007199254740992")),
            (r#"{"id":1e30}"#, Some("-9223372036854775808")),
            (r#"{"id":null}"#, None),
            ("null", None),
        ] {
            assert_eq!(id_of(json), Ok(id.map(str::to_owned)), "{json}");
        }
    }

    #[test]
    fn wrong_types_are_named() {
        for (json, text) in [
            (r#"{"id":{"b":1}}"#, "its id is neither"),
            (r#"{"id":1e400,"id":1}"#, "its id is neither"),
            (r#"{"method":3,"jsonrpc":true}"#, "its method is no string"),
            ("[1]", "a request is an object"),
        ] {
            let error = id_of(json).unwrap_err();
            assert!(error.starts_with(text), "{json}: {error}");
        }
    }
}
