use tokio::io::duplex;

use super::super::buffer::READ_BYTES;
use super::*;
use crate::budget::Budget;

const MINUTE: Duration = Duration::from_secs(60);

fn socket(
    capacity: usize,
    ledger: usize,
) -> (tokio::io::DuplexStream, Socket<tokio::io::DuplexStream>) {
    socket_of(&budget(ledger), capacity)
}

fn budget(ledger: usize) -> Budget {
    let mut config = crate::config::Config::default();
    config.buffer.bytes = ledger;
    Budget::new(&config, [1, 2])
}

fn socket_of(
    budget: &Budget,
    capacity: usize,
) -> (tokio::io::DuplexStream, Socket<tokio::io::DuplexStream>) {
    let (client, server) = duplex(capacity);
    let turn = budget.turn(fairq::KeyScheme::default().key([192, 0, 2, 1].into()));
    (client, Socket::new(server, &budget.ledger(), turn))
}

#[tokio::test(start_paused = true)]
async fn resources_44_an_idle_socket_holds_no_buffer() {
    let (mut client, mut socket) = socket(1024, 1 << 20);
    let start = Instant::now();
    assert_eq!(socket.fill(start + MINUTE).await, Err(Ended::Late));
    assert_eq!(start.elapsed(), MINUTE);
    assert_eq!(socket.input.capacity() + socket.output.capacity(), 0);
    client.write_all(b"GET").await.unwrap();
    assert_eq!(socket.fill(Instant::now() + MINUTE).await, Ok(()));
    assert_eq!(socket.input.filled(), b"GET");
    assert_eq!(socket.ledger().used(), 0);
    // Waiting for the rest of it costs.
    assert_eq!(socket.fill(Instant::now() + MINUTE).await, Err(Ended::Late));
    assert_eq!(socket.ledger().used(), READ_BYTES);
    drop(client);
    assert_eq!(
        socket.fill(Instant::now() + MINUTE).await,
        Err(Ended::Closed)
    );
}

#[tokio::test(start_paused = true)]
async fn half_requests_do_not_outgrow_the_ledger() {
    let (mut client, mut socket) = socket(1024, READ_BYTES - 1);
    client.write_all(b"GET").await.unwrap();
    assert_eq!(socket.fill(Instant::now() + MINUTE).await, Ok(()));
    assert_eq!(
        socket.fill(Instant::now() + MINUTE).await,
        Err(Ended::OverBudget)
    );
}

#[tokio::test(start_paused = true)]
async fn http_28_a_reader_that_stops_is_given_up_and_a_slow_one_is_not() {
    let (mut client, mut socket) = socket(1_000, 1 << 20);
    let start = Instant::now();
    socket.output.tail().extend_from_slice(&[b'x'; 400_000]);
    let reader = async {
        for _ in 0..5 {
            tokio::time::sleep(MINUTE - Duration::from_secs(1)).await;
            let mut some = [0; 80_000];
            client.read_exact(&mut some).await.unwrap();
        }
    };
    let (flushed, ()) = tokio::join!(socket.flush(MINUTE), reader);
    assert_eq!(flushed, Ok(()));
    assert!(start.elapsed() > 4 * MINUTE);
    socket.output.tail().extend_from_slice(&[b'x'; 2_000]);
    let start = Instant::now();
    assert_eq!(socket.flush(MINUTE).await, Err(Ended::Late));
    assert_eq!(start.elapsed(), MINUTE);
}

#[tokio::test(start_paused = true)]
async fn sharing_65_a_byte_now_and_then_is_no_progress() {
    let (mut client, mut socket) = socket(1_000, 1 << 20);
    socket.output.tail().extend_from_slice(&[b'x'; 100_000]);
    let start = Instant::now();
    let reader = async {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if client.read_u8().await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        flushed = socket.flush(MINUTE) => assert_eq!(flushed, Err(Ended::Late)),
        () = reader => panic!("the socket is open"),
    }
    // At d833505 each byte was worth another minute.
    assert_eq!(start.elapsed(), MINUTE);
}

#[tokio::test(start_paused = true)]
async fn sharing_71_shared_bytes_go_between_what_was_there_and_what_comes() {
    let budget = budget(1 << 20);
    let (mut client, mut socket) = socket_of(&budget, 1_000);
    let event = Bytes::from(vec![b'e'; 3 * SHARED_AT_ONCE]);
    socket.output.tail().extend_from_slice(b"before");
    socket.share(event.clone());
    assert!(socket.is_sharing() && !socket.shares_next());
    socket.output.tail().extend_from_slice(b"behind");
    assert_eq!(socket.unsent(), event.len() + 12);
    let mut came = Vec::new();
    let reader = async {
        let mut some = vec![0; 4_096];
        while came.len() < event.len() + 12 {
            let count = client.read(&mut some).await.unwrap();
            came.extend_from_slice(&some[..count]);
        }
    };
    let flushed = tokio::select! {
        (flushed, ()) = async { tokio::join!(socket.flush(MINUTE), reader) } => flushed,
        () = budget.hand_out_turns() => panic!("it never ends"),
    };
    assert_eq!((flushed, socket.unsent()), (Ok(()), 0));
    assert_eq!(came, [b"before", &event[..], b"behind"].concat());
    // The other readers' copy is this one's.
    assert!(!socket.is_sharing() && event.is_unique());
}

#[tokio::test(start_paused = true)]
async fn what_is_set_aside_travels_on() {
    let (_client, mut socket) = socket(10, 1_000);
    assert!(socket.hold(400));
    assert!(!socket.hold(1_001));
    let taken = socket.take_reserved(500).unwrap();
    assert_eq!((taken.bytes(), socket.ledger().used()), (500, 500));
    socket.settle();
    assert_eq!(socket.ledger().used(), 500);
    assert!(socket.take_reserved(501).is_none());
    drop(taken);
    assert_eq!(socket.ledger().used(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_end_shows_while_an_answer_is_awaited() {
    let (mut client, mut socket) = socket(1024, 1 << 20);
    client.write_all(b"GET / ").await.unwrap();
    poll_fn(|context| {
        assert!(socket.poll_gone(context).is_pending());
        Poll::Ready(())
    })
    .await;
    assert_eq!(socket.input.filled(), b"GET / ");
    socket.input.consume(6);
    drop(client);
    // It has sent its last byte, but may still take its answer.
    let gone = poll_fn(|context| socket.poll_gone(context));
    assert!(tokio::time::timeout(MINUTE, gone).await.is_err());
    assert_eq!(
        socket.fill(Instant::now() + MINUTE).await,
        Err(Ended::Closed)
    );
}
