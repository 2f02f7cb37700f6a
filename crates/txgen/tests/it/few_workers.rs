//! A BigchainDB as gunicorn serves it: a few synchronous workers, each of which takes a connection, waits
//! on it for one request, answers, and ends the connection.

use std::sync::{Arc, Condvar, Mutex};

use testkit::{ScriptedConnection, ScriptedServer};

use crate::support::Place;

/// The server, and where it tells of commits.
struct BigchainDb {
    api: ScriptedServer,
    _events: ScriptedServer,
    chain: Arc<Chain>,
}

struct Chain {
    /// The id of the one transaction of block 1, 2, …; `None` at the end.
    ids: Mutex<Option<Vec<String>>>,
    changed: Condvar,
}

/// How many connections are served at once.
struct Workers {
    idle: Mutex<usize>,
    released: Condvar,
}

impl BigchainDb {
    fn start(workers: usize) -> Self {
        let chain = Arc::new(Chain {
            ids: Mutex::new(Some(Vec::new())),
            changed: Condvar::new(),
        });
        let served = chain.clone();
        let events = {
            let chain = chain.clone();
            ScriptedServer::start(move |connection| tell(&chain, connection))
        };
        let streams = events
            .ws_url()
            .replace("/websocket", "/api/v1/streams/valid_transactions");
        let workers = Workers {
            idle: Mutex::new(workers),
            released: Condvar::new(),
        };
        let api = ScriptedServer::start(move |connection| {
            // A worker is held from the connection on, whether it says something or not.
            let idle = workers.idle.lock().unwrap();
            *workers
                .released
                .wait_while(idle, |idle| *idle == 0)
                .unwrap() -= 1;
            serve(&served, &streams, connection);
            *workers.idle.lock().unwrap() += 1;
            workers.released.notify_one();
        });
        Self {
            api,
            _events: events,
            chain,
        }
    }
}

impl Drop for BigchainDb {
    fn drop(&mut self) {
        *self.chain.ids.lock().unwrap() = None;
        self.chain.changed.notify_all();
    }
}

/// One request.
fn serve(chain: &Chain, streams: &str, connection: &mut ScriptedConnection) {
    let Some(request) = connection.read_request() else {
        return;
    };
    let path = request.head.split(' ').nth(1).unwrap_or_default();
    let (status, body) = if request.head.starts_with("POST") {
        let tx: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        let id = tx["id"].as_str().unwrap().to_owned();
        chain.ids.lock().unwrap().as_mut().unwrap().push(id);
        chain.changed.notify_all();
        (202, tx.to_string())
    } else if let Some(height) = path.strip_prefix("/api/v1/blocks/") {
        let height: usize = height.parse().unwrap();
        let ids = chain.ids.lock().unwrap().clone().unwrap_or_default();
        match height.checked_sub(1).and_then(|place| ids.get(place)) {
            Some(id) => (
                200,
                format!(r#"{{"height": {height}, "transactions": [{{"id": "{id}"}}]}}"#),
            ),
            None => (404, r#"{"message": "Not found", "status": 404}"#.to_owned()),
        }
    } else {
        let about = format!(
            r#"{{"api": {{"v1": {{"streams": "{streams}"}}}}, "software": "BigchainDB", "version": "2.2.2"}}"#
        );
        (200, about)
    };
    connection.send(format!(
        "HTTP/1.1 {status} Scripted\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
}

/// The event stream: every transaction in a block of its own.
fn tell(chain: &Chain, connection: &mut ScriptedConnection) {
    if !connection.accept_websocket() {
        return;
    }
    let mut told = 0;
    let mut ids = chain.ids.lock().unwrap();
    while let Some(known) = &*ids {
        for id in &known[told..] {
            told += 1;
            connection.send_text(format!(
                r#"{{"height": {told}, "asset_id": "{id}", "transaction_id": "{id}"}}"#
            ));
        }
        ids = chain.changed.wait(ids).unwrap();
    }
}

/// With a connection opened ahead on each worker, nothing was ever served; and each end after an answer
/// counted as an outage.
#[test]
fn a_server_with_two_workers_is_neither_starved_nor_called_broken() {
    let server = BigchainDb::start(2);
    let place = Place::new();
    let ended = place.txgen(&format!(
        "constant --rate 40 --duration 2s --target bigchaindb --connections 16 --out run --endpoints {}",
        server.api.http_url()
    ));
    let run = place.run("run");
    let summary = run.summary();
    ended.ends_as_judged(0, &summary);
    summary.assert_all_committed(80);
    assert_eq!(summary.count("reconnects.broken"), 0);
    assert_eq!(summary.count("blocks.polled"), 0);
}

/// Answers every POST with the same, and has no block; gives the ids that were posted.
fn answering(
    reply: Option<&'static str>,
) -> (ScriptedServer, ScriptedServer, Arc<Mutex<Vec<String>>>) {
    let posted = Arc::new(Mutex::new(Vec::new()));
    let events = ScriptedServer::start(|connection| {
        if connection.accept_websocket() {
            connection.read_frame();
        }
    });
    let streams = events.ws_url();
    let ids = posted.clone();
    let api = ScriptedServer::start(move |connection| {
        let Some(request) = connection.read_request() else {
            return;
        };
        let about = format!(
            r#"{{"api": {{"v1": {{"streams": "{streams}"}}}}, "software": "BigchainDB", "version": "2.2.2"}}"#
        );
        let (status, body) = if request.head.starts_with("POST") {
            let tx: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
            ids.lock()
                .unwrap()
                .push(tx["id"].as_str().unwrap().to_owned());
            let Some(reply) = reply else {
                return;
            };
            reply.split_once(' ').unwrap()
        } else if request.head.starts_with("GET / ") {
            ("200", about.as_str())
        } else {
            ("404", "{}")
        };
        connection.send(format!(
            "HTTP/1.1 {status} Scripted\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
    });
    (api, events, posted)
}

/// Of a whole load in flight nobody could say which one had stopped the node.
#[test]
fn a_node_that_stops_at_its_first_transaction_is_named_with_it() {
    for (reply, became) in [
        (None, "did not answer"),
        (Some("202 {}"), "no block has it"),
    ] {
        let (api, _events, posted) = answering(reply);
        let ended = Place::new().txgen(&format!(
            "flood --count 50 --concurrency 10 --target bigchaindb --drain-timeout 1s --out run --endpoints {}",
            api.http_url()
        ));
        let posted = posted.lock().unwrap();
        assert_eq!(posted.len(), 1, "{}", ended.err);
        ended.expect(1).says(became).says(&posted[0]);
    }
}

#[test]
fn a_refusal_of_the_first_transaction_is_an_answer_and_the_load_begins() {
    let (api, _events, posted) = answering(Some(r#"400 {"message": "Invalid transaction"}"#));
    let place = Place::new();
    let ended = place.txgen(&format!(
        "flood --count 5 --concurrency 1 --target bigchaindb --drain-timeout 1s --out run --endpoints {}",
        api.http_url()
    ));
    ended.says("which went alone: 400: Invalid transaction");
    assert_eq!(place.run("run").summary().count("fate.rejected"), 5);
    assert_eq!(posted.lock().unwrap().len(), 6);
}
