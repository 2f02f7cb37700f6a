//! What the shared corpus does not have: broadcasts in odd forms. Every transaction occurs once.

use std::time::Duration;

use crate::corpus::{Conversation, Request};

/// Ids that are echoed, repaired or refused.
const IDS: &[&str] = &[
    "0",
    "-3",
    "1.9",
    "1e3",
    "1e400",
    "9007199254740993",
    "12345678901234567890",
    "9223372036854775808",
    r#""""#,
    r#""text""#,
    r#""7""#,
    r#""a\"<b>&\u00e9\u2028""#,
    r#""\ud800""#,
    "true",
    "null",
    "{}",
    r#"{"a":[1,"x",null]}"#,
    "[1,2]",
];

/// Broadcasts over POST and URI, in forms that clients use and in those that they get wrong.
pub(super) fn broadcasts() -> Vec<Request> {
    let mut requests: Vec<Request> = IDS
        .iter()
        .enumerate()
        .map(|(number, id)| {
            let tx = base64(&format!("id{number}=1"));
            Request::post(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"broadcast_tx_sync","params":{{"tx":"{tx}"}}}}"#
            ))
        })
        .collect();
    requests.extend(bodies().iter().map(|body| Request::post(body)));
    requests.extend(TARGETS.iter().map(|target| Request::get(target)));
    requests.extend(methods());
    requests.push(Request::post(&elements(10, "ten")));
    requests.push(Request::post(&elements(11, "eleven")));
    requests.push(Request::post(&large(1 << 20)));
    requests
}

/// Bodies of a POST; `$name` stands for a transaction of this name.
const BODIES: &[&str] = &[
    // Notifications are not executed.
    r#"{"method":"broadcast_tx_sync","params":{"tx":"$n1"}}"#,
    r#"{"jsonrpc":"2.0","method":"broadcast_tx_async","params":{"tx":"$n2"}}"#,
    // Keys in other cases, twice, in another order, escaped.
    r#"{"ID":7,"Method":"broadcast_tx_sync","PARAMS":{"TX":"$k1"}}"#,
    r#"{"params":{"tx":"$k2"},"method":"broadcast_tx_sync","id":4}"#,
    r#"{"id":1,"method":"health","method":"broadcast_tx_sync","params":{"tx":"$k3"}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","method":"health","params":{"tx":"$k4"}}"#,
    r#"{"id":1,"m\u0065thod":"broadcast_tx_s\u0079nc","params":{"tx":"$k5"}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"$k6","tx":"$k7"}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"$k8","x":1}}"#,
    r#"{"jsonrpc":"1.0","id":1,"method":"broadcast_tx_sync","params":{"tx":"$k9"},"x":[1]}"#,
    r#"  { "id" : 1 , "method" : "broadcast_tx_sync" , "params" : { "tx" : "$k10" } }  "#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"$k11"}} x"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":["$k12"]}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":["$k13",1]}"#,
    // Methods that are none.
    r#"{"id":1,"method":"Broadcast_tx_sync","params":{"tx":"$m1"}}"#,
    r#"{"id":1,"method":" broadcast_tx_sync","params":{"tx":"$m2"}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync\u0000","params":{"tx":"$m3"}}"#,
    r#"{"id":1,"method":["broadcast_tx_sync"],"params":{"tx":"$m4"}}"#,
    // Transactions that are none.
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"!!"}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YQ"}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"cDE\n9MQ=="}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"cDI9\u004dQ=="}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"cDM9MR=="}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":""}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":5}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":null}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":null}"#,
    r#"{"id":1,"method":"broadcast_tx_sync"}"#,
    r#"{"id":1,"method":"broadcast_tx_async"}"#,
    r#"{"id":1,"method":"broadcast_tx_commit","params":"x"}"#,
    r#"{"id":1,"method":"broadcast_tx_commit","params":{"tx":"YmFk"}}"#,
    r#"{"id":"c","method":"broadcast_tx_commit","params":{"tx":"$c1"}}"#,
    r#"{"id":{"x":1},"method":"broadcast_tx_commit","params":{"tx":"$c2"}}"#,
    // Batches.
    r#"[{"id":1,"method":"health"},{"id":"b","method":"broadcast_tx_sync","params":{"tx":"$b1"}},{"method":"broadcast_tx_sync","params":{"tx":"$b2"}},{"id":3,"method":"nope"}]"#,
    r#"[{"id":1,"method":"broadcast_tx_sync","params":{"tx":"$b3"}}]"#,
    r#"[{"id":1,"method":"broadcast_tx_sync","params":{"tx":"$b4"}},5]"#,
    r#"[{"id":1,"method":"broadcast_tx_sync","params":{"tx":"$b5"}},[]]"#,
    r#"[{"id":1,"method":"broadcast_tx_sync","params":{"tx":"$b6"}}"#,
    r#"[{"id":1,"method":"broadcast_tx_async","params":{"tx":"$b7"}},{"id":2,"method":"broadcast_tx_commit","params":{"tx":"$b8"}}]"#,
];

fn bodies() -> Vec<String> {
    BODIES.iter().map(|body| named(body)).collect()
}

/// The body with its transactions.
fn named(body: &str) -> String {
    let mut parts = body.split('$');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find('"').expect("a transaction stands in quotes");
        whole += &base64(&format!("{}=1", &part[..end]));
        whole += &part[end..];
    }
    whole
}

const TARGETS: &[&str] = &[
    "/broadcast_tx_sync?tx=\"u1=1\"",
    "/broadcast_tx_sync?tx=%22u2=1%22",
    "/broadcast_tx_sync?tx=%22u3%3D1%22",
    "/broadcast_tx_sync?tx=0x75343d31",
    "/broadcast_tx_sync?tx=0x75353D31",
    "/broadcast_tx_sync?tx=0X75363d31",
    "/broadcast_tx_sync?tx=0x7",
    "/broadcast_tx_sync?tx=0xzz",
    "/broadcast_tx_sync?tx=0x",
    "/broadcast_tx_sync?tx=",
    "/broadcast_tx_sync?tx=\"\"",
    "/broadcast_tx_sync?tx=\"",
    "/broadcast_tx_sync?tx=\"u7=1",
    "/broadcast_tx_sync?tx=\"u8=1\\u0041\"",
    "/broadcast_tx_sync?tx=\"u9=a+b\"",
    "/broadcast_tx_sync?tx=\"u10=a%20b\"",
    "/broadcast_tx_sync?tx=\"u11=1\"&tx=\"u12=1\"",
    "/broadcast_tx_sync?x=1&tx=\"u13=1\"",
    "/broadcast_tx_sync?TX=\"u14=1\"",
    "/broadcast_tx_sync?t%78=\"u15=1\"",
    "/broadcast_tx_sync?tx=\"u16=1\";x=2",
    "/broadcast_tx_sync?tx=5",
    "/broadcast_tx_sync?tx=dTE3PTE=",
    "/broadcast_tx_sync?tx=[1]",
    "/broadcast_tx_sync?tx=null",
    "/broadcast_tx_sync?",
    "/broadcast_tx_sync/?tx=\"u18=1\"",
    "//broadcast_tx_sync?tx=\"u19=1\"",
    "/./broadcast_tx_sync?tx=\"u20=1\"",
    "/x/../broadcast_tx_sync?tx=\"u21=1\"",
    "/broadcast_tx_s%79nc?tx=\"u22=1\"",
    "/BROADCAST_TX_SYNC?tx=\"u23=1\"",
    "/broadcast_tx_sync?tx=\"bad\"",
    "/broadcast_tx_sync?tx=%zz",
    "/broadcast_tx_async",
    "/broadcast_tx_async?tx=\"u24=1\"",
    "/broadcast_tx_commit?tx=\"u25=1\"",
    "/broadcast_tx_commit?tx=\"bad\"",
    "/broadcast_tx_commit",
];

/// Broadcasts by other HTTP methods and to other paths.
fn methods() -> Vec<Request> {
    let call = |name: &str| {
        let tx = base64(&format!("{name}=1"));
        Request::post(&format!(
            r#"{{"id":1,"method":"broadcast_tx_sync","params":{{"tx":"{tx}"}}}}"#
        ))
    };
    let mut requests = Vec::new();
    for (number, method) in ["PUT", "GET", "DELETE", "OPTIONS", "PATCH"]
        .into_iter()
        .enumerate()
    {
        requests.push(Request {
            method,
            ..call(&format!("h{number}"))
        });
    }
    for (number, method) in ["HEAD", "PUT", "OPTIONS"].into_iter().enumerate() {
        requests.push(Request {
            method,
            ..Request::get(&format!("/broadcast_tx_sync?tx=\"q{number}=1\""))
        });
    }
    for (number, path) in ["/?x=1", "/x", "/broadcast_tx_sync", "//", "/websocket"]
        .into_iter()
        .enumerate()
    {
        requests.push(Request {
            path: path.to_owned(),
            ..call(&format!("p{number}x"))
        });
    }
    requests.push(Request {
        path: "/broadcast_tx_sync?tx=\"form1=1\"".to_owned(),
        headers: vec![("Content-Type", "application/x-www-form-urlencoded")],
        ..Request::post("tx=%22form2%3D1%22")
    });
    requests.push(Request {
        headers: vec![
            ("Content-Type", "text/plain"),
            ("Origin", "http://page.test"),
        ],
        ..call("o1")
    });
    requests.push(Request {
        headers: vec![("Origin", "http://page.test")],
        ..Request::get("/broadcast_tx_sync?tx=\"o2=1\"")
    });
    requests
}

fn elements(count: usize, name: &str) -> String {
    let elements: Vec<String> = (0..count)
        .map(|number| {
            let tx = base64(&format!("{name}{number}=1"));
            format!(r#"{{"id":{number},"method":"broadcast_tx_sync","params":{{"tx":"{tx}"}}}}"#)
        })
        .collect();
    format!("[{}]", elements.join(","))
}

/// A transaction of `len` bytes, which is more than a body may have.
fn large(len: usize) -> String {
    let tx = base64(&format!("large={}", "x".repeat(len)));
    format!(r#"{{"id":1,"method":"broadcast_tx_sync","params":{{"tx":"{tx}"}}}}"#)
}

/// What sentinel refuses and the node does not, or not so.
pub(super) fn refused() -> Vec<Request> {
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    vec![
        Request::post(r#"{"id":1,"method":"unsafe_flush_mempool"}"#),
        Request::post(&format!(r#"{{"id":1,"method":"health","params":{deep}}}"#)),
        Request::get(&format!("/abci_query?data=0x{}", "61".repeat(20_000))),
    ]
}

/// The same over a WebSocket.
pub(super) fn conversation() -> Conversation {
    let mut messages: Vec<String> = IDS
        .iter()
        .enumerate()
        .map(|(number, id)| {
            let tx = base64(&format!("wsid{number}=1"));
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"broadcast_tx_sync","params":{{"tx":"{tx}"}}}}"#)
        })
        .collect();
    messages.extend(bodies().iter().map(|body| rename(body)));
    Conversation {
        name: "broadcasts",
        messages,
        listen: Duration::ZERO,
    }
}

/// Other transactions of the same lengths.
fn rename(body: &str) -> String {
    body.replace("PTE=\"", "PTI=\"")
        .replace("9MQ==\"", "9Mg==\"")
        .replace("T0x\"", "T0y\"")
        .replace("=MQ==", "=Mg==")
}

pub(super) fn base64(text: &str) -> String {
    base64_simd::STANDARD.encode_to_string(text)
}
