//! The operator's listener: metrics, health, and what happens to which client.
//!
//! One [`Snapshot`] of the program is collected in one place; metrics, the page, `sentinel top` and the explanations
//! are writers of it. What changes something is a POST to a path of its own. The listener has no authentication, names
//! clients and takes orders, so it belongs on loopback or on a network that only operators can reach.

mod collect;
mod explain;
pub mod journal;
mod orders;
mod overview;
mod page;
mod snapshot;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::ACCEPT;
use hyper::{Request, StatusCode};
use ops::listener::{self, Bounds};
use ops::page::{Page, json, json_text, metrics, not_found, problem, text};
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::info;
use wire::encoding::{Plus, unescape};

pub(crate) use self::collect::Operator;
pub use self::explain::{ClientView, Explanation, Limit};

use self::orders::POSTS;
use self::overview::Keeper;
pub use self::overview::printable;
pub use self::snapshot::{BanView, Inspect, NodeView, Snapshot};
use crate::metrics::Metrics;

/// Serves the operator until `shutdown`; then open connections finish the answer they are at.
///
/// Give it a token that is cancelled last: `/readyz` has to answer while the rest drains.
///
/// # Cancel safety
/// Dropping the future closes all connections.
pub async fn serve(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    inspect: Arc<dyn Inspect>,
    shutdown: CancellationToken,
) {
    if let Ok(address) = listener.local_addr() {
        info!(%address, "serving the operator");
    }
    let keeper = Mutex::new(Keeper::new(inspect.snapshot()));
    let shown = Arc::new(Shown {
        metrics,
        inspect,
        kept: Mutex::new(None),
        keeper,
    });
    let looking = Arc::clone(&shown);
    let pages = move |request: &_| shown.answer(request);
    tokio::select! {
        () = listener::serve(listener, BOUNDS, pages, shutdown) => {}
        () = looking.look_every_second() => {}
    }
}

/// What the pages are made of.
struct Shown {
    metrics: Arc<Metrics>,
    inspect: Arc<dyn Inspect>,
    keeper: Mutex<Keeper>,
    /// The overview as JSON, made once between two looks however often it is asked for.
    kept: Mutex<Option<Bytes>>,
}

impl Shown {
    async fn look_every_second(&self) {
        let mut next = interval(Duration::from_secs(1));
        next.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            next.tick().await;
            let clients = self.inspect.clients(LISTED_CLIENTS);
            // Those that are over end here.
            self.inspect.bans();
            self.keeper.lock().look(self.inspect.snapshot(), clients);
            *self.kept.lock() = None;
        }
    }

    /// The page a request asks for.
    fn answer<B>(&self, request: &Request<B>) -> Page {
        let (path, inspect) = (request.uri().path(), &*self.inspect);
        if POSTS.contains(&path) {
            return orders::order(request, inspect);
        }
        let names_clients = matches!(
            path,
            "/overview" | "/top" | "/clients" | "/explain" | "/bans"
        );
        let is_shielded = names_clients || path != "/" && page::is_browser(request);
        if is_shielded && let Some(refusal) = page::refused(request) {
            return refusal;
        }
        let made = match path {
            "/" if accepts(request, "text/html") => Ok(page::page()),
            "/" => Ok(text(StatusCode::OK, INDEX.to_owned())),
            "/overview" => Ok(json_text(self.overview())),
            "/top" => Ok(text(
                StatusCode::OK,
                self.keeper.lock().overview().to_string(),
            )),
            "/metrics" => Ok(metrics(self.metrics.render(&inspect.snapshot().gauges))),
            "/healthz" => Ok(json(StatusCode::OK, &json!({ "healthy": true }))),
            "/readyz" => Ok(readyz(&inspect.snapshot())),
            "/clients" => clients(request, inspect),
            "/explain" => explain(request, inspect),
            "/bans" => Ok(json(StatusCode::OK, &inspect.bans())),
            _ => Ok(not_found(INDEX)),
        };
        made.unwrap_or_else(|reason| problem(StatusCode::BAD_REQUEST, &reason))
    }

    /// The overview as JSON.
    fn overview(&self) -> Bytes {
        let make = || {
            let keeper = self.keeper.lock();
            let json = serde_json::to_vec(&keeper.overview());
            Bytes::from(json.expect("all keys are text"))
        };
        self.kept.lock().get_or_insert_with(make).clone()
    }
}

/// Enough for every scraper and every operator with a browser.
const BOUNDS: Bounds = Bounds {
    connections: 64,
    header: Duration::from_secs(10),
    life: Duration::from_secs(120),
    posts: POSTS,
};

/// Clients on the page.
const LISTED_CLIENTS: usize = 20;

const INDEX: &str = include_str!("index.txt");

fn readyz(snapshot: &Snapshot) -> Page {
    let (ready, why) = snapshot.readiness();
    let facts = json!({
        "ready": ready,
        "why": why,
        "draining": snapshot.draining,
        "reached": snapshot.reached(),
        "answering": snapshot.answering,
        "controller": snapshot.status.state.name(),
        "nodes": snapshot.nodes,
    });
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    json(status, &facts)
}

fn clients<B>(request: &Request<B>, inspect: &dyn Inspect) -> Result<Page, String> {
    let top = match only(request.uri().query(), "top")? {
        None => LISTED_CLIENTS,
        Some(text) => match text.parse() {
            Ok(top @ 1..=MAX_TOP) => top,
            _ => return Err(format!("top is a number from 1 to {MAX_TOP}")),
        },
    };
    let status = inspect.snapshot().status;
    let clients = json!({
        "active": status.backlogged_clients,
        "known": status.known_clients,
        "clients": inspect.clients(top),
    });
    Ok(json(StatusCode::OK, &clients))
}

const MAX_TOP: usize = 1_000;

fn explain<B>(request: &Request<B>, inspect: &dyn Inspect) -> Result<Page, String> {
    let given = only(request.uri().query(), "ip")?;
    let address = given.and_then(|text| text.parse().ok());
    let address: IpAddr =
        address.ok_or("ip is an address without a prefix, for instance /explain?ip=192.0.2.7")?;
    let explanation = inspect.explain(address);
    if accepts(request, "text/plain") {
        return Ok(text(StatusCode::OK, explanation.to_string()));
    }
    Ok(json(StatusCode::OK, &explanation))
}

/// Whether the client names this type among those it takes.
fn accepts<B>(request: &Request<B>, media_type: &str) -> bool {
    let accept = request.headers().get(ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains(media_type))
}

/// The value of the only query parameter that is understood, if it is given.
///
/// # Errors
/// Those of [`parameters`].
fn only(query: Option<&str>, name: &str) -> Result<Option<String>, String> {
    Ok(parameters(query, &[name])?.remove(name))
}

/// The query parameters, by their names.
///
/// # Errors
/// A sentence for the operator when there is another one than these, or the same one twice.
fn parameters(query: Option<&str>, names: &[&str]) -> Result<HashMap<String, String>, String> {
    let mut found = HashMap::new();
    let pairs = query.unwrap_or_default().split('&');
    for pair in pairs.filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !names.contains(&key) {
            let names = names.join(", ");
            return Err(format!("unknown parameter {key:?}; understood: {names}"));
        }
        let decoded = unescape(value.as_bytes(), Plus::Literal)
            .ok_or_else(|| format!("{value:?} is not percent-encoded properly"))?;
        let text = String::from_utf8(decoded.into_owned())
            .map_err(|_| format!("{value:?} is not UTF-8"))?;
        if found.insert(key.to_owned(), text).is_some() {
            return Err(format!("{key} is given twice"));
        }
    }
    Ok(found)
}
