mod conflicts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use proptest::prelude::*;

use super::{Engine, Pipeline, Settings};
use crate::admit::{KeyBits, Refused};
use crate::coins::{
    Coins, ExactSet, Fate, GENESIS, Ledger, Narrow, PANICS, Payment, Witness, payment,
};
use crate::filter::Filter;
use crate::pipeline::Serial;

type Fates = Arc<Mutex<BTreeMap<u32, Vec<Fate>>>>;

fn engine<F: Filter<KeyBits>>(filter: F, settings: Settings) -> (Engine<Coins, F>, Fates) {
    let (coins, fates) = Coins::new();
    (
        Engine::new(coins, Ledger::genesis(), filter, settings),
        fates,
    )
}

/// What became of a transaction that was submitted once.
fn fate(fates: &Fates, id: u32) -> Option<Fate> {
    let fates = fates.lock().unwrap();
    let of = fates.get(&id)?;
    assert_eq!(of.len(), 1, "decided more than once: {of:?}");
    of.first().copied()
}

/// Epochs until nothing goes on. Two in a row may check nothing before one does: a commit releases orphans
/// whose keys collide, all of them are deferred, and the next commit takes the first.
fn run<F: Filter<KeyBits>>(engine: &Engine<Coins, F>) {
    let mut idle_epochs = 0;
    while idle_epochs < 3 {
        idle_epochs += 1;
        while engine.validate() > 0 {
            idle_epochs = 0;
        }
        engine.commit();
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Submit(usize),
    Validate,
    Commit,
    Pause,
}

/// Payments 1 to 12, each spending outputs of earlier ones or of ones that never come.
fn payments() -> impl Strategy<Value = Vec<Payment>> {
    let coins = |id: u32| prop::collection::vec((0..id + 1, 0_u32..2), 1..4);
    (1_u32..13)
        .map(move |id| {
            coins(id).prop_map(move |coins| {
                // In place of its own outputs, those of one that is never submitted.
                let coins = coins.into_iter().map(|(of, output)| {
                    if of == id {
                        (100, output)
                    } else {
                        (of, output)
                    }
                });
                payment(id, &coins.collect::<Vec<_>>())
            })
        })
        .collect::<Vec<_>>()
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0_usize..12).prop_map(Step::Submit),
        3 => Just(Step::Validate),
        1 => Just(Step::Commit),
        1 => Just(Step::Pause),
    ];
    prop::collection::vec(step, 0..60)
}

/// The laws that hold whatever was submitted, in whatever order the threads came.
fn check_laws(ledger: &Ledger, fates: &Fates, payments: &[Payment]) {
    let fates = fates.lock().unwrap();
    let accepted: BTreeSet<u32> = ledger.order.iter().map(|tx| tx.id).collect();
    assert_eq!(accepted.len(), ledger.order.len(), "committed twice");
    let (coins, replayed) = Coins::new();
    let serial = Serial::new(coins, Ledger::genesis());
    for tx in &ledger.order {
        serial.submit(tx.clone());
    }
    assert_eq!(
        serial.counters().accepted as usize,
        accepted.len(),
        "serial admits less"
    );
    for (id, of) in fates.iter() {
        let wins = of.iter().filter(|fate| **fate == Fate::Accepted).count();
        assert_eq!(wins, usize::from(accepted.contains(id)), "{id}: {of:?}");
    }
    // What was refused would be refused by the serial one too, now that the winners are chosen.
    for (id, of) in fates.iter().filter(|(id, _)| !accepted.contains(id)) {
        let tx = payments.iter().find(|tx| tx.id == *id).unwrap();
        serial.submit(tx.clone());
        let verdict = replayed.lock().unwrap()[id][0];
        let is_orphan = of.iter().all(|fate| matches!(fate, Fate::Orphaned(_)));
        if !is_orphan {
            assert_ne!(
                verdict,
                Fate::Accepted,
                "{id} was refused for nothing: {of:?}"
            );
        }
    }
}

fn scripted<F: Filter<KeyBits>>(filter: F, payments: &[Payment], steps: &[Step]) {
    let (engine, fates) = engine(filter, Settings::default());
    let (mut submitted, mut refused) = (0, 0);
    for step in steps {
        match step {
            Step::Submit(at) => match engine.submit(payments[*at].clone()) {
                Ok(()) => submitted += 1,
                Err(why) => {
                    assert!(matches!(why, Refused::Duplicate | Refused::Accepted));
                    refused += 1;
                }
            },
            Step::Validate => drop(engine.validate()),
            Step::Commit => engine.commit(),
            Step::Pause => engine.pause(|_| ()),
        }
    }
    run(&engine);
    engine.finish();
    let ledger = engine.pause(|ledger| ledger.clone());
    check_laws(&ledger, &fates, payments);
    let decided: usize = fates.lock().unwrap().values().map(Vec::len).sum();
    assert_eq!(
        decided, submitted,
        "every one that was taken in is decided once"
    );
    let counted = engine.counters();
    assert_eq!(
        (counted.submitted as usize, counted.duplicates),
        (submitted, refused)
    );
    let fates = counted.accepted + counted.rejected + counted.orphaned + counted.abandoned;
    assert_eq!(fates, counted.submitted);
    assert_eq!(
        counted.abandoned, 0,
        "nothing waits for what is not under way"
    );
}

#[test]
fn orphans_that_collide_with_each_other_and_with_themselves_are_decided() {
    let payments = [
        payment(1, &[(GENESIS, 0)]),
        payment(2, &[(1, 1)]),
        payment(3, &[(1, 0), (1, 1), (1, 0)]),
    ];
    let steps = [
        Step::Submit(2),
        Step::Submit(1),
        Step::Submit(0),
        Step::Validate,
        Step::Commit,
        Step::Validate,
    ];
    scripted(ExactSet::default(), &payments, &steps);
}

proptest! {
    /// Any transactions in any order of steps: each is decided once, and the ledger is one that serial
    /// admission makes of the winners.
    #[test]
    fn the_result_is_serial_admission_of_the_winners(
        payments in payments(),
        steps in steps(),
        bits in 1_usize..40,
    ) {
        scripted(ExactSet::default(), &payments, &steps);
        scripted(Narrow::new(bits), &payments, &steps);
    }

    /// The same on threads: whatever their number and the system's scheduling.
    #[test]
    fn threads_keep_the_same_laws(
        payments in payments(),
        order in Just((0..12).collect::<Vec<usize>>()).prop_shuffle(),
        validators in 1_usize..4,
        bits in 1_usize..40,
    ) {
        let (coins, fates) = Coins::new();
        let settings = Settings {
            validators,
            epoch: Duration::from_millis(1),
            ..Settings::default()
        };
        let pipeline = Pipeline::start(coins, Ledger::genesis(), Narrow::new(bits), settings);
        std::thread::scope(|scope| {
            for half in order.chunks(6) {
                let (pipeline, payments) = (&pipeline, &payments);
                scope.spawn(move || {
                    for at in half {
                        pipeline.submit(payments[*at].clone()).unwrap();
                    }
                });
            }
        });
        // Nothing outside wakes it: what waits for ever hangs the test.
        while fates.lock().unwrap().len() < 12 {
            std::thread::yield_now();
        }
        pipeline.stop();
        prop_assert_eq!(pipeline.submit(payments[0].clone()), Err(Refused::Stopped));
        let ledger = pipeline.read(Ledger::clone);
        check_laws(&ledger, &fates, &payments);
    }

    /// A chain needs as many epochs as it is long, in whatever order its transactions come.
    #[test]
    fn a_chain_of_depth_d_is_admitted_within_d_epochs(
        order in (1_u32..30).prop_flat_map(|depth| Just((1..=depth).collect::<Vec<u32>>()).prop_shuffle()),
    ) {
        let (engine, fates) = engine(ExactSet::default(), Settings::default());
        for id in &order {
            engine.submit(payment(*id, &[(id - 1, 0)])).unwrap();
        }
        for _ in &order {
            while engine.validate() > 0 {}
            engine.commit();
        }
        for id in &order {
            prop_assert_eq!(fate(&fates, *id), Some(Fate::Accepted));
        }
    }
}

/// With a filter of one bit every transaction seems to conflict with every other, and two inputs of one with each
/// other, which is no conflict.
#[test]
fn transactions_that_seem_to_conflict_are_admitted_one_in_each_epoch() {
    let (engine, fates) = engine(Narrow::new(1), Settings::default());
    let coins = |id| [(id - 1, 0), (id - 1, 1)];
    for id in 1..=20 {
        engine.submit(payment(id, &coins(id))).unwrap();
    }
    for id in 1..=20 {
        assert_eq!(engine.validate(), 1);
        assert_eq!(fate(&fates, id), Some(Fate::Accepted));
        engine.commit();
    }
    assert_eq!(engine.counters().deferred, 19);
}

#[test]
fn of_two_spends_the_second_waits_for_the_commit_and_is_rejected() {
    let (engine, fates) = engine(ExactSet::default(), Settings::default());
    for id in [1, 2] {
        engine.submit(payment(id, &[(GENESIS, 0)])).unwrap();
    }
    assert_eq!((engine.validate(), fate(&fates, 2)), (1, None));
    engine.commit();
    assert_eq!(engine.validate(), 1);
    assert_eq!(fate(&fates, 1), Some(Fate::Accepted));
    assert_eq!(fate(&fates, 2), Some(Fate::Rejected("spent")));
}

#[test]
fn a_pause_commits_first_and_what_waits_is_held_against_the_changed_view() {
    let (engine, fates) = engine(ExactSet::default(), Settings::default());
    engine.submit(payment(1, &[(GENESIS, 0)])).unwrap();
    engine.submit(payment(2, &[(GENESIS, 1)])).unwrap();
    let again = || engine.submit(payment(2, &[(GENESIS, 1)]));
    assert_eq!(again(), Err(Refused::Duplicate));
    assert_eq!(engine.validate(), 2);
    assert_eq!(again(), Err(Refused::Accepted));
    engine.submit(payment(3, &[(1, 0)])).unwrap();
    engine.submit(payment(4, &[(1, 1)])).unwrap();
    let committed = engine.pause(|ledger| {
        ledger.spend((1, 0));
        ledger.order.len()
    });
    assert_eq!(committed, 2);
    run(&engine);
    assert_eq!(fate(&fates, 3), Some(Fate::Rejected("spent")));
    assert_eq!(fate(&fates, 4), Some(Fate::Accepted));
}

/// A client that sends a child between the admission of its parent and the commit is not refused.
#[test]
fn a_child_waits_for_a_parent_that_is_accepted_and_not_yet_committed() {
    let (engine, fates) = engine(ExactSet::default(), Settings::default());
    engine.submit(payment(1, &[(GENESIS, 0)])).unwrap();
    engine.validate();
    engine.submit(payment(2, &[(1, 0)])).unwrap();
    engine.submit(payment(3, &[(7, 0)])).unwrap();
    engine.validate();
    assert_eq!(fate(&fates, 2), None);
    assert_eq!(fate(&fates, 3), Some(Fate::Orphaned(7)));
    engine.commit();
    engine.validate();
    assert_eq!(fate(&fates, 2), Some(Fate::Accepted));
}

#[test]
fn children_of_a_rejected_parent_are_orphans() {
    let (engine, fates) = engine(ExactSet::default(), Settings::default());
    engine.submit(payment(3, &[(2, 0)])).unwrap();
    engine.submit(payment(2, &[(1, 1)])).unwrap();
    engine
        .submit(payment(1, &[(GENESIS, 0), (GENESIS, 0)]))
        .unwrap();
    run(&engine);
    assert_eq!(fate(&fates, 1), Some(Fate::Rejected("twice in itself")));
    assert_eq!(fate(&fates, 2), Some(Fate::Orphaned(1)));
    assert_eq!(fate(&fates, 3), Some(Fate::Orphaned(2)));
}

#[test]
fn queues_are_bounded_and_count_what_they_refuse() {
    let settings = Settings {
        capacity: 3,
        orphans: 1,
        ..Settings::default()
    };
    let (engine, fates) = engine(ExactSet::default(), settings);
    let child = |id| payment(id, &[(1, id)]);
    for tx in [child(2), child(3), payment(1, &[(GENESIS, 0)])] {
        engine.submit(tx).unwrap();
    }
    assert_eq!(engine.submit(child(4)), Err(Refused::Full));
    assert_eq!(engine.submit(child(2)), Err(Refused::Duplicate));
    engine.validate();
    assert_eq!(fate(&fates, 2), Some(Fate::Orphaned(1)));
    assert_eq!(fate(&fates, 3), None);
    engine.submit(child(4)).unwrap();
    let counted = engine.counters();
    assert_eq!(
        (counted.full, counted.duplicates, counted.orphaned),
        (1, 1, 1)
    );
    engine.finish();
    assert_eq!(fate(&fates, 3), Some(Fate::Abandoned));
}

/// A thread that finds nothing left to check commits: nothing waits for the end of an epoch.
#[test]
fn epochs_follow_one_another_at_once_when_nothing_is_left_to_check() {
    let (coins, fates) = Coins::new();
    let settings = Settings {
        validators: 2,
        epoch: Duration::from_secs(100_000),
        ..Settings::default()
    };
    let set = ExactSet::default();
    let pipeline = Pipeline::start(coins, Ledger::genesis(), set, settings);
    for id in 1..=20 {
        pipeline.submit(payment(id, &[(id - 1, 0)])).unwrap();
        pipeline.submit(payment(100 + id, &[(id - 1, 0)])).unwrap();
    }
    let is_committed = || {
        let committed = pipeline.read(|ledger| ledger.order.len());
        committed as u64 == pipeline.counters().accepted
    };
    // Nothing outside wakes it: what waits for the end of an epoch hangs the test.
    while fates.lock().unwrap().len() < 40 || !is_committed() {
        std::thread::yield_now();
    }
    assert!(pipeline.counters().commits > 1);
}

/// A witness whose checks begin and end with the test.
struct Meeting(Arc<Barrier>);

impl Witness for Meeting {
    type Proof = ();

    fn proves(&self, _: &Payment) -> bool {
        self.0.wait();
        self.0.wait();
        true
    }

    fn decided(&self, _: &Payment, _: Fate) {}
}

#[test]
fn a_reader_waits_for_what_is_being_checked_and_for_no_queue() {
    let meeting = Arc::new(Barrier::new(2));
    let coins = Coins(Meeting(Arc::clone(&meeting)));
    let set = ExactSet::default();
    let pipeline = Pipeline::start(coins, Ledger::genesis(), set, Settings::default());
    let committed = || pipeline.read(|ledger| ledger.order.len());
    pipeline.submit(payment(1, &[(GENESIS, 0)])).unwrap();
    meeting.wait();
    pipeline.submit(payment(2, &[(GENESIS, 1)])).unwrap();
    assert_eq!(committed(), 0, "the second waits for the only validator");
    meeting.wait();
    meeting.wait();
    meeting.wait();
    assert_eq!(committed(), 2);
}

#[test]
fn a_check_that_panics_abandons_its_transaction_and_no_other() {
    let (engine, fates) = engine(ExactSet::default(), Settings::default());
    engine.submit(payment(PANICS, &[(GENESIS, 0)])).unwrap();
    engine.submit(payment(1, &[(GENESIS, 1)])).unwrap();
    run(&engine);
    assert_eq!(fate(&fates, PANICS), Some(Fate::Abandoned));
    assert_eq!(fate(&fates, 1), Some(Fate::Accepted));
}
