//! Which node the transactions of a family go to.

use super::requests::BATCHES;
use super::*;
use crate::families::Families;

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
