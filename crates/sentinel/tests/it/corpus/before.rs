//! Requests to chains of one empty block, well formed and not.

use super::{Request, gets, posts};

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
