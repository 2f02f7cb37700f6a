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
