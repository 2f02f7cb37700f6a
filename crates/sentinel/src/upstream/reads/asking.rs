//! A read on its way: asked of a node, and of another one if that is gone; what a question is known by whose answer several
//! may get, and which answers may be.

use std::ops::Range;
use std::time::Duration;

use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Response, header};
use wire::json;

use super::ReadAnswer;
use super::admission::{Admission, Admitted, Read, ReadRequest};
use super::subject::Subject;
use crate::respond::KeptId;
use crate::upstream::UpstreamError;
use crate::upstream::answer::{AnswerBody, Source};
use crate::upstream::choice::{QuestionKind, first_answer};
use crate::upstream::doors::CallBody;
use crate::upstream::http::{NodeBody, Outgoing, Repeat, content_length, end_to_end, uri};
use crate::upstream::node_state::{NodeDoor, NodeIndex};

/// Asks a node, and waits for the head of its answer. What is read ahead of the answer is charged to the client.
pub(super) async fn ask(
    admission: &Admission,
    read: Read,
    admitted: Admitted,
) -> Result<ReadAnswer<AnswerBody>, UpstreamError> {
    let nodes = &admission.nodes;
    let client = read.client;
    let window_bytes = nodes.shared_context().config.load().fixed.window_bytes;
    let first = HEAD_BYTES.min(window_bytes);
    let ledger = nodes.ledger().of(client);
    let mut window = ledger.reserve(first).ok_or(UpstreamError::Memory)?;
    let is_head = read.request.http_method == Method::HEAD;
    let (node, took, answer) = answered(admission, read).await?;
    admission.note_read(client, node);
    let (head, body) = answer.into_parts();
    // What is framed otherwise than announced is framed anew, so that nothing of it can become the next
    // answer on the client's connection (RFC 9112, section 6.3).
    let length = if is_head {
        content_length(&head.headers)
    } else {
        body.inner().framed_length()
    };
    let wanted = usize::try_from(length.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    if !window.grow(wanted.min(window_bytes).saturating_sub(first)) {
        return Err(UpstreamError::Memory);
    }
    let mut headers = end_to_end(&head.headers);
    headers.remove(header::CONTENT_LENGTH);
    Ok(ReadAnswer {
        status: head.status.as_u16(),
        length,
        headers,
        took: Some(took.into()),
        is_counted: true,
        body: AnswerBody::of_node(
            (node, Source::http(body, length.filter(|_| !is_head))),
            (admitted, window),
        ),
    })
}

/// The answer, the node that gave it, and how long it took that.
async fn answered(
    admission: &Admission,
    read: Read,
) -> Result<(NodeIndex, Duration, Response<NodeBody>), UpstreamError> {
    let (nodes, request) = (&admission.nodes, read.request);
    let repeat = admission.repeat(&request);
    let kind = QuestionKind {
        may_repeat: repeat == Repeat::Always,
        counts: !request.has_writes,
    };
    let ask = |index: NodeIndex| {
        let node = nodes.node(index);
        let mut outgoing = Outgoing {
            method: request.http_method.clone(),
            uri: uri(&node.http.base, &request.target)?,
            headers: request.headers.clone(),
            body: request.body.clone(),
            repeat,
        };
        if node.http.dialer.endpoint().is_tls() || !node.http.base.is_empty() {
            // A gateway chooses by the host. A node does not; its list of methods links to the
            // host that the client asked.
            outgoing.headers.remove(header::HOST);
        }
        Ok(async move { node.http.send(&outgoing).await })
    };
    first_answer(nodes, (read.node, read.wanted), kind, ask).await
}

/// Set aside before anything is asked: the head of an answer and its first bytes.
pub(super) const HEAD_BYTES: usize = 16 << 10;

/// What a question is known by, and what it asks for: all that the answer of a node may depend on, which is everything
/// but the id. `None` if the answer is one client's, or the question is long.
pub(super) fn key(
    request: &ReadRequest,
    (node, chain): (NodeIndex, u64),
) -> Option<(Box<[u8]>, Subject)> {
    let asked = Subject::of(request)?;
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
    push_headers(&mut key, &request.headers);
    for part in [before, after] {
        key.extend_from_slice(b"\n\n");
        key.extend_from_slice(part);
    }
    (key.len() <= KEY_BYTES).then(|| (key.into(), asked))
}

/// The same for a question to another listener of a Cosmos SDK's node.
pub(super) fn key_at_door(
    door: NodeDoor,
    (head, body): (&Parts, &CallBody),
    (node, chain): (NodeIndex, u64),
) -> Option<Box<[u8]>> {
    let target = head.uri.path_and_query()?;
    let mut key = format!("{door:?} {node} {chain}\n{target}").into_bytes();
    push_headers(&mut key, &head.headers);
    key.extend_from_slice(b"\n\n");
    key.extend_from_slice(body.ahead());
    (key.len() <= KEY_BYTES).then(|| key.into())
}

fn push_headers(key: &mut Vec<u8>, headers: &HeaderMap) {
    let all = headers.iter();
    for (name, value) in all.filter(|(name, _)| !OF_CLIENTS.contains(&name.as_str())) {
        for part in [b"\n", name.as_str().as_bytes(), b":", value.as_bytes()] {
            key.extend_from_slice(part);
        }
    }
}

/// How long anybody may keep an answer with this status and these headers, at most a day: so many seconds unless the node
/// sets otherwise. CometBFT allows it if each argument was given that names the height (`rpc.Cacheable` in
/// `rpc/core/routes.go`, v0.38.17). `None` if it is one client's: it has another directive, comes from another cache, or has
/// a header that names the request.
pub(super) fn public_for(status: u16, headers: &HeaderMap, default_s: u64) -> Option<Duration> {
    let mut seconds = None;
    for (name, value) in headers {
        let value = value.as_bytes();
        match name.as_str() {
            "cache-control" if seconds.is_none() => {
                let text = str::from_utf8(value).ok()?;
                seconds = text.strip_prefix("public, max-age=")?.parse::<u64>().ok();
            }
            "vary" if !VARY.iter().any(|known| value.eq_ignore_ascii_case(known)) => return None,
            "cache-control" | "age" | "set-cookie" | "x-request-id" => return None,
            _ => {}
        }
    }
    let seconds = seconds.unwrap_or(default_s).min(LONGEST_SECONDS);
    (status == 200).then(|| Duration::from_secs(seconds))
}

/// Where the id is in the body of an answer: nowhere, behind the end, in one to a request in a target; and its result. `None`
/// if it is an error, or has another id.
pub(super) fn id_and_result<'a>(
    id: Option<&KeptId>,
    body: &'a [u8],
) -> Option<(Range<usize>, &'a [u8])> {
    let text = json::check(body).ok()?;
    let mut members = json::members(text);
    let [version, echoed, result] = [members.next()?, members.next()?, members.next()?];
    let keys = [version.0, echoed.0, result.0];
    if members.next().is_some() || keys != ["jsonrpc", "id", "result"] {
        return None;
    }
    let place = match id {
        None => body.len()..body.len(),
        Some(id) => (id.as_bytes() == echoed.1).then(|| place(body, echoed.1))??,
    };
    Some((place, result.1))
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
pub(super) const LONGEST_SECONDS: u64 = 86_400;
/// Headers that describe the client, on which no answer depends. Those that name a host or a scheme are not among them:
/// a gateway may write these into its answer.
const OF_CLIENTS: [&str; 10] = [
    "grpc-timeout",
    "grpc-trace-bin",
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_question_to_the_gateway_is_known_by_all_that_its_answer_depends_on() {
        let key = |method: &str, target: &str, header: &str, body: &'static [u8]| {
            let request = hyper::Request::builder().method(method).uri(target);
            let (head, ()) = request.header(header, "x").body(()).unwrap().into_parts();
            let body = CallBody::whole(Bytes::from_static(body));
            let asked = Subject::at_door(NodeDoor::Rest, &head, &body)?;
            let key = key_at_door(NodeDoor::Rest, (&head, &body), (0, 0));
            Some((asked, key.unwrap()))
        };
        let block = "/cosmos/base/tendermint/v1beta1/blocks/8";
        let tx = format!("/cosmos/tx/v1beta1/txs/{}", "aA".repeat(32));
        let plain = key("GET", block, "accept", b"");
        let is_kept = |(asked, _)| asked != Subject::Latest;
        assert!(plain.clone().is_some_and(is_kept));
        assert!(key("GET", &tx, "accept", b"").is_some_and(is_kept));
        assert_eq!(key("GET", block, "accept", b""), plain);
        for (target, header) in [
            ("/cosmos/base/tendermint/v1beta1/blocks/9", "accept"),
            ("/cosmos/base/tendermint/v1beta1/blocks/8?a=b", "accept"),
            (block, "x-cosmos-block-height"),
            (block, "range"),
        ] {
            let other = key("GET", target, header, b"");
            assert!(other.is_some() && other != plain, "{target} {header}");
        }
        for target in [
            "/cosmos/base/tendermint/v1beta1/blocks/latest",
            "/cosmos/base/tendermint/v1beta1/blocks/8/",
            "/cosmos/tx/v1beta1/txs",
            "/cosmos/tx/v1beta1/txs/block/8",
            "/cosmos/bank/v1beta1/supply",
        ] {
            let found = key("GET", target, "accept", b"");
            assert!(found.is_some_and(|found| !is_kept(found)), "{target}");
        }
        for (method, body) in [("HEAD", &b""[..]), ("POST", b""), ("GET", b"x")] {
            assert_eq!(key(method, block, "accept", body), None, "{method}");
        }
    }
}
