//! The forms of answers: status and text of each.

use std::fmt;

use serde_json::{Value, json};

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

/// An answer with a JSON body that is written already.
pub(super) fn json_text(status: u16, mut body: Vec<u8>) -> Response {
    body.push(b'\n');
    with_cors(Response::new(status, "application/json", body))
}

/// A JSON value.
pub(super) fn value(status: u16, value: &Value) -> Response {
    json_text(status, value.to_string().into_bytes())
}

/// An error in the form of the original's own code.
pub(super) fn error(status: u16, message: impl Into<Value>) -> Response {
    let message = message.into();
    value(status, &json!({"message": message, "status": status}))
}

/// An error in the form of its web framework.
fn message(status: u16, message: impl Into<Value>) -> Response {
    value(status, &json!({"message": message.into()}))
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
    message(400, format!("Failed to decode JSON object: {why}"))
}

/// An argument that is missing or wrong.
pub(super) fn bad_argument(name: &str, why: &str) -> Response {
    message(400, json!({name: why}))
}

/// Arguments with unknown names.
pub(super) fn unknown_arguments(names: &str) -> Response {
    message(400, format!("Unknown arguments: {names}"))
}

pub(super) fn method_not_allowed() -> Response {
    message(405, "The method is not allowed for the requested URL.")
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
    let response = Response::new(200, "text/html; charset=utf-8", Vec::new())
        .with("Allow", methods)
        .with("Access-Control-Allow-Methods", methods)
        .with("Access-Control-Allow-Headers", "Content-Type");
    with_cors(response)
}

fn with_cors(response: Response) -> Response {
    response.with("Access-Control-Allow-Origin", "*")
}

pub(super) fn root(streams: &str) -> Response {
    let root = json!({
        "api": {"v1": links("/api/v1", streams)},
        "docs": DOCS,
        "software": "BigchainDB",
        "version": VERSION,
    });
    value(200, &root)
}

pub(super) fn v1(streams: &str) -> Response {
    value(200, &links("", streams))
}

fn links(prefix: &str, streams: &str) -> Value {
    json!({
        "assets": format!("{prefix}/assets/"),
        "blocks": format!("{prefix}/blocks/"),
        "docs": format!("{DOCS}http-client-server-api.html"),
        "metadata": format!("{prefix}/metadata/"),
        "outputs": format!("{prefix}/outputs/"),
        "streams": streams,
        "transactions": format!("{prefix}/transactions/"),
        "validators": format!("{prefix}/validators"),
    })
}
