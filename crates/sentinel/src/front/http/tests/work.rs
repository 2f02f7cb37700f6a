//! Requests that no lane bounds, and clients that have sent their last byte.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// At 2b52556 notifications, refused methods and parse errors cost their client nothing.
#[tokio::test(start_paused = true)]
async fn http_85_requests_that_no_lane_bounds_come_at_a_rate() {
    for body in [
        "{}",
        r#"{"jsonrpc":"2.0","id":1,"method":"unsafe_flush_mempool"}"#,
    ] {
        let bench = Bench::new();
        bench.fake.state().refused = vec!["broadcast_tx_sync"];
        let start = Instant::now();
        let mut clients: Vec<_> = (0..5).map(|_| bench.connect()).collect();
        for _ in 0..300 {
            for client in &mut clients {
                client.post(body).await;
            }
        }
        let mut other = bench.connect_from([192, 0, 2, 2]);
        for id in 0..100 {
            other.post(&sync(id, "z")).await;
            other.status().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..300 {
            for client in &mut clients {
                client.status().await;
            }
        }
        assert!(
            (490..520).contains(&start.elapsed().as_millis()),
            "{:?}",
            start.elapsed()
        );
        // What is long costs more, and what a lane takes costs nothing.
        let start = Instant::now();
        clients[0]
            .post(&format!("{{}}{}", " ".repeat(100 << 10)))
            .await;
        clients[0].status().await;
        assert_eq!(start.elapsed().as_millis(), 101);
        for id in 0..1_000 {
            clients[1].post(&call(id, "status")).await;
            clients[1].status().await;
        }
        assert_eq!(start.elapsed().as_millis(), 101);
    }
}

/// No lane bounds what is answered from memory; its bytes are passed on in turns.
#[tokio::test(start_paused = true)]
async fn http_85_kept_answers_come_at_a_rate_whatever_their_length() {
    for (length, is_counted) in [(10, false), (8 << 10, false), (10, true)] {
        let bench = Bench::new();
        let mut client = bench.connect();
        let start = Instant::now();
        for id in 0..1_500 {
            let kept = ReadAnswer {
                took: None,
                is_counted,
                ..ReadAnswer::whole(200, &"x".repeat(length))
            };
            bench.fake.state().answers.push_back(Ok(kept));
            client.post(&call(id, "block")).await;
            client.status().await;
        }
        let took = start.elapsed().as_millis();
        // What is shared counts as a read of each client: the rate of reads bounds it.
        let expected = if is_counted { 0..1 } else { 490..520 };
        assert!(expected.contains(&took), "{took}");
    }
}

/// Each answer of a pipeline was a write, a pause and a wake of its own: 50 connections that sent `{}` made the p99 of
/// the others 4.6 times as long.
#[tokio::test(start_paused = true)]
async fn http_85_answers_that_no_lane_bounds_are_written_together() {
    let bench = Bench::new();
    let mut client = bench.connect();
    let request = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
    client.send(request.repeat(320)).await;
    for _ in 0..320 {
        assert_eq!(client.status().await.0, 200);
    }
    assert!(client.writes() <= 12, "{} writes", client.writes());
    // None waits for a request that is not complete, nor for one that a lane takes.
    bench.fake.state().hold = true;
    client.send(format!("{request}{}", &request[..20])).await;
    assert_eq!(client.status().await.0, 200);
    client.send(&request[20..]).await;
    assert_eq!(client.status().await.0, 200);
    client.send(request).await;
    client.post(&sync(1, "a=1")).await;
    assert_eq!(client.status().await.0, 200);
    settle().await;
    bench.fake.release();
    assert_eq!(client.status().await, (200, answer_to(1, "a=1")));
}

#[tokio::test(start_paused = true)]
async fn http_85_a_held_answer_ends_with_its_client_and_with_the_program() {
    let bench = Bench::new();
    let (mut gone, mut stays) = (bench.connect(), bench.connect());
    let long = format!("{{}}{}", " ".repeat(900 << 10));
    for client in [&mut gone, &mut stays] {
        client.post(&long).await;
        client.post(&long).await;
    }
    settle().await;
    drop(gone);
    sleep(Duration::from_millis(200)).await;
    let start = Instant::now();
    bench.stop.cancel();
    assert!(!stays.rest().await.is_empty());
    assert!(start.elapsed() < Duration::from_millis(10));
    assert_eq!(bench.shared.budget.connections(), 0);
}

/// The answer to a request whose client sends nothing more, over a real socket.
async fn half_closed(bench: &Bench, address: std::net::SocketAddr, request: &str) -> String {
    let before = bench.fake.state().clients.len();
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(request.as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    // The end is there before the answer is.
    let until = async {
        while bench.fake.state().clients.len() == before {
            sleep(Duration::from_millis(1)).await;
        }
        sleep(Duration::from_millis(20)).await;
    };
    timeout(Duration::from_secs(20), until).await.unwrap();
    bench.fake.release();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    answer
}

/// `printf 'POST ...' | nc -N host 26657`: at 2b52556 its write was taken out of the queue, and the connection closed
/// without an answer.
#[tokio::test]
async fn http_87_a_client_that_has_sent_its_last_byte_gets_its_answer() {
    let bench = Bench::new();
    bench.fake.state().hold = true;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(crate::front::listener::serve(
        bench.shared.clone(),
        listener,
    ));
    let post = |body: &str| {
        let len = body.len();
        format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n\r\n{body}")
    };
    let commit = sync("1", "c").replace("tx_sync", "tx_commit");
    for (body, expected) in [
        (call(1, "status"), "{\"echo\":".to_owned()),
        (sync("1", "a"), answer_to(1, "a")),
        (commit, answer_to(1, "c")),
        (
            format!("[{},{}]", sync("1", "d"), call(2, "status")),
            answer_to(1, "d"),
        ),
    ] {
        let answer = half_closed(&bench, address, &post(&body)).await;
        assert!(answer.contains(&expected), "{body}: {answer:?}");
    }
    assert!(bench.fake.state().disconnected.is_empty());
    // One that is reset is gone, before or after it has sent its last byte.
    for is_half_closed in [false, true] {
        let before = bench.fake.state().disconnected.len();
        let mut client = TcpStream::connect(address).await.unwrap();
        client
            .write_all(post(&sync("1", "e")).as_bytes())
            .await
            .unwrap();
        let until = async |is_so: &dyn Fn() -> bool| {
            let wait = async {
                while !is_so() {
                    sleep(Duration::from_millis(5)).await;
                }
            };
            timeout(Duration::from_secs(20), wait).await.unwrap();
        };
        until(&|| bench.fake.state().queue.len() > before).await;
        if is_half_closed {
            client.shutdown().await.unwrap();
            sleep(Duration::from_millis(20)).await;
        }
        client.set_zero_linger().unwrap();
        drop(client);
        until(&|| bench.fake.state().disconnected.len() > before).await;
    }
    bench.stop.cancel();
    assert_eq!(serving.await.unwrap(), 0);
}
