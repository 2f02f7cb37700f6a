//! Tests of the phase lock, of a filter's claims and of the pipeline that `.ci/model` runs under loom (every
//! interleaving up to a number of preemptions) and under shuttle (random interleavings).

use std::sync::Arc;

use crate::coins::{Coins, Fate, GENESIS, Ledger, payment};
use crate::pipeline::Settings;
use crate::sync::{Phase, PhaseLock, thread};

#[cfg(loom)]
mod small {
    use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::coins::ExactSet;
    use crate::pipeline::Engine;

    /// Three threads, two phases: at most one phase is entered at a time, and every thread enters.
    #[test]
    fn no_thread_is_in_two_phases_at_once() {
        loom::model(|| {
            let lock = Arc::new(PhaseLock::default());
            let inside = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            let visit = |phase: Phase| {
                let (lock, inside) = (Arc::clone(&lock), Arc::clone(&inside));
                move || {
                    let stay = lock.enter(phase);
                    inside[phase as usize].fetch_add(1, Ordering::SeqCst);
                    assert_eq!(inside[1 - phase as usize].load(Ordering::SeqCst), 0);
                    inside[phase as usize].fetch_sub(1, Ordering::SeqCst);
                    drop(stay);
                }
            };
            let threads = [
                thread::spawn(visit(Phase::Validate)),
                thread::spawn(visit(Phase::Commit)),
            ];
            visit(Phase::Validate)();
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    /// A thread that leaves its phase for a waiting higher one enters again only after that one was entered.
    #[test]
    fn a_waiting_higher_phase_is_entered_before_the_next_lower_one() {
        loom::model(|| {
            let lock = Arc::new(PhaseLock::default());
            let committed = Arc::new(AtomicBool::new(false));
            let committer = {
                let (lock, committed) = (Arc::clone(&lock), Arc::clone(&committed));
                thread::spawn(move || {
                    let _inside = lock.enter(Phase::Commit);
                    committed.store(true, Ordering::SeqCst);
                })
            };
            let first = lock.enter(Phase::Validate);
            let outranked = first.is_outranked();
            drop(first);
            let second = lock.enter(Phase::Validate);
            assert!(!outranked || committed.load(Ordering::SeqCst));
            drop(second);
            committer.join().unwrap();
        });
    }

    /// Why claims are made under one lock: with bits that are set one by one, both threads find a bit unset.
    #[test]
    #[should_panic(expected = "two winners")]
    fn independent_atomic_bits_let_two_threads_win_one_key() {
        loom::model(|| {
            let bits = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let claim = |order: [usize; 2]| {
                let bits = Arc::clone(&bits);
                move || order.map(|at| bits[at].swap(true, Ordering::SeqCst)) != [true; 2]
            };
            let other = thread::spawn(claim([0, 1]));
            let own = claim([0, 1])();
            assert!(!(own && other.join().unwrap()), "two winners");
        });
    }

    /// Two threads submit one spend each of the same coin, check it and commit it, in every order; the filter is
    /// reset meanwhile.
    #[test]
    fn of_two_spends_one_is_admitted_whoever_checks_and_commits() {
        loom::model(|| {
            let (coins, fates) = Coins::new();
            let set = ExactSet::default();
            let engine = Engine::new(coins, Ledger::genesis(), set, Settings::default());
            let engine = Arc::new(engine);
            let spend = |id| {
                let engine = Arc::clone(&engine);
                move || {
                    engine.submit(payment(id, &[(GENESIS, 0)])).unwrap();
                    engine.validate();
                    engine.commit();
                }
            };
            let other = thread::spawn(spend(2));
            spend(1)();
            other.join().unwrap();
            while engine.validate() > 0 {
                engine.commit();
            }
            let fates = fates.lock().unwrap();
            let all: Vec<Fate> = fates.values().flatten().copied().collect();
            assert_eq!(all.len(), 2, "{all:?}");
            assert_eq!(
                all.iter().filter(|fate| **fate == Fate::Accepted).count(),
                1
            );
        });
    }

    /// A child that is checked while its parent is committed does not wait for a parent that is committed already.
    #[test]
    fn a_child_finds_its_parent_or_waits_for_it_in_every_interleaving() {
        loom::model(|| {
            let (coins, fates) = Coins::new();
            let set = ExactSet::default();
            let engine = Engine::new(coins, Ledger::genesis(), set, Settings::default());
            let engine = Arc::new(engine);
            engine.pause(|ledger| ledger.spend((GENESIS, 9)));
            engine.submit(payment(1, &[(GENESIS, 0)])).unwrap();
            let other = Arc::clone(&engine);
            let committer = thread::spawn(move || {
                other.validate();
                other.commit();
            });
            engine.submit(payment(2, &[(1, 0)])).unwrap();
            engine.validate();
            committer.join().unwrap();
            for _ in 0..2 {
                engine.commit();
                engine.validate();
            }
            let fates = fates.lock().unwrap();
            assert!(
                fates.values().all(|fates| *fates == [Fate::Accepted]),
                "{fates:?}"
            );
        });
    }
}

/// The whole pipeline with its threads; a lost wake-up is a deadlock, since no timeout ever ends here.
#[cfg(shuttle)]
mod large {
    use super::*;
    use crate::coins::Narrow;
    use crate::pipeline::Pipeline;

    fn pipeline() {
        let (coins, fates) = Coins::new();
        let settings = Settings {
            validators: 2,
            ..Settings::default()
        };
        let set = Narrow::new(5);
        let pipeline = Arc::new(Pipeline::start(coins, Ledger::genesis(), set, settings));
        // Two spends of one coin, a chain, a transaction whose inputs collide in the filter, an orphan.
        let halves = [
            vec![
                payment(1, &[(GENESIS, 0)]),
                payment(3, &[(1, 0)]),
                payment(5, &[(3, 0), (3, 1)]),
            ],
            vec![
                payment(2, &[(GENESIS, 0)]),
                payment(4, &[(2, 0)]),
                payment(6, &[(GENESIS, 1), (90, 0)]),
            ],
        ];
        let threads = halves.map(|half| {
            let pipeline = Arc::clone(&pipeline);
            thread::spawn(move || {
                for tx in half {
                    pipeline.submit(tx).unwrap();
                }
            })
        });
        pipeline.pause(|ledger| ledger.spend((GENESIS, 9)));
        for thread in threads {
            thread.join().unwrap();
        }
        while fates.lock().unwrap().len() < 6 {
            thread::yield_now();
        }
        pipeline.stop();
        let fates = fates.lock().unwrap();
        assert!(fates.values().all(|fates| fates.len() == 1), "{fates:?}");
        let accepted = |id: u32| fates[&id] == [Fate::Accepted];
        assert!(accepted(1) ^ accepted(2), "{fates:?}");
        assert!(!accepted(6), "{fates:?}");
        let ledger = pipeline.read(Ledger::clone);
        let in_ledger = |id: u32| ledger.order.iter().any(|tx| tx.id == id);
        assert!((1..=6).all(|id| accepted(id) == in_ledger(id)));
    }

    #[test]
    fn nothing_is_lost_and_every_conflict_has_one_winner() {
        shuttle::check_random(pipeline, 3_000);
    }

    #[test]
    fn the_same_under_rare_preemptions() {
        shuttle::check_pct(pipeline, 1_500, 3);
    }

    #[test]
    fn many_threads_in_three_phases_never_meet_and_all_get_in() {
        let phases = [Phase::Validate, Phase::Commit, Phase::Pause];
        shuttle::check_random(
            move || {
                let lock = Arc::new(PhaseLock::default());
                let inside = Arc::new(std::sync::Mutex::new(Vec::new()));
                let visits = (0..9).map(|number| {
                    let (lock, inside) = (Arc::clone(&lock), Arc::clone(&inside));
                    thread::spawn(move || {
                        let phase = phases[number % 3];
                        let _stay = lock.enter(phase);
                        inside.lock().unwrap().push(phase);
                        thread::yield_now();
                        let mut inside = inside.lock().unwrap();
                        assert!(inside.iter().all(|other| *other == phase));
                        inside.pop();
                    })
                });
                for thread in visits.collect::<Vec<_>>() {
                    thread.join().unwrap();
                }
            },
            3_000,
        );
    }
}
