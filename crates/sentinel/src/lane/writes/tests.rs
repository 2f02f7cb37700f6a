mod always;
mod aside;

use super::*;
use crate::budget::{Budget, Ledger};
use crate::config::{Config, WriteOrder};
use crate::lane::api::Outbox;
use crate::lane::job::{Recipient, TxHash};
use crate::lane::testing::write;

const AT: fn(u64) -> Nanos = Nanos::from_secs;
const SLOT: Carrier = Carrier::Slot(1);

fn writes() -> Writes {
    Writes::new(1 << 20)
}

/// A write of this name over this connection.
fn job(name: u8, connection: u64) -> Job {
    let mut job = write(vec![name; 10]);
    job.line = connection;
    job.deadline = AT(60);
    job.recipient = Recipient::Client {
        outbox: Outbox::new(),
        tag: name.into(),
    };
    job
}

fn hash(name: u8) -> TxHash {
    job(name, 0).hash()
}

fn names<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> Vec<u8> {
    jobs.into_iter().map(|job| job.tx[0]).collect()
}

/// Sends one.
fn send(writes: &mut Writes, name: u8, connection: u64) -> WriteId {
    let number = writes.insert(job(name, connection), AT(0));
    writes.sent(number, SLOT, AT(0));
    number
}

fn next_ready(writes: &Writes) -> Option<WriteId> {
    writes.ready_after(None).next()
}

/// Sends all that are ready: their names.
fn send_ready(writes: &mut Writes, now: Nanos) -> Vec<u8> {
    let mut names = Vec::new();
    while let Some(number) = next_ready(writes) {
        if writes.position(number) == Position::Blocked {
            writes.apply(number, Event::LineBusy, now);
        } else {
            names.push(writes.job(number).unwrap().tx[0]);
            writes.sent(number, SLOT, now);
        }
    }
    names
}

/// The check of one under way passes, and its client gets the answer.
fn accept(writes: &mut Writes, number: WriteId, now: Nanos) {
    writes.job_mut(number).unwrap().close();
    writes.accept(number, now);
}

fn known(same_since: u64, last_block: Option<u64>, hold: u64) -> Known {
    Known {
        same_since: Some(AT(same_since)),
        made: Some(7),
        last_block: ShownBlock {
            height: 7 + u64::from(last_block.is_some()),
            observed: AT(last_block.unwrap_or(0)),
        },
        hold: AT(hold),
        longest_hold: AT(10 * hold),
    }
}

/// Before, a block that came late counted as one that was made late: what later blocks of before the restart showed was
/// offered to a node that had forgotten it, and committed twice.
#[test]
fn case_24_the_fate_is_known_when_all_that_was_made_before_is_shown() {
    let at = |height, observed| ShownBlock {
        height,
        observed: AT(observed),
    };
    // The connection is of second 20, and nothing is known after so many seconds more.
    for (made, last_block, covered_after) in [
        // Blocks 5 to 8 were made before the break and are shown after it.
        (Some(8), at(5, 21), 100),
        (Some(8), at(7, 22), 100),
        (Some(8), at(8, 23), 3),
        (Some(8), at(9, 24), 0),
        // An event from before the connection does not concern it.
        (Some(8), at(8, 19), 3),
        (Some(8), at(9, 19), 3),
        // The node was not asked yet.
        (None, at(9, 24), 100),
    ] {
        let known = Known {
            same_since: Some(AT(20)),
            made,
            last_block,
            hold: AT(3),
            longest_hold: AT(100),
        };
        let covered = |after: u64| known.covers(AT(15), AT(20 + after));
        let first = (0..).find(|after| covered(*after)).unwrap();
        let expected = covered_after + u64::from(covered_after > 0);
        assert_eq!(first, expected, "{made:?} {last_block:?}");
        // Another connection broke later, and the node is the same.
        assert!(!known.covers(AT(25), AT(27)), "{made:?} {last_block:?}");
    }
}

#[test]
fn case_99_what_broke_is_offered_again_in_its_order_once_a_block_could_have_shown_it() {
    let mut writes = writes();
    let numbers: Vec<WriteId> = (1..=4).map(|name| send(&mut writes, name, 1)).collect();
    let other = send(&mut writes, 9, 2);
    accept(&mut writes, numbers[0], AT(1));
    writes.hold_until(AT(1));
    writes.apply(numbers[2], Event::Full, AT(1));
    for number in [numbers[1], numbers[3]] {
        writes.apply(number, Event::Broke, AT(2));
    }
    // What may be at the node is own until its fate is known: one accepted, two that broke.
    assert_eq!(writes.own().txs, 3);
    // Its line waits, and only that.
    let [next, next_other] =
        [(5, 1), (8, 2)].map(|(name, line)| writes.insert(job(name, line), AT(2)));
    assert_eq!(writes.position(next), Position::Blocked);
    writes.apply(next, Event::LineBusy, AT(2));
    assert_eq!(writes.position(next_other), Position::Behind(SLOT, 1));
    writes.sent(next_other, SLOT, AT(2));
    // A block that was there before shows nothing.
    assert_eq!(writes.offer_unknown(AT(3), &known(0, Some(2), 10)), 0);
    assert_eq!(writes.offer_unknown(AT(3), &known(0, Some(3), 10)), 2);
    writes.end_refusal(AT(3));
    assert_eq!(send_ready(&mut writes, AT(3)), [2, 3, 4]);
    assert_eq!(writes.own().txs, 1);
    // It goes when what was before it is answered, whatever the others do.
    for number in &numbers[1..] {
        assert!(send_ready(&mut writes, AT(4)).is_empty());
        accept(&mut writes, *number, AT(4));
    }
    assert_eq!(send_ready(&mut writes, AT(4)), [5]);
    accept(&mut writes, other, AT(4));
    assert_eq!((writes.own().txs, writes.lines()), (5, 2));
}

/// At 2b52556 the hold was three mean intervals, up to a minute: an idle time before made it longer than the writes
/// lived.
#[test]
fn case_79_after_45_s_of_silence_and_a_restart_everything_is_offered_again_in_time() {
    let mut writes = writes();
    // Under way since second 45; the node is back at 46, its chain makes no empty blocks.
    let numbers: Vec<WriteId> = (1..=20)
        .map(|name| {
            let mut job = job(name, name.into());
            job.deadline = AT(45 + 20);
            let number = writes.insert(job, AT(45));
            writes.sent(number, SLOT, AT(45));
            number
        })
        .collect();
    for number in &numbers {
        writes.apply(*number, Event::Broke, AT(45));
    }
    let half_of_queue_timeout = 10;
    let known = known(46, Some(0), half_of_queue_timeout);
    assert!(!known.covers(AT(45), AT(56)));
    assert!(known.covers(AT(45), AT(57)));
    assert!(writes.take_expired(AT(57)).is_empty());
    assert_eq!(writes.offer_unknown(AT(57), &known), 20);
    assert_eq!(send_ready(&mut writes, AT(57)), Vec::from_iter(1..=20));
    // Without a connection nothing is known, however long it takes.
    let down = Known {
        same_since: None,
        ..known
    };
    assert!(!down.covers(AT(0), AT(1_000)));
}

#[test]
fn case_24_what_the_node_accepted_before_it_was_started_again_goes_first() {
    let mut writes = writes();
    let [one, two, three] = [1, 2, 3].map(|name| send(&mut writes, name, name.into()));
    accept(&mut writes, one, AT(1));
    writes.apply(two, Event::Broke, AT(2));
    // The node is back at 5.
    assert_eq!(writes.offer_accepted(AT(5), AT(6)), 1);
    assert_eq!(writes.offer_unknown(AT(6), &known(5, Some(6), 60)), 1);
    assert_eq!((writes.own().txs, writes.kept_bytes()), (0, 0));
    assert_eq!(send_ready(&mut writes, AT(6)), [1, 2]);
    // One that was accepted since is not in doubt.
    accept(&mut writes, three, AT(6));
    assert_eq!(writes.offer_accepted(AT(5), AT(7)), 0);
    // "Already exists in cache" makes it own again.
    accept(&mut writes, one, AT(7));
    writes.apply(two, Event::AlreadyThere, AT(7));
    assert_eq!(writes.own().txs, 3);
    // A block tells of both: the client of one of them still waits.
    let (committed, shown) = writes.block(&[hash(2), hash(1)], AT(8));
    assert_eq!(committed.ours.txs, 2);
    let open: Vec<bool> = shown.iter().map(|job| job.is_open()).collect();
    assert_eq!((names(&shown), open), (vec![2, 1], vec![true, false]));
}

#[test]
fn case_98_a_write_that_was_under_way_at_two_breaks_goes_alone() {
    let mut writes = writes();
    let [poison, other] = [1, 2].map(|name| send(&mut writes, name, 1));
    writes.apply(poison, Event::Broke, AT(1));
    accept(&mut writes, other, AT(1));
    writes.offer_unknown(AT(2), &known(0, Some(2), 9));
    assert_eq!(
        (send_ready(&mut writes, AT(2)), writes.is_alone(poison)),
        (vec![1], false)
    );
    writes.apply(poison, Event::Broke, AT(3));
    writes.offer_unknown(AT(4), &known(0, Some(4), 9));
    assert_eq!(next_ready(&writes), Some(poison));
    assert!(writes.is_alone(poison));
    writes.sent(poison, Carrier::Alone, AT(4));
    // Those of its line wait for it, whatever carries them.
    let next = writes.insert(job(3, 1), AT(4));
    assert_eq!(writes.position(next), Position::Behind(Carrier::Alone, 1));
    writes.apply(next, Event::LineBusy, AT(4));
    assert!(writes.apply(poison, Event::Answered, AT(5)).is_some());
    assert_eq!(next_ready(&writes), Some(next));
}

/// At 2b52556 a write of 999,999 bytes went in a message of 1,000,020, at which the node closes the connection.
#[test]
fn case_98_what_is_longer_than_the_node_reads_goes_alone() {
    let mut writes = writes();
    let insert = |writes: &mut Writes, bytes| {
        let number = writes.insert(write(vec![1; bytes]), AT(0));
        (number, writes.is_alone(number))
    };
    assert!(!insert(&mut writes, 749_900).1);
    assert!(insert(&mut writes, 749_961).1);
    // A gateway whose limit is smaller refuses once.
    let [small, large] = [1_000, 400_000].map(|bytes| insert(&mut writes, bytes));
    assert_eq!([small.1, large.1], [false; 2]);
    writes.note_too_long(&[small.0, large.0]);
    assert!(insert(&mut writes, 400_000).1);
    assert!(!insert(&mut writes, 399_000).1);
    writes.note_too_long(&[small.0]);
    assert!(!insert(&mut writes, 10_000).1);
}

#[test]
fn acknowledged_67_order_and_bounds_hold_and_nothing_stays_unknown() {
    let ledger = Ledger::new(1 << 20);
    let mut writes = Writes::new(4 * (10 + OVERHEAD));
    for name in 1..=5 {
        let mut job = job(name, 1);
        job.reservation = ledger.reserve(30).unwrap();
        let number = writes.insert(job, AT(0));
        writes.sent(number, SLOT, AT(0));
        accept(&mut writes, number, AT(name.into()));
    }
    // What is not kept is own all the same.
    assert_eq!(
        (writes.own().txs, writes.count(WriteState::Accepted)),
        (5, 4)
    );
    // Only the transactions themselves count from now on.
    assert_eq!(
        (writes.kept_bytes(), ledger.used()),
        (4 * (10 + OVERHEAD), 40)
    );
    let (committed, shown) = writes.block(&[hash(2), hash(5), hash(7)], AT(6));
    assert_eq!((committed.ours.txs, names(&shown)), (2, vec![2]));
    drop(shown);
    assert_eq!(
        (writes.kept_bytes(), ledger.used()),
        (3 * (10 + OVERHEAD), 30)
    );
    // One that is there already is kept once.
    let again = send(&mut writes, 1, 2);
    accept(&mut writes, again, AT(7));
    assert_eq!(
        (writes.own().txs, writes.count(WriteState::Accepted)),
        (3, 3)
    );
    let (_, shown) = writes.block(&[hash(1)], AT(8));
    assert_eq!(names(&shown), [1]);
    assert!(
        writes.take_expired(AT(1_000_000)).is_empty(),
        "time alone drops nothing"
    );
    assert_eq!(writes.offer_accepted(AT(9), AT(9)), 2);
    assert_eq!(send_ready(&mut writes, AT(9)), [3, 4]);
}

/// Before, a client whose accepted writes filled its share of a small buffer was refused for ever at a node that shows no
/// blocks.
#[test]
fn case_99_what_is_kept_leaves_its_client_room() {
    let client = fairq::KeyScheme::default().key([192, 0, 2, 1].into());
    for buffer in [64 << 10, 32 << 20, 256 << 20] {
        let mut config = Config::default();
        config.buffer.bytes = buffer;
        let ledger = Budget::new(&config, [1, 2]).ledger().of(client);
        let kept = ledger.reserve(config.retained());
        assert!(kept.is_some() && ledger.reserve(buffer / 8).is_some());
    }
}

#[test]
fn a_refusal_holds_everything_until_its_time_or_a_block() {
    let mut writes = writes();
    let [one, two] = [1, 2].map(|name| send(&mut writes, name, 1));
    writes.hold_until(AT(2));
    writes.apply(one, Event::Full, AT(1));
    writes.end_refusal(AT(1));
    assert_eq!(writes.ask_again_at(), Some(AT(2)));
    writes.block(&[], AT(1));
    // Not before everything of its line is answered.
    writes.end_refusal(AT(1));
    assert_eq!((writes.ask_again_at(), next_ready(&writes)), (None, None));
    writes.hold_until(AT(9));
    writes.apply(two, Event::Full, AT(1));
    writes.end_refusal(AT(9));
    assert_eq!(send_ready(&mut writes, AT(9)), [1, 2]);
}

/// Those that two refusals left between them are not overtaken by the second.
#[test]
fn account_80_who_waits_behind_a_refused_one_keeps_its_place_before_the_next_refused_one() {
    let mut writes = writes();
    let numbers = [1, 2, 3, 4].map(|name| send(&mut writes, name, 1));
    writes.hold_until(AT(2));
    for (number, event) in numbers
        .into_iter()
        .zip([Event::Full, Event::Behind].repeat(2))
    {
        writes.apply(number, event, AT(1));
    }
    writes.end_refusal(AT(2));
    assert_eq!(send_ready(&mut writes, AT(2)), [1, 2, 3, 4]);
}

/// The application counts a refused transaction's sequence until a block: earlier it would be refused as used.
#[test]
fn account_80_what_an_application_refused_waits_for_a_block_and_not_for_less() {
    let mut writes = writes();
    let [one, two] = [1, 2].map(|name| send(&mut writes, name, 1));
    writes.hold_until(AT(1));
    writes.apply(one, Event::Full, AT(0));
    writes.hold_for_block(AT(18));
    writes.apply(two, Event::Full, AT(0));
    writes.end_refusal(AT(17));
    assert_eq!(next_ready(&writes), None);
    writes.block(&[], AT(17));
    writes.end_refusal(AT(17));
    assert_eq!(send_ready(&mut writes, AT(17)), [1, 2]);
}

#[test]
fn account_80_who_waits_for_a_block_behind_others_of_its_account_holds_nobody_else() {
    let mut writes = writes();
    let [one, two] = [1, 2].map(|name| send(&mut writes, name, name.into()));
    writes.apply(two, Event::BehindBlock, AT(1));
    assert_eq!((writes.ask_again_at(), writes.to_be_sent()), (None, 0));
    assert!(!writes.is_empty());
    writes.block(&[], AT(2));
    assert_eq!(send_ready(&mut writes, AT(2)), [2]);
    // Deadlines, blocks and the end reach it too.
    writes.apply(two, Event::BehindBlock, AT(3));
    let (_, shown) = writes.block(&[hash(2)], AT(3));
    assert_eq!(names(&shown), [2]);
    writes.apply(one, Event::BehindBlock, AT(3));
    assert_eq!(names(&writes.take_expired(AT(60))), [1]);
    assert!(writes.is_empty() && writes.lines() == 0);
}

/// One behind its own on the usual connection waits for them, whatever its queue is then.
#[test]
fn what_comes_behind_a_parked_write_waits_behind_it() {
    let mut writes = writes();
    let first = send(&mut writes, 1, 1);
    let [express, behind] = [2, 3].map(|name| writes.insert(job(name, 1), AT(0)));
    assert_eq!(writes.position(express), Position::Behind(SLOT, 1));
    writes.apply(express, Event::LineBusy, AT(0));
    assert_eq!(writes.position(behind), Position::Blocked);
    writes.apply(behind, Event::LineBusy, AT(0));
    accept(&mut writes, first, AT(1));
    assert_eq!(next_ready(&writes), Some(express));
    writes.sent(express, Carrier::Slot(0), AT(1));
    assert_eq!(
        writes.position(behind),
        Position::Behind(Carrier::Slot(0), 1)
    );
}

/// Transactions of more bytes are hashed when they come.
#[test]
fn sharing_73_large_writes_are_hashed_in_their_clients_turn_and_not_by_the_worker() {
    let mut large = write(vec![b'x'; 60_000]);
    assert!(large.known_hash().is_none());
    large.prepare(WriteOrder::Connection);
    assert!(large.known_hash().is_some());
}
