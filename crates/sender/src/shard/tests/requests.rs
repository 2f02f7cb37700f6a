//! Several transactions in a request, and a connection for each answer.

use std::num::NonZeroU32;

use measure::Failure;

use super::*;
use crate::protocol::Framing;

/// Up to four in a request, like a JSON-RPC batch.
pub(super) const BATCHES: Limits = Limits {
    batch: NonZeroU32::new(4).unwrap(),
    framing: Framing {
        open: b"[",
        between: b",",
        close: b"]",
    },
    on_demand: false,
};

/// `burst` at once, every 100 ms, twice.
fn bursts(burst: u64, link: &str, limits: Limits, react: React) -> Scenario {
    let rate = Rate::per_second(burst * 10).unwrap();
    let profile = Profile::constant(rate, Some(ms(200))).unwrap();
    let arrivals = format!("burst:{burst}").parse().unwrap();
    let mut scenario = Scenario::over(profile, arrivals, &[link], react);
    scenario.target.limits = limits;
    scenario
}

#[test]
fn what_is_due_together_shares_requests() {
    let outcome = bursts(9, WS, BATCHES, accepts(ms(1))).run();
    assert_eq!(
        outcome.bodies(),
        [
            "[0,1,2,3]",
            "[4,5,6,7]",
            "8",
            "[9,10,11,12]",
            "[13,14,15,16]",
            "17"
        ]
    );
    assert_eq!(outcome.caused_by(Cause::OnTime), indices(0..18));
    assert!((0..18).all(|index| outcome.reply(index) == Some(Reply::Accepted)));
    assert_eq!(outcome.stray_answers, 0);
}

#[test]
fn nothing_waits_for_company() {
    let mut scenario = Scenario::open(1_000, ms(3), &[HTTP], accepts(us(10)));
    scenario.target.limits = BATCHES;
    assert_eq!(scenario.run().bodies(), ["0", "1", "2"]);
}

#[test]
fn one_http_request_at_a_time_carries_several() {
    let outcome = bursts(9, HTTP, BATCHES, accepts(ms(10))).run();
    assert_eq!(outcome.bodies()[..3], ["[0,1,2,3]", "[4,5,6,7]", "8"]);
    let at: Vec<Nanos> = outcome.received[..3]
        .iter()
        .map(|received| received.at)
        .collect();
    assert_eq!(at, [0, 10, 20].map(ms));
    assert_eq!(
        outcome.caused_by(Cause::Connection),
        [4, 5, 6, 7, 8, 13, 14, 15, 16, 17]
    );
}

#[test]
fn each_transaction_of_a_request_has_its_own_reply() {
    let react = |number, body: &str| match number {
        // In another order, and not all of them.
        0 => Reaction::Say(ms(1), "2=5,0=0,1=0".to_owned()),
        // The whole request is refused.
        1 => Reaction::Say(ms(1), "oldest=9".to_owned()),
        // A transaction of another request.
        2 => Reaction::Say(ms(1), "8=0,0=0".to_owned()),
        _ => accept(ms(1), body),
    };
    let outcome = bursts(12, HTTP, BATCHES, Box::new(react)).run();
    let replies = |range: std::ops::Range<u64>| -> Vec<Reply> {
        range.map(|index| outcome.reply(index).unwrap()).collect()
    };
    let rejected = Reply::rejected;
    let missing = Reply::Failed(Failure::Malformed);
    assert_eq!(
        replies(0..4),
        [Reply::Accepted, Reply::Accepted, rejected(5), missing]
    );
    assert_eq!(replies(4..8), [rejected(9); 4]);
    let wrong = Reply::Failed(Failure::WrongId);
    assert_eq!(replies(8..12), [Reply::Accepted, wrong, wrong, wrong]);
    assert_eq!(outcome.answered.len(), 24);
}

#[test]
fn over_a_websocket_replies_find_their_requests_in_any_order() {
    let react = |number, body: &str| match number {
        0 => accept(ms(30), body),
        1 => Reaction::Say(ms(1), "5=0,4=0,99=0,unknown=0".to_owned()),
        2 => Reaction::Say(ms(40), "7=0".to_owned()),
        _ => accept(ms(1), body),
    };
    let mut scenario = bursts(8, WS, BATCHES, Box::new(react));
    scenario.config.rules.drain_timeout = ms(300);
    let outcome = scenario.run();
    let at = |index| {
        outcome
            .answered
            .iter()
            .find(|answered| answered.index == index)
            .unwrap()
            .at
    };
    assert_eq!((at(5), at(3)), (ms(1), ms(30)));
    assert_eq!(outcome.stray_answers, 2);
    // The request after it brought the answer for one of these.
    assert_eq!((outcome.reply(6), at(7)), (None, ms(140)));
}

#[test]
fn a_broken_connection_fails_all_of_its_requests() {
    let react = |_, _: &str| Reaction::Silence;
    let mut scenario = bursts(8, WS, BATCHES, Box::new(react));
    scenario.config.rules.answer_timeout = ms(50);
    let outcome = scenario.run();
    // All were sent at the same time.
    for index in [0, 3, 4] {
        let timeout = Some(Reply::Failed(Failure::Timeout));
        assert_eq!(outcome.reply(index), timeout, "{index}");
    }
    assert_eq!(outcome.answered.len(), 16);
}

#[test]
fn a_server_that_closes_after_each_answer_has_no_outage() {
    let react = |_, body: &str| Reaction::SayAndClose(us(100), target::accepted(body));
    let outcome = Scenario::open(1_000, ms(100), &[HTTP], Box::new(react)).run();
    assert_eq!(outcome.caused_by(Cause::OnTime), indices(0..100));
    assert!((0..100).all(|index| outcome.reply(index) == Some(Reply::Accepted)));
    assert_eq!(outcome.reconnected, []);
    assert_eq!(outcome.attempts.len(), 100, "a connection for each");
}

#[test]
fn a_server_that_closes_without_notice_has_no_outage_where_that_is_expected() {
    let react = |number: usize, body: &str| match number {
        // Closes instead of an answer.
        7 => Reaction::Close(us(100)),
        _ => accept(us(100), body),
    };
    let run = |closes| {
        let mut scenario = Scenario::open(1_000, ms(20), &[HTTP], Box::new(react));
        scenario.target.closes = closes;
        scenario.break_at(us(10_500), 0);
        scenario.run()
    };
    let expected = run(true);
    assert_eq!(expected.reply(7), Some(Reply::Failed(Failure::Closed)));
    assert_eq!(
        expected.reconnected.len(),
        1,
        "only where an answer was missing"
    );
    assert_eq!(run(false).reconnected.len(), 2);
}
