//! Refusals.

use std::time::Duration;

use wire::json::write::{Int, Text, filled};

use super::{Form, HttpAnswer, answer_len, length_of, write_answer, write_body};
use crate::refusal::{Forwarded, Reason, Refusal};
use wire::http::HttpError;

/// How the outside sees a reason.
struct Face {
    status: u16,
    /// JSON-RPC's code, with its words.
    error: (i32, &'static str),
    /// What the text begins with, for clients that look for it.
    prefix: &'static str,
}

/// The words of a full mempool: clients and SDKs look for them and try again later.
const FULL: &str = "mempool is full: ";

const fn face(reason: Reason) -> Face {
    let (status, error, prefix) = match reason {
        Reason::Rate | Reason::QueueFull | Reason::QueueTimeout => (429, INTERNAL, FULL),
        Reason::Connections => (429, INTERNAL, ""),
        Reason::Bytes | Reason::Clients => (503, INTERNAL, FULL),
        Reason::Shutdown | Reason::Upstream => (503, INTERNAL, ""),
        // The node's own answer.
        Reason::Batch => (200, INVALID_REQUEST, ""),
        Reason::Body => (413, INVALID_REQUEST, ""),
        Reason::Parse => (400, INVALID_REQUEST, ""),
        Reason::Denied => (403, INVALID_REQUEST, ""),
        Reason::Method => (403, METHOD_NOT_FOUND, ""),
    };
    Face {
        status,
        error,
        prefix,
    }
}

const INVALID_REQUEST: (i32, &str) = (-32_600, "Invalid Request");
const METHOD_NOT_FOUND: (i32, &str) = (-32_601, "Method not found");
const INTERNAL: (i32, &str) = (-32_603, "Internal error");

/// The `"error":{…}` of a refusal.
pub fn refusal_member(refusal: &Refusal) -> Vec<u8> {
    let face = face(refusal.reason);
    error_member(&face, &data(&face, refusal))
}

/// The text of a refusal, for a human and for the programs that read it.
pub(super) fn refusal_text(refusal: &Refusal) -> String {
    data(&face(refusal.reason), refusal)
}

fn error_member(face: &Face, data: &str) -> Vec<u8> {
    let template = r#""error":{"code":?,"message":?,"data":?}"#;
    let (code, message) = face.error;
    filled(template, &[&Int(code), &Text(message), &Text(data)])
}

/// The text for a human, and for the programs that read it.
fn data(face: &Face, refusal: &Refusal) -> String {
    if refusal.reason == Reason::Batch {
        return refusal.detail.clone();
    }
    let forwarded = match refusal.forwarded {
        Forwarded::No => "not forwarded",
        Forwarded::Unknown => "forwarded, outcome unknown",
    };
    let (prefix, detail, reason) = (face.prefix, &refusal.detail, refusal.reason.name());
    match refusal.retry_after {
        Some(after) => format!(
            "{prefix}{detail} (reason: {reason}, retry_after_ms: {}, {forwarded})",
            after.as_millis()
        ),
        None => format!("{prefix}{detail} (reason: {reason}, {forwarded})"),
    }
}

/// Writes a refusal as the answer to a request.
pub(super) fn write_http(answer: HttpAnswer<'_>, form: Form<'_>, refusal: &Refusal) {
    let status = face(refusal.reason).status;
    write(answer, form, (status, refusal), &refusal_member(refusal));
}

fn write(
    mut answer: HttpAnswer<'_>,
    form: Form<'_>,
    (status, refusal): (u16, &Refusal),
    member: &[u8],
) {
    let HttpAnswer { asked, date, .. } = answer;
    let len = answer_len(form.id(), member);
    let is_nodes_own = refusal.reason == Reason::Batch;
    let mut head = answer.start(status, Some(b"application/json"));
    if let Some(after) = refusal.retry_after {
        head = head.number("Retry-After", whole_seconds(after));
    }
    if !is_nodes_own {
        head = head
            .field("X-Sentinel-Reason", refusal.reason.name().as_bytes())
            .number("X-Server-Time", asked.at);
    }
    head.field("Date", date.as_bytes())
        .finish(length_of(len, asked), asked.keep_alive);
    write_body(answer.out, len, asked, |out| {
        write_answer(out, form.id(), member);
    });
}

/// Rounded up, so that who waits as long does not come too early.
fn whole_seconds(after: Duration) -> u64 {
    after.as_secs() + u64::from(after.subsec_nanos() > 0)
}

/// Writes the answer to something that is no request, and that the connection ends.
pub(super) fn write_malformed(answer: HttpAnswer<'_>, error: HttpError) {
    let refusal = malformed(error);
    let member = match error {
        // The node's words.
        HttpError::BodyTooLarge(limit) => error_member(
            &face(refusal.reason),
            &format!(
                "error reading request body: http: request body too large (max: {limit} bytes, not forwarded)"
            ),
        ),
        _ => refusal_member(&refusal),
    };
    // No web page asked for it.
    let mut answer = answer.allowing(None);
    answer.asked.keep_alive = false;
    let (status, _) = malformed_face(error);
    write(answer, Form::Post(None), (status, &refusal), &member);
}

/// The HTTP status of what is no request, and the reason that it is refused for.
const fn malformed_face(error: HttpError) -> (u16, Reason) {
    match error {
        HttpError::RequestLine
        | HttpError::LineEnd
        | HttpError::Field
        | HttpError::Host
        | HttpError::Framing
        | HttpError::Chunk => (400, Reason::Parse),
        HttpError::HeadTimeout | HttpError::BodyTimeout => (408, Reason::Parse),
        HttpError::BodyTooLarge(_) => (413, Reason::Body),
        HttpError::TargetTooLong(_) => (414, Reason::Body),
        HttpError::Expectation => (417, Reason::Parse),
        HttpError::HeadTooLarge(_) | HttpError::TooManyFields(_) => (431, Reason::Body),
    }
}

/// The refusal of what is no request.
pub fn malformed(error: HttpError) -> Refusal {
    Refusal::new(malformed_face(error).1, error.to_string())
}
