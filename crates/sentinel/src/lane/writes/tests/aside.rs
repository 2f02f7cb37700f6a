//! What cannot be sent holds back its own line only.

use fairq::{ClientKey, KeyScheme};

use super::*;

fn client(n: u8) -> ClientKey {
    KeyScheme::default().key([10, 0, 0, n].into())
}

fn insert(writes: &mut Writes, name: u8, (of, connection): (u8, u64)) -> WriteId {
    let mut job = job(name, connection);
    job.client = client(of);
    writes.insert(job, AT(0))
}

fn hold(of: u8, line: Option<u64>, is_held: bool) -> Hold {
    Hold {
        client: client(of),
        line,
        is_held,
    }
}

fn turned(writes: &mut Writes) -> Vec<Hold> {
    writes.take_turned().collect()
}

/// Before, as many as 512 of one line left its queue to wait for one that was under way, and then no other
/// write left.
#[test]
fn case_110_a_line_of_which_one_waits_takes_nothing_more_from_its_queue() {
    let mut writes = writes();
    let first = insert(&mut writes, 1, (2, 7));
    writes.sent(first, SLOT, AT(0));
    assert_eq!(turned(&mut writes), []);
    let second = insert(&mut writes, 2, (2, 7));
    writes.apply(second, Event::LineBusy, AT(0));
    assert_eq!(turned(&mut writes), [hold(2, Some(7), true)]);
    // It is the next when the line is free, and until it is sent the others stay where they are.
    writes.apply(first, Event::Answered, AT(1));
    assert_eq!(next_ready(&writes), Some(second));
    assert_eq!(turned(&mut writes), []);
    writes.sent(second, SLOT, AT(1));
    assert_eq!(turned(&mut writes), [hold(2, Some(7), false)]);
    // So it is after a break, after a refusal, and when the one that waits has no time left.
    writes.apply(second, Event::Broke, AT(2));
    assert_eq!(turned(&mut writes), [hold(2, Some(7), true)]);
    assert_eq!(names(&writes.take_expired(AT(60))), [2]);
    assert_eq!(turned(&mut writes), [hold(2, Some(7), false)]);
    assert!(writes.is_empty() && writes.lines() == 0);
}

/// Before, one client with many connections, or many writes that go alone, filled all places.
#[test]
fn case_110_a_client_that_fills_its_share_is_held_and_leaves_the_places_of_others() {
    let mut writes = writes();
    let mut ready = Vec::new();
    for connection in 0..600 {
        let id = insert(&mut writes, 1, (2, connection));
        writes.apply(id, Event::NoRoom, AT(0));
        ready.push(id);
    }
    let of_client = |hold: &Hold| hold.line.is_none();
    let held: Vec<_> = turned(&mut writes).into_iter().filter(of_client).collect();
    assert_eq!(held, [hold(2, None, true)]);
    assert!(writes.has_room_aside());
    // Sixteen such clients fill the whole.
    for of in 3..18 {
        for connection in 0..40 {
            assert!(writes.has_room_aside(), "{of}");
            let id = insert(&mut writes, 1, (of, connection));
            writes.apply(id, Event::NoRoom, AT(0));
            if connection == 31 && of == 17 {
                assert!(!writes.has_room_aside());
                break;
            }
        }
    }
    turned(&mut writes);
    for id in ready.drain(..569) {
        writes.sent(id, SLOT, AT(0));
    }
    assert_eq!(
        turned(&mut writes)
            .iter()
            .filter(|hold| of_client(hold))
            .count(),
        1
    );
    assert!(writes.has_room_aside());
}
