//! Scripted faults, from the handle and over the control endpoint.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use devnode::{CapacityModel, Config, FailedExecution, Garbage, MempoolConfig};
use futures_util::{SinkExt, StreamExt};
use testkit::Http;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::{Running, quick, start};

const BROADCAST: &str = r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#;

/// Waits until the chain has a height; fails if it never does.
async fn reach(running: &Running, height: u64) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while running.node.snapshot().height < height {
        assert!(
            Instant::now() < deadline,
            "height {height} is never reached"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until the chain stands still for many block intervals, and returns its height.
async fn stands_still(running: &Running) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(20);
    let (mut height, mut since) = (running.node.snapshot().height, Instant::now());
    while since.elapsed() < Duration::from_millis(300) {
        assert!(Instant::now() < deadline, "the chain goes on");
        tokio::time::sleep(Duration::from_millis(5)).await;
        let now = running.node.snapshot().height;
        if now != height {
            (height, since) = (now, Instant::now());
        }
    }
    height
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stall_holds_answers_and_blocks_back() {
    let running = start(quick()).await;
    reach(&running, 1).await;
    running.node.faults().stall(Duration::from_millis(1400));
    let begin = Instant::now();
    let height = stands_still(&running).await;
    assert_eq!(running.post(BROADCAST).await["result"]["code"], 0);
    assert!(
        begin.elapsed() >= Duration::from_millis(1390),
        "{:?}",
        begin.elapsed()
    );
    reach(&running, height + 3).await;
    running.stop().await;
}

/// Connects until the outcome is the given one: the listener closes and opens in a task of the node.
async fn until_accepted(running: &Running, accepted: bool) {
    while TcpStream::connect(running.node.rpc_address()).await.is_ok() != accepted {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// How long a refusal lasts is tested on a paused clock; this one ends when the faults are cleared.
#[tokio::test(flavor = "multi_thread")]
async fn refused_connections_are_taken_again_on_the_same_port() {
    let running = start(quick()).await;
    assert_eq!(running.get("/health").await["id"], -1);
    let day = Duration::from_secs(86_400);
    running.node.faults().refuse_connections(day);
    until_accepted(&running, false).await;
    running.node.faults().clear();
    until_accepted(&running, true).await;
    assert_eq!(running.get("/health").await["id"], -1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_mempool_is_told_in_the_nodes_words() {
    let running = start(quick()).await;
    running.node.faults().set_mempool_full(true);
    let data = running.post(BROADCAST).await["error"]["data"].to_string();
    assert!(
        data.contains("mempool is full: number of txs 0 (max: 5000)"),
        "{data}"
    );
    running.node.faults().set_mempool_full(false);
    assert_eq!(running.post(BROADCAST).await["result"]["code"], 0);
    assert_eq!(
        (
            running.node.snapshot().broadcasts,
            running.node.snapshot().refused
        ),
        (2, 1)
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_connections_end_and_new_ones_work() {
    let running = start(quick()).await;
    let (mut socket, _) = tokio_tungstenite::connect_async(running.node.ws_url())
        .await
        .unwrap();
    socket.send(Message::text(BROADCAST)).await.unwrap();
    assert!(socket.next().await.unwrap().is_ok());
    running.node.faults().drop_connections();
    let end = socket.next().await;
    assert!(!matches!(end, Some(Ok(Message::Text(_)))), "{end:?}");
    assert_eq!(running.get("/health").await["id"], -1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_answers_take_their_time_each() {
    let running = start(quick()).await;
    running
        .node
        .faults()
        .slow_answers(Duration::from_millis(150));
    let begin = Instant::now();
    running.get("/health").await;
    assert!(begin.elapsed() >= Duration::from_millis(150));
    running.node.faults().clear();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_is_read_one_request_at_a_time() {
    let running = start(quick()).await;
    let (mut socket, _) = tokio_tungstenite::connect_async(running.node.ws_url())
        .await
        .unwrap();
    running
        .node
        .faults()
        .slow_answers(Duration::from_millis(50));
    let begin = Instant::now();
    for id in 0..6 {
        socket
            .send(Message::text(format!(r#"{{"id":{id},"method":"health"}}"#)))
            .await
            .unwrap();
    }
    for id in 0..6 {
        let answer = socket.next().await.unwrap().unwrap();
        assert!(
            answer.to_text().unwrap().contains(&format!("\"id\":{id},")),
            "answers keep the order"
        );
    }
    assert!(
        begin.elapsed() >= Duration::from_millis(300),
        "{:?}",
        begin.elapsed()
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halted_chain_stands_and_goes_on() {
    let running = start(quick()).await;
    reach(&running, 2).await;
    running.node.faults().halt();
    let height = stands_still(&running).await;
    assert_eq!(running.post(BROADCAST).await["result"]["code"], 0);
    assert_eq!(stands_still(&running).await, height);
    assert_eq!(running.node.snapshot().mempool_txs, 1);
    running.node.faults().resume();
    reach(&running, height + 2).await;
    assert_eq!(running.node.snapshot().committed, 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_loses_the_mempool_and_keeps_the_chain() {
    let running = start(quick()).await;
    reach(&running, 3).await;
    let first = running.node.block(1);
    running.node.faults().halt();
    stands_still(&running).await;
    running.post(BROADCAST).await;
    let (mut socket, _) = tokio_tungstenite::connect_async(running.node.ws_url())
        .await
        .unwrap();
    let height = running.node.snapshot().height;
    running.node.faults().restart(Duration::from_millis(300));
    assert!(!matches!(socket.next().await, Some(Ok(Message::Text(_)))));
    running.node.faults().resume();
    reach(&running, height + 2).await;
    let snapshot = running.node.snapshot();
    assert_eq!(
        (snapshot.mempool_txs, snapshot.committed, snapshot.restarts),
        (0, 0, 1)
    );
    assert_eq!(running.node.block(1), first);
    // The cache is lost too: the same transaction is new again.
    assert_eq!(running.post(BROADCAST).await["result"]["code"], 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_replaces_answers() {
    let running = start(quick()).await;
    running.node.faults().answer_garbage(Some(Garbage::NotJson));
    assert!(
        serde_json::from_slice::<serde_json::Value>(
            &running.ask("POST", "/", BROADCAST).await.body
        )
        .is_err()
    );
    running.node.faults().answer_garbage(Some(Garbage::WrongId));
    assert_eq!(
        running.post(r#"{"id":1,"method":"health"}"#).await["id"],
        987_654_321
    );
    running.node.faults().answer_garbage(None);
    assert_eq!(running.post(r#"{"id":1,"method":"health"}"#).await["id"], 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_can_fail_in_a_block() {
    let running = start(quick()).await;
    running.node.faults().fail_execution(Some(FailedExecution {
        prefix: "bad".to_owned(),
        code: 7,
    }));
    let answer = running.get("/broadcast_tx_commit?tx=\"bad=1\"").await;
    assert_eq!(
        (
            &answer["result"]["check_tx"]["code"],
            &answer["result"]["tx_result"]["code"]
        ),
        (&0.into(), &7.into())
    );
    let height = answer["result"]["height"].as_str().unwrap();
    let results = running
        .get(&format!("/block_results?height={height}"))
        .await;
    assert_eq!(results["result"]["txs_results"][0]["code"], 7);
    let good = running.get("/broadcast_tx_commit?tx=\"good=1\"").await;
    assert_eq!(good["result"]["tx_result"]["code"], 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_control_endpoint_does_what_the_handle_does() {
    let control = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let running = start(Config { control, ..quick() }).await;
    let http = Http::new(
        running.node.control_address().unwrap(),
        Duration::from_secs(5),
    );
    let command = async |path: &'static str, body: &'static str| {
        tokio::task::spawn_blocking(move || http.post(path, body.as_bytes()).unwrap())
            .await
            .unwrap()
    };
    assert_eq!(command("/mempool-full", r#"{"on":true}"#).await.status, 200);
    assert!(
        running.post(BROADCAST).await["error"]["data"]
            .to_string()
            .contains("mempool is full")
    );
    assert_eq!(command("/clear", "{}").await.status, 200);
    assert_eq!(running.post(BROADCAST).await["result"]["code"], 0);
    assert_eq!(command("/stall", r#"{"for":"soon"}"#).await.status, 400);
    assert_eq!(command("/nope", "{}").await.status, 404);
    let state = tokio::task::spawn_blocking(move || http.get("/state").unwrap())
        .await
        .unwrap();
    let state: serde_json::Value = serde_json::from_slice(&state.body).unwrap();
    assert_eq!(
        (&state["broadcasts"], &state["refused"]),
        (&2.into(), &1.into())
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn capacity_keeps_blocks_apart() {
    let mempool = MempoolConfig {
        size: 100_000,
        ..MempoolConfig::default()
    };
    let capacity = Some(CapacityModel::constant(100.0));
    let running = start(Config {
        capacity,
        mempool,
        max_block_txs: Some(30),
        ..quick()
    })
    .await;
    let (mut socket, _) = tokio_tungstenite::connect_async(running.node.ws_url())
        .await
        .unwrap();
    let begin = Instant::now();
    for n in 0..90 {
        let tx = base64_simd::STANDARD.encode_to_string(format!("k{n}=v"));
        let request = format!(r#"{{"id":{n},"method":"broadcast_tx_sync","params":["{tx}"]}}"#);
        socket.send(Message::text(request)).await.unwrap();
        socket.next().await.unwrap().unwrap();
    }
    while running.node.snapshot().committed < 90 {
        assert!(begin.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The first block is made at once, each of the others waits for those of the one before, a hundredth of a second
    // each: 60 of them at least are in blocks before the last one.
    assert!(
        begin.elapsed() >= Duration::from_millis(590),
        "{:?}",
        begin.elapsed()
    );
    running.stop().await;
}
