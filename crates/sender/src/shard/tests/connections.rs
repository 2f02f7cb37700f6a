//! The life of connections: breaks and what they cost, attempts and their pauses, timeouts, planned
//! reconnects, and turns.

use measure::{Failure, ReconnectReason};

use super::*;

#[test]
fn links_take_turns_and_a_slow_one_is_passed_over() {
    let react = |number, body: &str| match number {
        4 => accept(ms(50), body),
        _ => accept(us(10), body),
    };
    let outcome = Scenario::open(1_000, ms(20), &[HTTP; 3], Box::new(react)).run();
    let endpoints: Vec<u16> = outcome.sent.iter().map(|sent| sent.endpoint).collect();
    assert_eq!(endpoints[..5], [0, 1, 2, 0, 1]);
    assert_eq!(
        endpoints[5..9],
        [2, 0, 2, 0],
        "the second waits for its answer"
    );
}

#[test]
fn a_burst_shares_the_links_in_turns_of_32() {
    let profile = Profile::constant(Rate::per_second(1_000).unwrap(), Some(ms(100))).unwrap();
    let arrivals = "burst:100".parse().unwrap();
    let outcome = Scenario::over(profile, arrivals, &[WS; 2], accepts(ms(1))).run();
    let endpoints: Vec<u16> = outcome.sent.iter().map(|sent| sent.endpoint).collect();
    let of = |endpoint| endpoints.iter().filter(|sent| **sent == endpoint).count();
    assert_eq!((of(0), of(1)), (64, 36));
    assert!(outcome.sent.iter().all(|sent| sent.sent == Nanos::ZERO));
}

#[test]
fn a_broken_connection_fails_what_was_sent_on_it_and_is_opened_again() {
    let scenario = Scenario::open(1_000, ms(100), &[WS], accepts(us(2_500)));
    scenario.break_at(us(50_200), 0);
    let outcome = scenario.run();
    let closed = Some(Reply::Failed(Failure::Closed));
    assert_eq!(outcome.reply(47), Some(Reply::Accepted));
    assert_eq!((outcome.reply(48), outcome.reply(50)), (closed, closed));
    assert_eq!(outcome.reply(51), Some(Reply::Accepted));
    assert_eq!(outcome.sent.len(), 100);
    let again = &outcome.reconnected[0];
    assert_eq!((again.at, again.down), (us(50_200), Nanos::ZERO));
    assert_eq!(
        (again.failed_attempts, again.reason),
        (0, ReconnectReason::Broken)
    );
    assert_eq!(outcome.reconnected.len(), 1);
}

/// A node ends HTTP connections over which nothing came for 10 s, and a ramp that begins with 1/s has hundreds of them.
#[test]
fn an_idle_connection_that_the_server_ends_is_no_outage() {
    let run = |link: &str, at: Nanos| {
        let scenario = Scenario::open(1, ms(4_000), &[link; 2], accepts(us(100)));
        scenario.break_at(at, 0);
        let outcome = scenario.run();
        assert!((0..4).all(|index| outcome.reply(index) == Some(Reply::Accepted)));
        outcome.reconnected.len()
    };
    assert_eq!(run(HTTP, ms(1_500)), 0);
    // It has just been opened and was used at once, or is one that no server ends.
    assert_eq!(run(HTTP, ms(500)), 1);
    assert_eq!(run(WS, ms(1_500)), 1);
    // Nothing is there any more.
    let scenario = Scenario::open(1, ms(4_000), &[HTTP; 2], accepts(us(100)));
    scenario.break_at(ms(1_500), 0);
    scenario.refuse(1_000, 2_500);
    let outcome = scenario.run();
    assert_eq!(outcome.reconnected.len(), 1);
    assert_eq!(outcome.reconnected[0].reason, ReconnectReason::Broken);
}

/// The thread last looked at its sockets before the server ended one, and finds a transaction due.
#[test]
fn a_connection_that_ended_while_it_was_idle_is_given_no_request() {
    let scenario = Scenario::open(1, ms(4_000), &[HTTP; 2], accepts(us(100)));
    scenario.stall(1_999, 2_001);
    scenario.break_at(ms(2_000), 0);
    let outcome = scenario.run();
    assert_eq!(outcome.reply(2), Some(Reply::Accepted));
    assert_eq!(outcome.sent[2].endpoint, 1, "the other one");
}

/// gunicorn's synchronous workers: each waits on an open connection for its request.
#[test]
fn where_an_idle_connection_holds_a_worker_each_is_opened_for_a_request_that_waits() {
    let closing = |_, body: &str| Reaction::SayAndClose(us(200), target::accepted(body));
    let run = |on_demand| {
        let mut scenario = Scenario::open(1_000, ms(100), &[HTTP; 16], Box::new(closing));
        scenario.target.limits.on_demand = on_demand;
        let script = scenario.script.clone();
        let outcome = scenario.run();
        assert!((0..100).all(|index| outcome.reply(index) == Some(Reply::Accepted)));
        assert_eq!(outcome.reconnected, [], "an announced end is no outage");
        assert_eq!(outcome.caused_by(Cause::OnTime), indices(0..100));
        (outcome.attempts, script.with(|world| world.most_open))
    };
    let (attempts, most_open) = run(true);
    let dues: Vec<Nanos> = (0..100).map(ms).collect();
    assert_eq!(
        attempts, dues,
        "one connection for each transaction, when it is due"
    );
    assert_eq!(most_open, 1);
    let (_, most_open) = run(false);
    assert_eq!(most_open, 16, "opened ahead, as other targets want it");
}

#[test]
fn as_many_connections_are_opened_on_demand_as_requests_wait_and_they_are_kept_while_they_last() {
    let profile = Profile::constant(Rate::per_second(100).unwrap(), Some(ms(100))).unwrap();
    let arrivals = "burst:5".parse().unwrap();
    let mut scenario = Scenario::over(profile, arrivals, &[HTTP; 8], accepts(ms(1)));
    scenario.target.limits.on_demand = true;
    let script = scenario.script.clone();
    let outcome = scenario.run();
    assert_eq!(outcome.answered.len(), 10);
    assert_eq!(outcome.attempts.len(), 5);
    assert_eq!(script.with(|world| world.most_open), 5);
}

#[test]
fn attempts_are_made_after_ever_longer_pauses() {
    let scenario = Scenario::open(10, ms(5_000), &[HTTP], accepts(us(100)));
    scenario.break_at(ms(50), 0);
    scenario.refuse(50, 3_000);
    let outcome = scenario.run();
    let attempts: Vec<Nanos> = outcome
        .attempts
        .iter()
        .map(|at| at.saturating_sub(ms(50)))
        .collect();
    assert_eq!(attempts, [0, 100, 300, 700, 1_500, 2_500, 3_500].map(ms));
    let again = &outcome.reconnected[0];
    assert_eq!((again.at, again.down), (ms(3_550), ms(3_500)));
    assert_eq!(again.failed_attempts, 6);
}

/// "0 broken", of a connection that was down from 50 ms to the end.
#[test]
fn a_connection_that_is_not_back_by_the_end_is_told_with_the_time_that_it_was_down() {
    let mut scenario = Scenario::open(10, ms(2_000), &[HTTP], accepts(us(100)));
    scenario.config.rules.drain_timeout = Nanos::ZERO;
    scenario.break_at(ms(50), 0);
    scenario.refuse(50, 60_000);
    let outcome = scenario.run();
    assert_eq!(outcome.reconnected.len(), 1);
    let outage = &outcome.reconnected[0];
    assert_eq!(outage.reason, ReconnectReason::NotBack);
    assert!(outage.failed_attempts > 0);
    assert_eq!(outage.down, outage.at.saturating_sub(ms(50)));
    assert!(outage.down >= ms(1_900), "{}", outage.down);
}

/// A proxy in front of a node may end WebSockets and take no new ones.
#[test]
fn a_websocket_upgrade_that_is_refused_in_a_run_is_told_among_what_came_instead_of_answers() {
    let mut scenario = Scenario::open(10, ms(2_000), &[WS], accepts(us(100)));
    scenario.config.rules.drain_timeout = Nanos::ZERO;
    let texts = scenario.target.texts.clone();
    scenario.break_at(ms(50), 0);
    scenario.refuse_upgrades(50, 60_000);
    let outcome = scenario.run();
    let outage = &outcome.reconnected[0];
    assert_eq!(outage.reason, ReconnectReason::NotBack);
    let texts = texts.lock();
    let told: Vec<(&str, u64)> = texts
        .unusable()
        .iter()
        .map(|(text, count)| (text.as_str(), *count))
        .collect();
    assert_eq!(told, [(REFUSED_UPGRADE, outage.failed_attempts.into())]);
}

#[test]
fn a_run_whose_websocket_upgrades_are_refused_does_not_begin_and_says_why() {
    let scenario = Scenario::open(10, ms(2_000), &[WS; 3], accepts(us(100)));
    scenario.refuse_upgrades(0, 60_000);
    let error = scenario.try_run().err().unwrap().to_string();
    let expected = format!("3 of 3 connections could not be opened in 10s: {REFUSED_UPGRADE}");
    assert_eq!(error, expected);
}

const REFUSED_UPGRADE: &str = "the websocket upgrade failed: HTTP 403 Forbidden; check the path (CometBFT: /websocket) and that gateways pass upgrades";

#[test]
fn a_connection_that_brings_nothing_is_not_opened_thousands_of_times() {
    let react = |_, _: &str| Reaction::Close(Nanos::ZERO);
    let mut scenario = Scenario::open(1_000, ms(1_000), &[HTTP], Box::new(react));
    scenario.config.rules.drain_timeout = Nanos::ZERO;
    let outcome = scenario.run();
    // At once after the first, then every 50 ms.
    assert!(
        (19..=21).contains(&outcome.reconnected.len()),
        "{}",
        outcome.reconnected.len()
    );
    assert_eq!(outcome.sent.len(), 1_000 - outcome.unsent.len());
}

#[test]
fn an_answer_that_never_comes_is_given_up_and_no_other() {
    // Ten of a thousand are never answered, and one comes 50 ms after it was given up.
    let react = |number, body: &str| match number {
        500 => accept(ms(250), body),
        _ if number % 100 == 10 => Reaction::Silence,
        _ => accept(us(100), body),
    };
    let mut scenario = Scenario::open(1_000, ms(1_000), &[WS], Box::new(react));
    scenario.config.rules.answer_timeout = ms(200);
    let outcome = scenario.run();
    let given_up = Some(Reply::Failed(Failure::Timeout));
    for index in 0..1_000 {
        let lost = index == 500 || index % 100 == 10;
        let expected = if lost {
            given_up
        } else {
            Some(Reply::Accepted)
        };
        assert_eq!(outcome.reply(index), expected, "{index}");
    }
    assert!(outcome.reconnected.is_empty());
    assert_eq!((outcome.late_answers, outcome.stray_answers), (1, 0));
}

#[test]
fn a_websocket_that_brings_no_answer_for_the_timeout_is_opened_anew() {
    let react = |number, body: &str| match number {
        0..20 => accept(us(100), body),
        20..50 => Reaction::Silence,
        _ => accept(us(100), body),
    };
    let mut scenario = Scenario::open(100, ms(1_000), &[WS], Box::new(react));
    scenario.config.rules.answer_timeout = ms(200);
    let outcome = scenario.run();
    // 20 is due at 200 ms, and 19 was answered at 190.1 ms.
    let again = &outcome.reconnected[0];
    assert!((ms(400)..=ms(410)).contains(&again.at), "{}", again.at);
    assert_eq!(outcome.reply(20), Some(Reply::Failed(Failure::Timeout)));
    assert_eq!(outcome.reply(30), Some(Reply::Failed(Failure::Closed)));
    assert_eq!(outcome.reply(60), Some(Reply::Accepted));
}

/// 100 ms of load and 100 ms of pause, three times.
fn square(answers_after: Nanos) -> Outcome {
    let rate = Rate::per_second(1_000).unwrap();
    let profile =
        Profile::square(rate, Rate::ZERO, ms(100), ms(100), 3.try_into().unwrap()).unwrap();
    let mut scenario = Scenario::over(profile, Arrivals::Even, &[WS; 2], accepts(answers_after));
    let ShardLoad::Open {
        reconnect_in_pauses,
        ..
    } = &mut scenario.config.load
    else {
        unreachable!("a square is an open loop");
    };
    *reconnect_in_pauses = true;
    scenario.run()
}

#[test]
fn connections_are_broken_in_pauses_once_nothing_is_under_way() {
    let outcome = square(ms(5));
    assert_eq!(outcome.answered.len(), 300);
    assert!(
        outcome
            .answered
            .iter()
            .all(|answered| answered.reply == Reply::Accepted)
    );
    let planned = outcome.reconnected.iter();
    let at: Vec<u64> = planned
        .map(|again| again.at.as_nanos() / 1_000_000)
        .collect();
    assert_eq!(at.len(), 6, "two connections in each of three pauses");
    for (at, earliest) in at.iter().zip([104, 104, 304, 304, 504, 504]) {
        assert!((earliest..=earliest + 11).contains(at), "{at}");
    }
    assert!(
        outcome
            .reconnected
            .iter()
            .all(|again| again.reason == ReconnectReason::Planned)
    );
}

#[test]
fn connections_are_broken_in_the_middle_of_a_pause_at_the_latest() {
    let outcome = square(ms(90));
    let at = outcome.reconnected[0].at;
    assert!((ms(150)..=ms(160)).contains(&at), "{at}");
    let failed = outcome
        .answered
        .iter()
        .filter(|answered| answered.reply != Reply::Accepted);
    assert!(failed.count() >= 3 * 30);
}
