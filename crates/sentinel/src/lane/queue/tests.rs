use fairq::KeyScheme;

use super::*;
use crate::budget::Ledger;
use crate::clock::Clock;
use crate::config::WriteOrder;
use crate::lane::api::Acknowledged;
use crate::lane::testing::write;
use crate::metrics::Metrics;

mod rooms;

fn job(client: ClientKey, ledger: &Ledger, bytes: usize) -> Option<Job> {
    job_of(client, ledger, bytes, 3)
}

fn job_of(client: ClientKey, ledger: &Ledger, bytes: usize, tx: usize) -> Option<Job> {
    let mut job = write(vec![b'x'; tx]);
    job.client = client;
    job.reservation = ledger.of(client).reserve(bytes)?;
    Some(job)
}

/// A block whose gas is not known.
fn content(txs: u64, bytes: u64) -> Content {
    let gas = 0;
    Content {
        load: control::Load { txs, bytes, gas },
        gas_txs: 0,
    }
}

#[test]
fn sharing_62_small_clients_get_in_whatever_an_elephant_holds() {
    let mut config = Config::default();
    config.buffer.bytes = 16 << 20;
    config.fair.queue_per_client = 1 << 20;
    config.fair.queue_timeout = Duration::from_hours(1);
    let ledger = Ledger::new(config.buffer.bytes);
    let mut queue = WriteQueue::new(&config, [1, 2]).unwrap();
    let client = |last: u8| KeyScheme::default().key([192, 0, 2, last].into());
    // Three that take what they get, then twenty that want a little.
    for elephant in 0..3 {
        while let Some(job) = job(client(elephant), &ledger, 30_000) {
            queue.admit(job, Nanos::ZERO).unwrap();
        }
    }
    assert!(ledger.used() > 11 << 20);
    for small in 100..120 {
        let job = job(client(small), &ledger, 30_000).expect("room in the account");
        queue.admit(job, Nanos::ZERO).expect("room in the queue");
    }
    // The longest queue has given way.
    assert!(queue.accounts().displaced > 0);
    assert_eq!(queue.accounts().refused, 0);
}

#[test]
fn sharing_73_shares_are_counted_in_what_the_chain_is_short_of() {
    let mut config = Config::default();
    config.fair.queue_per_client = 1 << 20;
    config.fair.queue_timeout = Duration::from_hours(1);
    let ledger = Ledger::new(config.buffer.bytes);
    let [elephant, mouse] =
        [1_u8, 2].map(|last| KeyScheme::default().key([192, 0, 2, last].into()));
    let limits = Some(BlockLimits {
        bytes: 4 << 20,
        gas: None,
    });
    // Bytes that each got while both always had something waiting.
    let served = |is_full: bool, pops: usize| {
        let mut queue = WriteQueue::new(&config, [1, 2]).unwrap();
        for _ in 0..3 {
            let (txs, bytes) = if is_full {
                (5, 3_750_000)
            } else {
                (2_000, 200_000)
            };
            queue.note_block(&content(txs, bytes), limits);
        }
        let add = |queue: &mut WriteQueue, client, tx| {
            let job = job_of(client, &ledger, 600, tx).unwrap();
            queue.admit(job, Nanos::ZERO).unwrap();
        };
        for _ in 0..20 {
            add(&mut queue, elephant, 750_000);
        }
        for _ in 0..40_000 {
            add(&mut queue, mouse, 100);
        }
        let mut served = [0_usize; 2];
        for _ in 0..pops {
            let popped = queue.next(Nanos::ZERO).unwrap();
            let bytes = popped.item.value.tx.len();
            served[usize::from(popped.client == mouse)] += bytes;
        }
        served
    };
    // At d833505 one for one, whatever their size: 7,500 bytes for one.
    assert_eq!(served(false, 40), [20 * 750_000, 20 * 100]);
    let [large, small] = served(true, 20_000);
    // What has 100 bytes is counted as 128, and a turn may lie on either side of the end.
    let (large, small) = (large as f64, small as f64 * 1.28);
    assert!((large - small).abs() <= 750_000.0, "{large} {small}");
}

/// One that always has writes waiting took every place that a block freed: the others' p99 was 530 ms beside it.
#[test]
fn sharing_53_places_are_kept_for_clients_that_ask_for_little_up_to_their_part() {
    let mut config = Config::default();
    config.fair.queue_timeout = Duration::from_hours(1);
    let ledger = Ledger::new(config.buffer.bytes);
    let client = |last: u8| KeyScheme::default().key([192, 0, 2, last].into());
    let ([polite, greedy], floods) = ([1, 2].map(client), [3, 4, 5].map(client));
    let mut queue = WriteQueue::new(&config, [1, 2]).unwrap();
    let add = |queue: &mut WriteQueue, client, count| {
        for _ in 0..count {
            let job = job(client, &ledger, 10).unwrap();
            queue.admit(job, Nanos::ZERO).unwrap();
        }
    };
    for flood in floods {
        add(&mut queue, flood, 100);
    }
    let whose = |popped: Option<Popped<Job>>| {
        popped.map(|popped| (popped.client, popped.item.value.notes.is_of_little))
    };
    // The floods have had their parts, and their queues are long.
    for _ in 0..30 {
        let (client, is_of_little) = whose(queue.next(Nanos::ZERO)).unwrap();
        assert!(floods.contains(&client) && !is_of_little);
    }
    assert_eq!(whose(queue.next_of_little(Nanos::ZERO)), None);
    // One that asks for little does not wait for their turns, also not with its second write.
    add(&mut queue, polite, 2);
    for _ in 0..2 {
        let next = whose(queue.next_of_little(Nanos::ZERO));
        assert_eq!(next, Some((polite, true)));
    }
    // A client that comes again as soon as it is served has its part of these places, and no more: the mean of what
    // those had that had any, 32 writes of four clients without its own.
    let taken = std::iter::repeat_with(|| {
        add(&mut queue, greedy, 1);
        whose(queue.next_of_little(Nanos::ZERO))
    });
    let taken = taken.take_while(Option::is_some).count();
    assert!((8..=10).contains(&taken), "{taken}");
    // The next block frees places for all.
    queue.note_block(&Content::default(), None);
    let next = whose(queue.next_of_little(Nanos::ZERO));
    assert_eq!(next, Some((greedy, true)));
}

/// Eight small writes that waited through a block's making were a long queue, so that no places were kept for their
/// client until its queue was empty: beside writes of 60 kB four clients with 1,000 a second had a p99 of 637 ms.
#[test]
fn sharing_53_who_asks_for_little_is_counted_in_what_the_chain_is_short_of() {
    let mut config = Config::default();
    config.fair.queue_timeout = Duration::from_hours(1);
    let ledger = Ledger::new(config.buffer.bytes);
    let [elephant, small] =
        [1_u8, 2].map(|last| KeyScheme::default().key([192, 0, 2, last].into()));
    let limits = Some(BlockLimits {
        bytes: 20 << 20,
        gas: None,
    });
    for (is_full, is_little) in [(true, true), (false, false)] {
        let mut queue = WriteQueue::new(&config, [1, 2]).unwrap();
        let add = |queue: &mut WriteQueue, client, (count, tx)| {
            for _ in 0..count {
                let job = job_of(client, &ledger, 600, tx).unwrap();
                queue.admit(job, Nanos::ZERO).unwrap();
            }
        };
        let bytes = if is_full { 20 << 20 } else { 400 * 60_000 / 10 };
        let content = content(400, bytes);
        // Both had something of the places before, the elephant most of it.
        add(&mut queue, elephant, (40, 60_000));
        for _ in 0..2 {
            queue.note_block(&content, limits);
        }
        for _ in 0..20 {
            queue.next(Nanos::ZERO).unwrap();
        }
        queue.note_block(&content, limits);
        add(&mut queue, small, (16, 250));
        let next = queue.next_of_little(Nanos::ZERO);
        assert_eq!(next.map(|next| next.client), is_little.then_some(small));
        add(&mut queue, elephant, (1, 60_000));
    }
}

#[test]
fn a_write_from_a_short_queue_beside_a_long_one_is_marked_and_nobody_elses() {
    let config = Config::default();
    let ledger = Ledger::new(config.buffer.bytes);
    let mut queue = WriteQueue::new(&config, [1, 2]).unwrap();
    let [flood, polite] = [1_u8, 2].map(|last| KeyScheme::default().key([192, 0, 2, last].into()));
    for (client, count) in [(flood, 20), (polite, 2)] {
        for _ in 0..count {
            queue
                .admit(job(client, &ledger, 10).unwrap(), Nanos::ZERO)
                .unwrap();
        }
    }
    let popped: Vec<(bool, bool)> = (0..6)
        .map(|_| {
            let popped = queue.next(Nanos::ZERO).unwrap();
            let passes = popped.item.value.notes.is_from_short_queue;
            (popped.client == polite, passes)
        })
        .collect();
    assert_eq!(popped.iter().filter(|(is_polite, _)| *is_polite).count(), 2);
    assert!(popped.iter().all(|(is_polite, passes)| is_polite == passes));
    // A client that is alone has no other to pass, however short its queue becomes.
    while let Some(popped) = queue.next(Nanos::ZERO) {
        assert!(!popped.item.value.notes.is_from_short_queue);
    }
}

/// A transfer of a Cosmos SDK chain, as far as its outline goes.
fn transfer(account: u8, sequence: u64) -> Vec<u8> {
    use cosmos::proto::{any, bytes, nested, number};
    let mut tx = Vec::new();
    nested(&mut tx, 1, |out| bytes(out, 2, b"memo"));
    nested(&mut tx, 2, |out| {
        nested(out, 1, |out| {
            nested(out, 1, |out| {
                any(out, "/cosmos.crypto.secp256k1.PubKey", |out| {
                    bytes(out, 1, &[account; 33]);
                });
            });
            number(out, 3, sequence);
        });
        nested(out, 2, |out| number(out, 2, 100_000));
    });
    tx
}

/// A write of this account, by a client over a connection of its.
fn job_by(client: u8, connection: u64, tx: Vec<u8>, ledger: &Ledger) -> Job {
    let client = KeyScheme::default().key([192, 0, 2, client].into());
    let mut job = job(client, ledger, 300).unwrap();
    job.line = connection;
    job.tx = tx.into();
    job.prepare(WriteOrder::Account);
    job
}

fn sequences(queue: &mut WriteQueue, pops: usize) -> Vec<Option<u64>> {
    let popped = std::iter::from_fn(|| queue.next(Nanos::ZERO)).take(pops);
    let place = |popped: Popped<Job>| popped.item.value.place();
    popped
        .map(|popped| place(popped).map(|place| place.sequence))
        .collect()
}

/// One connection has a long queue in front of an account's first transaction; another one brings the second.
#[test]
fn account_81_a_later_transaction_does_not_overtake_over_another_connection() {
    let ledger = Ledger::new(1 << 20);
    let mut queue = WriteQueue::new(&Config::default(), [1, 2]).unwrap();
    for _ in 0..10 {
        let other = job_by(1, 1, b"other".to_vec(), &ledger);
        queue.admit(other, Nanos::ZERO).unwrap();
    }
    for (connection, sequence) in [(1, 5), (2, 6), (3, 7), (2, 8)] {
        let job = job_by(1, connection, transfer(9, sequence), &ledger);
        queue.admit(job, Nanos::ZERO).unwrap();
    }
    let mut status = Status::default();
    queue.fill(&mut status);
    assert_eq!((queue.len(), status.queued), (14, 14));
    let order = sequences(&mut queue, 20);
    let of_account: Vec<u64> = order.iter().copied().flatten().collect();
    assert_eq!((order.len(), of_account), (14, vec![5, 6, 7, 8]));
    assert_eq!(queue.len(), 0);
}

/// At 2b52556 ten transactions that nobody had signed, in a queue of 900, held the writes of the account that they named
/// for as long as that queue took: 8.6 s.
#[test]
fn account_81_a_signer_that_another_client_names_holds_nobody() {
    let ledger = Ledger::new(1 << 20);
    let mut queue = WriteQueue::new(&Config::default(), [1, 2]).unwrap();
    for number in 0..910 {
        let tx = match number {
            0..900 => b"other".to_vec(),
            _ => transfer(9, 0),
        };
        queue.admit(job_by(1, 1, tx, &ledger), Nanos::ZERO).unwrap();
    }
    for sequence in 0..5 {
        let job = job_by(2, 1, transfer(9, sequence), &ledger);
        queue.admit(job, Nanos::ZERO).unwrap();
    }
    let owner = KeyScheme::default().key([192, 0, 2, 2].into());
    let popped: Vec<_> = (0..10).filter_map(|_| queue.next(Nanos::ZERO)).collect();
    let order: Vec<u64> = (popped.iter())
        .filter(|popped| popped.client == owner)
        .filter_map(|popped| popped.item.value.place())
        .map(|place| place.sequence)
        .collect();
    assert_eq!(order, [0, 1, 2, 3, 4]);
    let mut status = Status::default();
    queue.fill(&mut status);
    assert_eq!((queue.len(), status.queued), (905, 905));
}

/// What the first one's client takes away, or its deadline, holds nobody back.
#[test]
fn account_81_who_waits_behind_one_that_left_goes_on() {
    let ledger = Ledger::new(1 << 20);
    let mut queue = WriteQueue::new(&Config::default(), [1, 2]).unwrap();
    let outbox = crate::lane::Outbox::new();
    let mut first = job_by(1, 7, transfer(9, 5), &ledger);
    let client = first.client;
    let gone = Arc::clone(&outbox);
    first.recipient = Recipient::Client { outbox, tag: 0 };
    // A heavier queue before it, so that it is not first.
    for _ in 0..3 {
        let other = job_by(1, 7, b"other".to_vec(), &ledger);
        queue.admit(other, Nanos::ZERO).unwrap();
    }
    queue.admit(first, Nanos::ZERO).unwrap();
    queue
        .admit(job_by(1, 8, transfer(9, 6), &ledger), Nanos::ZERO)
        .unwrap();
    gone.close();
    queue.disconnect(client, 7);
    let left: Vec<_> = sequences(&mut queue, 5);
    assert!(left.contains(&Some(6)), "{left:?}");
    assert!(!left.contains(&Some(5)), "{left:?}");
    assert_eq!((queue.len(), queue.accounts().cancelled), (0, 1));
}

/// Blocks are full by bytes: both have something waiting all the time.
fn short_of_bytes(ledger_bytes: usize) -> (WriteQueue, Ledger) {
    let mut config = Config::default();
    config.fair.queue_timeout = Duration::from_hours(1);
    config.buffer.bytes = ledger_bytes;
    let mut queue = WriteQueue::new(&config, [1, 2]).unwrap();
    let content = content(5, 3_750_000);
    let limits = Some(BlockLimits {
        bytes: 4 << 20,
        gas: None,
    });
    for _ in 0..3 {
        queue.note_block(&content, limits);
    }
    (queue, Ledger::new(ledger_bytes))
}

/// At 2b52556 such a write had no price: its client had all turns for as long as it had some waiting.
#[test]
fn sharing_84_an_empty_transaction_is_not_free() {
    let (mut queue, ledger) = short_of_bytes(1 << 30);
    for _ in 0..1_000 {
        queue
            .admit(job_by(1, 1, Vec::new(), &ledger), Nanos::ZERO)
            .unwrap();
    }
    for _ in 0..100 {
        queue
            .admit(job_by(2, 1, vec![b'x'; 1_000], &ledger), Nanos::ZERO)
            .unwrap();
    }
    let [empty, other] = [0, 1_000].map(|bytes| move |job: &Job| job.tx.len() == bytes);
    let popped: Vec<Job> = std::iter::from_fn(|| queue.next(Nanos::ZERO))
        .take(17 * 30)
        .map(|popped| popped.item.value)
        .collect();
    // 16 units of bytes for each of them in a lap.
    assert_eq!(popped.iter().filter(|job| empty(job)).count(), 16 * 30);
    assert_eq!(popped.iter().filter(|job| other(job)).count(), 30);
}

/// At 2b52556 a client beyond `clients_max` shared the queue of others that a hash picked.
#[test]
fn fairness_09_who_finds_no_place_is_refused_with_a_reason() {
    let ledger = Ledger::new(1 << 20);
    let mut config = Config::default();
    config.fixed.clients_max = 2;
    let mut queue = WriteQueue::new(&config, [1, 2]).unwrap();
    let mut admit = |client| queue.admit(job_by(client, 1, vec![1], &ledger), Nanos::ZERO);
    assert!(admit(1).is_ok() && admit(2).is_ok());
    let refusal = admit(3).unwrap_err();
    assert_eq!(refusal.reason, Reason::Clients);
    assert!(refusal.retry_after >= Some(SHORTEST_RETRY));
    assert!(admit(1).is_ok());
    assert_eq!(queue.accounts().refused, 1);
    while queue.next(Nanos::ZERO).is_some() {}
    let job = job_by(3, 1, vec![1], &ledger);
    assert!(queue.admit(job, Nanos::ZERO).is_ok());
}

proptest::proptest! {
    /// Whatever leaves: the writes of an account that a client brings go in the order in which they came, and each ends
    /// once.
    #[test]
    fn account_81_an_accounts_writes_go_in_the_order_in_which_they_came(
        steps in proptest::collection::vec((0..10_u8, 0..3_u8, 0..2_u64, 0..3_u8), 1..300),
    ) {
        let ledger = Ledger::new(1 << 24);
        let mut queue = WriteQueue::new(&Config::default(), [1, 2]).unwrap();
        let outbox = crate::lane::Outbox::new();
        let (mut next, mut popped) = (0, Vec::new());
        for (step, client, connection, account) in steps {
            match step {
                0..6 => {
                    let mut job = job_by(client, connection, transfer(account, next), &ledger);
                    job.recipient = Recipient::Client { outbox: Arc::clone(&outbox), tag: next };
                    job.deadline = Nanos::from_secs(next);
                    next += 1;
                    queue.admit(job, Nanos::ZERO).unwrap();
                }
                6..9 => popped.extend(queue.next(Nanos::ZERO)),
                _ if account == 0 => queue.expire(Nanos::from_secs(next / 2)),
                _ => {
                    let client = KeyScheme::default().key([192, 0, 2, client].into());
                    queue.disconnect(client, connection);
                }
            }
        }
        popped.extend(std::iter::from_fn(|| queue.next(Nanos::ZERO)));
        proptest::prop_assert_eq!(queue.len(), 0);
        let mut status = Status::default();
        queue.fill(&mut status);
        proptest::prop_assert_eq!(status.queued, 0);
        let ended = status.accounts.expired + status.accounts.cancelled + popped.len() as u64;
        proptest::prop_assert_eq!(ended, next);
        let mut last = HashMap::new();
        for one in popped {
            let (client, place) = (one.client, one.item.value.place().unwrap());
            let before = last.insert((client, place.signer), place.sequence);
            proptest::prop_assert!(before < Some(place.sequence));
        }
    }
}

/// Before, they expired with the others while the node was stopped, although their clients had been told that they
/// were taken.
#[test]
fn acknowledged_66_what_was_acknowledged_outlives_its_deadline_and_keeps_nobody_else() {
    let config = Config::default();
    let ledger = Ledger::new(config.buffer.bytes);
    let mut queue = WriteQueue::new(&config, [1, 2]).unwrap();
    let metrics = Arc::new(Metrics::default());
    let acknowledged = Arc::new(Acknowledged::new(metrics, Clock::start()));
    let client = KeyScheme::default().key([192, 0, 2, 1].into());
    for number in 0..9 {
        let mut job = job(client, &ledger, 600).unwrap();
        job.line = number;
        job.deadline = Nanos::from_secs(30 + number);
        if number % 3 > 0 {
            job.recipient = Recipient::Acknowledged(Arc::clone(&acknowledged));
        }
        queue.admit(job, Nanos::from_secs(number)).unwrap();
    }
    for (now, expired, left) in [(29, 0, 9), (33, 2, 7), (70, 3, 6), (3_600, 3, 6)] {
        queue.expire(Nanos::from_secs(now));
        assert_eq!(
            (queue.accounts().expired, queue.len()),
            (expired, left),
            "{now}"
        );
    }
    // It is sent whenever its turn comes.
    let next = std::iter::from_fn(|| queue.next(Nanos::from_secs(7_200)));
    assert_eq!(next.count(), 6);
    assert_eq!(acknowledged.all_unkept(), 0);
}

/// Nothing is sent as long as a sentinel does not know how many share the limit.
#[test]
fn what_comes_while_all_is_held_is_taken_up_to_the_client_s_queue() {
    let mut config = Config::default();
    config.fair.queue_per_client = 3;
    let ledger = Ledger::new(config.buffer.bytes);
    let client = KeyScheme::default().key([192, 0, 2, 1].into());
    let mut queue = WriteQueue::new(&config, [1, 2]).unwrap();
    queue.set_pace(Rate::ZERO, Nanos::ZERO);
    let mut add = || queue.admit(job(client, &ledger, 10).unwrap(), Nanos::ZERO);
    assert!((0..3).all(|_| add().is_ok()));
    let refusal = add().unwrap_err();
    assert_eq!(refusal.retry_after, Some(SHORTEST_RETRY));
}
