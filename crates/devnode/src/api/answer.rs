//! The forms of answers: status and text of each.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use super::Resource;
use crate::http::Response;

/// The page that the original's web server has for a path it does not know.
const NO_SUCH_PAGE: &str = "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 3.2 Final//EN\">\n\
    <title>404 Not Found</title>\n<h1>Not Found</h1>\n\
    <p>The requested URL was not found on the server. If you entered the URL manually please \
    check your spelling and try again.</p>\n";

/// The version of the original that answers are compared with.
const VERSION: &str = "2.2.2";
const DOCS: &str = "https://docs.bigchaindb.com/projects/server/en/v2.2.2/";

/// An error that the original's own code answers.
#[derive(Debug, Serialize)]
struct Error<'a> {
    message: Cow<'a, str>,
    status: u16,
}

/// An error that its web framework answers.
#[derive(Debug, Serialize)]
struct Message<T> {
    message: T,
}

/// An answer with a JSON body that is written already.
pub(super) fn json(status: u16, mut body: Vec<u8>) -> Response {
    body.push(b'\n');
    with_cors(Response::new(status, "application/json", body))
}

/// A JSON value. One that cannot be written does not exist here: all are texts and numbers.
pub(super) fn value(status: u16, value: &impl Serialize) -> Response {
    json(status, serde_json::to_vec(value).unwrap_or_default())
}

/// An error in the form of the original's own code.
pub(super) fn error<'a>(status: u16, message: impl Into<Cow<'a, str>>) -> Response {
    let message = message.into();
    value(status, &Error { message, status })
}

pub(super) fn not_found() -> Response {
    error(404, "Not found")
}

/// A list that would be too long for one answer. The original has no limit; here each answer is in
/// memory as a whole.
pub(super) fn too_many(what: &str, count: usize, most: usize, instead: &str) -> Response {
    let message = format!("{count} {what} are more than the {most} of one answer: {instead}");
    error(400, message)
}

/// A body that is no JSON.
pub(super) fn undecodable(why: impl fmt::Display) -> Response {
    let message = format!("Failed to decode JSON object: {why}");
    value(400, &Message { message })
}

/// An argument that is missing or wrong.
pub(super) fn bad_argument(name: &str, why: &str) -> Response {
    let message = std::collections::BTreeMap::from([(name, why)]);
    value(400, &Message { message })
}

/// Arguments with unknown names.
pub(super) fn unknown_arguments(names: &str) -> Response {
    let message = format!("Unknown arguments: {names}");
    value(400, &Message { message })
}

pub(super) fn method_not_allowed() -> Response {
    let message = "The method is not allowed for the requested URL.";
    value(405, &Message { message })
}

pub(super) fn no_such_page() -> Response {
    let page = NO_SUCH_PAGE.as_bytes().to_vec();
    with_cors(Response::new(404, "text/html; charset=utf-8", page))
}

/// What a browser asks before it lets a page of another origin post.
pub(super) fn options(resource: &Resource<'_>) -> Response {
    let methods = match resource {
        Resource::Transactions => "GET, HEAD, OPTIONS, POST",
        _ => "GET, HEAD, OPTIONS",
    };
    let mut response = Response::new(200, "text/html; charset=utf-8", Vec::new());
    for name in ["Allow", "Access-Control-Allow-Methods"] {
        response.headers.push((name, methods.to_owned()));
    }
    let headers = ("Access-Control-Allow-Headers", "Content-Type".to_owned());
    response.headers.push(headers);
    with_cors(response)
}

fn with_cors(mut response: Response) -> Response {
    let open = ("Access-Control-Allow-Origin", "*".to_owned());
    response.headers.push(open);
    response
}

#[derive(Debug, Serialize)]
struct Root {
    api: Apis,
    docs: &'static str,
    software: &'static str,
    version: &'static str,
}

#[derive(Debug, Serialize)]
struct Apis {
    v1: Links,
}

#[derive(Debug, Serialize)]
struct Links {
    assets: String,
    blocks: String,
    docs: String,
    metadata: String,
    outputs: String,
    streams: String,
    transactions: String,
    validators: String,
}

pub(super) fn root(streams: String) -> Response {
    let root = Root {
        api: Apis {
            v1: links("/api/v1", streams),
        },
        docs: DOCS,
        software: "BigchainDB",
        version: VERSION,
    };
    value(200, &root)
}

pub(super) fn v1(streams: String) -> Response {
    value(200, &links("", streams))
}

fn links(prefix: &str, streams: String) -> Links {
    Links {
        assets: format!("{prefix}/assets/"),
        blocks: format!("{prefix}/blocks/"),
        docs: format!("{DOCS}http-client-server-api.html"),
        metadata: format!("{prefix}/metadata/"),
        outputs: format!("{prefix}/outputs/"),
        streams,
        transactions: format!("{prefix}/transactions/"),
        validators: format!("{prefix}/validators"),
    }
}
