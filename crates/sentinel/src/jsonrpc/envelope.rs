//! Bodies and messages around requests: one request, a batch, or something that is neither.
//!
//! One wrong element makes the whole batch an error, and nothing of it is executed.

use bytes::Bytes;
use wire::json::{self, Bracket, Scanner};
use wire::jsonrpc::{BroadcastMethod, PlainBroadcast, Request, RequestFault};

use super::{Call, Classified, Element, JsonLimits, MAX_DEPTH};

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

impl From<json::Fault> for Fault {
    fn from(fault: json::Fault) -> Self {
        match fault {
            json::Fault::Depth => Self::Depth,
            _ => Self::Unparsable,
        }
    }
}

impl From<RequestFault<'_>> for Fault {
    fn from(fault: RequestFault<'_>) -> Self {
        match fault {
            RequestFault::Json(fault) => fault.into(),
            _ => Self::Unparsable,
        }
    }
}

fn scanner<'a>(text: &'a [u8], limits: &JsonLimits) -> Scanner<'a> {
    Scanner::new(text, limits.depth.min(MAX_DEPTH))
}

/// Reads a whole POST body.
pub(super) fn body<'a>(body: &'a [u8], limits: &JsonLimits) -> Result<Classified<'a>, Fault> {
    let mut scanner = scanner(body, limits);
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
    element(&mut scanner(text, limits)).map(|element| Classified::One(element.call))
}

/// The elements of a batch. All of it is read before too many are refused, because the node
/// complains about a wrong element first.
fn batch<'a>(scanner: &mut Scanner<'a>, most: usize) -> Result<Vec<Element<'a>>, Fault> {
    let (mut elements, mut count) = (Vec::new(), 0);
    let mut more = scanner.enter(Bracket::Array)?;
    while more {
        let element = element(scanner)?;
        count += 1;
        if count <= most {
            elements.push(element);
        }
        more = scanner.another(Bracket::Array)?;
    }
    if count > most {
        scanner.end()?;
        return Err(Fault::Batch);
    }
    Ok(elements)
}

fn element<'a>(scanner: &mut Scanner<'a>) -> Result<Element<'a>, Fault> {
    scanner.peek();
    let start = scanner.position();
    let call = match write_at(scanner.rest()) {
        Some((call, len)) => {
            scanner.advance(len);
            call
        }
        None => call_of(Request::read(scanner)?),
    };
    Ok(Element {
        raw: scanner.since(start),
        call,
    })
}

/// The broadcast in plain form at the start of a text, and the bytes that it takes.
fn write_at(text: &[u8]) -> Option<(Call<'_>, usize)> {
    let (found, len) = PlainBroadcast::first(text)?;
    // The most expensive part comes last, when nothing else can fail.
    let tx = Some(Bytes::from(found.transaction()?));
    let PlainBroadcast { id, method, .. } = found;
    Some((Call::Write { id, method, tx }, len))
}

fn call_of(request: Request<'_>) -> Call<'_> {
    let Request { id, method, .. } = request;
    match (id, BroadcastMethod::of(method.as_bytes())) {
        (None, _) => Call::Notification,
        (Some(id), Some(method)) => Call::Write {
            id,
            method,
            tx: None,
        },
        (Some(id), None) => Call::Read { id, method },
    }
}
