//! The operator's page, and what keeps other sites from reading it or its figures.
//!
//! The page is one file without a network of its own. It shows what clients are called, so nothing that
//! comes from outside is ever parsed as HTML: the script only sets text, and the policy makes the browser
//! refuse everything else (`require-trusted-types-for`, and only the two elements with these hashes).

use std::sync::LazyLock;

use base64_simd::STANDARD;
use hyper::header::{
    ACCEPT_LANGUAGE, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Request, StatusCode};
use ops::listener::{self, Page, problem};
use sha2::{Digest as _, Sha256};

pub(super) const PAGE: &str = include_str!("page.html");

/// The page with its headers.
pub(super) fn page() -> Page {
    let mut page = listener::page(StatusCode::OK, "text/html; charset=utf-8", PAGE);
    let headers = page.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    page
}

/// Nothing from elsewhere, nothing inline but the page's own two elements (CSP level 3, W3C, 6.7.3.3).
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        hash(element("style")),
        hash(element("script")),
    );
    HeaderValue::from_str(&policy).expect("base64 and ASCII")
});

/// What stands between the only tags of this name.
fn element(name: &str) -> &'static str {
    let begin = format!("<{name}>");
    let inner = PAGE.split_once(&begin).map_or("", |(_, rest)| rest);
    inner
        .split_once(&format!("</{name}>"))
        .map_or("", |(inner, _)| inner)
}

fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode_to_string(Sha256::digest(text)))
}

/// Whether a browser asks, which may show any site's page. A monitor may use any name of the listener.
pub(super) fn is_browser<B>(request: &Request<B>) -> bool {
    // Every browser sends it and no page can leave it out; monitors and probes do not.
    request.headers().contains_key(ACCEPT_LANGUAGE)
}

/// Why figures that name clients are not given to this request, if they are not.
///
/// Without a permission from here no browser lets another site's page read them. Two ways round that are
/// closed: a site that embeds the address (`Sec-Fetch-Site`), and a site whose own name resolves to this
/// address (DNS rebinding), which its `Host` gives away.
pub(super) fn refused<B>(request: &Request<B>) -> Option<Page> {
    let text = |name| {
        request
            .headers()
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    if matches!(text(SEC_FETCH_SITE), Some("cross-site" | "same-site")) {
        return Some(problem(
            StatusCode::FORBIDDEN,
            "a page of another site asked for this; open the operator's listener itself",
        ));
    }
    let host = text(HOST).unwrap_or_default();
    (!is_own(host)).then(|| {
        problem(
            StatusCode::MISDIRECTED_REQUEST,
            &format!(
                "the host {host:?} may be any site's name; ask by address, or by a name without a dot or below \
                 .localhost, .local, .internal or .lan"
            ),
        )
    })
}

/// Why an order is not taken from this request, if it is not: no page orders anything, so what a browser sends comes
/// from some other site's.
pub(super) fn refused_order<B>(request: &Request<B>) -> Option<Page> {
    let from_page = request.headers().contains_key(ORIGIN) || is_browser(request);
    from_page.then(|| {
        problem(
            StatusCode::FORBIDDEN,
            "orders are not taken from browsers; use curl -X POST",
        )
    })
}

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether this can only be a name that the operator's own network gives: an address, a name without a
/// dot, or one below a domain that no public site can have (RFC 6761, RFC 6762, ICANN's .internal; .lan is
/// common and not delegated).
fn is_own(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(v6) => return v6.contains(']'),
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let last = name.rsplit('.').next().unwrap_or_default();
    !name.contains('.')
        || name.parse::<std::net::Ipv4Addr>().is_ok()
        || matches!(last, "localhost" | "local" | "internal" | "lan")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_no_public_site_can_have_are_own() {
        for own in [
            "127.0.0.1:26681",
            "[::1]:26681",
            "localhost:26681",
            "LOCALHOST",
            "sentinel:26681",
            "sentinel.default.svc.cluster.local:26681",
            "node-1.internal",
            "",
        ] {
            assert!(is_own(own), "{own}");
        }
        for other in [
            "rebound.example.com:26681",
            "127.0.0.1.example.com",
            "localhost.example.com.",
            "a.b",
        ] {
            assert!(!is_own(other), "{other}");
        }
    }

    #[test]
    fn the_policy_allows_the_two_elements_of_the_page_and_nothing_else_inline() {
        for name in ["style", "script"] {
            assert!(element(name).len() > 1_000, "{name}");
            assert_eq!(PAGE.matches(&format!("<{name}")).count(), 1, "{name}");
        }
        let policy = POLICY.to_str().unwrap();
        assert!(policy.contains(&hash(element("script"))), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        // The page's icon is empty, so that no browser asks for one; the policy lets it be so.
        assert!(PAGE.contains("<link rel=\"icon\" href=\"data:,\">"));
        assert!(policy.contains("; img-src data:;"), "{policy}");
        // Attributes that the policy would make dead.
        for inline in [" style=\"", " onclick=", " onload=", "javascript:"] {
            assert!(!PAGE.contains(inline), "{inline}");
        }
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_parses_nothing_as_html() {
        for outside in ["://", "src=", "@import", "url("] {
            assert!(!PAGE.contains(outside), "{outside}");
        }
        for sink in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
        ] {
            assert!(!PAGE.contains(sink), "{sink}");
        }
    }
}
