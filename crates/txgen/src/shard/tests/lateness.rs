//! Why a transaction left late: today's rules, exactly (ARCHITECTURE.md, decision 2).

use super::*;

#[test]
fn on_a_quiet_machine_everything_leaves_at_its_due_time() {
    let outcome = Scenario::open(1_000, ms(100), &[WS], accepts(ms(1))).run();
    assert_eq!(outcome.caused_by(Cause::OnTime), indices(0..100));
    for sent in &outcome.sent {
        assert_eq!(sent.sent, sent.due);
        assert_eq!(sent.due, ms(sent.index));
    }
    assert_eq!(
        outcome.ended,
        ms(100),
        "the last answer comes with the end of the load"
    );
}

#[test]
fn a_thread_that_does_not_run_is_the_schedules_fault() {
    let scenario = Scenario::open(1_000, ms(100), &[WS], accepts(ms(1)));
    scenario.stall(20, 50);
    let outcome = scenario.run();
    // 49 and 50 leave within a millisecond of their due times.
    assert_eq!(outcome.caused_by(Cause::Schedule), indices(20..49));
    assert_eq!(outcome.caused_by(Cause::OnTime).len(), 71);
    assert!(outcome.sent[20..50].iter().all(|sent| sent.sent == ms(50)));
}

#[test]
fn a_write_that_takes_long_is_the_schedules_fault() {
    // Eight are due at once, and each is written by itself, over connections of their own.
    let profile = Profile::constant(Rate::per_second(80).unwrap(), Some(ms(200))).unwrap();
    let arrivals = "burst:8".parse().unwrap();
    let scenario = Scenario::over(profile, arrivals, &[HTTP; 8], accepts(ms(1)));
    let writes = |number| if number == 2 { ms(5) } else { Nanos::ZERO };
    scenario
        .script
        .with(|world| world.write_takes = Box::new(writes));
    let outcome = scenario.run();
    assert_eq!(outcome.caused_by(Cause::Schedule), indices(2..8));
    assert_eq!(outcome.sent[1].sent, Nanos::ZERO);
    assert_eq!(outcome.sent[7].sent, ms(5));
    assert_eq!(outcome.caused_by(Cause::OnTime).len(), 10);
}

#[test]
fn a_dry_ring_is_the_sources_fault() {
    let mut scenario = Scenario::open(1_000, ms(300), &[WS], accepts(ms(1)));
    // A batch carries 128; the second comes 22 ms after it is wanted.
    scenario.prepared = 1;
    scenario.prepared_later = vec![ms(150), ms(151)];
    let outcome = scenario.run();
    assert_eq!(outcome.caused_by(Cause::Source), indices(128..149));
    let (first, poll) = (outcome.sent[128].sent, us(50));
    assert!(
        (ms(150)..=ms(150).saturating_add(poll)).contains(&first),
        "{first}"
    );
    assert!(outcome.caused_by(Cause::Schedule).is_empty());
}

#[test]
fn too_few_connections_are_the_connections_fault() {
    // One answer at a time, each 20 ms: a backlog grows by one each 20 ms.
    let outcome = Scenario::open(100, ms(400), &[HTTP], accepts(ms(20))).run();
    assert_eq!(outcome.caused_by(Cause::OnTime), [0]);
    assert_eq!(outcome.caused_by(Cause::Connection), indices(1..40));
    // Transaction n leaves with the answer before it.
    assert!(
        outcome
            .sent
            .iter()
            .all(|sent| sent.sent == ms(20 * sent.index))
    );
}

#[test]
fn without_any_connection_the_connections_are_at_fault() {
    let scenario = Scenario::open(1_000, ms(300), &[HTTP], accepts(us(100)));
    scenario.break_at(us(50_500), 0);
    scenario.refuse(50, 100);
    let outcome = scenario.run();
    // Tried again after 100 ms.
    let back = outcome.reconnected[0].at;
    assert_eq!(back, us(150_500));
    let late = outcome.caused_by(Cause::Connection);
    assert_eq!(late[0], 51);
    assert!(late.len() >= 98, "{late:?}");
    assert!(outcome.caused_by(Cause::Node).is_empty());
    assert!(outcome.caused_by(Cause::Schedule).is_empty());
}

/// Over HTTP an answer takes 300 ms, all others 100 µs.
fn one_slow_answer(links: &[&str]) -> Scenario {
    let react = |number, body: &str| match number {
        20 => accept(ms(300), body),
        _ => accept(us(100), body),
    };
    Scenario::open(1_000, ms(600), links, Box::new(react))
}

#[test]
fn an_answer_that_takes_long_is_the_nodes_fault() {
    let outcome = one_slow_answer(&[HTTP]).run();
    let late = outcome.caused_by(Cause::Node);
    assert_eq!(
        late[..299],
        indices(21..320),
        "due while the answer was awaited"
    );
    // What was due by then leaves behind the backlog; then the backlog itself is short of connections.
    assert!(outcome.sent[21].sent == ms(320) && outcome.sent[21].due == ms(21));
    assert!(outcome.caused_by(Cause::Schedule).is_empty());
    assert!(outcome.caused_by(Cause::Source).is_empty());
    for sent in &outcome.sent {
        let late = sent.sent.saturating_sub(sent.due) > measure::LATE_LIMIT;
        assert_eq!(late, sent.cause != Cause::OnTime, "{sent:?}");
    }
}

#[test]
fn another_connection_makes_up_for_one_that_is_held_up() {
    let outcome = one_slow_answer(&[HTTP, HTTP]).run();
    assert_eq!(outcome.caused_by(Cause::OnTime), indices(0..600));
}

#[test]
fn a_socket_that_takes_nothing_is_the_nodes_fault() {
    let scenario = Scenario::open(1_000, ms(300), &[WS], accepts(us(100)));
    scenario.take_nothing(100, 150);
    let outcome = scenario.run();
    // Queued in time, and written when the socket took them.
    assert_eq!(outcome.caused_by(Cause::Node), indices(100..149));
    assert!(
        outcome.sent[100..150]
            .iter()
            .all(|sent| sent.sent == ms(150))
    );
    assert_eq!(outcome.caused_by(Cause::OnTime).len(), 251);
}

#[test]
fn what_the_shard_saw_late_is_its_own_fault_whatever_came_after() {
    // The thread stands still while the node holds the only connection up.
    let scenario = one_slow_answer(&[HTTP]);
    scenario.stall(50, 80);
    let outcome = scenario.run();
    assert_eq!(outcome.caused_by(Cause::Schedule), indices(50..79));
    assert_eq!(outcome.caused_by(Cause::Node)[..29], indices(21..50));
}
