//! How a shard ends: the drain, orders to stop and to abort, and a flood's slots.

use pacing::SignedRate;

use super::*;
use crate::shard::{Revision, StopReason};

#[test]
fn a_shard_ends_with_its_last_answer() {
    let outcome = Scenario::open(100, ms(100), &[WS], accepts(ms(350))).run();
    assert_eq!(outcome.answered.len(), 10);
    assert_eq!(outcome.ended, ms(440));
}

#[test]
fn a_pause_at_the_end_belongs_to_the_load() {
    let load = Profile::constant(Rate::per_second(100).unwrap(), Some(ms(100))).unwrap();
    let pause = Profile::pause(ms(400)).unwrap();
    let profile = Profile::phases([load, pause]).unwrap();
    let outcome = Scenario::over(profile, Arrivals::Even, &[WS], accepts(ms(1))).run();
    assert_eq!(outcome.sent.len(), 10);
    assert_eq!(outcome.ended, ms(500));
}

#[test]
fn the_drain_is_bounded() {
    let mut scenario = Scenario::open(100, ms(100), &[WS], accepts(ms(350)));
    scenario.config.rules.drain_timeout = ms(310);
    let outcome = scenario.run();
    // The answers of those due at 0 to 60 ms came by 410 ms.
    assert_eq!(outcome.answered.len(), 7);
    assert_eq!(outcome.ended, ms(410));
}

#[test]
fn nothing_due_at_the_instant_of_a_stop_or_after_it_is_offered() {
    let scenario = Scenario::open(1_000, ms(500), &[WS], accepts(ms(20)));
    scenario.order(ms(90), |orders| orders.stop(ms(100), StopReason::Saturated));
    // The first order counts.
    scenario.order(ms(95), |orders| {
        orders.stop(ms(97), StopReason::Interrupted);
    });
    let outcome = scenario.run();
    assert_eq!(outcome.sent.len(), 100);
    assert_eq!(outcome.unsent, []);
    assert_eq!(outcome.answered.len(), 100);
    assert_eq!(outcome.ended, ms(119));
}

#[test]
fn an_abort_leaves_at_its_instant_without_a_drain() {
    let scenario = Scenario::open(1_000, ms(500), &[HTTP], accepts(ms(400)));
    scenario.order(ms(90), |orders| orders.abort(ms(100)));
    let outcome = scenario.run();
    assert_eq!(outcome.sent.len(), 1);
    assert_eq!(
        outcome.unsent_for(UnsentReason::Interrupted),
        indices(1..100)
    );
    assert_eq!(outcome.answered, []);
    assert_eq!(outcome.ended, ms(100));
}

#[test]
fn an_abort_ends_a_drain() {
    let scenario = Scenario::open(1_000, ms(500), &[WS], accepts(ms(5_000)));
    scenario.order(ms(90), |orders| orders.stop(ms(100), StopReason::Condition));
    scenario.order(ms(700), |orders| orders.abort(ms(710)));
    let outcome = scenario.run();
    assert_eq!(outcome.sent.len(), 100);
    assert_eq!(outcome.unsent, []);
    assert_eq!(
        outcome.ended,
        ms(700),
        "its instant is the stop's, which has passed"
    );
}

#[test]
fn a_flood_keeps_its_slots_full_and_never_fuller() {
    let outcome = Scenario::flood(1_000, 7, &[WS, WS], accepts(ms(10))).run();
    assert_eq!(outcome.sent.len(), 1_000);
    assert_eq!(outcome.caused_by(Cause::OnTime).len(), 1_000);
    // Seven go at once, and each answer makes room for one.
    for sent in &outcome.sent {
        assert_eq!(sent.sent, ms(10 * (sent.index / 7)));
    }
    assert_eq!(outcome.ended, ms(1_430));
}

#[test]
fn a_flood_without_answers_stands_still() {
    let react = |_, _: &str| Reaction::Silence;
    let mut scenario = Scenario::flood(1_000, 7, &[HTTP, HTTP], Box::new(react));
    scenario.order(ms(500), |orders| {
        orders.stop(ms(510), StopReason::Interrupted);
    });
    scenario.config.rules.drain_timeout = ms(100);
    let outcome = scenario.run();
    // Two are on their connections, five have a slot and no connection.
    assert_eq!(outcome.sent.len(), 2);
    assert_eq!(outcome.unsent_for(UnsentReason::Interrupted), indices(2..7));
    assert_eq!(outcome.ended, ms(610));
}

#[test]
fn a_part_of_a_flood_takes_every_n_th_transaction() {
    let mut scenario = Scenario::flood(20, 1, &[WS], accepts(ms(1)));
    scenario.config.shard = 2;
    scenario.config.of = 3;
    let outcome = scenario.run();
    let sent: Vec<u64> = outcome.sent.iter().map(|sent| sent.index).collect();
    assert_eq!(sent, [2, 5, 8, 11, 14, 17]);
}

/// 100/s, 200/s, 300/s, for 100 ms each.
fn three_steps() -> Profile {
    let rate = |per_second| Rate::per_second(per_second).unwrap();
    let step = SignedRate::rise(rate(100));
    Profile::steps(rate(100), step, ms(100), Some(rate(300))).unwrap()
}

/// The order to go on by another profile.
fn revise(profile: &Profile, from: Nanos) -> impl FnOnce(&Orders) + 'static {
    let schedule = Schedule::new(profile.clone(), Arrivals::Even);
    let mut dues = schedule.shard(0, NonZeroU32::MIN);
    while dues.peek().is_some_and(|due| due.at < from) {
        dues.next();
    }
    let offering = Offering {
        dues,
        profile: profile.clone(),
        ends_at: profile.duration().unwrap(),
    };
    let revision = Revision {
        schedule,
        from,
        offerings: vec![offering],
    };
    move |orders| orders.revise(revision)
}

/// All left when they were due by this profile, and belong to its steps.
fn assert_kept(outcome: &Outcome, profile: &Profile) {
    let schedule = Schedule::new(profile.clone(), Arrivals::Even);
    assert_eq!(Some(outcome.sent.len() as u64), schedule.planned());
    for (sent, due) in outcome.sent.iter().zip(schedule.iter()) {
        assert_eq!(
            (sent.index, sent.due, sent.sent),
            (due.index, due.at, due.at)
        );
        assert_eq!(sent.step, profile.step_at(due.at).index);
    }
}

#[test]
fn a_step_that_is_offered_again_leaves_at_its_times_and_changes_none_before_it() {
    let planned = three_steps();
    let scenario = Scenario::over(planned.clone(), Arrivals::Even, &[WS], accepts(ms(5)));
    assert_kept(&scenario.run(), &planned);
    let again = planned.with_again(0, 2, None).unwrap();
    let scenario = Scenario::over(planned, Arrivals::Even, &[WS], accepts(ms(5)));
    scenario.order(ms(120), revise(&again, ms(180)));
    assert_kept(&scenario.run(), &again);
}

#[test]
fn a_shard_waits_behind_its_last_transaction_while_a_step_may_be_offered_again() {
    let planned = three_steps();
    let scenario = Scenario::over(planned.clone(), Arrivals::Even, &[WS], accepts(ms(5)));
    let again = planned.with_again(2, 3, Some(ms(150))).unwrap();
    scenario.orders.hold(true);
    scenario.order(ms(400), revise(&again, ms(430)));
    scenario.order(ms(560), |orders| orders.hold(false));
    let outcome = scenario.run();
    assert_kept(&outcome, &again);
    assert_eq!(outcome.unsent, []);
    // And is notified when there is nothing more to wait for.
    let scenario = Scenario::over(planned, Arrivals::Even, &[WS], accepts(ms(5)));
    scenario.orders.hold(true);
    scenario.order(ms(700), |orders| orders.hold(false));
    let outcome = scenario.run();
    assert_eq!((outcome.sent.len(), outcome.answered.len()), (60, 60));
    assert!(outcome.ended >= ms(700), "{:?}", outcome.ended);
}
