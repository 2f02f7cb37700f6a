//! What a request asks for, decided exactly as a CometBFT node would decide it, so that no spelling takes a broadcast
//! for something else.
//!
//! [`classify`] reads the body of a POST to `/`, [`classify_message`] a WebSocket message and
//! [`classify_uri`] a request target. The plain form of a broadcast is decoded in one pass, every other by the rules of
//! the node. One whose parameters the node refuses executes nothing: it is a read, for the node's words.

#[cfg(test)]
mod reference;
mod uri;

use std::borrow::Cow;

use bytes::Bytes;

pub use self::uri::{UriRoute, UriTarget, classify_uri};
use crate::encoding::decode_base64;
use crate::json::{self, Bracket, Kind, Scanner};
use crate::jsonrpc::{BroadcastMethod, PlainBroadcast, Request, RequestFault, RequestId};

/// Bounds on what is taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonLimits {
    /// Levels of arrays and objects, at most [`MAX_DEPTH`], as on the node.
    pub depth: usize,
    /// Elements of a batch.
    pub batch: usize,
}

/// Deepest nesting that can be allowed.
pub const MAX_DEPTH: usize = json::MAX_DEPTH;

/// A body or a message that is beyond the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverLimit {
    /// It is nested deeper than so many levels.
    #[error("JSON is nested deeper than {0} levels")]
    Depth(usize),
    /// It is a batch of more than so many elements, in the node's words.
    #[error("batch request exceeds maximum ({0}) allowed number of requests")]
    Batch(usize),
}

/// What a body or a message is.
#[derive(Debug, PartialEq)]
pub enum Classified<'a> {
    /// One call.
    One(Call<'a>),
    /// A batch, in order; maybe empty. Only in a POST.
    Batch(Vec<Element<'a>>),
    /// Something that the node answers with a parse error and does not execute: it is forwarded
    /// for that answer.
    Unparsable,
}

/// One element of a batch.
#[derive(Debug, PartialEq)]
pub struct Element<'a> {
    /// Its text, without white space around it.
    pub raw: &'a [u8],
    /// What it is.
    pub call: Call<'a>,
}

/// One JSON-RPC call.
#[derive(Debug, PartialEq)]
pub enum Call<'a> {
    /// A broadcast.
    Write {
        /// To be echoed.
        id: RequestId<'a>,
        /// How it is broadcast.
        method: BroadcastMethod,
        /// The transaction, decoded.
        tx: Bytes,
    },
    /// Any other method, known or not, to be forwarded as it came.
    Read {
        /// To be echoed.
        id: RequestId<'a>,
        /// The method, without escapes; empty if there is none.
        method: Cow<'a, str>,
    },
    /// No id: the node neither executes nor answers it. A POST of nothing else gets an empty 200.
    Notification,
}

/// Reads the body of a POST to `/`: one request, a batch, or something that is neither. One wrong element makes the whole
/// batch an error, and nothing of it is executed.
///
/// # Errors
/// [`OverLimit`], both kinds.
pub fn classify<'a>(body: &'a [u8], limits: &JsonLimits) -> Result<Classified<'a>, OverLimit> {
    let read = || -> Result<Classified<'a>, Fault> {
        let mut scanner = scanner(body, limits);
        let classified = if scanner.peek() == Some(b'[') {
            Classified::Batch(batch(&mut scanner, limits.batch)?)
        } else {
            Classified::One(element(&mut scanner)?.call)
        };
        scanner.end()?;
        Ok(classified)
    };
    read().or_else(|fault| fault.judged(limits))
}

/// Reads a WebSocket message, text or binary: the node decodes the first JSON value in it and
/// ignores the rest.
///
/// # Errors
/// [`OverLimit::Depth`].
pub fn classify_message<'a>(
    message: &'a [u8],
    limits: &JsonLimits,
) -> Result<Classified<'a>, OverLimit> {
    match element(&mut scanner(message, limits)) {
        Ok(element) => Ok(Classified::One(element.call)),
        Err(fault) => fault.judged(limits),
    }
}

/// Why nothing was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
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

impl From<RequestFault> for Fault {
    fn from(fault: RequestFault) -> Self {
        match fault {
            RequestFault::Json(fault) => fault.into(),
            _ => Self::Unparsable,
        }
    }
}

impl Fault {
    const fn judged<'a>(self, limits: &JsonLimits) -> Result<Classified<'a>, OverLimit> {
        Err(match self {
            Self::Unparsable => return Ok(Classified::Unparsable),
            Self::Depth => OverLimit::Depth(limits.depth),
            Self::Batch => OverLimit::Batch(limits.batch),
        })
    }
}

fn scanner<'a>(text: &'a [u8], limits: &JsonLimits) -> Scanner<'a> {
    Scanner::new(text, limits.depth.min(MAX_DEPTH))
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
    let tx = Bytes::from(found.transaction()?);
    let PlainBroadcast { id, method, .. } = found;
    Some((Call::Write { id, method, tx }, len))
}

fn call_of(request: Request<'_>) -> Call<'_> {
    let Request { id, method, params } = request;
    match (id, BroadcastMethod::of(method.as_bytes())) {
        (None, _) => Call::Notification,
        (Some(id), Some(broadcast)) => match params.and_then(transaction) {
            Some(tx) => Call::Write {
                id,
                method: broadcast,
                tx,
            },
            None => Call::Read { id, method },
        },
        (Some(id), None) => Call::Read { id, method },
    }
}

/// The transaction among parameters, empty if it is not among them; nothing if the node refuses them.
fn transaction(params: &[u8]) -> Option<Bytes> {
    bytes_of(arguments(params, &["tx"]).ok()?.unwrap_or(b"null"))
}

/// Bytes as Go's `encoding/json` reads them: in base64, as a list of numbers, or null.
fn bytes_of(value: &[u8]) -> Option<Bytes> {
    let number = |value: &[u8]| match value {
        b"null" => Some(0),
        _ => std::str::from_utf8(value).ok()?.parse::<u8>().ok(),
    };
    match Kind::of(value) {
        Kind::Null => Some(Bytes::new()),
        Kind::Array => json::elements(value).map(number).collect(),
        Kind::String => decode_base64(json::unquote(value).as_bytes()).map(Bytes::from),
        Kind::Object | Kind::Number | Kind::Bool => None,
    }
}

/// A call about subscriptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionCall {
    /// To subscribe to this query.
    Subscribe(String),
    /// To end the subscription to this query.
    Unsubscribe(String),
    /// To end all of them.
    UnsubscribeAll,
}

impl SubscriptionCall {
    /// What a request asks for; none if it calls another method.
    ///
    /// # Errors
    /// What is wrong with its parameters, in the node's words (`rpc/jsonrpc/server/ws_handler.go`,
    /// `jsonParamsToArgs` in `http_json_handler.go`; CometBFT 0.38).
    pub fn of(request: &Request<'_>) -> Option<Result<Self, String>> {
        let query = || query_of(request.params);
        Some(match &*request.method {
            "subscribe" => query().map(Self::Subscribe),
            "unsubscribe" => query().map(Self::Unsubscribe),
            "unsubscribe_all" => match request.params {
                Some(params) => arguments(params, &[]).map(|_| Self::UnsubscribeAll),
                None => Ok(Self::UnsubscribeAll),
            },
            _ => return None,
        })
    }
}

/// The query among parameters; empty if they are named and it is not among them.
fn query_of(params: Option<&[u8]>) -> Result<String, String> {
    let params = params.ok_or("WSJSONRPC: reflect: Call with too few input arguments")?;
    let query = arguments(params, &["query"])?;
    match query.map_or(Kind::Null, Kind::of) {
        Kind::String => Ok(json::unquote(query.unwrap_or_default()).into_owned()),
        Kind::Null => Ok(String::new()),
        kind => Err(unfit(&format!(
            "{CANNOT} {} into Go value of type string",
            kind.name()
        ))),
    }
}

/// The last argument of a function with these parameters, if it is given. Names of parameters count as
/// they are written, and of repeated ones the last.
fn arguments<'a>(params: &'a [u8], names: &[&str]) -> Result<Option<&'a [u8]>, String> {
    match Kind::of(params) {
        Kind::Object | Kind::Null => {
            let named = json::members(params).filter(|(name, _)| names.contains(&&**name));
            Ok(named.last().map(|(_, value)| value))
        }
        Kind::Array => {
            let given: Vec<&[u8]> = json::elements(params).collect();
            if given.len() == names.len() {
                return Ok(given.last().copied());
            }
            // Go shows raw JSON as the decimal values of its bytes, which are many more.
            let shown = if params.len() <= MOST_SHOWN_BYTES {
                format!("{given:?}").replace(',', "")
            } else {
                "[...]".to_owned()
            };
            let (wanted, count, names) = (names.len(), given.len(), names.join(" "));
            Err(unfit(&format!(
                "expected {wanted} parameters ([{names}]), got {count} ({shown})"
            )))
        }
        kind => Err(unfit(&format!(
            "unknown type for JSON params: {CANNOT} {} into Go value of type []json.RawMessage. \
             Expected map or array",
            kind.name()
        ))),
    }
}

fn unfit(text: &str) -> String {
    format!("error converting json params to arguments: {text}")
}

/// Longer parameters are not shown.
const MOST_SHOWN_BYTES: usize = 4 << 10;
const CANNOT: &str = "json: cannot unmarshal";
