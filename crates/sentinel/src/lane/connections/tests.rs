use std::collections::BTreeSet;

use devnode::DevNode;

use super::super::testing::write;
use super::*;

fn large_write(number: u8) -> Job {
    let mut tx = format!("large{number}=").into_bytes();
    tx.resize(60_000, b'x');
    write(tx)
}

/// At be368fd the worker hashed them when their answers came, up to 512 in one go: 0.4 ms for each of 750 kB.
#[test]
fn sharing_73_large_writes_are_hashed_in_their_clients_turn_and_not_by_the_worker() {
    let large = large_write(1);
    assert!(!large.is_hashed());
    large.prepare(WriteOrder::Connection);
    assert!(large.is_hashed());
}

/// At d94f069 a grant of 200 writes of 60 kB was encoded in one turn, and waited for the socket ahead of
/// everybody who came later.
#[tokio::test]
async fn sharing_73_large_writes_wait_in_the_queue_and_not_for_a_socket() {
    let (_node, mut connections) = connected().await;
    let mut queued = 0;
    while connections.room() > 0 {
        let job = large_write(queued);
        connections.send(job, Nanos::ZERO).unwrap();
        queued += 1;
    }
    assert!((3..=6).contains(&queued), "{queued} writes of 80 kB each");
    settle(&mut connections, 0).await;
    assert_eq!(connections.room(), MOST_UNWRITTEN);
}

/// A node, and connections to it: one in use and the one that passes it.
async fn connected() -> (DevNode, Connections) {
    let config = devnode::Config {
        listen: ([127, 0, 0, 1], 0).into(),
        ..devnode::Config::default()
    };
    let (node, worker) = DevNode::bind(config).await.unwrap();
    tokio::spawn(worker);
    let mut connections = Connections::new(1, Duration::from_secs(5), WriteOrder::Connection);
    connections.open(&node.rpc_url().parse().unwrap());
    while !connections.is_up() {
        connections.next(Nanos::ZERO).await;
    }
    (node, connections)
}

/// Reads answers until so many are left.
async fn settle(connections: &mut Connections, left: usize) {
    let mut answers = Vec::new();
    connections.flush().unwrap();
    while connections.in_flight() > left {
        connections.next(Nanos::ZERO).await;
        connections.take_answers(&mut answers);
        answers.clear();
    }
}

/// At be368fd a write of a client that asks for little waited in the node's socket behind some two hundred of a
/// flood, 80 ms on a Cosmos SDK chain.
#[tokio::test]
async fn a_write_from_a_short_queue_passes_the_others_and_stays_in_order_with_its_own() {
    let (_node, mut connections) = connected().await;
    assert_eq!(connections.in_use(), 1);
    let mut number = 0;
    let mut send = |connections: &mut Connections, connection, is_from_short_queue| {
        number += 1;
        let mut job = large_write(number);
        job.connection = connection;
        job.notes.is_from_short_queue = is_from_short_queue;
        connections.send(job, Nanos::ZERO).unwrap();
        [0, 1].map(|place| connections.up[place].in_flight())
    };
    assert_eq!(send(&mut connections, 1, false), [1, 0]);
    assert_eq!(send(&mut connections, 2, true), [1, 1]);
    // What comes behind it of its own connection does not pass it, whatever its queue is then.
    assert_eq!(send(&mut connections, 2, false), [1, 2]);
    // One behind its own on the usual connection waits for them, also when its queue is not short any more, and
    // then takes the other one: at ten a second one of its own would always be under way there.
    assert_eq!(send(&mut connections, 1, true), [1, 2]);
    assert_eq!(send(&mut connections, 1, false), [1, 2]);
    assert_eq!(connections.in_flight(), 5);
    let mut reoffers = Reoffers::default();
    connections.release(&mut reoffers, Nanos::ZERO);
    assert_eq!(connections.held.len(), 2);
    // After a refusal they wait behind what was refused, once all answers are read.
    reoffers.refused(large_write(100), Nanos::ZERO);
    connections.release(&mut reoffers, Nanos::ZERO);
    assert_eq!(connections.held.len(), 2);
    settle(&mut connections, 2).await;
    connections.release(&mut reoffers, Nanos::ZERO);
    assert_eq!(connections.in_flight(), 0);
    reoffers.end_refusal(Nanos::ZERO);
    let waiting = std::iter::from_fn(|| reoffers.pop());
    let waiting = waiting.map(|job| (job.bytes(), job.notes.is_from_short_queue));
    assert_eq!(
        waiting.collect::<Vec<_>>(),
        [(60_000, false), (60_000, true), (60_000, false)]
    );
    // Without one they go when their own are answered.
    assert_eq!(send(&mut connections, 1, false), [1, 0]);
    assert_eq!(send(&mut connections, 1, true), [1, 0]);
    settle(&mut connections, 1).await;
    connections.release(&mut reoffers, Nanos::ZERO);
    assert_eq!(send(&mut connections, 1, true), [0, 2]);
    settle(&mut connections, 0).await;
    assert_eq!(send(&mut connections, 2, false), [1, 0]);
    assert_eq!(send(&mut connections, 3, true), [1, 1]);
}

/// Checks are slow over one connection (28/s where ten got 195/s), so a client's connections are
/// spread over several, but what must stay in order is not.
#[test]
fn what_must_stay_in_order_takes_one_connection_of_several() {
    let client = fairq::KeyScheme::default().key([127, 0, 0, 1].into());
    let count = |line: fn(ClientKey, u64) -> OrderKey| {
        let places = (0..100).map(|connection| place(&line(client, connection), 8));
        places.collect::<BTreeSet<_>>().len()
    };
    assert_eq!(count(|client, _| OrderKey::Client(client)), 1);
    let of_account = |client, _| {
        let signer = cosmos::Address([7; 20]);
        OrderKey::Account(AccountKey { client, signer })
    };
    assert_eq!(count(of_account), 1);
    assert_eq!(count(OrderKey::Connection), 8);
    for connection in 0..100 {
        let again = || place(&OrderKey::Connection(client, connection), 8);
        assert_eq!(again(), again());
    }
}
