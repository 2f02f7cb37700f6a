//! Why a due transaction was never sent: each reason, and the policies behind them.

use super::*;
use crate::shard::StopReason;

fn silence() -> React {
    Box::new(|_, _| Reaction::Silence)
}

#[test]
fn past_the_limit_in_flight_nothing_more_is_taken() {
    let mut scenario = Scenario::open(1_000, ms(200), &[WS], silence());
    scenario.config.rules.max_in_flight = NonZeroU64::new(50).unwrap();
    scenario.config.rules.drain_timeout = ms(100);
    let outcome = scenario.run();
    assert_eq!(outcome.sent.len(), 50);
    // A node that has not answered for so long is why the limit is reached; before that it is the limit's own.
    let slow_after = outcome.unsent_for(UnsentReason::Node)[0];
    assert!((90..=110).contains(&slow_after), "{slow_after}");
    assert_eq!(
        outcome.unsent_for(UnsentReason::MaxInFlight),
        indices(50..slow_after)
    );
    assert_eq!(
        outcome.unsent_for(UnsentReason::Node),
        indices(slow_after..200)
    );
    // Each is given up when it is due, not later.
    assert!(outcome.unsent.iter().all(|unsent| unsent.at == unsent.due));
}

#[test]
fn an_answer_makes_room_below_the_limit_in_flight() {
    let mut scenario = Scenario::open(1_000, ms(200), &[WS], accepts(us(9_500)));
    scenario.config.rules.max_in_flight = NonZeroU64::new(10).unwrap();
    let outcome = scenario.run();
    assert_eq!(outcome.sent.len(), 200);
    let mut scenario = Scenario::open(1_000, ms(200), &[WS], accepts(us(10_500)));
    scenario.config.rules.max_in_flight = NonZeroU64::new(10).unwrap();
    let outcome = scenario.run();
    // Ten in, one out, and so on.
    let given_up: Vec<u64> = (0..200).filter(|index| index % 11 == 10).collect();
    assert_eq!(outcome.unsent_for(UnsentReason::MaxInFlight), given_up);
}

#[test]
fn what_may_not_be_left_out_waits_at_the_limit_in_flight() {
    let mut scenario = Scenario::open(1_000, ms(200), &[WS], accepts(us(10_500)));
    scenario.config.rules.max_in_flight = NonZeroU64::new(10).unwrap();
    scenario.config.rules.at_max_in_flight = AtMaxInFlight::Wait;
    let outcome = scenario.run();
    let sent: Vec<u64> = outcome.sent.iter().map(|sent| sent.index).collect();
    assert_eq!(sent, indices(0..200), "all of them, in their order");
    // Ten in every 10.5 ms, 200 in 210 ms.
    assert_eq!(outcome.sent[199].sent, us(208_500));
    // "Limited by the node": its answers take no longer than alone, so it is the limit that kept them.
    assert!(outcome.caused_by(Cause::Node).is_empty());
    assert!(outcome.caused_by(Cause::Connection).len() > 150);
    assert!(outcome.own_late().is_empty());
    assert_eq!(outcome.stall, Nanos::ZERO);
}

#[test]
fn what_waits_at_the_limit_in_flight_waits_as_long_as_the_drain() {
    let mut scenario = Scenario::open(1_000, ms(200), &[WS], silence());
    scenario.config.rules.max_in_flight = NonZeroU64::new(10).unwrap();
    scenario.config.rules.at_max_in_flight = AtMaxInFlight::Wait;
    scenario.config.rules.drain_timeout = ms(300);
    let outcome = scenario.run();
    assert_eq!(outcome.unsent_for(UnsentReason::Node), indices(10..200));
    assert_eq!(outcome.ended, ms(500));
}

/// 200 ms during which the only connection waits for an answer.
fn hang(catch_up: CatchUp) -> Outcome {
    let react = |number, body: &str| match number {
        20 => accept(ms(200), body),
        _ => accept(us(10), body),
    };
    let mut scenario = Scenario::open(1_000, ms(400), &[HTTP], Box::new(react));
    scenario.config.rules.catch_up = catch_up;
    scenario.run()
}

#[test]
fn a_backlog_is_caught_up_or_dropped() {
    assert_eq!(hang(CatchUp::Full).sent.len(), 400);
    // 21 to 220 are due while the answer of 20 is awaited, which comes at 220 ms.
    let bounded = hang(CatchUp::Bounded(ms(50)));
    // What the node held up is not the schedule's; before its answer is slow, the cause is unknown.
    assert_eq!(bounded.unsent_for(UnsentReason::Node), indices(21..170));
    assert_eq!(bounded.sent.len(), 400 - 149);
    let none = hang(CatchUp::None);
    let [own, node] = [UnsentReason::CatchUp, UnsentReason::Node].map(|it| none.unsent_for(it));
    assert_eq!([own.clone(), node].concat(), indices(21..219));
    assert!(own.len() < 15, "{own:?}");
    for outcome in [bounded, none] {
        assert!(outcome.unsent_for(UnsentReason::Deadline).is_empty());
    }
}

#[test]
fn what_waits_for_a_free_connection_when_the_drain_is_over_has_met_its_deadline() {
    let mut scenario = Scenario::open(1_000, ms(250), &[HTTP], accepts(ms(20)));
    scenario.config.rules.drain_timeout = ms(35);
    let outcome = scenario.run();
    assert_eq!(outcome.sent.len(), 15);
    assert_eq!(outcome.unsent_for(UnsentReason::Deadline), indices(15..250));
}

#[test]
fn what_waits_when_the_drain_is_over_is_unsent() {
    let mut scenario = Scenario::open(1_000, ms(250), &[HTTP], silence());
    scenario.config.rules.drain_timeout = ms(500);
    let outcome = scenario.run();
    assert_eq!(outcome.sent.len(), 1);
    assert_eq!(outcome.unsent_for(UnsentReason::Node), indices(1..250));
    assert_eq!(outcome.ended, ms(750));
    // From here on the recorder counts its own time to drain.
    let offered = outcome.offered.unwrap();
    assert!(offered <= ms(260), "{offered}");
    assert_eq!(
        outcome.answered,
        [],
        "the recorder knows what is unanswered"
    );
}

#[test]
fn what_waits_at_an_order_to_stop_is_unsent_for_its_reason() {
    for (order, reason) in [
        (StopReason::Saturated, UnsentReason::Stopped),
        (StopReason::Condition, UnsentReason::Stopped),
        (StopReason::Interrupted, UnsentReason::Interrupted),
    ] {
        let mut scenario = Scenario::open(1_000, ms(500), &[HTTP], silence());
        scenario.config.rules.drain_timeout = ms(100);
        scenario.order(ms(140), move |orders| orders.stop(ms(150), order));
        let outcome = scenario.run();
        assert_eq!(outcome.unsent_for(reason), indices(1..150), "{order:?}");
        assert!(outcome.unsent.iter().all(|unsent| unsent.at == ms(150)));
        assert_eq!(outcome.ended, ms(250), "the first one's answer is awaited");
    }
}

#[test]
fn what_was_half_written_when_the_connection_broke_was_never_sent() {
    let scenario = Scenario::open(1_000, ms(100), &[WS], accepts(us(100)));
    scenario.take_nothing(50, 60);
    scenario.break_at(us(54_500), 0);
    let outcome = scenario.run();
    assert_eq!(outcome.unsent_for(UnsentReason::Broken), indices(50..55));
    assert_eq!(outcome.sent.len(), 95);
}

#[test]
fn what_was_half_written_at_the_end_was_never_sent() {
    let mut scenario = Scenario::open(1_000, ms(100), &[WS], accepts(us(100)));
    scenario.take_nothing(90, 1_000);
    scenario.config.rules.drain_timeout = ms(50);
    let outcome = scenario.run();
    assert_eq!(outcome.unsent_for(UnsentReason::Broken), indices(90..100));
}

#[test]
fn what_the_workload_lacks_is_unsent_by_the_source() {
    let mut scenario = Scenario::open(1_000, ms(100), &[WS], accepts(us(100)));
    scenario.supply = 30;
    let outcome = scenario.run();
    assert_eq!(outcome.sent.len(), 30);
    assert_eq!(outcome.unsent_for(UnsentReason::Source), indices(30..100));
}
