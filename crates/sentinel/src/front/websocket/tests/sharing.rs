//! What sessions share: turns at the processor, a rate of work, and buffered bytes.

use super::*;

/// Before, each message was charged for all that waited behind it: one read of small ones took six looks at the
/// sockets, and their writes left in as many groups.
#[tokio::test(start_paused = true)]
async fn ws_85_a_message_takes_a_turn_for_itself_and_not_for_what_waits_behind_it() {
    let bench = Bench::new();
    let mut client = Client::open(&bench).await;
    settle().await;
    let left = bench.shared.budget.work_left();
    let many: Vec<u8> = (0..60).flat_map(|id| text(&sync(id, "a"))).collect();
    client.send(many).await;
    settle().await;
    assert_eq!(left - bench.shared.budget.work_left(), 60);
}

#[tokio::test(start_paused = true)]
async fn ws_43_pings_are_answered_up_to_a_rate() {
    let bench = Bench::new();
    let mut client = Client::open(&bench).await;
    let start = Instant::now();
    for _ in 0..2_000 {
        client.send(frame(FIN | PING, b"hi")).await;
    }
    client.send(text(&sync(1, "a"))).await;
    for _ in 0..2_000 {
        assert_eq!(client.frame().await, (PONG, b"hi".to_vec()));
    }
    assert_eq!(client.text().await, answer_to(1, "a"));
    assert_eq!(start.elapsed().as_millis(), 1_001);
}

/// At 2b52556 whatever asks for nothing was free: 50 sockets of `{}` kept the thread busy.
#[tokio::test(start_paused = true)]
async fn ws_85_messages_that_no_lane_bounds_come_at_a_rate() {
    let batch = format!("[{}]", "1,".repeat(40));
    let part = || frame(0, b"");
    for (message, units) in [
        (text("{}"), 1),
        (
            text(r#"{"jsonrpc":"2.0","id":1,"method":"unsafe_flush"}"#),
            1,
        ),
        (frame(FIN | PING, b""), 1),
        (frame(FIN | PONG, b"x"), 1),
        (text(&format!("{}{}", "[".repeat(3_000), batch)), 4),
    ] {
        let bench = Bench::new();
        let mut clients = Vec::new();
        for _ in 0..5 {
            clients.push(Client::open(&bench).await);
        }
        let start = Instant::now();
        let mut other = Client::open_from(&bench, [192, 0, 2, 2]).await;
        let flood = clients.iter_mut().map(async |client| {
            for _ in 0..600 {
                client.send(&message).await;
            }
            client.send(text(&sync(1, "a"))).await;
            while client.frame().await.1 != answer_to(1, "a").as_bytes() {}
        });
        let flood: Vec<_> = flood.collect();
        let mut all = std::pin::pin!(async move {
            let mut flood: Vec<_> = flood.into_iter().map(Box::pin).collect();
            std::future::poll_fn(|context| {
                flood.retain_mut(|one| one.as_mut().poll(context).is_pending());
                if flood.is_empty() {
                    std::task::Poll::Ready(())
                } else {
                    std::task::Poll::Pending
                }
            })
            .await;
        });
        let early = timeout(Duration::from_millis(1), all.as_mut()).await;
        assert!(early.is_err());
        // Nobody else notices.
        other.send(text(&sync(9, "z"))).await;
        assert_eq!(other.text().await, answer_to(9, "z"));
        assert_eq!(start.elapsed(), Duration::from_millis(1));
        all.await;
        let taken = start.elapsed().as_millis();
        let work = 5 * 600 * units;
        assert!(
            (work - 1_000..work + 20).contains(&taken),
            "{taken} for {work}"
        );
    }
    // Parts of a message as well, unless they bring something.
    let bench = Bench::new();
    let mut client = Client::open(&bench).await;
    let start = Instant::now();
    for id in 0..3 {
        client.send(frame(TEXT, sync(id, "b").as_bytes())).await;
        for _ in 0..1_000 {
            client.send(part()).await;
        }
        client.send(frame(FIN, b"")).await;
        assert_eq!(client.text().await, answer_to(id, "b"));
    }
    assert!((1_900..2_100).contains(&start.elapsed().as_millis()));
    let long = sync(7, &"c".repeat(600_000));
    let start = Instant::now();
    for _ in 0..4 {
        let mut parts = long.as_bytes().chunks(2_000);
        client.send(frame(TEXT, parts.next().unwrap())).await;
        for part in parts {
            client.send(frame(0, part)).await;
        }
        client.send(frame(FIN, b"")).await;
        client.text().await;
    }
    assert!(start.elapsed() < Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn sharing_61_a_frame_that_is_only_announced_costs_nothing() {
    let bench = Bench::new();
    let mut client = Client::open(&bench).await;
    let whole = text(&"x".repeat(990_000));
    client.send(&whole[..14]).await;
    sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.shared.ledger.used(), 16 << 10);
}

#[tokio::test(start_paused = true)]
async fn sharing_63_fragments_are_in_the_account() {
    let bench = Bench::with(|config| config.buffer.bytes = 4 << 20);
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = Client::open(&bench).await;
        for fragment in 0..9 {
            let opcode = if fragment == 0 { TEXT } else { 0 };
            // A WebSocket beyond the share of its address is closed.
            let _ = client
                .0
                .write_all(&frame(opcode, &vec![b'x'; 50_000]))
                .await;
        }
        clients.push(client);
    }
    sleep(Duration::from_millis(1)).await;
    // At d833505 this was 0, and the fragments of all of them were held.
    let held = bench.shared.ledger.used();
    assert!((1 << 20..=2 << 20).contains(&held), "{held}");
    let mut other = Client::open_from(&bench, [192, 0, 2, 9]).await;
    other.send(text(&sync(1, "a=1"))).await;
    assert_eq!(other.frame().await.1, answer_to(1, "a=1").as_bytes());
}

/// At be368fd the questions of all 512 WebSockets of four clients were passed on before any other was read
/// from, and the last of them waited for all the others.
#[tokio::test(start_paused = true)]
async fn sharing_69_questions_are_passed_on_one_between_two_looks_at_the_sockets() {
    let bench = Bench::new();
    let mut greedy = Vec::new();
    for _ in 0..20 {
        greedy.push(Client::open(&bench).await);
    }
    let mut other = Client::open_from(&bench, [192, 0, 2, 2]).await;
    for client in &mut greedy {
        client
            .send([text(&call(1, "status")), text(&call(2, "health"))].concat())
            .await;
    }
    other.send(text(&call(3, "status"))).await;
    let rises = bench.rises(41, |bench| bench.fake.state().relayed.len());
    let rises = rises.await;
    assert!(rises.iter().all(|rise| *rise <= 1), "{rises:?}");
    let last = call(3, "status");
    let place = bench
        .fake
        .state()
        .relayed
        .iter()
        .position(|text| *text == last);
    assert!(place.is_some_and(|place| place <= 2), "{place:?}");
    for client in &mut greedy {
        assert_eq!(client.text().await, "relayed 1");
        assert_eq!(client.text().await, "relayed 2");
    }
}

#[tokio::test(start_paused = true)]
async fn sharing_73_long_messages_are_served_one_between_two_looks_at_the_sockets() {
    let bench = Bench::new();
    let long = "b".repeat(36_000);
    let mut greedy = Vec::new();
    for _ in 0..20 {
        greedy.push(Client::open(&bench).await);
    }
    for client in &mut greedy {
        client.send(text(&sync(1, &long))).await;
    }
    let rises = bench.rises(20, |bench| bench.fake.state().txs.len()).await;
    assert!(rises.iter().all(|rise| *rise <= 1), "{rises:?}");
    for client in &mut greedy {
        assert_eq!(client.text().await, answer_to(1, &long));
    }
}

/// At be368fd an event woke all its subscribers at once, and each wrote its first bytes before any other client was
/// read from.
#[tokio::test(start_paused = true)]
async fn sharing_71_events_are_taken_by_one_reader_between_two_looks_at_the_sockets() {
    let bench = Bench::new();
    let mut readers = Vec::new();
    for _ in 0..20 {
        let mut reader = Client::open(&bench).await;
        reader.send(text(&call(1, "subscribe"))).await;
        assert_eq!(reader.text().await, "relayed 1");
        readers.push(reader);
    }
    settle().await;
    // A session takes one of them at a time, because they are long.
    let event = "e".repeat(40_000);
    bench.fake.state().events = std::iter::repeat_n(event.into(), readers.len()).collect();
    for reader in &mut readers {
        // Something has to wake the session, as an event would.
        reader.send(frame(FIN | PING, b"")).await;
    }
    let taken = |bench: &Bench| 20 - bench.fake.state().events.len();
    let rises = bench.rises(20, taken).await;
    assert!(rises.iter().all(|rise| *rise <= 1), "{rises:?}");
}

/// With turns at first a session wrote a long event when its turn had come, and was never woken for the next.
#[tokio::test(start_paused = true)]
async fn sharing_71_a_reader_of_long_events_gets_one_after_the_other() {
    let bench = Bench::new();
    let mut reader = Client::open(&bench).await;
    reader.send(text(&call(1, "subscribe"))).await;
    assert_eq!(reader.text().await, "relayed 1");
    let event = "e".repeat(300_000);
    bench.fake.state().events = std::iter::repeat_n(event.clone().into(), 3).collect();
    reader.send(frame(FIN | PING, b"")).await;
    let mut events = 0;
    while events < 3 {
        let next = timeout(Duration::from_secs(20), reader.frame()).await;
        let (opcode, payload) = next.expect("another event");
        events += usize::from(opcode == TEXT && payload == event.as_bytes());
    }
}
