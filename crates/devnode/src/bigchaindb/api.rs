//! BigchainDB's HTTP API: transactions in, transactions, outputs and blocks out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bigchain::{Id, Operation, PublicKey, json};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use wire::jsonrpc::BroadcastMethod;
use wire::query::pairs;

use super::application::Bigchaindb;
use super::state::OutputFilter;
use super::stream;
use super::validators::Rejection;
use crate::app::Tx;
use crate::chain::block::Block;
use crate::chain::genesis::POWER;
use crate::chain::store::TxPlace;
use crate::events::Wait;
use crate::host::{Endpoint, Work};
use crate::http::{self, Handler, Limits, Request, Response};
use crate::mempool::Refusal;
use crate::node::Node;
use crate::rpc::take_in;

/// The API of a node.
pub(super) struct Api {
    pub(super) node: Arc<Node>,
    pub(super) app: Arc<Bigchaindb>,
}

/// After this time of silence gunicorn 19 ends a worker, and with it the connection that blocks it.
const WORKER_TIMEOUT: Duration = Duration::from_secs(30);
/// Outputs in one answer at most: 11 MB of them.
const MOST_OUTPUTS: usize = 100_000;
/// Transactions in one answer at most: 10 MB of common ones.
const MOST_TRANSACTIONS: usize = 10_000;
/// The version of the original.
const VERSION: &str = "2.2.2";

impl Api {
    /// Synchronous workers; 0 for none.
    fn server_workers(&self) -> usize {
        self.node.host.config.bigchaindb.server_workers
    }
}

impl Endpoint for Api {
    fn connections(&self) -> usize {
        match self.server_workers() {
            0 => self.node.host.config.rpc.max_open_connections,
            workers => workers,
        }
    }

    fn serve(self: Arc<Self>, stream: TcpStream, _peer: SocketAddr) -> Work<'static, ()> {
        let config = &self.node.host.config;
        let idle = match self.server_workers() {
            0 => config.rpc.idle_timeout,
            _ => WORKER_TIMEOUT,
        };
        let body = config.bigchaindb.max_body_bytes;
        Box::pin(http::serve_plainly(self, Limits { idle, body }, stream))
    }
}

impl Handler for Api {
    async fn answer(&self, request: &Request) -> Response {
        let answer = async {
            self.respond(request)
                .await
                .unwrap_or_else(|refusal| refusal)
        };
        let mut response = self.node.host.answered(answer).await;
        // A synchronous worker serves one request of a connection.
        response.close |= self.server_workers() > 0;
        response
    }
}

/// The answer to a request; the error is one that refuses it.
type Answer = Result<Response, Response>;

impl Api {
    async fn respond(&self, request: &Request) -> Answer {
        if let Some(broken) = request.broken_body {
            return Err(Response {
                close: true,
                ..error(400, broken)
            });
        }
        let path = request.path();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        match (request.method(), &*parts) {
            ("GET", []) => {
                let v1 = links("/api/v1", &self.stream_url(request));
                let root = json!({"api": {"v1": v1}, "software": "BigchainDB", "version": VERSION});
                Ok(value(200, &root))
            }
            ("GET", ["api", "v1"]) => Ok(value(200, &links("", &self.stream_url(request)))),
            ("POST", ["api", "v1", "transactions"]) => self.post(request).await,
            ("GET", ["api", "v1", "transactions"]) => self.of_asset(request).await,
            ("GET", ["api", "v1", "transactions", id]) => self.by_id(id),
            ("GET", ["api", "v1", "outputs"]) => self.outputs(request),
            ("GET", ["api", "v1", "blocks"]) => self.blocks_with(request),
            ("GET", ["api", "v1", "blocks", height]) => self.block(height).await,
            ("GET", ["api", "v1", "validators"]) => Ok(self.validators()),
            _ => Err(not_found()),
        }
    }

    /// Where the event stream is, as the client can reach it: a node that listens everywhere is where
    /// the client found it.
    fn stream_url(&self, request: &Request) -> String {
        let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
        let address = self
            .node
            .host
            .address(stream::SERVICE)
            .unwrap_or(unspecified);
        let host = request.header("host");
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
        if address.ip().is_unspecified() && !host.is_empty() {
            format!("ws://{host}:{}{}", address.port(), stream::PATH)
        } else {
            format!("ws://{address}{}", stream::PATH)
        }
    }

    /// Takes a transaction. What is posted is checked and handed over also if the client goes: the
    /// original's workers do not see that.
    async fn post(&self, request: &Request) -> Answer {
        let mode = argument(request, "mode").unwrap_or_else(|| "async".to_owned());
        let name = format!("broadcast_tx_{}", mode.to_lowercase());
        let mode = BroadcastMethod::of(name.as_bytes())
            .ok_or_else(|| error(400, "mode must be async, sync or commit"))?;
        let counters = &self.node.host.counters;
        counters.broadcasts.fetch_add(1, Ordering::Relaxed);
        let (tell, queued) = oneshot::channel();
        let body = Bytes::copy_from_slice(&request.body);
        let (node, app) = (Arc::clone(&self.node), Arc::clone(&self.app));
        let check = async move { check_and_hand_over(&node, &app, (body, mode), tell).await };
        let handed_over = tokio::select! {
            biased;
            // As the original's `async`, which returns before `CheckTx`.
            Ok(text) = queued, if mode == BroadcastMethod::Async => {
                return Ok(json_text(202, text.to_vec()));
            }
            handed_over = self.node.finish(check) => handed_over?,
        };
        if let Some(mut wait) = handed_over.wait {
            let limit = self.node.host.config.rpc.timeout_broadcast_tx_commit;
            match tokio::time::timeout(limit, wait.committed()).await {
                Ok(Some(committed)) => passed(committed.code)?,
                Ok(None) => return Err(error(500, "the node is stopping")),
                Err(_) => return Err(error(500, "timed out waiting for the block")),
            }
        }
        Ok(json_text(202, handed_over.text.to_vec()))
    }

    fn by_id(&self, id: &str) -> Answer {
        let place = id.parse::<Id>().ok();
        let place = place.and_then(|id| self.app.state().place(&id));
        let text = place.and_then(|place| stored(&self.node, place));
        let text = text.ok_or_else(not_found)?;
        Ok(json_text(200, text.into_bytes()))
    }

    async fn of_asset(&self, request: &Request) -> Answer {
        let asset: Option<Id> =
            argument(request, "asset_id").and_then(|id| id.to_lowercase().parse().ok());
        let asset = asset.ok_or_else(|| error(400, "asset_id must be an id"))?;
        let operation = argument(request, "operation").map(|name| name.to_uppercase());
        let operation = match operation.as_deref() {
            None => None,
            Some("CREATE") => Some(Operation::Create),
            Some("TRANSFER") => Some(Operation::Transfer),
            Some(_) => return Err(error(400, "operation must be CREATE or TRANSFER")),
        };
        let mut places = self.app.state().of_asset(&asset, operation);
        if truth(request, "last_tx")? == Some(true) {
            places.drain(..places.len().saturating_sub(1));
        }
        if places.len() > MOST_TRANSACTIONS {
            let count = places.len();
            let instead = "ask with last_tx=true, or follow the blocks";
            let why = format!("{count} transactions are more than one answer holds: {instead}");
            return Err(error(400, &why));
        }
        let texts = |node: &Node| list(places.into_iter().filter_map(|place| stored(node, place)));
        let texts = self.node.read(texts).await;
        Ok(json_text(200, texts.into_bytes()))
    }

    fn outputs(&self, request: &Request) -> Answer {
        let key: Option<PublicKey> =
            argument(request, "public_key").and_then(|key| key.parse().ok());
        let key = key.ok_or_else(|| error(400, "public_key must be a key in base58"))?;
        let filter = match truth(request, "spent")? {
            None => OutputFilter::All,
            Some(true) => OutputFilter::Spent,
            Some(false) => OutputFilter::Unspent,
        };
        let found = self.app.state().outputs(&key, filter);
        if found.len() > MOST_OUTPUTS {
            let count = found.len();
            let instead = "ask with spent=false or spent=true, or follow the blocks";
            let why = format!("{count} outputs are more than one answer holds: {instead}");
            return Err(error(400, &why));
        }
        let found = found.into_iter().map(|output| {
            let transaction = output.transaction.to_string();
            json!({"output_index": output.index, "transaction_id": transaction})
        });
        Ok(value(200, &found.collect()))
    }

    fn blocks_with(&self, request: &Request) -> Answer {
        let id = argument(request, "transaction_id");
        let id = id.ok_or_else(|| error(400, "transaction_id is missing"))?;
        let place = id.parse().ok().and_then(|id| self.app.state().place(&id));
        let heights: Vec<u64> = place.into_iter().map(|place| place.height).collect();
        Ok(value(200, &Value::from(heights)))
    }

    async fn block(&self, height: &str) -> Answer {
        let height: Option<u64> = height.parse().ok();
        if height == Some(0) {
            let body = br#"{"height": 0, "transactions": []}"#;
            return Ok(json_text(200, body.to_vec()));
        }
        let block = height.and_then(|height| self.node.store().block(height).cloned());
        let block = block.ok_or_else(not_found)?;
        let body = self.node.read(move |_| block_text(&block)).await;
        Ok(json_text(200, body.into_bytes()))
    }

    fn validators(&self) -> Response {
        let key = base64_simd::STANDARD.encode_to_string(self.node.genesis.validator);
        let key = json!({"type": "ed25519-base64", "value": key});
        value(200, &json!([{"public_key": key, "voting_power": POWER}]))
    }
}

/// A transaction that is in the mempool.
struct HandedOver {
    /// Its text in the original's form.
    text: Bytes,
    /// Until it is in a block, if the mode asks for that.
    wait: Option<Wait>,
}

/// Checks a body and puts its transaction into the mempool. `queued` gets the text when only the
/// check by Tendermint is left.
async fn check_and_hand_over(
    node: &Node,
    app: &Bigchaindb,
    (body, mode): (Bytes, BroadcastMethod),
    queued: oneshot::Sender<Bytes>,
) -> Result<HandedOver, Response> {
    let checked = app.validate(body).await.map_err(|rejection| {
        let refused = &node.host.counters.refused;
        refused.fetch_add(1, Ordering::Relaxed);
        match rejection {
            Rejection::Refused(why) => error(400, &why.to_string()),
            Rejection::Abandoned => error(500, &rejection.to_string()),
        }
    })?;
    let tx = Tx {
        learnt: Some(checked.effect),
        ..Tx::new(checked.text)
    };
    let text = tx.bytes.clone();
    let waits = mode == BroadcastMethod::Commit;
    let wait = waits.then(|| node.bus.wait_inside(&tx.hash));
    let tell = || drop(queued.send(text.clone()));
    let code = take_in(node, tx, tell).await;
    // The original answers 500 where its Tendermint refuses, but for a transaction that it has seen.
    let code = code.map_err(|refusal| match refusal {
        Refusal::InCache => error(400, &refusal.to_string()),
        other => error(500, &other.to_string()),
    });
    passed(code?)?;
    Ok(HandedOver { text, wait })
}

fn passed(code: u32) -> Result<(), Response> {
    if code == 0 {
        Ok(())
    } else {
        Err(error(500, "Transaction validation failed"))
    }
}

/// An argument in the URI.
fn argument(request: &Request, name: &str) -> Option<String> {
    let mut given = pairs(request.query().as_bytes());
    let (_, value) = given.find(|(known, _)| known.as_ref() == name.as_bytes())?;
    Some(String::from_utf8_lossy(&value).into_owned())
}

fn truth(request: &Request, name: &str) -> Result<Option<bool>, Response> {
    let value = argument(request, name).map(|value| value.to_lowercase().parse());
    let wrong = |_| error(400, &format!("{name} must be true or false"));
    value.transpose().map_err(wrong)
}

/// The text of a committed transaction; none if its block is not kept.
fn stored(node: &Node, place: TxPlace) -> Option<String> {
    let block = node.store().block(place.height).cloned()?;
    let tx = block.txs.get(usize::try_from(place.index).ok()?)?;
    text_of(tx)
}

/// The text of a transaction in the original's form, however it came.
fn text_of(tx: &Tx) -> Option<String> {
    let body = json::parse(&tx.bytes).ok()?;
    Some(json::default_text(&body))
}

fn block_text(block: &Block) -> String {
    let txs = block.txs.iter().enumerate();
    let valid = txs.filter(|(index, _)| block.code(*index) == 0);
    let transactions = list(valid.filter_map(|(_, tx)| text_of(tx)));
    let height = block.header.height;
    format!(r#"{{"height": {height}, "transactions": {transactions}}}"#)
}

/// A JSON list of texts that are JSON.
fn list(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<String> = texts.collect();
    format!("[{}]", texts.join(", "))
}

/// An answer with a JSON body that is written already.
fn json_text(status: u16, mut body: Vec<u8>) -> Response {
    body.push(b'\n');
    Response::new(status, "application/json", body)
}

fn value(status: u16, value: &Value) -> Response {
    json_text(status, value.to_string().into_bytes())
}

fn error(status: u16, message: &str) -> Response {
    value(status, &json!({"message": message, "status": status}))
}

fn not_found() -> Response {
    error(404, "Not found")
}

fn links(prefix: &str, streams: &str) -> Value {
    json!({
        "blocks": format!("{prefix}/blocks/"),
        "outputs": format!("{prefix}/outputs/"),
        "streams": streams,
        "transactions": format!("{prefix}/transactions/"),
        "validators": format!("{prefix}/validators"),
    })
}
