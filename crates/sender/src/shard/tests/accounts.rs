//! Where the order of accounts matters: which connection an account has, and what its next transaction is
//! signed with.

use std::sync::Arc;

use super::requests::BATCHES;
use super::*;
use crate::protocol::{Families, TxName, TxStream, WorkloadError};
use crate::sequences::{OnGap, Sequences};
use crate::shard::Ordered;

/// Transactions that are the text of their index and their sequence.
struct Sequenced(Arc<Sequences>);

impl TxStream for Sequenced {
    fn write(&mut self, index: u64, out: &mut Vec<u8>) -> Result<TxName, WorkloadError> {
        let sequence = self.0.sequence(index);
        out.extend_from_slice(format!("{index}#{sequence}").as_bytes());
        Ok(TxName::Sequenced(sequence))
    }
}

/// Answers after a while: with code 9 for this index, else with 0.
fn refuses(refused: u64) -> React {
    Box::new(move |_, body| {
        let index: u64 = body.split('#').next().unwrap().parse().unwrap();
        let code = if index == refused { 9 } else { 0 };
        Reaction::Say(us(100), format!("{index}={code}"))
    })
}

/// 1,000/s for 40 ms over these links, signed by so many accounts in turn.
fn ordered(accounts: u64, links: &[&str], on_gap: OnGap, react: React) -> Scenario {
    let mut scenario = Scenario::open(1_000, ms(40), links, react);
    let starts = (0..accounts).map(|_| 0);
    let sequences = Arc::new(Sequences::new(starts, on_gap, |_| None));
    scenario.config.ordered = Some(Ordered {
        stream: Box::new(Sequenced(sequences.clone())),
        sequences,
        first: 0,
        stride: 1,
    });
    scenario
}

#[test]
fn an_account_has_one_connection() {
    let scenario = ordered(5, &[WS, WS], OnGap::Resync, refuses(u64::MAX));
    let outcome = scenario.run();
    assert_eq!(outcome.sent.len(), 40);
    for sent in &outcome.sent {
        let account = sent.index % 5;
        assert_eq!(u64::from(sent.endpoint), account % 2, "{}", sent.index);
    }
}

#[test]
fn the_accounts_of_a_connection_that_is_down_go_over_the_next() {
    let scenario = ordered(4, &[WS, WS], OnGap::Resync, refuses(u64::MAX));
    scenario.break_at(us(10_500), 0);
    scenario.refuse(10, 30);
    let outcome = scenario.run();
    let of = |index| {
        let sent = outcome.sent.iter().find(|sent| sent.index == index);
        sent.unwrap().endpoint
    };
    assert_eq!([of(4), of(8)], [0, 0]);
    assert_eq!([of(12), of(16)], [1, 1], "while it is down");
    assert_eq!([of(13), of(17)], [1, 1]);
    assert_eq!(outcome.sent.len(), 40, "nothing waits for it");
}

#[test]
fn what_was_signed_before_a_sequence_broke_is_signed_anew() {
    let outcome = ordered(1, &[WS], OnGap::Resync, refuses(2)).run();
    // The first was signed ahead with the sequence that it has; the source knows no others here.
    let bodies = outcome.bodies();
    assert_eq!(bodies[..6], ["0", "1#1", "2#2", "3#2", "4#3", "5#4"]);
    assert_eq!(outcome.reply(2), Some(Reply::rejected(9)));
}

#[test]
fn an_abandoned_account_s_transactions_are_unsent() {
    let outcome = ordered(2, &[WS], OnGap::Abandon, refuses(2)).run();
    let unsent = outcome.unsent_for(UnsentReason::SequenceBroken);
    let expected: Vec<u64> = (4..40).step_by(2).collect();
    assert_eq!(unsent, expected);
    assert_eq!(outcome.sent.len(), 22, "the other account goes on");
}

/// Which of two nodes got each transaction, in the order of their indices.
fn nodes(outcome: &Outcome) -> Vec<u16> {
    let mut sent: Vec<_> = outcome.sent.iter().collect();
    sent.sort_unstable_by_key(|sent| sent.index);
    sent.iter().map(|sent| sent.endpoint).collect()
}

/// 1,000/s for 40 ms to two nodes, in so many families in turn.
fn families(count: u64, link: &'static str) -> Scenario {
    let mut scenario = Scenario::open(1_000, ms(40), &[link; 2], accepts(us(100)));
    scenario.config.families = Some(Families::new(count, move |index| index % count));
    scenario
}

#[test]
fn a_family_keeps_to_its_node() {
    for (link, on_demand) in [(WS, false), (HTTP, false), (HTTP, true)] {
        let mut scenario = families(5, link);
        scenario.target.limits.on_demand = on_demand;
        let outcome = scenario.run();
        let expected: Vec<u16> = (0..40).map(|index| index % 5 % 2).collect();
        assert_eq!(nodes(&outcome), expected, "{link}, {on_demand}");
        assert_eq!(outcome.caused_by(Cause::OnTime), indices(0..40));
    }
}

#[test]
fn the_families_of_a_node_that_is_down_go_to_the_other() {
    let scenario = families(2, WS);
    scenario.break_at(us(10_500), 0);
    scenario.refuse(10, 30);
    let outcome = scenario.run();
    let nodes = nodes(&outcome);
    assert!((0..=10).all(|at| nodes[at] == at as u16 % 2), "{nodes:?}");
    assert!(nodes[11..].iter().all(|node| *node == 1), "{nodes:?}");
}

#[test]
fn a_request_holds_what_goes_to_one_node_and_as_much_as_it_may() {
    let rate = Rate::per_second(160).unwrap();
    let profile = Profile::constant(rate, Some(ms(100))).unwrap();
    let arrivals = "burst:16".parse().unwrap();
    let mut scenario = Scenario::over(profile, arrivals, &[WS; 2], accepts(ms(1)));
    scenario.target.limits = BATCHES;
    scenario.config.families = Some(Families::new(16, |index| index));
    let outcome = scenario.run();
    let mut bodies = outcome.bodies();
    bodies.sort_unstable();
    let full = ["[0,1,2,3]", "[12,13,14,15]", "[4,5,6,7]", "[8,9,10,11]"];
    assert_eq!(bodies, full);
    let expected: Vec<u16> = (0..16).map(|index| index / 4 % 2).collect();
    assert_eq!(nodes(&outcome), expected);
}
