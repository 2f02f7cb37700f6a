//! Which answers of a node cannot change, and what a question for one is known by.

use std::ops::Range;
use std::time::Duration;

use hyper::Method;
use serde::Deserialize;
use wire::json;

use super::{ReadAnswer, ReadRequest};
use crate::respond::KeptId;

/// When the answer to a method cannot change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unchanging {
    /// From the chain's beginning.
    Always,
    /// Once a later block is there than the one that it names: what the node tells of the last one still changes.
    OfHeight,
}

impl Unchanging {
    fn of(method: &str) -> Option<Self> {
        match method {
            "genesis" | "genesis_chunked" => Some(Self::Always),
            "block" | "block_by_hash" | "block_results" | "commit" | "consensus_params"
            | "header" | "header_by_hash" | "tx" | "validators" => Some(Self::OfHeight),
            _ => None,
        }
    }
}

/// Where a result names the height that it is of.
#[derive(Deserialize)]
struct Heights {
    height: Option<String>,
    block_height: Option<String>,
    block: Option<Box<Self>>,
    header: Option<Box<Self>>,
    signed_header: Option<Box<Self>>,
}

impl Heights {
    fn first(&self) -> Option<u64> {
        let own = self.height.as_ref().or(self.block_height.as_ref());
        let inner = [&self.block, &self.header, &self.signed_header];
        match own {
            Some(height) => height.parse().ok(),
            None => inner.into_iter().flatten().find_map(|inner| inner.first()),
        }
    }
}

/// What a question is known by: all that the answer of a node may depend on, which is everything but the id. `None` if
/// the answer may always change, or the question is long.
pub(super) fn key(request: &ReadRequest, (node, chain): (usize, u64)) -> Option<Box<[u8]>> {
    Unchanging::of(request.method.as_deref()?)?;
    let [before, after] = match (&request.http_method, &request.id) {
        (&Method::GET, None) if request.body.is_empty() => [&[][..]; 2],
        (&Method::POST, Some(_)) => {
            let id = only_id(&request.body)?;
            [&request.body[..id.start], &request.body[id.end..]]
        }
        _ => return None,
    };
    let mut key = format!("{node} {chain}\n").into_bytes();
    key.extend_from_slice(&request.target);
    let headers = request.headers.iter();
    for (name, value) in headers.filter(|(name, _)| !OF_CLIENTS.contains(&name.as_str())) {
        for part in [b"\n", name.as_str().as_bytes(), b":", value.as_bytes()] {
            key.extend_from_slice(part);
        }
    }
    for part in [before, after] {
        key.extend_from_slice(b"\n\n");
        key.extend_from_slice(part);
    }
    (key.len() <= KEY_BYTES).then(|| key.into())
}

/// How long anybody may keep this answer, at most a day; `None` if the node does not say that anybody may. CometBFT says
/// so if each argument was given that names the height (`rpc.Cacheable` in `rpc/core/routes.go`, v0.38.17).
///
/// An answer is not kept if it has another directive, comes from another cache, or has a header that names the request.
pub(super) fn public_for<B>(answer: &ReadAnswer<B>) -> Option<Duration> {
    let mut seconds = None;
    for (name, value) in &answer.headers {
        match name.to_ascii_lowercase().as_str() {
            "cache-control" if seconds.is_none() => {
                let text = str::from_utf8(value).ok()?;
                seconds = text.strip_prefix("public, max-age=")?.parse::<u64>().ok();
            }
            "vary" if !VARY.iter().any(|known| value.eq_ignore_ascii_case(known)) => return None,
            "cache-control" | "age" | "set-cookie" | "x-request-id" => return None,
            _ => {}
        }
    }
    let seconds = seconds.filter(|_| answer.status == 200)?;
    Some(Duration::from_secs(seconds.min(LONGEST_SECONDS)))
}

/// Where the id is in the body of an answer that cannot change: nowhere, behind the end, in one to a request in a
/// target. `None` if the answer may still change while its node's chain has this height, is of another height than the
/// one that was asked for, or is an error.
pub(super) fn id_in_final(
    (method, id): (&str, Option<&KeptId>),
    body: &[u8],
    (asked, height): (Option<u64>, u64),
) -> Option<Range<usize>> {
    let text = json::check(body).ok()?;
    let mut members = json::members(text);
    let [version, echoed, result] = [members.next()?, members.next()?, members.next()?];
    let keys = [version.0, echoed.0, result.0];
    if members.next().is_some() || keys != ["jsonrpc", "id", "result"] {
        return None;
    }
    let is_final = match Unchanging::of(method)? {
        Unchanging::Always => json::Kind::of(result.1) == json::Kind::Object,
        Unchanging::OfHeight => {
            let heights: Option<Heights> = serde_json::from_slice(result.1).ok()?;
            let of = heights?.first()?;
            of < height && asked.is_none_or(|asked| asked == of)
        }
    };
    if !is_final {
        return None;
    }
    match id {
        None => Some(body.len()..body.len()),
        Some(id) => (id.as_bytes() == echoed.1).then(|| place(body, echoed.1))?,
    }
}

/// Where the id is in a request that has one, in one spelling.
fn only_id(body: &[u8]) -> Option<Range<usize>> {
    let text = json::check(body).ok()?;
    let mut ids = json::members(text).filter(|(key, _)| json::folds_to(key, "id"));
    let (_, id) = ids.next()?;
    match ids.next() {
        None => place(body, id),
        Some(_) => None,
    }
}

/// Where a part is in the whole that it was cut from.
fn place(whole: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    (start + part.len() <= whole.len()).then(|| start..start + part.len())
}

/// Bytes by which a question is known, at most.
const KEY_BYTES: usize = 2 << 10;
/// The longest that an answer is kept, in seconds: what CometBFT allows (`rpc/jsonrpc/server/http_server.go`, v0.38.17).
const LONGEST_SECONDS: u64 = 86_400;
/// Headers on which an answer does not depend: they say who asks. Those that name a host or a scheme are not among them:
/// a gateway may write these into its answer.
const OF_CLIENTS: [&str; 8] = [
    "referer",
    "traceparent",
    "tracestate",
    "user-agent",
    "via",
    "x-forwarded-for",
    "x-real-ip",
    "x-request-id",
];
/// Headers that a node may choose an answer by: each is in the key.
const VARY: [&[u8]; 2] = [b"origin", b"accept-encoding"];
