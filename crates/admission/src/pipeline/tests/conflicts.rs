//! How many checks and epochs conflicts take.

use super::*;

/// Checks until none is left, with a commit whenever nothing else goes on. Returns checks and epochs.
fn work(engine: &Engine<Coins, ExactSet<KeyBits>>) -> (usize, u64) {
    let (mut checks, before) = (0, engine.counters().commits);
    loop {
        let round = engine.validate();
        checks += round;
        if round == 0 {
            let decided = decided(engine);
            if decided == engine.counters().submitted {
                return (checks, engine.counters().commits - before);
            }
            engine.commit();
        }
    }
}

fn decided(engine: &Engine<Coins, ExactSet<KeyBits>>) -> u64 {
    let counted = engine.counters();
    counted.accepted + counted.rejected + counted.orphaned + counted.abandoned
}

/// Work a transaction is bounded however they conflict: each is checked once, in two epochs.
#[test]
fn conflicts_of_any_form_are_decided_by_one_check_each_in_few_epochs() {
    const COUNT: u32 = 2_000;
    let one_key = |id: u32| payment(id, &[(GENESIS, 0)]);
    let two_keys = |id: u32| payment(id, &[(GENESIS, 0), (GENESIS, 1)]);
    let twice = |id: u32| payment(id, &[(GENESIS, 0), (GENESIS, 0)]);
    // Each with the one before it and the one behind it.
    let chain = |id: u32| payment(id, &[(GENESIS, id), (GENESIS, id + 1)]);
    let back = |id: u32| chain(COUNT - id);
    let comb = |id: u32| payment(id, &[(GENESIS, 0), (GENESIS, id)]);
    let turns = |id: u32| match id % 3 {
        0 => two_keys(id),
        one => payment(id, &[(GENESIS, one - 1)]),
    };
    let forms: [&dyn Fn(u32) -> Payment; 7] =
        [&one_key, &two_keys, &twice, &chain, &back, &comb, &turns];
    for (number, form) in forms.into_iter().enumerate() {
        let settings = Settings::default();
        let (engine, fates) = engine(ExactSet::default(), settings);
        for id in 1..=COUNT {
            engine.submit(form(id)).unwrap();
        }
        let (checks, epochs) = work(&engine);
        assert_eq!(checks, COUNT as usize, "form {number}");
        assert!(epochs <= 2, "form {number}: {epochs} epochs");
        assert_eq!(fates.lock().unwrap().len(), COUNT as usize);
    }
}

/// A transaction without rivals waits for no epoch, and for an eighth of what has lost.
#[test]
fn a_flood_of_conflicts_keeps_nobody_else_waiting() {
    let (engine, fates) = engine(ExactSet::default(), Settings::default());
    for id in 1..=50_000 {
        engine.submit(payment(id, &[(GENESIS, 0)])).unwrap();
    }
    assert_eq!(engine.validate(), 1);
    engine.commit();
    for id in 0..100 {
        let honest = payment(60_000 + id, &[(GENESIS, 1 + id)]);
        engine.submit(honest).unwrap();
    }
    assert_eq!(engine.validate(), 200, "a round");
    let admitted = |id: u32| fate(&fates, 60_000 + id) == Some(Fate::Accepted);
    assert!((0..100).all(admitted));
}

/// A key goes from hand to hand in one epoch while what holds it is rejected.
#[test]
fn of_many_bad_spends_and_a_good_one_the_good_one_wins_before_any_commit() {
    let (engine, fates) = engine(ExactSet::default(), Settings::default());
    for id in 1..=1_000 {
        let bad = payment(id, &[(GENESIS, 0), (GENESIS, id), (GENESIS, id)]);
        engine.submit(bad).unwrap();
    }
    engine.submit(payment(2_000, &[(GENESIS, 0)])).unwrap();
    while engine.validate() > 0 {}
    assert_eq!(fate(&fates, 2_000), Some(Fate::Accepted));
    assert_eq!(fate(&fates, 7), Some(Fate::Rejected("twice in itself")));
}

/// What a loser lost may be given back, as by a reorganisation: then it competes again.
#[test]
fn a_loser_that_a_check_accepts_competes_again_and_is_not_told_of_twice() {
    let (engine, fates) = engine(ExactSet::default(), Settings::default());
    for id in [1, 2, 3] {
        engine.submit(payment(id, &[(GENESIS, 0)])).unwrap();
    }
    assert_eq!(engine.validate(), 1);
    engine.pause(|ledger| *ledger = Ledger::genesis());
    assert_eq!(
        engine.validate(),
        3,
        "both have lost; one of them is tried again"
    );
    assert_eq!(fate(&fates, 2), Some(Fate::Accepted));
    assert_eq!(fate(&fates, 3), None);
    engine.commit();
    engine.validate();
    assert_eq!(fate(&fates, 3), Some(Fate::Rejected("spent")));
}
