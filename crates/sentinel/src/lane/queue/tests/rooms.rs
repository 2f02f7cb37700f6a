//! Sessions that wait for room in their client's queue.

use super::*;

/// At 2b52556 a session that waited for room was woken by a turn of its client's only.
#[test]
fn who_waits_for_room_is_woken_whatever_made_it() {
    let ledger = Ledger::new(1 << 20);
    let client = job_by(1, 1, vec![1], &ledger).client;
    let leave: [fn(&mut WriteQueue, ClientKey); 4] = [
        |queue, _| queue.expire(Nanos::MAX),
        |queue, client| queue.disconnect(client, 1),
        |queue, _| drop(queue.take_all()),
        |queue, _| while queue.next(Nanos::ZERO).is_some() {},
    ];
    for leave in leave {
        let mut config = Config::default();
        config.fair.queue_per_client = 4;
        let mut queue = WriteQueue::new(&config, [1, 2]).unwrap();
        for tag in 0..4 {
            let mut job = job_by(1, 1, vec![1], &ledger);
            let outbox = crate::lane::Outbox::new();
            job.recipient = Recipient::Client { outbox, tag };
            queue.admit(job, Nanos::ZERO).unwrap();
        }
        assert!(!queue.has_room(client, Nanos::ZERO));
        let room = queue.room(client);
        let mut waiting = std::pin::pin!(room.notified());
        assert!(!waiting.as_mut().enable());
        leave(&mut queue, client);
        assert!(waiting.as_mut().enable(), "it was not woken");
    }
}

/// Before, every session of a client was woken when its queue was down to half, and twice a second: of 5,000 that waited
/// nearly all found no room.
#[test]
fn sharing_89_as_many_sessions_are_woken_as_find_room() {
    let ledger = Ledger::new(1 << 20);
    let client = job_by(1, 1, vec![1], &ledger).client;
    let mut config = Config::default();
    config.fair.queue_per_client = 8;
    let mut queue = WriteQueue::new(&config, [1, 2]).unwrap();
    for _ in 0..8 {
        let job = job_by(1, 1, vec![1], &ledger);
        queue.admit(job, Nanos::ZERO).unwrap();
    }
    let rooms: Vec<_> = (0..100).map(|_| queue.room(client)).collect();
    let mut sessions: Vec<_> = rooms.iter().map(|room| Box::pin(room.notified())).collect();
    let mut woken = || {
        let before = sessions.len();
        sessions.retain_mut(|session| !session.as_mut().enable());
        before - sessions.len()
    };
    assert_eq!(woken(), 0);
    queue.offer_rooms(Nanos::ZERO);
    assert_eq!(woken(), 0);
    for _ in 0..2 {
        queue.next(Nanos::ZERO).unwrap();
    }
    assert_eq!(woken(), 0);
    queue.offer_rooms(Nanos::ZERO);
    assert_eq!(woken(), 2);
    while queue.next(Nanos::ZERO).is_some() {}
    assert_eq!(woken(), 8);
    // A session that would wait too long is not woken before that has changed.
    let opens_at = Nanos::from_secs(600);
    queue.set_pace(Rate::per_second(1_000).unwrap(), opens_at);
    queue.offer_rooms(Nanos::ZERO);
    assert_eq!(woken(), 0);
    queue.offer_rooms(opens_at);
    assert_eq!(woken(), 8);
    drop(sessions);
    drop(rooms);
    queue.offer_rooms(opens_at);
    assert!(queue.rooms.is_empty());
}
