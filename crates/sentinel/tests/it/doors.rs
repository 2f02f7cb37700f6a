//! Every door of a Cosmos chain: one account writes through RPC, gRPC and REST.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rpc::BroadcastMethod;
use sentinel::config::{Config, PaceMode, WriteOrder};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use testkit::{Http, HttpAnswer, Simd, free_port};
use tokio::net::{TcpListener, TcpStream};
use wire::encoding::hex_text;
use wire::proto;

use crate::sdk::transfer;
use crate::support::load::{committed_bytes, wait_for};
use crate::support::{Node, Proxy, broadcast, runtime};

pub(crate) fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// A call of gRPC with one message, behind its prefix: status, and what came back.
async fn call(address: SocketAddr, path: &str, message: &[u8]) -> (String, Vec<u8>) {
    call_with(address, path, message, ("te", "trailers")).await
}

/// The same with a header.
pub(crate) async fn call_with(
    address: SocketAddr,
    path: &str,
    message: &[u8],
    (name, value): (&str, &str),
) -> (String, Vec<u8>) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let len = u32::try_from(message.len()).unwrap().to_be_bytes();
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("http://{address}{path}"))
        .header("content-type", "application/grpc")
        .header(name, value)
        .body(Full::<Bytes>::from([&[0][..], &len, message].concat()))
        .unwrap();
    let (head, body) = sender.send_request(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    let status = head.headers.get("grpc-status");
    let status = status.or_else(|| trailers.get("grpc-status")).unwrap();
    let found = (
        status.to_str().unwrap().to_owned(),
        body.to_bytes().to_vec(),
    );
    connection.abort();
    found
}

pub(crate) fn broadcast_request(tx: &[u8], mode: u64) -> Vec<u8> {
    let mut message = Vec::new();
    proto::bytes(&mut message, 1, tx);
    proto::number(&mut message, 2, mode);
    message
}

pub(crate) const BROADCAST: &str = "/cosmos.tx.v1beta1.Service/BroadcastTx";

/// The code and the raw log of a `BroadcastTxResponse` behind its prefix.
fn code(frame: &[u8]) -> (u64, String) {
    let mut fields = proto::Fields::of(&frame[5..], "BroadcastTxResponse");
    let (_, response) = fields.next().unwrap().unwrap();
    let (mut code, mut log) = (0, String::new());
    for field in proto::Fields::of(response.bytes("tx_response").unwrap(), "TxResponse") {
        match field.unwrap() {
            (4, value) => code = value.number("code").unwrap(),
            (6, value) => log = value.text("raw_log").unwrap().to_owned(),
            _ => {}
        }
    }
    (code, log)
}

fn over_rest(rest: SocketAddr, tx: &[u8]) -> (u64, String) {
    let tx = base64_simd::STANDARD.encode_to_string(tx);
    let body = format!(r#"{{"tx_bytes":"{tx}","mode":"BROADCAST_MODE_SYNC"}}"#);
    let http = Http::new(rest, Duration::from_secs(60));
    let answer = http.post("/cosmos/tx/v1beta1/txs", body.as_bytes());
    let answer: Value = serde_json::from_str(&answer.unwrap().text()).unwrap();
    let response = &answer["tx_response"];
    assert_eq!(response["txhash"].as_str().unwrap().len(), 64, "{answer}");
    (
        response["code"].as_u64().unwrap(),
        response["raw_log"].to_string(),
    )
}

fn over_rpc(rpc: SocketAddr, tx: &[u8]) -> (u64, String) {
    let http = Http::new(rpc, Duration::from_secs(60));
    let answer = http.post("/", &broadcast(1, BroadcastMethod::Sync, tx));
    let answer: Value = serde_json::from_str(&answer.unwrap().text()).unwrap();
    let result = &answer["result"];
    (result["code"].as_u64().unwrap(), result["log"].to_string())
}

/// A real chain, a proxy in front of all its doors, and where these are: gRPC's and REST's of the proxy, and of the node.
fn every_door(change: impl FnOnce(&mut Config)) -> (Simd, Proxy, [SocketAddr; 4]) {
    let doors = std::array::from_fn(|_| local(free_port()));
    let [grpc, rest, grpc_node, rest_node] = doors;
    let app = format!(
        "grpc.enable = true\ngrpc.address = \"{grpc_node}\"\napi.enable = true\napi.address = \"tcp://{rest_node}\""
    );
    let chain = Simd::start_with(("", &app), |_| {}).unwrap();
    let proxy = Proxy::with(&chain.rpc_url(), |config| {
        config.pace.mode = PaceMode::Off;
        config.fair.order = WriteOrder::Account;
        (config.grpc.listen, config.rest.listen) = (Some(grpc), Some(rest));
        config.grpc.node = vec![format!("http://{grpc_node}").parse().unwrap()];
        config.rest.node = vec![format!("http://{rest_node}").parse().unwrap()];
        change(config);
    });
    (chain, proxy, doors)
}

/// Sends a transaction through the door that its sequence is for: code and log of its check.
fn over_any(
    sequence: u64,
    tx: &[u8],
    (rpc, grpc, rest): (SocketAddr, SocketAddr, SocketAddr),
) -> (u64, String) {
    match sequence % 3 {
        0 => over_rpc(rpc, tx),
        1 => over_rest(rest, tx),
        _ => {
            let message = broadcast_request(tx, 2);
            let (status, frame) = runtime().block_on(call(grpc, BROADCAST, &message));
            assert_eq!(status, "0");
            code(&frame)
        }
    }
}

/// All are the node's own answers, at once, whatever the limit would have made of them.
#[test]
#[ignore = "needs simd"]
fn in_shadow_account_80_every_door_of_a_real_chain_is_the_nodes_own() {
    const COUNT: u64 = 12;
    let (chain, proxy, [grpc, rest, ..]) = every_door(|config| {
        config.limits.shadow = true;
        config.pace.mode = PaceMode::Fixed;
        config.fair.max_req = "1/s".parse().unwrap();
        config.fair.queue_timeout = Duration::from_secs(2);
    });
    let mut sent = Vec::new();
    for sequence in 1..=COUNT {
        let tx = transfer(sequence, 200_000, "");
        let (code, log) = over_any(sequence, &tx, (proxy.address, grpc, rest));
        assert_eq!(code, 0, "{sequence}: {log}");
        sent.push(tx);
    }
    let used = transfer(1, 200_000, "again");
    assert_eq!(over_any(1, &used, (proxy.address, grpc, rest)).0, 32);
    let mut found = Vec::new();
    wait_for("all in blocks", || {
        found = committed_bytes(chain.address());
        found.len() >= sent.len()
    });
    assert!(found == sent, "in their order, and nothing else");
    let accounts = proxy.stop();
    assert_eq!(accounts.admitted + accounts.refused, COUNT + 1);
    assert!(accounts.refused + accounts.expired > 0, "{accounts:?}");
}

/// A sequence that each door gets its part of in turn is unbroken, and what is no write passes through with its trailers.
#[test]
#[ignore = "needs simd"]
fn account_80_one_account_writes_through_every_door_of_a_real_chain() {
    const COUNT: u64 = 60;
    let (chain, proxy, [grpc, rest, grpc_node, rest_node]) = every_door(|_| {});
    let runtime = runtime();
    let mut sent = Vec::new();
    for sequence in 1..=COUNT {
        let tx = transfer(sequence, 200_000, "");
        let answer = over_any(sequence, &tx, (proxy.address, grpc, rest));
        assert_eq!(answer.0, 0, "{sequence}: {}", answer.1);
        sent.push(tx);
    }
    // A used sequence is the node's answer at each door.
    let used = transfer(1, 200_000, "again");
    let (_, frame) = runtime.block_on(call(grpc, BROADCAST, &broadcast_request(&used, 2)));
    assert_eq!([code(&frame).0, over_rest(rest, &used).0], [32, 32]);
    let latest = "/cosmos.base.tendermint.v1beta1.Service/GetLatestBlock";
    let (status, frame) = runtime.block_on(call(grpc, latest, b""));
    assert!(status == "0" && frame.len() > 100, "{status}");
    let unknown = runtime.block_on(call(grpc, "/no.Such/Method", b""));
    assert_eq!(unknown, ("12".to_owned(), Vec::new()));
    let http = Http::new(rest, Duration::from_secs(10));
    let latest = http
        .get("/cosmos/base/tendermint/v1beta1/blocks/latest")
        .unwrap();
    assert!(latest.text().contains("block_id"), "{}", latest.text());
    let mut found = Vec::new();
    wait_for("all in blocks", || {
        found = committed_bytes(chain.address());
        found.len() >= sent.len()
    });
    assert!(found == sent, "in their order, and nothing else");
    // What cannot change is the gateway's own, and kept.
    let hash: [u8; 32] = Sha256::digest(&sent[0]).into();
    let own = Http::new(rest_node, Duration::from_secs(10));
    for target in [
        format!("/cosmos/tx/v1beta1/txs/{}", hex_text(&hash)),
        "/cosmos/base/tendermint/v1beta1/blocks/1".to_owned(),
    ] {
        let expected = own.get(&target).unwrap().text();
        wait_for("it is kept", || {
            let answer = http.get(&target).unwrap();
            assert_eq!(answer.text(), expected);
            answer.header("age").is_some()
        });
    }
    let mut wanted = Vec::new();
    proto::bytes(&mut wanted, 1, hex_text(&hash).as_bytes());
    let mut height = Vec::new();
    proto::number(&mut height, 1, 1);
    let tendermint = "/cosmos.base.tendermint.v1beta1.Service";
    for (path, message) in [
        ("/cosmos.tx.v1beta1.Service/GetTx".to_owned(), &wanted),
        (format!("{tendermint}/GetBlockByHeight"), &height),
        (format!("{tendermint}/GetValidatorSetByHeight"), &height),
        (
            "/cosmos.tx.v1beta1.Service/GetBlockWithTxs".to_owned(),
            &height,
        ),
    ] {
        let expected = runtime.block_on(call(grpc_node, &path, message));
        assert_eq!(expected.0, "0", "{path}");
        for _ in 0..3 {
            assert!(
                runtime.block_on(call(grpc, &path, message)) == expected,
                "{path}"
            );
        }
    }
    let metrics = proxy.admin().get("/metrics").unwrap().text();
    let hits = "sentinel_cacheable_reads_total{result=\"hit\"} ";
    let hits = metrics.lines().find_map(|line| line.strip_prefix(hits));
    // Two of gRPC's calls of each kind, and those of REST.
    assert!(hits.unwrap().parse::<u64>().unwrap() >= 8 + 2, "{hits:?}");
    let accounts = proxy.stop();
    assert_eq!(accounts.admitted, COUNT + 2);
}

/// A node's listener for gRPC that answers everything with its path.
async fn echo(listener: TcpListener) {
    use hyper::body::Incoming;
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let answer = async |request: Request<Incoming>| {
            let path = request.uri().path().to_owned();
            let body = Full::new(Bytes::from(path)).with_trailers(async {
                let mut trailers = hyper::HeaderMap::new();
                trailers.insert("grpc-status", 5.into());
                Some(Ok(trailers))
            });
            Ok::<_, std::convert::Infallible>(hyper::Response::new(body))
        };
        let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), hyper::service::service_fn(answer));
        let _ = serving.await;
    }
}

/// A call of gRPC-Web with one message, from a page of `https://wallet.example`: the frames of its answer.
fn web_call(address: SocketAddr, (path, kind): (&str, &str), message: &[u8]) -> HttpAnswer {
    let len = u32::try_from(message.len()).unwrap().to_be_bytes();
    let frame = [&[0][..], &len, message].concat();
    let is_text = kind.contains("text");
    let encoded = base64_simd::STANDARD.encode_to_string(&frame);
    let body = if is_text { encoded.as_bytes() } else { &frame };
    let headers = [
        ("content-type", kind),
        ("x-grpc-web", "1"),
        ("origin", "https://wallet.example"),
    ];
    let http = Http::new(address, Duration::from_secs(60));
    let mut answer = http.request("POST", path, &headers, body).unwrap();
    assert_eq!(answer.header("content-type"), Some(kind));
    let allowed = answer.header("access-control-allow-origin");
    assert_eq!(allowed, Some("https://wallet.example"));
    if is_text {
        // Each part is padded by itself.
        let text = String::from_utf8(answer.body.clone()).unwrap();
        let parts = text.split_inclusive('=').filter(|part| *part != "=");
        let mut bytes = Vec::new();
        for part in parts {
            let part = format!("{part}{}", "=".repeat((4 - part.len() % 4) % 4));
            bytes.extend(base64_simd::STANDARD.decode_to_vec(&part).unwrap());
        }
        answer.body = bytes;
    }
    answer
}

/// Writes are the lane's whatever the node's own door does, and refusals are gRPC's and the gateway's.
#[test]
fn a_broadcast_at_any_door_takes_the_lane_and_the_rest_passes() {
    let node = Node::start();
    let [grpc, rest] = std::array::from_fn(|_| local(free_port()));
    let runtime = runtime();
    let listener = runtime.block_on(TcpListener::bind(local(0))).unwrap();
    let behind = listener.local_addr().unwrap();
    runtime.spawn(echo(listener));
    let proxy = Proxy::with(&node.url(), |config| {
        (config.grpc.listen, config.rest.listen) = (Some(grpc), Some(rest));
        config.grpc.node = vec![format!("http://{behind}").parse().unwrap()];
        config.limits.body_bytes = 2_000;
        config.cors.origins = vec!["https://wallet.example".to_owned()];
        config
            .reads
            .refuse_methods
            .push("broadcast_tx_commit".to_owned());
    });
    let call = |path: &str, message: &[u8]| runtime.block_on(call(grpc, path, message));
    let (status, frame) = call(BROADCAST, &broadcast_request(b"a=1", 2));
    assert_eq!((status.as_str(), code(&frame).0), ("0", 0));
    assert_eq!(over_rest(rest, b"b=1").0, 0);
    assert_eq!(over_rpc(proxy.address, b"c=1").0, 0);
    // The node's trailers come through.
    let passed = call("/some.Service/Method", b"hi");
    assert_eq!(passed, ("5".to_owned(), b"/some.Service/Method".to_vec()));
    assert_eq!(call(BROADCAST, b"\x10\x02").0, "3");
    assert_eq!(call(BROADCAST, &broadcast_request(&[1; 3_000], 2)).0, "8");
    assert_eq!(call(BROADCAST, &broadcast_request(b"d=1", 1)).0, "12");
    for (kind, tx) in [
        ("application/grpc-web+proto", b"e=1"),
        ("application/grpc-web-text+proto", b"f=1"),
    ] {
        let answer = web_call(grpc, (BROADCAST, kind), &broadcast_request(tx, 2));
        let len = u32::from_be_bytes(answer.body[1..5].try_into().unwrap()) as usize;
        let (message, trailers) = answer.body.split_at(5 + len);
        assert_eq!(code(message).0, 0);
        assert_eq!(trailers, b"\x80\0\0\0\x10grpc-status: 0\r\n");
        let passed = web_call(grpc, ("/some.Service/Method", kind), b"hi");
        let mut expected = b"/some.Service/Method".to_vec();
        expected.extend(b"\x80\0\0\0\x10grpc-status: 5\r\n");
        assert_eq!(passed.body, expected);
        let refused = web_call(grpc, (BROADCAST, kind), b"\x10\x02");
        assert_eq!(refused.header("grpc-status"), Some("3"));
    }
    let asks = [
        ("origin", "https://wallet.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type,x-grpc-web"),
    ];
    let http = Http::new(grpc, Duration::from_secs(10));
    let preflight = http.request("OPTIONS", BROADCAST, &asks, b"").unwrap();
    assert_eq!(preflight.status, 204);
    let allowed = preflight.header("access-control-allow-headers");
    assert_eq!(allowed, Some("content-type,x-grpc-web"));
    let http = Http::new(rest, Duration::from_secs(10));
    let refused = http.post("/cosmos/tx/v1beta1/txs", b"{}").unwrap();
    assert_eq!(refused.status, 400);
    let text: Value = serde_json::from_str(&refused.text()).unwrap();
    assert_eq!(
        (&text["code"], &text["details"]),
        (&3.into(), &Value::Array(Vec::new()))
    );
    assert_eq!(proxy.stop().admitted, 5);
}

/// Requests on connections of gRPC and REST that were open before went on as if there was no ban.
#[test]
fn a_ban_holds_for_connections_that_are_open_at_any_door() {
    let node = Node::start();
    let [grpc, rest] = std::array::from_fn(|_| local(free_port()));
    let proxy = Proxy::with(&node.url(), |config| {
        (config.grpc.listen, config.rest.listen) = (Some(grpc), Some(rest));
        config.rest.node = vec![node.url().parse().unwrap()];
    });
    let mut sockets =
        [grpc, rest].map(|door| BufReader::new(std::net::TcpStream::connect(door).unwrap()));
    // Where gRPC and REST tell how a call ended.
    let mut ends = || {
        let [grpc, rest] = sockets.each_mut().map(|socket| {
            let head = b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n";
            socket.get_mut().write_all(head).unwrap();
            let lines = socket.by_ref().lines().map(Result::unwrap);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let length = head
                .iter()
                .find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.unwrap().parse().unwrap()];
            socket.read_exact(&mut body).unwrap();
            head
        });
        let code = grpc
            .iter()
            .find_map(|line| line.strip_prefix("grpc-status: "));
        (code.unwrap().to_owned(), rest[0].clone())
    };
    let before = ends();
    assert_eq!(before.1, "HTTP/1.1 200 OK");
    let order = |path: &str| proxy.admin().post(path, b"").unwrap().status;
    assert_eq!(order("/ban?who=127.0.0.1&for=1h&why=test"), 200);
    // `PERMISSION_DENIED`.
    assert_eq!(
        ends(),
        ("7".to_owned(), "HTTP/1.1 403 Forbidden".to_owned())
    );
    assert_eq!(order("/unban?who=127.0.0.1"), 200);
    assert_eq!(ends(), before);
    proxy.stop();
}

/// What comes through is the answer of the node's own door, and not the lane's.
#[test]
fn in_shadow_a_broadcast_at_any_door_goes_to_the_nodes_own() {
    let node = Node::start();
    let [grpc, rest] = std::array::from_fn(|_| local(free_port()));
    let runtime = runtime();
    let listener = runtime.block_on(TcpListener::bind(local(0))).unwrap();
    let behind = listener.local_addr().unwrap();
    runtime.spawn(echo(listener));
    let proxy = Proxy::with(&node.url(), |config| {
        config.limits.shadow = true;
        (config.grpc.listen, config.rest.listen) = (Some(grpc), Some(rest));
        config.grpc.node = vec![format!("http://{behind}").parse().unwrap()];
        config.rest.node = vec![node.url().parse().unwrap()];
        config.cors.origins = vec!["https://wallet.example".to_owned()];
    });
    let own = ("5".to_owned(), BROADCAST.as_bytes().to_vec());
    for message in [&broadcast_request(b"a=1", 2)[..], b"\x10\x02"] {
        assert_eq!(runtime.block_on(call(grpc, BROADCAST, message)), own);
    }
    let web = "application/grpc-web+proto";
    let answer = web_call(grpc, (BROADCAST, web), &broadcast_request(b"b=1", 2));
    let expected = [BROADCAST.as_bytes(), b"\x80\0\0\0\x10grpc-status: 5\r\n"].concat();
    assert_eq!(answer.body, expected);
    // What is no base64 cannot be put into gRPC, and says so.
    let kind = [("content-type", "application/grpc-web-text+proto")];
    let http = Http::new(grpc, Duration::from_secs(60));
    let refused = http.request("POST", BROADCAST, &kind, b"?").unwrap();
    assert_eq!(refused.header("grpc-status"), Some("3"));
    let why = refused.header("grpc-message").unwrap_or_default();
    assert!(why.contains("not base64"), "{why}");
    let (target, body) = (
        "/cosmos/tx/v1beta1/txs",
        br#"{"tx_bytes":"Yz0x","mode":"BROADCAST_MODE_SYNC"}"#,
    );
    let answer = |address| Http::new(address, Duration::from_secs(20)).post(target, body);
    let (through, direct) = (answer(rest), answer(node.node.rpc_address()));
    assert_eq!(through.unwrap().text(), direct.unwrap().text());
    // The lane judged the three that it could read.
    assert_eq!(proxy.stop().admitted, 3);
}

/// Messages, metadata, statuses, deadlines and resets of 10,000 calls, of each kind of stream.
#[test]
#[ignore = "needs go"]
fn a_call_means_to_grpc_go_through_here_what_it_means_directly() {
    const CALLS: &str = "10000";
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/go");
    let mut program = Command::new("go")
        .args(["run", ".", CALLS])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Go 1.23 or newer is needed");
    let (mut input, output) = (
        program.stdin.take().unwrap(),
        program.stdout.take().unwrap(),
    );
    let mut lines = BufReader::new(output).lines();
    let port = lines.next().unwrap().unwrap();
    let (node, grpc) = (Node::start(), local(free_port()));
    let proxy = Proxy::with(&node.url(), |config| {
        config.grpc.listen = Some(grpc);
        config.grpc.node = vec![format!("http://127.0.0.1:{port}").parse().unwrap()];
        config.reads.rate_per_client = "1000000/s".parse().unwrap();
    });
    writeln!(input, "{grpc}").unwrap();
    let kinds = lines
        .next()
        .expect("all calls end as they do directly")
        .unwrap();
    assert!(program.wait().unwrap().success());
    let kinds: HashMap<String, u64> = serde_json::from_str(&kinds).unwrap();
    assert!(
        kinds.len() == 7 && kinds.values().all(|calls| *calls > 300),
        "{kinds:?}"
    );
    proxy.stop();
}
