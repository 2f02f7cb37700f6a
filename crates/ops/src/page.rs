//! Answers of the operator's listener, complete in memory.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;

/// One answer.
pub type Page = Response<Full<Bytes>>;

/// A page that is never cached.
pub fn page(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Page {
    let mut page = Response::new(Full::from(body.into()));
    *page.status_mut() = status;
    let headers = page.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    page
}

/// Plain text.
pub fn text(status: StatusCode, body: String) -> Page {
    page(status, "text/plain; charset=utf-8", body)
}

/// Indented JSON.
///
/// # Panics
/// When `body` has a map whose keys are not strings.
pub fn json(status: StatusCode, body: &impl Serialize) -> Page {
    let mut text = serde_json::to_string_pretty(body).expect("pages have text keys only");
    text.push('\n');
    page(status, "application/json", text)
}

/// JSON that was written down before.
pub fn json_text(body: Bytes) -> Page {
    page(StatusCode::OK, "application/json", body)
}

/// Prometheus metrics in the OpenMetrics text format.
pub fn metrics(text: String) -> Page {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    page(StatusCode::OK, OPEN_METRICS, text)
}

/// Why a request was refused, as JSON.
pub fn problem(status: StatusCode, reason: &str) -> Page {
    json(status, &serde_json::json!({ "error": reason }))
}

/// For a path that names no page: 404 with the list of pages.
pub fn not_found(index: &str) -> Page {
    text(StatusCode::NOT_FOUND, format!("no such page\n\n{index}"))
}

/// The refusal of a request whose method its path does not have. The paths in `posts` change something and take POST
/// alone, all others show something.
pub(crate) fn refused_method<B>(request: &Request<B>, posts: &[&str]) -> Option<Page> {
    let is_look = request.method() == Method::GET || request.method() == Method::HEAD;
    let (reason, allowed) = match posts.contains(&request.uri().path()) {
        true if request.method() == Method::POST => return None,
        true => ("this changes something; use POST", "POST"),
        false if is_look => return None,
        false => ("only GET; nothing can be changed here", "GET, HEAD"),
    };
    let mut page = problem(StatusCode::METHOD_NOT_ALLOWED, reason);
    let allowed = HeaderValue::from_static(allowed);
    page.headers_mut().insert(ALLOW, allowed);
    Some(page)
}
