//! From a request to a page.

use std::net::IpAddr;

use hyper::header::ACCEPT;
use hyper::{Request, StatusCode};
use ops::page::{self, Page, json, problem, text};
use serde::Serialize;
use serde_json::json;
use wire::query::{Plus, unescape};

use super::{Inspect, Shown, operator_page};
use crate::overview;
use crate::views::Readiness;

/// The page a request asks for.
pub(super) fn answer<B>(request: &Request<B>, shown: &Shown) -> Page {
    let (query, path, inspect) = (request.uri().query(), request.uri().path(), &*shown.inspect);
    let names_clients = matches!(path, overview::PATH | "/clients" | "/explain");
    let is_shielded = names_clients || path != "/" && operator_page::is_browser(request);
    if is_shielded && let Some(refusal) = operator_page::refused(request) {
        return refusal;
    }
    match path {
        "/" if accepts(request, "text/html") => operator_page::page(),
        "/" => text(StatusCode::OK, INDEX.to_owned()),
        overview::PATH => page::json_text(shown.overview()),
        "/metrics" => page::metrics(shown.metrics.render(&inspect.gauges())),
        "/healthz" => json(StatusCode::OK, &json!({ "healthy": true })),
        "/readyz" => readyz(inspect),
        "/clients" => clients(query, inspect),
        "/explain" => explain(query, prefers_text(request), inspect),
        _ => page::not_found(INDEX),
    }
}

const INDEX: &str = "\
/                the operator's page, in a browser
/overview        its figures: rates, queue, bound, the last five minutes, clients, breaks, log
/metrics         counters and gauges for Prometheus
/healthz         200 while the process lives
/readyz          200 when clients may be sent here, 503 otherwise, and why
/clients?top=N   who waits: the N longest queues (20; at most 1000)
/explain?ip=A    what happens to a client and why (text with Accept: text/plain)
";

fn readyz(inspect: &dyn Inspect) -> Page {
    #[derive(Serialize)]
    struct Ready<'a> {
        ready: bool,
        why: String,
        #[serde(flatten)]
        facts: &'a Readiness,
    }
    let facts = inspect.readiness();
    let status = if facts.is_ready() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    json(
        status,
        &Ready {
            ready: facts.is_ready(),
            why: facts.why(),
            facts: &facts,
        },
    )
}

fn clients(query: Option<&str>, inspect: &dyn Inspect) -> Page {
    let top = match only(query, "top") {
        Ok(None) => DEFAULT_TOP,
        Ok(Some(text)) => match text.parse() {
            Ok(top @ 1..=MAX_TOP) => top,
            _ => {
                return problem(
                    StatusCode::BAD_REQUEST,
                    &format!("top is a number from 1 to {MAX_TOP}"),
                );
            }
        },
        Err(reason) => return problem(StatusCode::BAD_REQUEST, &reason),
    };
    json(StatusCode::OK, &inspect.clients(top))
}

const DEFAULT_TOP: usize = 20;
const MAX_TOP: usize = 1_000;

fn explain(query: Option<&str>, as_text: bool, inspect: &dyn Inspect) -> Page {
    let address = match only(query, "ip") {
        Ok(Some(text)) => text.parse::<IpAddr>().ok(),
        Ok(None) => None,
        Err(reason) => return problem(StatusCode::BAD_REQUEST, &reason),
    };
    let Some(address) = address else {
        return problem(
            StatusCode::BAD_REQUEST,
            "ip is an address without a prefix, for instance /explain?ip=192.0.2.7",
        );
    };
    let explanation = inspect.explain(address);
    if as_text {
        return text(StatusCode::OK, explanation.to_string());
    }
    json(StatusCode::OK, &explanation)
}

fn prefers_text<B>(request: &Request<B>) -> bool {
    let accept = request.headers().get(ACCEPT);
    accept.is_some_and(|accept| accept.as_bytes().starts_with(b"text/plain"))
}

/// Whether the client names this type among those it takes, as browsers do when they open a page.
fn accepts<B>(request: &Request<B>, media_type: &str) -> bool {
    let accept = request.headers().get(ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains(media_type))
}

/// The value of the only query parameter that is understood, if it is given.
///
/// # Errors
/// A sentence for the operator when there is another one, or the same one twice.
fn only(query: Option<&str>, name: &str) -> Result<Option<String>, String> {
    let mut found = None;
    let pairs = query.unwrap_or_default().split('&');
    for pair in pairs.filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if key != name {
            return Err(format!(
                "unknown parameter {key:?}; only {name} is understood"
            ));
        }
        let decoded = unescape(value.as_bytes(), Plus::Literal)
            .ok_or_else(|| format!("{value:?} is not percent-encoded properly"))?;
        let text = String::from_utf8(decoded.into_owned())
            .map_err(|_| format!("{value:?} is not UTF-8"))?;
        if found.replace(text).is_some() {
            return Err(format!("{name} is given twice"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_parameter_decoded() {
        assert_eq!(only(None, "ip"), Ok(None));
        assert_eq!(only(Some(""), "ip"), Ok(None));
        assert_eq!(only(Some("ip=10.0.0.1"), "ip"), Ok(Some("10.0.0.1".into())));
        assert_eq!(only(Some("ip=%3A%3a1"), "ip"), Ok(Some("::1".into())));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let refused = |query| only(Some(query), "ip").unwrap_err();
        assert!(refused("pi=1").contains("\"pi\""));
        assert!(refused("ip=1&ip=2").contains("twice"));
        assert!(refused("ip=%3").contains("percent"));
        assert!(refused("ip=%zz").contains("percent"));
        assert!(refused("ip=%ff").contains("UTF-8"));
    }
}
