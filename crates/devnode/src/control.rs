//! The control endpoint: faults over HTTP, for a node that runs as a program of its own.
//!
//! `GET /` lists the commands, `GET /state` shows counters and levels, and each fault is a POST with a JSON object.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::net::TcpStream;

use crate::duration;
use crate::faults::{FailedExecution, Faults, Garbage};
use crate::host::{BlockMaker, Endpoint, Host, Work};
use crate::http::{self, Handler, Limits, Request, Response};

const HELP: &str = include_str!("control.txt");

/// Bounds of a connection.
const LIMITS: Limits = Limits {
    idle: Duration::from_secs(60),
    body: 64 << 10,
};
/// Connections at a time.
const CONNECTIONS: usize = 64;

/// The endpoint.
pub(crate) struct Control {
    host: Arc<Host>,
    maker: Arc<dyn BlockMaker>,
}

impl Control {
    pub(crate) fn new(host: &Arc<Host>, maker: &Arc<dyn BlockMaker>) -> Self {
        Self {
            host: Arc::clone(host),
            maker: Arc::clone(maker),
        }
    }
}

impl Endpoint for Control {
    fn connections(&self) -> usize {
        CONNECTIONS
    }

    fn is_of_the_node(&self) -> bool {
        false
    }

    fn serve(self: Arc<Self>, stream: TcpStream, _peer: SocketAddr) -> Work<'static, ()> {
        Box::pin(http::serve_plainly(self, LIMITS, stream))
    }
}

impl Handler for Control {
    async fn answer(&self, request: &Request) -> Response {
        answer(self, request)
    }
}

/// A span of time; each command has a name of its own for it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Span {
    #[serde(alias = "for", alias = "delay", alias = "down", with = "duration")]
    span: Duration,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Switch {
    on: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    kind: Option<Garbage>,
}

/// Answers one command.
fn answer(control: &Control, request: &Request) -> Response {
    let path = request.path();
    if request.method() == "GET" {
        return match path {
            "/" => Response::text(200, HELP),
            "/state" => {
                let state = control.host.snapshot(&*control.maker);
                json(serde_json::to_string(&state).unwrap_or_default())
            }
            _ => unknown(path),
        };
    }
    if let Some(broken) = request.broken_body {
        return Response::text(400, format!("the body cannot be read: {broken}\n"));
    }
    match command(&control.host.faults, path, &request.body) {
        Some(Ok(())) => json("{\"ok\":true}\n".to_owned()),
        Some(Err(error)) => {
            Response::text(400, format!("{error}; GET / shows what {path} takes\n"))
        }
        None => unknown(path),
    }
}

/// Carries a command out; none if there is no such command.
fn command(faults: &Faults, path: &str, body: &[u8]) -> Option<Result<(), serde_json::Error>> {
    Some(match path {
        "/stall" => read(body).map(|Span { span }| faults.stall(span)),
        "/refuse" => read(body).map(|Span { span }| faults.refuse_connections(span)),
        "/mempool-full" => read(body).map(|Switch { on }| faults.set_mempool_full(on)),
        "/slow" => read(body).map(|Span { span }| faults.slow_answers(span)),
        "/restart" => read(body).map(|Span { span }| faults.restart(span)),
        "/garbage" => read(body).map(|Kind { kind }| faults.answer_garbage(kind)),
        "/fail-execution" => read(body).map(|failing: FailedExecution| {
            faults.fail_execution((failing.code != 0).then_some(failing));
        }),
        "/drop-connections" => read(body).map(|IgnoredAny| faults.drop_connections()),
        "/halt" => read(body).map(|IgnoredAny| faults.halt()),
        "/resume" => read(body).map(|IgnoredAny| faults.resume()),
        "/clear" => read(body).map(|IgnoredAny| faults.clear()),
        _ => return None,
    })
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(if body.is_empty() { b"{}" } else { body })
}

fn unknown(path: &str) -> Response {
    Response::text(404, format!("no command {path}\n{HELP}"))
}

fn json(body: String) -> Response {
    Response::new(200, "application/json", body.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn commands_are_carried_out_or_explained() {
        let faults = Faults::new();
        assert!(
            command(&faults, "/mempool-full", br#"{"on":true}"#)
                .unwrap()
                .is_ok()
        );
        assert!(faults.now().mempool_full);
        assert!(
            command(&faults, "/garbage", br#"{"kind":"wrong-id"}"#)
                .unwrap()
                .is_ok()
        );
        assert_eq!(faults.now().garbage, Some(Garbage::WrongId));
        assert!(
            command(&faults, "/stall", br#"{"for":"soon"}"#)
                .unwrap()
                .unwrap_err()
                .to_string()
                .contains("1.5s")
        );
        assert!(
            command(&faults, "/stall", br#"{"for":"1s","x":1}"#)
                .unwrap()
                .is_err()
        );
        assert!(command(&faults, "/nope", b"{}").is_none());
        assert!(command(&faults, "/clear", b"{}").unwrap().is_ok());
        assert!(!faults.now().mempool_full);
    }
}
