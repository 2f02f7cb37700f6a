//! Answers that the system stamps when they arrive: when they are read does not matter.

use std::sync::Arc;

use super::*;

/// A shard whose answers are stamped.
fn stamped(rate_per_second: u64, duration: Nanos, links: &[&str], react: React) -> Scenario {
    let mut scenario = Scenario::open(rate_per_second, duration, links, react);
    for address in &mut scenario.config.connections {
        Arc::make_mut(&mut address.options).arrival_stamps = true;
    }
    scenario.script.with(|world| world.stamps = true);
    scenario
}

fn answered_after(outcome: &Outcome) -> Vec<Nanos> {
    let after = |answered: &Answered| {
        let mut sent = outcome.sent.iter();
        let sent = sent.find(|sent| sent.index == answered.index).unwrap();
        answered.at.saturating_sub(sent.sent)
    };
    outcome.answered.iter().map(after).collect()
}

#[test]
fn an_answer_is_stamped_when_it_came_however_late_it_is_read() {
    for links in [&[WS; 2], &[HTTP; 2]] {
        let scenario = stamped(100, ms(1_000), links, accepts(ms(2)));
        // The answer to what left at 500 ms comes at 502 ms, and is read at 508 ms.
        scenario.stall(501, 508);
        let outcome = scenario.run();
        assert_eq!(answered_after(&outcome), [ms(2); 100]);
    }
}

#[test]
fn answers_are_read_together_while_enough_connections_have_room() {
    let scenario = stamped(10_000, ms(100), &[HTTP; 16], accepts(us(50)));
    let looks = scenario.script.clone();
    let outcome = scenario.run();
    assert_eq!(outcome.caused_by(Cause::OnTime).len(), 1_000);
    assert!(outcome.sent.iter().all(|sent| sent.sent == sent.due));
    assert_eq!(answered_after(&outcome), [us(50); 1_000]);
    // Without stamps, every answer and every due time.
    let looks = looks.with(|world| world.looks);
    assert!((100..=300).contains(&looks), "{looks}");
}

#[test]
fn answers_are_read_at_once_when_connections_are_needed() {
    // 16 connections carry 16 in 1.6 ms.
    let outcome = stamped(10_000, ms(100), &[HTTP; 16], accepts(us(1_550))).run();
    assert_eq!(outcome.caused_by(Cause::OnTime).len(), 1_000);
    assert!(outcome.sent.iter().all(|sent| sent.sent == sent.due));
}

#[test]
fn a_step_of_the_systems_clock_moves_no_answer_out_of_the_time_between_two_looks() {
    let scenario = stamped(1_000, ms(100), &[HTTP; 4], accepts(us(100)));
    // The stamps are far in the past.
    scenario
        .script
        .with(|world| world.clock_steps_by = ms(3_600_000));
    let outcome = scenario.run();
    let after = answered_after(&outcome);
    assert!(after.iter().all(|after| *after <= us(100)), "{after:?}");
}

#[test]
fn what_falls_due_while_many_answers_are_read_waits_for_one_of_them_at_most() {
    // A millisecond's answers, 20 of them, and each takes 30 us to be read.
    let scenario = stamped(20_000, ms(20), &[HTTP; 100], accepts(us(100)));
    scenario.script.with(|world| world.read_takes = us(30));
    let outcome = scenario.run();
    let late = |sent: &Sent| sent.sent.saturating_sub(sent.due);
    let latest = outcome.sent.iter().map(late).max().unwrap();
    assert!(latest <= us(30), "{latest}");
    assert_eq!(outcome.sent.len(), 400);
}
