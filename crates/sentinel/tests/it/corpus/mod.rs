//! Requests in every form that clients use, and in those that they get wrong.

mod before;
mod queries;

use std::time::Duration;

pub(crate) use before::before_any_transaction;
pub(crate) use queries::queries;

/// An HTTP request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn get(path: &str) -> Self {
        Self {
            method: "GET",
            path: path.to_owned(),
            headers: Vec::new(),
            body: String::new(),
        }
    }

    pub(crate) fn post(body: &str) -> Self {
        Self {
            method: "POST",
            path: "/".to_owned(),
            headers: Vec::new(),
            body: body.to_owned(),
        }
    }

    /// A JSON-RPC call with id 1.
    fn call(method: &str, params: &str) -> Self {
        Self::post(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#
        ))
    }

    pub(crate) fn name(&self) -> String {
        let body: String = self.body.chars().take(120).collect();
        format!("{} {} {body}", self.method, self.path)
    }
}

/// Messages on one WebSocket, and how long to listen for events after the last answer.
#[derive(Debug, Clone)]
pub(crate) struct Conversation {
    pub(crate) name: &'static str,
    pub(crate) messages: Vec<String>,
    pub(crate) listen: Duration,
}

fn gets(paths: &[&str]) -> Vec<Request> {
    paths.iter().map(|path| Request::get(path)).collect()
}

fn posts(bodies: &[&str]) -> Vec<Request> {
    bodies.iter().map(|body| Request::post(body)).collect()
}

/// Requests that make blocks; each is followed by rest.
pub(crate) fn transactions() -> Vec<Request> {
    vec![
        Request::get("/broadcast_tx_commit?tx=\"a=1\""),
        Request::get("/broadcast_tx_commit?tx=0x623d32"),
        Request::call("broadcast_tx_commit", r#"{"tx":"Yz0z"}"#),
        Request::call("broadcast_tx_commit", r#"{"tx":"Yz0z"}"#),
        Request::call("broadcast_tx_commit", r#"{"tx":"YmFk"}"#),
        Request::call("broadcast_tx_sync", r#"{"tx":"ZD00"}"#),
        Request::call("broadcast_tx_async", r#"{"tx":"ZT01"}"#),
        Request::call("broadcast_tx_sync", r#"["Zj02"]"#),
        Request::call("broadcast_tx_sync", "[[103,61,55]]"),
        Request::post(r#"{"id":"text","method":"broadcast_tx_sync","params":{"tx":"aD04"}}"#),
        Request::get("/broadcast_tx_commit?tx=\"<k>=<v>&\""),
        Request::get("/broadcast_tx_commit?tx=0x6bff3d76fe"),
        Request::post(&format!(
            "[{},{},{}]",
            r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"aTE9MQ=="}}"#,
            r#"{"id":2,"method":"broadcast_tx_sync","params":{"tx":"aTE9MQ=="}}"#,
            r#"{"id":3,"method":"broadcast_tx_async","params":{"tx":"YmFk"}}"#,
        )),
    ]
}

/// Conversations over a WebSocket.
pub(crate) fn conversations() -> Vec<Conversation> {
    let talk = |name, messages: &[&str]| Conversation {
        name,
        messages: messages.iter().map(|text| (*text).to_owned()).collect(),
        listen: Duration::from_millis(600),
    };
    vec![
        talk(
            "plain",
            &[
                r#"{"jsonrpc":"2.0","id":1,"method":"health"}"#,
                r#"{"jsonrpc":"2.0","id":"b","method":"status","params":{}}"#,
                r#"{"jsonrpc":"2.0","method":"health"}"#,
                r#"{"jsonrpc":"2.0","id":3,"method":"nope"}"#,
                r#"{"id":4,"method":"block","params":{"height":"2"}}"#,
                r#"{"id":4,"method":"block","params":{"height":2}}"#,
                r#"{"id":4,"method":"block"}"#,
                r#"{"id":4,"method":"block","params":["1","2"]}"#,
                r#"{"id":5,"method":"health"} trailing"#,
                r#"{"id":true,"method":"health"}"#,
                r#"[{"id":6,"method":"health"}]"#,
                "{",
                "nope",
                "",
                "null",
                r#"{"id":7,"method":"broadcast_tx_sync","params":{"tx":"bad"}}"#,
                r#"{"id":7,"method":"broadcast_tx_sync","params":{"tx":"YmFk"}}"#,
                r#"{"id":7,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
                r#"{"id":8,"method":"tx","params":{"hash":"zz"}}"#,
            ],
        ),
        talk(
            "subscriptions and their errors",
            &[
                r#"{"id":1,"method":"subscribe","params":{"query":"tm.event='NewBlock'"}}"#,
                r#"{"id":2,"method":"subscribe","params":["tm.event = 'NewBlock'"]}"#,
                r#"{"id":3,"method":"subscribe","params":{"query":"a ="}}"#,
                r#"{"id":3,"method":"subscribe","params":{}}"#,
                r#"{"id":3,"method":"subscribe"}"#,
                r#"{"id":3,"method":"subscribe","params":{"query":"a b"}}"#,
                r#"{"id":3,"method":"subscribe","params":{"query":"a = 1 AND"}}"#,
                r#"{"id":3,"method":"subscribe","params":{"query":"a = 1 OR b = 2"}}"#,
                r#"{"id":3,"method":"subscribe","params":{"query":"a ~ 1"}}"#,
                r#"{"id":3,"method":"subscribe","params":{"query":5}}"#,
                r#"{"id":4,"method":"subscribe","params":{"query":"a EXISTS"}}"#,
                r#"{"id":4,"method":"subscribe","params":{"query":"a CONTAINS 'x'"}}"#,
                r#"{"id":4,"method":"subscribe","params":{"query":"a >= 5.5"}}"#,
                r#"{"id":4,"method":"subscribe","params":{"query":"a < DATE 2020-01-01"}}"#,
                r#"{"id":4,"method":"subscribe","params":{"query":"a < TIME 2020-01-01T00:00:00Z"}}"#,
                r#"{"id":5,"method":"unsubscribe","params":{"query":"a  EXISTS"}}"#,
                r#"{"id":5,"method":"unsubscribe","params":{"query":"a EXISTS"}}"#,
                r#"{"id":5,"method":"unsubscribe","params":{"query":""}}"#,
                r#"{"id":6,"method":"unsubscribe_all"}"#,
                r#"{"id":6,"method":"unsubscribe_all","params":{}}"#,
            ],
        ),
        talk(
            "events of a transaction",
            &[
                r#"{"id":"block","method":"subscribe","params":{"query":"tm.event='NewBlock'"}}"#,
                r#"{"id":"header","method":"subscribe","params":{"query":"tm.event = 'NewBlockHeader'"}}"#,
                r#"{"id":"events","method":"subscribe","params":{"query":"tm.event='NewBlockEvents'"}}"#,
                r#"{"id":"tx","method":"subscribe","params":{"query":"tm.event='Tx' AND app.key='ws1'"}}"#,
                r#"{"id":5,"method":"broadcast_tx_sync","params":{"tx":"d3MxPTE="}}"#,
            ],
        ),
        talk(
            "events by height and hash",
            &[
                r#"{"id":"low","method":"subscribe","params":{"query":"tm.event='Tx' AND tx.height<3"}}"#,
                r#"{"id":"high","method":"subscribe","params":{"query":"tm.event='Tx' AND tx.height>3"}}"#,
                r#"{"id":"hash","method":"subscribe","params":{"query":"tm.event='Tx' AND tx.hash='12C9E8A1A7D93F0F'"}}"#,
                r#"{"id":5,"method":"broadcast_tx_commit","params":{"tx":"d3MyPTE="}}"#,
            ],
        ),
    ]
}

/// Requests that fill a mempool of two transactions and 60 bytes.
pub(crate) fn filling() -> Vec<Request> {
    vec![
        Request::get(&format!("/broadcast_tx_sync?tx=\"{}=1\"", "k".repeat(60))),
        Request::get(&format!("/broadcast_tx_sync?tx=\"{}=1\"", "k".repeat(50))),
        Request::get(&format!("/broadcast_tx_sync?tx=\"{}=1\"", "k".repeat(45))),
        Request::get(&format!("/broadcast_tx_sync?tx=\"{}=2\"", "k".repeat(45))),
        Request::get("/broadcast_tx_sync?tx=\"bad\""),
        Request::get("/broadcast_tx_sync?tx=\"l=1\""),
        Request::get("/broadcast_tx_sync?tx=\"l=2\""),
        Request::get("/broadcast_tx_async?tx=\"l=3\""),
        Request::get("/broadcast_tx_commit?tx=\"l=4\""),
        Request::get("/broadcast_tx_sync?tx=\"bad\""),
        Request::call("broadcast_tx_sync", r#"{"tx":"YT0x"}"#),
        Request::get("/num_unconfirmed_txs"),
        Request::get("/unconfirmed_txs"),
        Request::get("/unconfirmed_txs?limit=1"),
    ]
}
