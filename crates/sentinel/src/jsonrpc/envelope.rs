//! The thorough reader: any request, decoded with the rules of Go's `encoding/json` and of
//! `RPCRequest` in CometBFT 0.38 (`rpc/jsonrpc/types/types.go`).
//!
//! - Keys match whatever their case; of repeated members the last one counts.
//! - `null` leaves `method` and `jsonrpc` as they were; any other wrong type is an error.
//! - A last `id` of `null`, or none, makes a notification, which is not executed.
//! - One wrong element makes the whole batch an error, and nothing of it is executed.

use std::borrow::Cow;

use super::scan::{self, Kind, Scanner};
use super::text::{folds_to, quote, unquote};
use super::{Call, Classified, Element, JsonLimits, RawId, broadcast_method, plain};

/// Why nothing was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The node will answer with a parse error.
    Unparsable,
    /// Nested deeper than allowed.
    Depth,
    /// More elements than allowed.
    Batch,
}

impl From<scan::Fault> for Fault {
    fn from(fault: scan::Fault) -> Self {
        match fault {
            scan::Fault::Syntax => Self::Unparsable,
            scan::Fault::Depth => Self::Depth,
        }
    }
}

/// Reads a whole POST body.
pub(super) fn body<'a>(body: &'a [u8], limits: &JsonLimits) -> Result<Classified<'a>, Fault> {
    let mut scanner = Scanner::new(body, limits.depth);
    let classified = if scanner.peek() == Some(b'[') {
        Classified::Batch(batch(&mut scanner, limits.batch)?)
    } else {
        Classified::One(element(&mut scanner)?.call)
    };
    scanner.end()?;
    Ok(classified)
}

/// Reads the first value of a WebSocket message.
pub(super) fn message<'a>(text: &'a [u8], limits: &JsonLimits) -> Result<Classified<'a>, Fault> {
    element(&mut Scanner::new(text, limits.depth)).map(|element| Classified::One(element.call))
}

/// The elements of a batch. All of it is read before too many are refused, because the node
/// complains about a wrong element first.
fn batch<'a>(scanner: &mut Scanner<'a>, most: usize) -> Result<Vec<Element<'a>>, Fault> {
    let most = if most == 0 { usize::MAX } else { most };
    let (mut elements, mut count) = (Vec::new(), 0);
    let mut more = scanner.enter(b'[', b']')?;
    while more {
        let element = element(scanner)?;
        count += 1;
        if count <= most {
            elements.push(element);
        }
        more = scanner.another(b']')?;
    }
    if count > most {
        scanner.end()?;
        return Err(Fault::Batch);
    }
    Ok(elements)
}

fn element<'a>(scanner: &mut Scanner<'a>) -> Result<Element<'a>, Fault> {
    match scanner.peek() {
        Some(b'{') => {
            let start = scanner.position();
            let members = members(scanner)?;
            let raw = scanner.since(start);
            // In a batch the plain forms come here first.
            let call = match plain::broadcast(raw) {
                Some(call) => call,
                None => members.call()?,
            };
            Ok(Element { raw, call })
        }
        // Go decodes null into an empty request.
        Some(b'n') => Ok(Element {
            raw: scanner.value()?,
            call: Call::Notification,
        }),
        _ => {
            scanner.value()?;
            Err(Fault::Unparsable)
        }
    }
}

/// What the members of a request came to.
#[derive(Default)]
struct Members<'a> {
    id: Option<&'a [u8]>,
    method: Option<&'a [u8]>,
    has_wrong_type: bool,
}

fn members<'a>(scanner: &mut Scanner<'a>) -> Result<Members<'a>, Fault> {
    let mut members = Members::default();
    let mut more = scanner.enter(b'{', b'}')?;
    while more {
        let key = scanner.key()?;
        let value = scanner.value()?;
        members.set(key, value);
        more = scanner.another(b'}')?;
    }
    Ok(members)
}

impl<'a> Members<'a> {
    fn set(&mut self, key: &'a [u8], value: &'a [u8]) {
        let is_text = match Kind::of(value) {
            Kind::String => true,
            Kind::Null => false,
            _ => {
                self.has_wrong_type |=
                    matches!(Field::of(key), Some(Field::Version | Field::Method));
                false
            }
        };
        match Field::of(key) {
            Some(Field::Id) => self.id = Some(value),
            Some(Field::Method) if is_text => self.method = Some(value),
            _ => {}
        }
    }

    fn call(self) -> Result<Call<'a>, Fault> {
        if self.has_wrong_type {
            return Err(Fault::Unparsable);
        }
        let Some(id) = self.id.map_or(Ok(None), echo)? else {
            return Ok(Call::Notification);
        };
        let method = self.method.map_or(Cow::Borrowed(""), unquote);
        Ok(match broadcast_method(method.as_bytes()) {
            Some(method) => Call::UnusualWrite { id, method },
            None => Call::Read { id, method },
        })
    }
}

/// The members that decide. `params` is for the node to look at.
#[derive(Clone, Copy)]
enum Field {
    Version,
    Id,
    Method,
}

impl Field {
    fn of(key: &[u8]) -> Option<Self> {
        match key {
            b"\"jsonrpc\"" => Some(Self::Version),
            b"\"id\"" => Some(Self::Id),
            b"\"method\"" => Some(Self::Method),
            b"\"params\"" => None,
            _ => Self::folded(&unquote(key)),
        }
    }

    fn folded(key: &str) -> Option<Self> {
        [
            ("jsonrpc", Self::Version),
            ("id", Self::Id),
            ("method", Self::Method),
        ]
        .into_iter()
        .find(|(name, _)| folds_to(key, name))
        .map(|(_, field)| field)
    }
}

/// An id as the node echoes it; none for null.
fn echo(value: &[u8]) -> Result<Option<RawId<'_>>, Fault> {
    match Kind::of(value) {
        Kind::Null => Ok(None),
        Kind::String => {
            let mut text = Vec::with_capacity(value.len());
            quote(&mut text, &unquote(value));
            Ok(Some(RawId::rewritten(
                String::from_utf8(text).map_err(|_| Fault::Unparsable)?,
            )))
        }
        Kind::Number => echo_number(value).map(Some),
        Kind::Bool | Kind::Array | Kind::Object => Err(Fault::Unparsable),
    }
}

/// Go reads a number as a 64-bit float and cuts its fraction off.
fn echo_number(value: &[u8]) -> Result<RawId<'static>, Fault> {
    let number: f64 = std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(Fault::Unparsable)?;
    if number.is_infinite() {
        return Err(Fault::Unparsable);
    }
    // What an int64 cannot hold becomes the least one on amd64.
    let fits = (-TWO_TO_63..TWO_TO_63).contains(&number);
    #[allow(clippy::cast_possible_truncation)]
    let whole = if fits { number as i64 } else { i64::MIN };
    Ok(RawId::rewritten(whole.to_string()))
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
