//! BigchainDB's HTTP API, as a running 2.2.2 answers it, and its event stream.

mod answer;
mod arguments;
mod chain;
pub(crate) mod events;
mod transactions;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::app::bigchaindb::Bigchaindb;
use crate::http::{Request, Response};
use crate::node::Node;

/// Answers one request.
pub(crate) async fn handle(node: &Arc<Node>, request: &Request) -> Response {
    let answer = match node.app.bigchaindb() {
        Some(app) => answer(node, app, request).await,
        None => Ok(answer::no_such_page()),
    };
    answer.unwrap_or_else(|refusal| refusal)
}

/// The answer to a request; the error is one that refuses it.
type Answer = Result<Response, Response>;

async fn answer(node: &Arc<Node>, app: &Bigchaindb, request: &Request) -> Answer {
    if let Some(broken) = request.broken_body {
        return Err(Response {
            close: true,
            ..answer::undecodable(broken)
        });
    }
    let resource = Resource::of(request.path()).ok_or_else(answer::no_such_page)?;
    match (request.method(), &resource) {
        ("OPTIONS", _) => return Ok(answer::options(&resource)),
        ("GET" | "HEAD", _) | ("POST", Resource::Transactions) => {}
        _ => return Err(answer::method_not_allowed()),
    }
    match resource {
        Resource::Root => Ok(answer::root(&stream_url(node, request))),
        Resource::V1 => Ok(answer::v1(&stream_url(node, request))),
        Resource::Transactions if request.method() == "POST" => {
            transactions::post(node, request).await
        }
        Resource::Transactions => transactions::of_asset(node, app, request).await,
        Resource::Transaction(id) => transactions::by_id(node, app, id),
        Resource::Outputs => chain::outputs(app, request),
        Resource::Blocks => chain::blocks_with(app, request),
        Resource::Block(height) => chain::block(node, height).await,
        Resource::Validators => Ok(chain::validators(node)),
        Resource::Assets | Resource::Metadata => Err(chain::search(request)),
    }
}

/// What a path names.
#[derive(Debug, PartialEq, Eq)]
enum Resource<'a> {
    Root,
    V1,
    Transactions,
    Transaction(&'a str),
    Outputs,
    Blocks,
    Block(&'a str),
    Validators,
    Assets,
    Metadata,
}

impl<'a> Resource<'a> {
    /// A slash at the end makes no difference.
    fn of(path: &'a str) -> Option<Self> {
        if path == "/" {
            return Some(Self::Root);
        }
        let path = path.strip_prefix("/api/v1")?;
        let path = path.strip_suffix('/').unwrap_or(path);
        if path.is_empty() {
            return Some(Self::V1);
        }
        let (name, item) = match path.strip_prefix('/')?.split_once('/') {
            Some((name, item)) => (name, Some(item)),
            None => (path.strip_prefix('/')?, None),
        };
        match (name, item) {
            ("transactions", None) => Some(Self::Transactions),
            ("transactions", Some(id)) if !id.contains('/') => Some(Self::Transaction(id)),
            ("outputs", None) => Some(Self::Outputs),
            ("blocks", None) => Some(Self::Blocks),
            ("blocks", Some(height)) if height.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(Self::Block(height))
            }
            ("validators", None) => Some(Self::Validators),
            ("assets", None) => Some(Self::Assets),
            ("metadata", None) => Some(Self::Metadata),
            _ => None,
        }
    }
}

/// Where the event stream is, as the client can reach it: a node that listens everywhere is where
/// the client found it.
fn stream_url(node: &Node, request: &Request) -> String {
    let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
    let address = node.addresses.events.unwrap_or(unspecified);
    let host = request.header("host");
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    match host {
        host if address.ip().is_unspecified() && !host.is_empty() => {
            format!("ws://{host}:{}{}", address.port(), events::PATH)
        }
        _ => format!("ws://{address}{}", events::PATH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_resources_with_and_without_a_slash_at_the_end() {
        for (path, resource) in [
            ("/", Some(Resource::Root)),
            ("/api/v1", Some(Resource::V1)),
            ("/api/v1/", Some(Resource::V1)),
            ("/api/v1/transactions/", Some(Resource::Transactions)),
            (
                "/api/v1/transactions/xyz",
                Some(Resource::Transaction("xyz")),
            ),
            ("/api/v1/blocks/12", Some(Resource::Block("12"))),
            ("/api/v1/blocks/-1", None),
            ("/api/v1/blocks/abc", None),
            ("/api/v1/nothing", None),
            ("/api/v1transactions", None),
            ("/nothing", None),
            ("", None),
        ] {
            assert_eq!(Resource::of(path), resource, "{path}");
        }
    }
}
