use std::cell::OnceCell;

use fairq::KeyScheme;
use rpc::BroadcastMethod;

use super::*;
use crate::lane::api::WriteBody;
use crate::ledger::Ledger;

fn job(client: ClientKey, ledger: &Ledger, bytes: usize) -> Option<Job> {
    job_of(client, ledger, bytes, 3)
}

fn job_of(client: ClientKey, ledger: &Ledger, bytes: usize, tx: usize) -> Option<Job> {
    Some(Job {
        client,
        connection: 1,
        body: WriteBody::Tx {
            method: BroadcastMethod::Sync,
            tx: vec![b'x'; tx].into(),
        },
        hash: OnceCell::new(),
        arrived: Nanos::ZERO,
        deadline: Nanos::from_secs(30),
        ambiguous: false,
        recipient: Recipient::AcceptedBefore,
        reservation: ledger.of(client).reserve(bytes)?,
    })
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
            queue.note_block(txs, bytes, limits);
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
            let bytes = popped.item.value.tx().unwrap().len();
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
