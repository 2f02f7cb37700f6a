//! The operator's listener: metrics, health, and what happens to which client; and what the operator orders: a reload, bans,
//! drains.
//!
//! One [`Snapshot`] of the program is collected in one place; metrics, the page, `sentinel top` and the explanations
//! are writers of it. What changes something is a POST to a path of its own, whose parameters stand in the query. The
//! listener has no authentication, names clients and takes orders, so it belongs on loopback or on a network that only
//! operators can reach.

mod collect;
pub mod journal;
mod overview;
mod page;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fairq::Network;
use hyper::header::ACCEPT;
use hyper::{Request, StatusCode};
use ops::listener::{self, Bounds, Page, json, json_text, metrics, not_found, problem, text};
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::info;
use wire::encoding::{Plus, unescape};

pub(crate) use self::collect::Operator;
use self::overview::Keeper;
pub use self::overview::printable;
pub use self::snapshot::{BanView, ClientView, Explanation, Inspect, Limit, NodeView, Snapshot};
use crate::config;
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
            return order(request, inspect);
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

/// Paths that change something.
const POSTS: &[&str] = &[
    "/reload", "/ban", "/unban", "/drain", "/undrain", "/pause", "/resume",
];

/// Carries an order out, unless a browser sent it.
fn order<B>(request: &Request<B>, inspect: &dyn Inspect) -> Page {
    if let Some(refusal) = page::refused(request).or_else(|| page::refused_order(request)) {
        return refusal;
    }
    let query = request.uri().query();
    let made = match request.uri().path() {
        "/reload" => parameters(query, &[]).map(|_| reloaded(inspect)),
        "/ban" => ban(query, inspect),
        "/unban" => unban(query, inspect),
        path => rest(path, query, inspect),
    };
    made.unwrap_or_else(|reason| problem(StatusCode::BAD_REQUEST, &reason))
}

/// What a reload came to: 422 where the configuration is wrong, as text with a line for each fault.
fn reloaded(inspect: &dyn Inspect) -> Page {
    match inspect.reload() {
        Ok(reloaded) => json(StatusCode::OK, &reloaded),
        Err(error) => text(StatusCode::UNPROCESSABLE_ENTITY, format!("{error}\n")),
    }
}

fn ban(query: Option<&str>, inspect: &dyn Inspect) -> Result<Page, String> {
    let mut given = parameters(query, &["who", "for", "why"])?;
    let who = network(&given)?;
    let length = given.remove("for").map(|text| length(&text)).transpose()?;
    let why = reason(&mut given)?;
    Ok(match inspect.ban(who, length, why) {
        Ok(ban) => json(StatusCode::OK, &ban),
        Err(reason) => problem(StatusCode::UNPROCESSABLE_ENTITY, &reason),
    })
}

fn unban(query: Option<&str>, inspect: &dyn Inspect) -> Result<Page, String> {
    let who = network(&parameters(query, &["who"])?)?;
    Ok(if inspect.unban(who) {
        json(StatusCode::OK, &json!({ "unbanned": who.to_string() }))
    } else {
        problem(
            StatusCode::NOT_FOUND,
            &format!("{who} is not banned; GET /bans lists who is"),
        )
    })
}

/// Leaves a node alone (`/drain`), or all, so that writes wait (`/pause`), or no longer (`/undrain`, `/resume`).
fn rest(path: &str, query: Option<&str>, inspect: &dyn Inspect) -> Result<Page, String> {
    let (names, done): (&[&str], _) = match path {
        "/drain" => (&["node", "for", "why"], "drained"),
        "/pause" => (&["for", "why"], "paused"),
        "/undrain" => (&["node"], "undrained"),
        _ => (&[], "resumed"),
    };
    let mut given = parameters(query, names)?;
    let node = given.remove("node");
    if names.contains(&"node") && node.is_none() {
        return Err("node is a node's address, as /readyz lists it".to_owned());
    }
    let time = given.remove("for");
    if names.contains(&"for") && time.is_none() {
        return Err("for is missing; this ends by itself, such as for=10m".to_owned());
    }
    let time = time.map(|text| length(&text)).transpose()?;
    Ok(
        if inspect.drain(node.as_deref(), time, reason(&mut given)?) {
            let which = node.as_deref().unwrap_or("all nodes");
            json(StatusCode::OK, &json!({ done: which }))
        } else {
            problem(
                StatusCode::NOT_FOUND,
                "no such node; /readyz lists the nodes with their addresses",
            )
        },
    )
}

fn reason(given: &mut HashMap<String, String>) -> Result<String, String> {
    let why = given.remove("why").unwrap_or_default();
    if why.len() > MOST_WORDS || why.contains(char::is_control) {
        Err(format!("why is a line of at most {MOST_WORDS} bytes"))
    } else {
        Ok(why)
    }
}

fn network(given: &HashMap<String, String>) -> Result<Network, String> {
    let who = given.get("who").and_then(|text| text.parse().ok());
    who.ok_or_else(|| "who is an address or a network, such as who=192.0.2.0/24".to_owned())
}

fn length(text: &str) -> Result<Duration, String> {
    let length = config::duration(text).map_err(|reason| format!("for: {reason}"))?;
    if length.is_zero() {
        Err("for is a time above 0, such as for=10m".to_owned())
    } else {
        Ok(length)
    }
}

/// Bytes of a reason.
const MOST_WORDS: usize = 200;
