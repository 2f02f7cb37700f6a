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
    let first = scanner.peek();
    let start = scanner.position();
    let call = match first {
        Some(b'{') => match plain::first(scanner.rest()) {
            Some((call, len)) => {
                scanner.advance(len);
                call
            }
            None => members(scanner)?.call()?,
        },
        // Go decodes null into an empty request.
        Some(b'n') => {
            scanner.value()?;
            Call::Notification
        }
        _ => {
            scanner.value()?;
            return Err(Fault::Unparsable);
        }
    };
    Ok(Element {
        raw: scanner.since(start),
        call,
    })
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
    fn set(&mut self, key: &[u8], value: &'a [u8]) {
        let Some(field) = Field::of(key) else {
            return;
        };
        match (field, Kind::of(value)) {
            (Field::Id, kind) => {
                // Go fails here even if another id follows.
                self.has_wrong_type |= kind == Kind::Number
                    && plain::id(value).is_none()
                    && whole_number(value).is_none();
                self.id = Some(value);
            }
            (Field::Method, Kind::String) => self.method = Some(value),
            (Field::Version, Kind::String) | (_, Kind::Null) => {}
            _ => self.has_wrong_type = true,
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
    if let Some(id) = plain::id(value) {
        return Ok(Some(id));
    }
    match Kind::of(value) {
        Kind::Null => Ok(None),
        Kind::String => {
            let mut text = Vec::with_capacity(value.len());
            quote(&mut text, &unquote(value));
            Ok(Some(RawId::rewritten(
                String::from_utf8(text).map_err(|_| Fault::Unparsable)?,
            )))
        }
        Kind::Number => whole_number(value)
            .map(|number| Some(RawId::rewritten(number.to_string())))
            .ok_or(Fault::Unparsable),
        Kind::Bool | Kind::Array | Kind::Object => Err(Fault::Unparsable),
    }
}

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
