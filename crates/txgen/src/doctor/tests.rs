use super::machine::{Machine, findings};
use super::node::{NodeLook, findings as of_node};
use super::*;

fn good() -> Machine {
    Machine {
        cores: 8,
        clock: Some("tsc".into()),
        is_in_step: Some(true),
        open_files: [Some(1_024), Some(524_288)],
        late_us: [60, 120],
        pressure: Some(0.4),
        load: Some(0.2),
    }
}

fn advised(findings: &[Finding]) -> Vec<&'static str> {
    let advised = findings.iter().filter(|it| it.advice.is_some());
    advised.map(|it| it.about).collect()
}

#[test]
fn a_good_machine_needs_no_change_and_each_fault_is_named_alone() {
    assert_eq!(advised(&findings(&good())), [""; 0]);
    assert!(text(&findings(&good())).starts_with("nothing to change\n"));
    let with = |change: fn(&mut Machine)| {
        let mut machine = good();
        change(&mut machine);
        advised(&findings(&machine))
    };
    assert_eq!(with(|it| it.cores = 1), ["cores"]);
    assert_eq!(with(|it| it.clock = Some("hpet".into())), ["clock"]);
    assert_eq!(with(|it| it.is_in_step = Some(false)), ["clock"]);
    assert_eq!(with(|it| it.open_files[1] = Some(1_024)), ["open files"]);
    assert_eq!(with(|it| it.late_us[1] = 5_000), ["timer"]);
    assert_eq!(with(|it| it.pressure = Some(60.0)), ["pressure"]);
    // What is unknown is no fault, and unlimited is enough.
    let unknown = with(|it| {
        (it.is_in_step, it.pressure, it.load) = (None, None, None);
        it.open_files = [None, None];
    });
    assert_eq!(unknown, [""; 0]);
}

#[test]
fn a_node_on_this_machine_a_full_mempool_and_a_chain_without_blocks_are_named() {
    let good = || NodeLook {
        probe: chain::Probe::default(),
        is_here: false,
        round_trip: [Nanos::from_micros(200), Nanos::from_millis(3)],
        waiting: Some(0),
        intervals: [900, 1_000, 1_300].map(Nanos::from_millis).to_vec(),
    };
    assert_eq!(advised(&of_node(&good())), [""; 0]);
    let shown = text(&of_node(&good()));
    assert!(
        shown.contains("every 1.00 s (0.90 to 1.30 s over 4 blocks)"),
        "{shown}"
    );
    assert!(shown.contains("0.20 to 3.00 ms"), "{shown}");
    assert!(shown.contains("it tells none"), "{shown}");
    let with = |change: fn(&mut NodeLook)| {
        let mut node = good();
        change(&mut node);
        advised(&of_node(&node))
    };
    assert_eq!(with(|it| it.is_here = true), ["place"]);
    assert_eq!(with(|it| it.waiting = Some(7)), ["mempool"]);
    assert_eq!(with(|it| it.waiting = None), [""; 0]);
    assert_eq!(with(|it| it.intervals.clear()), ["blocks"]);
}
