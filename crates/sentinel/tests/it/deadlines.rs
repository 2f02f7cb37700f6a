//! The deadlines that clients of gRPC and of its gateway give their calls.

use std::convert::Infallible;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::StreamBody;
use hyper::Request;
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use testkit::{Http, free_port};
use tokio::net::TcpListener;

use crate::doors::{BROADCAST, broadcast_request, call_with, local};
use crate::support::{Node, Proxy, runtime};

/// A node's listener for gRPC that answers nothing, or a byte and no end, and tells what is left of a call's time.
async fn stuck(listener: TcpListener, told: mpsc::Sender<String>) {
    let (socket, _) = listener.accept().await.unwrap();
    let answer = |request: Request<hyper::body::Incoming>| {
        let left = request.headers()["grpc-timeout"].to_str().unwrap();
        told.send(left.to_owned()).unwrap();
        let begins = request.uri().path() == "/a.Service/Begun";
        async move {
            if !begins {
                std::future::pending::<()>().await;
            }
            let begun = Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"x")));
            let begun = stream::iter([begun]).chain(stream::pending());
            Ok::<_, Infallible>(hyper::Response::new(StreamBody::new(begun)))
        }
    };
    let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(socket), hyper::service::service_fn(answer));
    let _ = serving.await;
}

/// Until 21d84d64 a deadline was the node's alone: no write ended at it, and a read with `UNAVAILABLE` where the node reset it.
#[test]
fn a_call_ends_at_its_client_s_deadline() {
    let node = Node::start();
    let [grpc, rest] = std::array::from_fn(|_| local(free_port()));
    let runtime = runtime();
    let listener = runtime.block_on(TcpListener::bind(local(0))).unwrap();
    let behind = listener.local_addr().unwrap();
    let (told, tells) = mpsc::channel();
    runtime.spawn(stuck(listener, told));
    let proxy = Proxy::with(&node.url(), |config| {
        (config.grpc.listen, config.rest.listen) = (Some(grpc), Some(rest));
        config.grpc.node = vec![format!("http://{behind}").parse().unwrap()];
    });
    node.node.faults().slow_answers(Duration::from_secs(600));
    let deadline = ("grpc-timeout", "200m");
    let call =
        |path: &str, message: &[u8]| runtime.block_on(call_with(grpc, path, message, deadline));
    for (path, came) in [("/a.Service/Never", &b""[..]), ("/a.Service/Begun", b"x")] {
        assert_eq!(call(path, b"hi"), ("4".to_owned(), came.to_vec()));
        // What is left, in smaller units.
        assert_ne!(tells.recv().unwrap(), deadline.1);
    }
    let write = call(BROADCAST, &broadcast_request(b"a=1", 2));
    assert_eq!(write.0, "4");
    let body = br#"{"tx_bytes":"Yj0x","mode":"BROADCAST_MODE_SYNC"}"#;
    let http = Http::new(rest, Duration::from_secs(60));
    let answer = http.request("POST", "/cosmos/tx/v1beta1/txs", &[deadline], body);
    assert_eq!(answer.unwrap().status, 504);
    node.node.faults().clear();
    proxy.stop();
}
