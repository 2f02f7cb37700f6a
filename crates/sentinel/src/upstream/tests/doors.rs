//! Reads at the other listeners of a Cosmos SDK's nodes: where they go, and which of their answers are kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pacing::Nanos;
use testkit::ScriptedServer;
use tokio::net::TcpListener;
use wire::proto;

use super::cached::HEIGHT;
use super::scripted::answer;
use super::spread::two;
use super::{PATIENCE, Rig, client};
use crate::upstream::{CallBody, DoorNodes, NodeDoor};

/// A read at the nodes' listeners for REST.
async fn read_at_door(rig: &Rig, doors: &DoorNodes, last: u8, path: &str) -> String {
    let request = hyper::Request::get(path).body(()).unwrap();
    let (head, ()) = request.into_parts();
    let call = (head, CallBody::whole(Bytes::new()));
    let held = rig.ledger.of(client(last)).nothing();
    let asking = rig.reads.at_door(doors, (client(last), 0), call, (1, held));
    let answer = tokio::time::timeout(PATIENCE, asking)
        .await
        .expect("in time");
    let body = answer.unwrap().into_body().collect().await.unwrap();
    String::from_utf8(body.to_bytes().into()).unwrap()
}

/// At f5ac66af they went to the one node whose listener was configured, whatever became of it.
#[tokio::test]
async fn reads_at_another_listener_go_where_those_at_the_rpc_go() {
    let (rig, mut nodes, last) = two([1, 100]).await;
    let listeners = [nodes[0].url(), nodes[1].url()].map(|url| url.parse().unwrap());
    let doors =
        |count: usize| DoorNodes::new(NodeDoor::Rest, &listeners[..count], &rig.nodes).unwrap();
    let both = doors(2);
    let block = |height: u64| format!("/cosmos/base/tendermint/v1beta1/blocks/{height}");
    for (path, expected) in [
        ("/cosmos/any".to_owned(), "second"),
        (block(150), "second"),
        (block(50), "first"),
    ] {
        assert_eq!(read_at_door(&rig, &both, last, &path).await, expected);
    }
    // Of a node without such a listener nothing is asked there.
    assert_eq!(
        read_at_door(&rig, &doors(1), last, "/cosmos/any").await,
        "first"
    );
    nodes[1].holds.store(true, Ordering::SeqCst);
    assert_eq!(
        read_at_door(&rig, &both, last, "/cosmos/any").await,
        "first"
    );
    nodes[1].holds.store(false, Ordering::SeqCst);
    assert_eq!(
        read_at_door(&rig, &both, last, "/cosmos/any").await,
        "second"
    );
    drop(nodes[1].server.take());
    assert_eq!(
        read_at_door(&rig, &both, last, "/cosmos/any").await,
        "first"
    );
    rig.reads.note_write(client(last));
    assert_eq!(
        read_at_door(&rig, &both, last, "/cosmos/any").await,
        "first"
    );
    drop(both);
    rig.stop().await;
}

/// What the gateway is asked for twice, and how often it was asked.
async fn asked_of_gateway(path: &str, status: u16, text: String) -> usize {
    let asked = Arc::new(AtomicUsize::new(0));
    let (counted, given) = (Arc::clone(&asked), text.clone());
    let server = ScriptedServer::start(move |connection| {
        while let Some(request) = connection.read_request() {
            if request.head.starts_with("GET /cosmos/") {
                counted.fetch_add(1, Ordering::Relaxed);
                connection.send(testkit::http_answer(status, &given));
            } else {
                connection.send(answer(&request, HEIGHT));
            }
        }
    });
    let rig = Rig::up(server.http_url()).await;
    rig.nodes.node(0).rise(HEIGHT, Nanos::ZERO);
    let listener = server.http_url().parse().unwrap();
    let doors = DoorNodes::new(NodeDoor::Rest, &[listener], &rig.nodes).unwrap();
    for last in 2..4 {
        let request = hyper::Request::get(path).body(()).unwrap();
        let held = rig.ledger.of(client(last)).nothing();
        let (head, ()) = request.into_parts();
        let call = (head, CallBody::whole(Bytes::new()));
        let asking = (rig.reads).at_door(&doors, (client(last), 0), call, (1, held));
        let answer = asking.await.unwrap();
        assert_eq!(answer.status(), status);
        let is_kept = answer.headers().contains_key("age");
        assert_eq!(is_kept, asked.load(Ordering::Relaxed) < last as usize - 1);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, text);
    }
    drop(doors);
    rig.stop().await;
    asked.load(Ordering::Relaxed)
}

#[tokio::test]
async fn of_the_gateway_s_answers_those_are_kept_that_cannot_change() {
    let block = |height: u64| {
        let header = format!(r#"{{"chain_id":"c","height":"{height}"}}"#);
        format!(r#"{{"block_id":{{"hash":"qrs="}},"block":{{"header":{header}}}}}"#)
    };
    let tx = |digit: &str, height: u64| {
        let hash = digit.repeat(64);
        format!(r#"{{"tx":{{}},"tx_response":{{"height":"{height}","txhash":"{hash}"}}}}"#)
    };
    let at = |height: &str| format!("/cosmos/base/tendermint/v1beta1/blocks/{height}");
    let of = |digit: &str| format!("/cosmos/tx/v1beta1/txs/{}", digit.repeat(64));
    for (path, status, text, times) in [
        (at("8"), 200, block(8), 1),
        (at("9"), 200, block(9), 2),
        (at("8"), 200, block(7), 2),
        (at("latest"), 200, block(8), 2),
        (at("8"), 404, block(8), 2),
        (at("8"), 200, "{".to_owned(), 2),
        (of("A"), 200, tx("A", 8), 1),
        (of("a"), 200, tx("A", 8), 1),
        (of("A"), 200, tx("B", 8), 2),
        (of("A"), 200, tx("A", 9), 2),
        // More than is kept of one answer.
        (
            at("8"),
            200,
            block(8).replace("qrs=", &"x".repeat(17 << 20)),
            2,
        ),
    ] {
        let shown = format!("{path} {status} {:.80}", text);
        assert_eq!(
            asked_of_gateway(&path, status, text).await,
            times,
            "{shown}"
        );
    }
}

/// A node's listener for gRPC that answers nothing over so many connections, and then every call over one with this
/// message and this status: its address, and how often it was asked.
async fn grpc_node(silent: usize, message: Vec<u8>, status: u16) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        let mut kept = Vec::new();
        for _ in 0..silent {
            kept.push(listener.accept().await.unwrap());
        }
        let (stream, _) = listener.accept().await.unwrap();
        let answer = |_: hyper::Request<hyper::body::Incoming>| {
            counted.fetch_add(1, Ordering::Relaxed);
            let body = Full::new(Bytes::from(frame(&message))).with_trailers(async move {
                let mut trailers = hyper::HeaderMap::new();
                trailers.insert("grpc-status", status.into());
                Some(Ok(trailers))
            });
            std::future::ready(Ok::<_, std::convert::Infallible>(hyper::Response::new(
                body,
            )))
        };
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let service = hyper::service::service_fn(answer);
        let _ = builder
            .serve_connection(TokioIo::new(stream), service)
            .await;
    });
    (url, asked)
}

/// The node's RPC.
fn node() -> ScriptedServer {
    ScriptedServer::start(|connection| {
        while let Some(request) = connection.read_request() {
            connection.send(answer(&request, HEIGHT));
        }
    })
}

fn frame(message: &[u8]) -> Vec<u8> {
    let len = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &len, message].concat()
}

#[tokio::test]
async fn of_grpc_s_answers_those_are_kept_that_cannot_change() {
    const GET_TX: &str = "/cosmos.tx.v1beta1.Service/GetTx";
    let tx = |height: u64| {
        let mut response = Vec::new();
        proto::number(&mut response, 1, height);
        proto::bytes(&mut response, 2, "A".repeat(64).as_bytes());
        let mut message = Vec::new();
        proto::bytes(&mut message, 2, &response);
        message
    };
    let mut wanted = Vec::new();
    proto::bytes(&mut wanted, 1, "A".repeat(64).as_bytes());
    for (path, message, status, times) in [
        (GET_TX, tx(8), 0, 1),
        (GET_TX, tx(9), 0, 2),
        (GET_TX, tx(8), 5, 2),
        ("/cosmos.tx.v1beta1.Service/Other", tx(8), 0, 2),
    ] {
        let server = node();
        let (url, asked) = grpc_node(0, message.clone(), status).await;
        let rig = Rig::up(server.http_url()).await;
        rig.nodes.node(0).rise(HEIGHT, Nanos::ZERO);
        let doors = DoorNodes::new(NodeDoor::Grpc, &[url.parse().unwrap()], &rig.nodes).unwrap();
        for last in 2..4 {
            let request = hyper::Request::post(path).header("grpc-timeout", format!("{last}S"));
            let (head, ()) = request.body(()).unwrap().into_parts();
            let held = rig.ledger.of(client(last)).nothing();
            let call = (head, CallBody::whole(frame(&wanted).into()));
            let asking = (rig.reads).at_door(&doors, (client(last), 0), call, (1, held));
            let body = asking.await.unwrap().into_body().collect().await.unwrap();
            let code = &body.trailers().unwrap()["grpc-status"];
            assert_eq!(code, status.to_string().as_str());
            assert_eq!(body.to_bytes(), frame(&message));
        }
        assert_eq!(asked.load(Ordering::Relaxed), times, "{path} {status}");
        drop(doors);
        rig.stop().await;
    }
}

/// At c1876d9d all calls went over it, and failed, until TCP gave it up: a quarter of an hour behind a firewall that drops
/// packets.
#[tokio::test]
async fn a_connection_of_grpc_that_answers_nothing_gets_no_more_calls() {
    let (url, asked) = grpc_node(2, Vec::new(), 0).await;
    let server = node();
    let mut config = super::config(&[server.http_url()]);
    config.fixed.link_silence = Duration::from_millis(20);
    let mut rig = Rig::start(&config);
    rig.ready(0).await;
    let doors = DoorNodes::new(NodeDoor::Grpc, &[url.parse().unwrap()], &rig.nodes).unwrap();
    let answered = async {
        // Its client gives each call up before the node's time is over.
        for deadline in (1..).map(|call| Duration::from_millis(20) * call) {
            let request = hyper::Request::post("/cosmos.tx.v1beta1.Service/Other");
            let (head, ()) = request.body(()).unwrap().into_parts();
            let held = rig.ledger.of(client(2)).nothing();
            let call = (head, CallBody::whole(frame(&[]).into()));
            let asking = (rig.reads).at_door(&doors, (client(2), 0), call, (1, held));
            if let Ok(answer) = tokio::time::timeout(deadline, asking).await {
                return answer.unwrap();
            }
        }
        unreachable!()
    };
    let answer = tokio::time::timeout(PATIENCE, answered)
        .await
        .expect("over the third");
    assert_eq!(
        (answer.status().as_u16(), asked.load(Ordering::Relaxed)),
        (200, 1)
    );
    drop((answer, doors));
    rig.stop().await;
}
