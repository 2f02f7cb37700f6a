//! Requests in every form that clients use, and in those that they get wrong.

use std::time::Duration;

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

/// Requests to chains of one empty block.
pub(crate) fn before_any_transaction() -> Vec<Request> {
    let mut requests = gets(&[
        "/",
        "/health",
        "/status",
        "/net_info",
        "/genesis",
        "/genesis_chunked",
        "/genesis_chunked?chunk=0",
        "/genesis_chunked?chunk=3",
        "/block",
        "/block?height=1",
        "/block_results",
        "/block_results?height=1",
        "/commit",
        "/header",
        "/validators",
        "/consensus_params",
        "/abci_info",
        "/num_unconfirmed_txs",
        "/unconfirmed_txs",
        "/blockchain",
        "/consensus_state",
        "/dump_consensus_state",
        "/subscribe?query=x",
        "/unsubscribe",
        "/nope",
        "/block/",
        "/status?x=1",
        "/websocket",
    ]);
    requests.extend(posts(&[
        "{",
        "nope",
        "null",
        "\"x\"",
        "5",
        "true",
        "[]",
        "[1]",
        " ",
        "{}",
        "[null]",
        "{\"id\":1}",
        "{\"id\":\"\"}",
        r#"{"id":1,"method":""}"#,
        r#"{"id":1,"method":"nope"}"#,
        r#"{"id":null,"method":"health"}"#,
        r#"{"method":"health"}"#,
        r#"{"id":{},"method":"health"}"#,
        r#"{"id":{"a":[1,"x",null,true]},"method":"health"}"#,
        r#"{"id":[1,2],"method":"health"}"#,
        r#"{"id":true,"method":"health"}"#,
        r#"{"id":1e400,"method":"health"}"#,
        r#"{"id":1.9,"method":"health"}"#,
        r#"{"id":-3,"method":"health"}"#,
        r#"{"id":12345678901234567890,"method":"health"}"#,
        r#"{"id":9007199254740993,"method":"health"}"#,
        r#"{"id":"a\"<b>\u00e9","method":"health"}"#,
        r#"{"ID":7,"METHOD":"health","Jsonrpc":"1.0"}"#,
        r#"{"id":1,"id":2,"method":"nope","method":"health"}"#,
        r#"{"id":1,"method":3}"#,
        r#"{"id":1,"method":null}"#,
        r#"{"id":1,"jsonrpc":2.0,"method":"health"}"#,
        r#"{"id":1,"method":"health","params":null}"#,
        r#"{"id":1,"method":"health","params":[]}"#,
        r#"{"id":1,"method":"health","params":[1]}"#,
        r#"{"id":1,"method":"health","params":{"x":1}}"#,
        r#"{"id":1,"method":"health","params":"x"}"#,
        r#"{"id":1,"method":"health","params":5}"#,
        r#"{"id":1,"method":"block"}"#,
        r#"{"id":1,"method":"subscribe","params":{"query":"tm.event='Tx'"}}"#,
        r#"{"id":1,"method":"health"} x"#,
        r#"{"id":1,"method":"health",}"#,
        r#"[{"id":1,"method":"health"}]"#,
        r#"[{"id":1,"method":"health"},{"id":"b","method":"nope"}]"#,
        r#"[{"id":1,"method":"health"},{"method":"health"}]"#,
        r#"[{"method":"health"},{"method":"health"}]"#,
        r#"[{"id":1,"method":"health"},{"id":2,"method":"block"}]"#,
        r#"[{"id":1,"method":"genesis"},{"id":2,"method":"abci_info"}]"#,
        r#"[{"id":1,"method":"genesis"},{"id":2,"method":"health"}]"#,
        r#"[{"id":1,"method":"health"},5]"#,
        r#" [{"id":1,"method":"health"}] "#,
    ]));
    requests.push(Request::post(&format!(
        "[{}]",
        [r#"{"id":1,"method":"health"}"#; 10].join(",")
    )));
    requests.push(Request::post(&format!(
        "[{}]",
        [r#"{"id":1,"method":"health"}"#; 11].join(",")
    )));
    requests.push(Request {
        path: "/foo".to_owned(),
        ..Request::post(r#"{"id":1,"method":"health"}"#)
    });
    for method in ["HEAD", "OPTIONS", "DELETE", "PUT"] {
        requests.push(Request {
            method,
            ..Request::get("/health")
        });
    }
    requests.push(Request {
        method: "PUT",
        ..Request::post(r#"{"id":1,"method":"health"}"#)
    });
    requests.push(Request {
        path: "/check_tx".to_owned(),
        headers: vec![("Content-Type", "application/x-www-form-urlencoded")],
        ..Request::post("tx=%22a%3D1%22")
    });
    requests.push(Request {
        method: "POST",
        headers: vec![("Upgrade", "websocket"), ("Connection", "Upgrade")],
        ..Request::get("/websocket")
    });
    requests.push(Request {
        headers: vec![("Upgrade", "websocket")],
        ..Request::get("/websocket")
    });
    requests
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

/// Questions about the chains that [`transactions`] made.
pub(crate) fn queries() -> Vec<Request> {
    // Hash of `a=1`.
    const HASH: &str = "C22FEA5D7428E5CF47EF6354C97C9223C95D6DCDC3E0D2300FF79056B1FF3D85";
    let mut requests = gets(&[
        "/status",
        "/abci_info",
        "/num_unconfirmed_txs",
        "/unconfirmed_txs?limit=0",
        "/unconfirmed_txs?limit=x",
        "/block?height=2",
        "/block?height=\"3\"",
        "/block?height=0",
        "/block?height=-5",
        "/block?height=99999",
        "/block?height=abc",
        "/block?height=0x12",
        "/block?height=1.5",
        "/block?height=",
        "/block?height=null",
        "/block?height=99999999999999999999",
        "/block?height=\"x\"",
        "/block?height=3&height=4",
        "/block?height=%33",
        "/block_results?height=2",
        "/block_results?height=3",
        "/commit?height=2",
        "/header?height=2",
        "/block",
        "/block_results",
        "/commit",
        "/header",
        "/validators",
        "/consensus_params",
        "/validators?height=1",
        "/validators?height=1&page=1&per_page=5",
        "/validators?height=1&page=2",
        "/validators?page=0",
        "/validators?page=-1",
        "/validators?page=x",
        "/consensus_params?height=1",
        "/consensus_params?height=5000",
        "/blockchain",
        "/blockchain?minHeight=2&maxHeight=4",
        "/blockchain?minHeight=5&maxHeight=4",
        "/blockchain?minHeight=-1",
        "/blockchain?maxHeight=9999",
        "/blockchain?minHeight=\"2\"&maxHeight=\"3\"",
        "/tx?hash=0xAB",
        "/tx?hash=zz",
        "/tx",
        "/tx?hash=0xabc",
        "/tx?hash=0xzz",
        "/tx?hash=\"x\"",
        "/tx_search",
        "/tx_search?query=\"\"",
        "/tx_search?query=tx.height=2",
        "/tx_search?query=\"tx.height=2\"",
        "/tx_search?query=\"tx.height=2\"&prove=true",
        "/tx_search?query=\"tx.height>2\"&per_page=2",
        "/tx_search?query=\"tx.height>2\"&per_page=2&page=2",
        "/tx_search?query=\"tx.height>2\"&order_by=\"desc\"",
        "/tx_search?query=\"tx.height>2\"&order_by=\"up\"",
        "/tx_search?query=\"tx.height>2\"&page=9",
        "/tx_search?query=\"app.key='a'\"",
        "/tx_search?query=\"app.key='1'\"",
        "/tx_search?query=\"app.noindex_key='index is working'\"",
        "/tx_search?query=\"app.creator='Cosmoshi' AND tx.height<5\"",
        "/tx_search?query=\"tx.hash='zz'\"",
        "/tx_search?query=\"tx.hash='AB'\"",
        "/tx_search?query=\"tx.height\"",
        "/tx_search?query=\"= 1\"",
        "/tx_search?query=\"tx.height = 'x\"",
        "/tx_search?query=\"tx.height=2 OR tx.height=3\"",
        "/block_by_hash",
        "/block_by_hash?hash=0xAB",
        "/header_by_hash?hash=0xAB",
        "/header_by_hash?hash=AB",
        "/block_search?query=\"block.height=3\"",
        "/block_search?query=\"block.height<4\"&order_by=\"asc\"",
        "/block_search?query=\"block.height<4\"",
        "/block_search?query=\"\"",
        "/check_tx",
        "/check_tx?tx=\"x:1\"",
        "/check_tx?tx=\"bad\"",
        "/check_tx?tx=abc",
        "/check_tx?tx=0xzz",
        "/check_tx?tx=0xabc",
        "/check_tx?tx=\"",
        "/check_tx?tx=\"a=1",
        "/check_tx?tx=5",
        "/check_tx?tx=%22a%3D1%22",
        "/check_tx?tx=\"a+b=1\"",
        "/check_tx?tx=\"val=ed25519!AAAA!5\"",
        "/check_tx?tx=\"val=ed25519!AAAA!-5\"",
        "/check_tx?tx=\"a\\u003d1\"",
        "/abci_query",
        "/abci_query?data=\"a\"",
        "/abci_query?data=0x61",
        "/abci_query?data=61",
        "/abci_query?data=\"zz\"&prove=true",
        "/abci_query?data=\"a\"&prove=true",
        "/abci_query?data=\"a\"&prove=maybe",
        "/abci_query?path=\"/val\"&data=0x00",
        "/abci_query?path=\"x\"&data=\"a\"&height=2",
        "/abci_query?data=\"a\"&height=x",
        "/abci_query?data=\"%3Ck%3E\"",
        "/broadcast_evidence",
        "/broadcast_evidence?evidence=5",
        "/broadcast_tx_sync",
        "/broadcast_tx_sync?tx=abc",
        "/broadcast_tx_sync?tx=\"a=1\"",
        "/broadcast_tx_commit?tx=\"a=1\"",
        "/broadcast_tx_async?tx=\"a=1\"",
        "/broadcast_tx_async?tx=\"bad\"",
    ]);
    requests.push(Request::get(&format!("/tx?hash=0x{HASH}")));
    requests.push(Request::get(&format!("/tx?hash=0x{HASH}&prove=true")));
    requests.push(Request::get(&format!(
        "/tx_search?query=\"tx.hash='{HASH}'\"&prove=true"
    )));
    requests.push(Request::get(&format!(
        "/tx_search?query=\"tx.hash='{HASH}' AND tx.height=77\""
    )));
    requests.push(Request::get(&format!(
        "/tx_search?query=\"{}\"",
        "a".repeat(513)
    )));
    for params in [
        r#"{"height":"2"}"#,
        r#"{"height":2}"#,
        r#"{"height":"x"}"#,
        r#"{"height":""}"#,
        r#"{"height":null}"#,
        r#"{"height":"1.5"}"#,
        r#"{"height":"null"}"#,
        r#"{"height":true}"#,
        r#"{"height":"0"}"#,
        r#"{"height":"99999"}"#,
        r#"["2"]"#,
        r#"["1","2"]"#,
        "[]",
        "{}",
        "null",
        "\"x\"",
        "7",
        r#"{"HEIGHT":"2"}"#,
        r#"{"height":"2","x":1}"#,
    ] {
        requests.push(Request::call("block", params));
    }
    for params in [
        r#"{"tx":"!!"}"#,
        r#"{"tx":5}"#,
        r#"{"tx":{}}"#,
        r#"{"tx":true}"#,
        r#"{"tx":null}"#,
        "{}",
        r#"{"tx":"YQ"}"#,
        r#"{"tx":"YQ=="}"#,
        r#"{"tx":"YT0x\nYQ=="}"#,
        r#"{"tx":[300]}"#,
        r#"{"tx":["x"]}"#,
        r#"{"tx":"YT0\u0078"}"#,
        r#"{"tx":"YT1="}"#,
        r#"{"tx":"Y==="}"#,
    ] {
        requests.push(Request::call("check_tx", params));
    }
    for (method, params) in [
        (
            "abci_query",
            r#"{"path":"","data":"61","height":"0","prove":false}"#,
        ),
        ("abci_query", r#"{"data":"6"}"#),
        ("abci_query", r#"{"data":"zz"}"#),
        ("abci_query", r#"{"data":5}"#),
        ("abci_query", r#"{"path":5}"#),
        ("abci_query", r#"{"prove":"true"}"#),
        ("abci_query", r#"["","61","0",true]"#),
        (
            "tx",
            r#"{"hash":"wi/qXXQo5c9H72NUyXySI8ldbc3D4NIwD/eQVrH/PYU=","prove":true}"#,
        ),
        ("tx", r#"{"hash":"C22F"}"#),
        ("header_by_hash", r#"{"hash":"AB"}"#),
        ("block_by_hash", r#"{"hash":"AB=="}"#),
        (
            "tx_search",
            r#"{"query":"tx.height=2","prove":false,"page":"1","per_page":"10","order_by":"asc"}"#,
        ),
        ("tx_search", r#"{"query":"tx.height=2","page":1}"#),
        ("validators", r#"{"height":"2","page":"1","per_page":"1"}"#),
        ("genesis_chunked", r#"{"chunk":"-1"}"#),
        ("genesis_chunked", r#"{"chunk":0}"#),
        ("broadcast_evidence", r#"{"evidence":null}"#),
        (
            "broadcast_evidence",
            r#"{"evidence":{"type":"x","value":{}}}"#,
        ),
        ("unconfirmed_txs", r#"{"limit":"5"}"#),
        ("num_unconfirmed_txs", "{}"),
        ("blockchain", r#"{"minHeight":"2","maxHeight":"3"}"#),
        ("broadcast_tx_sync", r#"{"tx":"YT0x"}"#),
    ] {
        requests.push(Request::call(method, params));
    }
    // More than a body may have.
    requests.push(Request::call(
        "broadcast_tx_sync",
        &format!(r#"{{"tx":"{}"}}"#, "A".repeat(1_000_004)),
    ));
    requests
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
