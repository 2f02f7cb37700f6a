//! Slow, silent, broken and leaving clients.

use wire::ws::frame::MASKED;

use super::*;

#[tokio::test(start_paused = true)]
async fn ws_43_broken_frames_end_the_session_with_a_code() {
    let bench = Bench::new();
    let unmasked = vec![FIN | TEXT, 1, b'x'];
    let reserved = frame(FIN | TEXT | 0x40, b"x");
    let continued = frame(FIN, b"x");
    let huge = [
        &[FIN | TEXT, MASKED | 127][..],
        &(1_u64 << 40).to_be_bytes(),
        &[0; 4],
    ]
    .concat();
    let bomb = [frame(TEXT, b"x"), frame(0, b"x").repeat(2_000)].concat();
    for (bytes, code) in [
        (unmasked, 1002),
        (reserved, 1002),
        (continued, 1002),
        (frame(FIN | TEXT, b"\xff"), 1007),
        (huge, 1009),
        (bomb, 1008),
        (frame(FIN | CLOSE, &1000_u16.to_be_bytes()), 1000),
        (frame(FIN | CLOSE, &3000_u16.to_be_bytes()), 3000),
        (frame(FIN | CLOSE, b"x"), 1002),
    ] {
        let mut client = Client::open(&bench).await;
        client.send(&bytes).await;
        assert_eq!(client.close_code().await, code, "{:?}", &bytes[..2]);
    }
    // An empty close is answered by an empty one, as the node does.
    let mut client = Client::open(&bench).await;
    client.send(frame(FIN | CLOSE, b"")).await;
    assert_eq!(client.frame().await, (CLOSE, Vec::new()));
    assert_eq!(client.rest().await, "");
    drop(client);
    settle().await;
    assert_eq!(bench.shared.ledger.used(), 0);
    assert_eq!(bench.shared.budget.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn ws_42_a_silent_client_is_pinged_and_then_given_up() {
    let bench = Bench::new();
    let mut client = Client::open(&bench).await;
    let start = Instant::now();
    assert_eq!(client.frame().await.0, PING);
    assert_eq!(start.elapsed(), Duration::from_secs(27));
    client.send(frame(FIN | PONG, b"")).await;
    assert_eq!(client.frame().await.0, PING);
    assert_eq!(start.elapsed(), Duration::from_secs(54));
    assert_eq!(client.rest().await, "");
    assert_eq!(start.elapsed(), Duration::from_secs(57));
}

#[tokio::test(start_paused = true)]
async fn ws_44_a_client_that_takes_nothing_is_given_up_alone() {
    let bench = Bench::new();
    let mut slow = Client::open(&bench).await;
    let mut other = Client::open_from(&bench, [192, 0, 2, 2]).await;
    slow.send(text(&call(1, "subscribe"))).await;
    assert_eq!(slow.text().await, "relayed 1");
    let event = bytes::Bytes::from(vec![b'e'; 600_000]);
    bench.fake.state().events.extend(vec![event; 1_000]);
    slow.send(text(&call(2, "status"))).await;
    settle().await;
    // What waits for it is bounded, and charged.
    let used = bench.shared.ledger.used();
    assert!(used > 500_000 && used < 4 << 20, "{used}");
    let start = Instant::now();
    // This clock stands still while any task is ready: a session that took turns for nothing would hang here.
    while bench.shared.budget.connections() > 1 {
        sleep(Duration::from_secs(1)).await;
        other.send(text(&sync(1, "a"))).await;
        assert_eq!(other.text().await, answer_to(1, "a"));
    }
    assert!(
        start.elapsed() <= Duration::from_secs(11),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(bench.shared.ledger.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn ws_44_a_client_that_only_nibbles_is_given_up_too() {
    let bench = Bench::new();
    let mut slow = Client::open(&bench).await;
    bench
        .fake
        .state()
        .events
        .extend(vec![bytes::Bytes::from(vec![b'e'; 100_000]); 1_000]);
    slow.send(text(&call(1, "status"))).await;
    let start = Instant::now();
    while bench.shared.budget.connections() > 0 {
        let mut few = [0; 100];
        if slow.0.read_exact(&mut few).await.is_err() {
            break;
        }
        sleep(Duration::from_secs(1)).await;
    }
    assert!(
        start.elapsed() <= Duration::from_secs(30),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn lifecycle_50_on_the_order_to_stop_answers_come_before_the_close() {
    let bench = Bench::new();
    bench.fake.state().hold = true;
    let mut idle = Client::open(&bench).await;
    let mut busy = Client::open(&bench).await;
    busy.send(text(&sync(1, "a"))).await;
    settle().await;
    bench.stop.cancel();
    assert_eq!(idle.close_code().await, 1001);
    busy.send(text(&sync(2, "b"))).await;
    settle().await;
    bench.fake.release();
    assert_eq!(busy.text().await, answer_to(1, "a"));
    assert_eq!(busy.close_code().await, 1001);
    assert_eq!(bench.fake.state().txs, ["a"]);
    let cut_off = timeout(Duration::from_secs(1), bench.serving)
        .await
        .unwrap();
    assert_eq!(cut_off.unwrap(), 0);
}

/// Another process serves: a subscription ends between two blocks, what is asked beside none is answered for the whole drain.
#[tokio::test(start_paused = true)]
async fn lifecycle_51_a_subscription_ends_between_two_blocks() {
    let bench = Bench::new();
    let mut reader = Client::open(&bench).await;
    let mut other = Client::open_from(&bench, [192, 0, 2, 2]).await;
    let event = |name: &'static [u8]| bench.fake.state().events.push_back(name.into());
    event(b"block 1");
    reader.send(text(&call(1, "subscribe"))).await;
    assert_eq!(reader.text().await, "block 1");
    assert_eq!(reader.text().await, "relayed 1");
    bench.shared.leave.cancel();
    // What came before does not count: the next block may be close.
    sleep(Duration::from_secs(1)).await;
    let start = Instant::now();
    // The events of one block come in parts.
    for (id, name) in [(2, "block 2"), (3, "a transaction of it")] {
        event(name.as_bytes());
        reader.send(text(&call(id, "health"))).await;
        assert_eq!(reader.text().await, name);
        assert_eq!(reader.text().await, format!("relayed {id}"));
        sleep(Duration::from_millis(60)).await;
    }
    assert_eq!(reader.close_code().await, 1001);
    assert_eq!(start.elapsed(), Duration::from_millis(260));
    sleep(Duration::from_secs(8)).await;
    other.send(text(&sync(1, "a"))).await;
    assert_eq!(other.text().await, answer_to(1, "a"));
    assert_eq!(other.close_code().await, 1001);
    assert_eq!(bench.serving.await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn lifecycle_52_who_hangs_up_is_taken_out_of_the_queue() {
    let bench = Bench::new();
    bench.fake.state().hold = true;
    let mut client = Client::open(&bench).await;
    client
        .send([text(&sync(1, "a")), text(&sync(2, "b"))].concat())
        .await;
    settle().await;
    let number = bench.fake.state().queue[0].connection;
    drop(client);
    settle().await;
    assert_eq!(bench.fake.state().disconnected, [number]);
    assert!(
        bench
            .fake
            .state()
            .queue
            .iter()
            .all(|write| write.outbox.is_closed())
    );
}

#[tokio::test(start_paused = true)]
async fn a_proxys_sessions_count_against_the_clients_behind_it() {
    let bench = Bench::with(|config| {
        config.trust.proxies = vec!["10.0.0.0/8".parse().unwrap()];
        config.fixed.most_connections = 6;
    });
    let open = async |from: &str| {
        let mut client = bench.connect_from([10, 0, 0, 1]);
        let forwarded = format!("\r\nX-Forwarded-For: {from}\r\n\r\n");
        client.send(HANDSHAKE.replace("\r\n\r\n", &forwarded)).await;
        let (head, _) = client.answer().await;
        (head[9..12].to_owned(), client)
    };
    let opened = [open("203.0.113.9").await, open("203.0.113.9").await];
    assert_eq!(opened.each_ref().map(|(status, _)| &**status), ["101"; 2]);
    assert_eq!(open("203.0.113.9").await.0, "429");
    assert_eq!(open("203.0.113.10").await.0, "101");
}

#[tokio::test]
async fn lifecycle_52_a_held_client_that_hangs_up_is_noticed_behind_what_it_sent() {
    // A real socket, because only there can the end be seen before everything was read.
    let bench = Bench::new();
    {
        let mut state = bench.fake.state();
        state.hold = true;
        state.room = Some(1);
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(crate::front::listener::serve(
        bench.shared.clone(),
        listener,
    ));
    let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
    let sent: Vec<u8> = (0..5).flat_map(|id| text(&sync(id, "a"))).collect();
    client.write_all(HANDSHAKE.as_bytes()).await.unwrap();
    let mut head = [0; 129];
    client.read_exact(&mut head).await.unwrap();
    client.write_all(&sent).await.unwrap();
    let until = async |is_so: &dyn Fn() -> bool| {
        let wait = async {
            while !is_so() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(20), wait).await.unwrap();
    };
    until(&|| bench.fake.state().queue.len() == 1).await;
    drop(client);
    until(&|| !bench.fake.state().disconnected.is_empty()).await;
    until(&|| bench.shared.budget.connections() == 0).await;
    assert_eq!(bench.fake.state().txs, ["a"]);
    bench.stop.cancel();
    assert_eq!(serving.await.unwrap(), 0);
}

/// At be368fd its next message waited until the clock was looked at, up to a second.
#[tokio::test(start_paused = true)]
async fn a_client_that_has_caught_up_is_read_from_again() {
    let bench = Bench::with(|config| config.fixed.out_bytes = 128 << 10);
    let mut client = Client::open(&bench).await;
    client.send(text(&call(1, "subscribe"))).await;
    assert_eq!(client.text().await, "relayed 1");
    // More than fits between client and front, by more than a quarter of what may wait.
    let event = "e".repeat(26 << 10);
    bench.fake.state().events = std::iter::repeat_n(event.into(), 4).collect();
    client.send(frame(FIN | PING, b"")).await;
    settle().await;
    client.send(text(&sync(2, "a"))).await;
    settle().await;
    assert!(bench.fake.state().txs.is_empty());
    let answered = async { while client.frame().await.1 != answer_to(2, "a").as_bytes() {} };
    let answered = timeout(Duration::from_millis(500), answered).await;
    answered.expect("the message is read before the clock wakes the session");
}

/// At 2b52556 a message that waited for room in its client's queue was in no account, nor what was read behind it.
#[tokio::test(start_paused = true)]
async fn sharing_89_a_message_that_waits_is_in_the_account() {
    for message in [
        sync(2, &"w".repeat(300_000)),
        call(2, "status").replace("{}", &format!("\"{}\"", "q".repeat(400_000))),
        sync(2, "odd").replace(
            "\"tx\"",
            &format!("\"x\":\"{}\",\"tx\"", "u".repeat(400_000)),
        ),
    ] {
        let bench = Bench::new();
        {
            let mut state = bench.fake.state();
            (state.hold, state.mute, state.room) = (true, true, Some(1));
        }
        let mut client = Client::open(&bench).await;
        client.send(text(&sync(1, "a"))).await;
        for id in 10..14 {
            client.send(text(&call(id, "health"))).await;
        }
        settle().await;
        let before = bench.shared.ledger.used();
        client.send(text(&message)).await;
        client.send(text(&sync(3, "behind"))).await;
        settle().await;
        let held = bench.shared.ledger.used() - before;
        let least = 300_000 + crate::front::buffer::READ_BYTES;
        assert!((least..1_200_000).contains(&held), "{held}");
        drop(client);
        sleep(Duration::from_secs(2)).await;
        bench.fake.state().queue.clear();
        assert_eq!(bench.shared.ledger.used(), 0);
    }
}
