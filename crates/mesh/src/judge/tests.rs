use std::num::NonZeroU16;

use harness::exit;
use serde_json::json;

use super::*;
use crate::account::PlayedMesh;
use crate::control::{Counters, Row};
use crate::crew::MachineSecond;
use crate::exit_code;
use crate::plan::{MeshLoad, MeshPlan};
use crate::settings::MeshSettings;
use crate::summary::MeshSummary;

/// Every node may write 1 MB/s.
fn judged(account: &Account, interrupted: bool) -> Judgement {
    let node_rate = ["8Mbit/s".parse().unwrap()];
    let bounds = Bounds {
        node_rate: &node_rate,
        interrupted,
        ..UNLIMITED
    };
    judge(account, &bounds)
}

const UNLIMITED: Bounds<'_> = Bounds {
    node_rate: &[],
    node_cpu: &[],
    switch: None,
    entries: 1.0,
    interrupted: false,
};

fn load() -> MeshLoad {
    let phase = json!({"profile": "ramp", "start": "1000/s", "step": "1000/s", "every": "5s", "to": "2000/s"});
    crate::plan::tests::load(phase)
}

/// A ramp of 1,000/s and 2,000/s, five seconds each, in which the second step is as `change` makes
/// the rows of the nodes 0 and 1.
fn run(change: impl Fn(&mut Row, u16)) -> Account {
    let mut account = Account::new(2, load().schedule().unwrap());
    for second in 0..10 {
        let rate = if second < 5 { 1000 } else { 2000 };
        for node in 0..2 {
            let mut row = Row {
                second,
                counters: Counters {
                    offered: if node == 0 { rate } else { 0 },
                    entries: rate,
                    bytes_out: 500_000,
                    cpu_ns: 400_000_000,
                    ..Counters::default()
                },
                lateness_us: vec![(100, 1000)],
                ..Row::default()
            };
            if second >= 5 {
                change(&mut row, node);
            }
            account.row(node, row);
        }
        account.machine.push(machine(second, 0.9));
    }
    account
}

fn machine(second: u64, busy: f64) -> MachineSecond {
    MachineSecond {
        second,
        busy,
        stolen: 0.0,
        cpus: 2.0,
    }
}

fn slow(row: &mut Row) {
    row.counters.entries = 1200;
}

/// What gave first; `None` where nothing was at its limit.
fn cause(judgement: &Judgement) -> Option<MeshEvidence> {
    match judgement.gave_first.as_ref()?.cause.as_ref()?.kind {
        EvidenceKind::Mesh(found) => Some(found),
        _ => None,
    }
}

/// Whether the mesh itself filled the machine's CPUs as it gave.
fn is_own_machine(account: &Account) -> bool {
    matches!(
        cause_of(account),
        Some(MeshEvidence::MachineFull { others: None, .. })
    )
}

fn cause_of(account: &Account) -> Option<MeshEvidence> {
    let judgement = judged(account, false);
    assert!(judgement.gave_first.is_some());
    cause(&judgement)
}

#[test]
fn nothing_gives_in_a_mesh_that_returns_what_is_offered() {
    let judgement = judged(&run(|_, _| {}), false);
    assert_eq!(judgement.gave_first, None);
    assert_eq!(judgement.schedule, ScheduleVerdict::Valid);
    assert!(judgement.evidence.is_empty(), "{:?}", judgement.evidence);
}

#[test]
fn a_full_cpu_is_no_cause_while_there_is_no_symptom() {
    let account = run(|row, _| row.counters.cpu_ns = 990_000_000);
    let judgement = judged(&account, false);
    assert_eq!(judgement.gave_first, None);
    assert_eq!(judgement.evidence.len(), 1, "but it is evidence");
}

#[test]
fn the_cpu_of_a_node_gave_first_when_it_is_full_as_entries_stay_away() {
    let account = run(|row, node| {
        slow(row);
        if node == 1 {
            row.counters.cpu_ns = 990_000_000;
        }
    });
    let judgement = judged(&account, false);
    let first = judgement.gave_first.as_ref().unwrap();
    assert_eq!((first.since_s, first.step), (5, 1));
    let expected = MeshEvidence::CpuFull {
        node: 1,
        cpus: 0.99,
        limit_cpus: 1.0,
    };
    assert_eq!(cause(&judgement), Some(expected));
}

#[test]
fn a_node_s_share_of_a_cpu_is_full_below_one() {
    let account = run(|row, node| {
        slow(row);
        row.counters.cpu_ns = if node == 1 { 580_000_000 } else { 700_000_000 };
    });
    let node_cpu = ["1=60%".parse().unwrap()];
    let bounds = Bounds {
        node_cpu: &node_cpu,
        ..UNLIMITED
    };
    let expected = MeshEvidence::CpuFull {
        node: 1,
        cpus: 0.58,
        limit_cpus: 0.6,
    };
    assert_eq!(cause(&judge(&account, &bounds)), Some(expected));
}

#[test]
fn the_switch_gave_first_when_all_nodes_together_fill_it_and_no_line_is_full() {
    let account = run(|row, _| {
        slow(row);
        row.counters.bytes_out = 800_000;
    });
    let switch = |rate: &str| Bounds {
        switch: Some(rate.parse().unwrap()),
        ..UNLIMITED
    };
    let bytes_per_s = 800_000.0 * account.nodes.len() as f64;
    let expected = MeshEvidence::SwitchFull {
        bytes_per_s,
        limit_bytes_per_s: bytes_per_s,
    };
    let full = switch(&format!("{}bit/s", bytes_per_s * 8.0));
    assert_eq!(cause(&judge(&account, &full)), Some(expected));
    assert_eq!(cause(&judge(&account, &switch("1Gbit/s"))), None);
}

#[test]
fn the_machine_gave_first_when_its_cpus_are_full_and_no_nodes_is() {
    let mut account = run(|row, _| {
        slow(row);
        row.counters.cpu_ns = 930_000_000;
    });
    for second in &mut account.machine[5..] {
        second.busy = 1.98;
    }
    assert!(is_own_machine(&account));
    for second in &mut account.machine[5..] {
        second.busy = 1.5;
    }
    assert_eq!(
        cause_of(&account),
        None,
        "with CPUs to spare it cannot tell"
    );
}

/// A mesh of two nodes that use so much CPU time each on two full CPUs, and lose entries.
fn full(cpu_ns_of_a_node: u64) -> Account {
    let mut account = run(|row, _| {
        slow(row);
        row.counters.cpu_ns = cpu_ns_of_a_node;
    });
    for second in &mut account.machine[5..] {
        second.busy = 1.98;
    }
    account
}

/// In a ramp on two CPUs a compiler had 0.8 of them: five nodes with 1.2 lost entries at 2,001/s and carried 2,501/s
/// in the next step. The judge named "the CPUs of the machine" as the mesh's limit.
#[test]
fn cpus_that_other_programs_had_are_not_the_limit_of_the_mesh() {
    let Some(MeshEvidence::MachineFull { busy, others, .. }) = cause_of(&full(600_000_000)) else {
        panic!("the machine was full");
    };
    let others = others.expect("other programs had a part");
    assert_eq!((busy, (others * 100.0).round()), (1.98, 78.0));
    assert!(
        is_own_machine(&full(900_000_000)),
        "0.18 CPUs are the kernel's work"
    );
}

/// A script that reads the exit code alone must not take what other programs left over for the mesh's limit.
#[test]
fn a_disturbed_run_ends_with_98_and_one_that_found_its_own_limit_with_0() {
    let settings = MeshSettings {
        nodes: NonZeroU16::new(2),
        ..MeshSettings::default()
    };
    let plan = MeshPlan::resolve(load(), settings).unwrap();
    let code = |account| {
        let played = PlayedMesh {
            account,
            origin_unix_ns: 0,
            interrupted: false,
            undrained: None,
        };
        exit_code(&MeshSummary::of(&plan, &played))
    };
    assert_eq!(code(full(600_000_000)), exit::INVALID);
    assert_eq!(code(full(900_000_000)), exit::DONE);
    assert_eq!(code(run(|_, _| {})), exit::DONE);
}

/// The machine was full with other programs early on, when nothing gave; later it was full with the mesh.
#[test]
fn other_programs_are_no_cause_once_they_have_ended() {
    let mut account = run(|row, _| {
        slow(row);
        row.counters.cpu_ns = 930_000_000;
    });
    for second in &mut account.machine {
        second.busy = 1.98;
    }
    assert!(is_own_machine(&account));
}

#[test]
fn the_link_gave_first_when_it_is_full() {
    let account = run(|row, _| {
        slow(row);
        row.counters.bytes_out = 950_000;
    });
    let expected = MeshEvidence::RateReached {
        node: 0,
        bytes_per_s: 950_000.0,
        limit_bytes_per_s: 1_000_000.0,
    };
    assert_eq!(cause_of(&account), Some(expected));
}

#[test]
fn a_shortfall_of_the_generator_never_looks_like_the_network() {
    let account = run(|row, node| {
        if node == 0 {
            row.counters.offered = 1500;
            row.lateness_us = vec![(300_000, 1500)];
        }
        row.counters.entries = 1500;
    });
    let judgement = judged(&account, false);
    let expected = MeshEvidence::OfferShort {
        offered: 1500,
        planned: 2000,
        late_ms: Some(300.0),
    };
    assert_eq!(cause(&judgement), Some(expected));
    assert_eq!(judgement.schedule, ScheduleVerdict::Invalid);
}

/// All of it came later, in rows of seconds after the load.
#[test]
fn a_generator_that_told_of_no_second_in_time_did_not_offer_as_planned() {
    let phase = json!({"profile": "constant", "rate": "1000/s", "duration": "2s"});
    let mut account = Account::new(2, crate::plan::tests::load(phase).schedule().unwrap());
    let mut row = Row {
        second: 3,
        ..Row::default()
    };
    row.counters.offered = 2000;
    account.row(0, row);
    let judgement = judged(&account, false);
    assert_eq!(judgement.schedule, ScheduleVerdict::Invalid);
    let expected = MeshEvidence::OfferShort {
        offered: 0,
        planned: 2000,
        late_ms: None,
    };
    assert_eq!(cause(&judgement), Some(expected));
    assert_eq!(judged(&account, true).schedule, ScheduleVerdict::Valid);
}

#[test]
fn a_generator_that_is_late_since_the_machine_is_full_is_not_the_cause() {
    let mut account = run(|row, node| {
        if node == 0 {
            row.counters.offered = 1500;
            row.lateness_us = vec![(300_000, 1500)];
        }
        row.counters.entries = 1200;
        row.counters.cpu_ns = 930_000_000;
    });
    for second in &mut account.machine[5..] {
        second.busy = 1.99;
    }
    let judgement = judged(&account, false);
    assert!(is_own_machine(&account));
    assert_eq!(judgement.schedule, ScheduleVerdict::Degraded);
}

#[test]
fn a_queue_gave_first_when_it_drops_with_everything_else_to_spare() {
    let account = run(|row, node| {
        if node == 1 {
            row.counters.dropped_full = 5000;
        }
    });
    let expected = MeshEvidence::QueueFull { node: 1 };
    assert_eq!(cause_of(&account), Some(expected));
    let busy = run(|row, node| {
        if node == 1 {
            row.counters.dropped_full = 5000;
            row.counters.cpu_ns = 1_000_000_000;
        }
    });
    assert_eq!(
        cause_of(&busy),
        Some(MeshEvidence::CpuFull {
            node: 1,
            cpus: 1.0,
            limit_cpus: 1.0
        }),
        "a full CPU explains the queue"
    );
}

#[test]
fn a_node_that_ended_gave_before_all_else() {
    let mut account = run(|row, _| {
        slow(row);
        row.counters.cpu_ns = 990_000_000;
    });
    account.nodes[1].ended_s = Some(4.7);
    let expected = MeshEvidence::NodeEnded { node: 1 };
    assert_eq!(cause_of(&account), Some(expected));
}

/// From when to when nodes saw nothing, in a run in which node 1 is as `change` makes it from 5 s on.
fn outages_of(
    change: impl Fn(&mut Row),
    and: impl Fn(&mut Account),
) -> Vec<(u16, u64, Option<f64>)> {
    let mut account = run(|row, node| {
        if node == 1 {
            change(row);
        }
    });
    and(&mut account);
    let outage = |it: &Evidence| match it.kind {
        EvidenceKind::Mesh(MeshEvidence::Outage { node }) => Some((node, since_s(it), it.until_s)),
        _ => None,
    };
    let judgement = judged(&account, false);
    judgement.evidence.iter().filter_map(outage).collect()
}

#[test]
fn an_outage_has_its_recovery() {
    let silent = |from: u64, until: u64| {
        move |row: &mut Row| {
            if (from..until).contains(&row.second) {
                row.counters.entries = 0;
            }
        }
    };
    let nothing = |_: &mut Account| ();
    assert_eq!(outages_of(silent(6, 8), nothing), [(1, 6, Some(8.0))]);
    assert_eq!(outages_of(silent(7, 10), nothing), [(1, 7, None)]);
    assert_eq!(
        outages_of(silent(6, 7), nothing),
        [],
        "a second may be anything"
    );
    let stopped = |account: &mut Account| {
        let stands = |row: &NodeSecond| row.node == 1 && (6..9).contains(&row.second);
        account.seconds.retain(|row| !stands(row));
    };
    assert_eq!(
        outages_of(|_| (), stopped),
        [(1, 6, Some(9.0))],
        "a node that stands still reports nothing"
    );
}

#[test]
fn what_was_not_offered_or_cannot_be_told_from_chance_is_no_outage() {
    let silent = |row: &mut Row| row.counters.entries = 0;
    let rate = |offered: u64| {
        move |account: &mut Account| {
            let mut rows = account.seconds.iter_mut();
            rows.by_ref()
                .filter(|row| row.second >= 5 && row.node == 0)
                .for_each(|row| row.counters.offered = offered);
        }
    };
    assert_eq!(outages_of(silent, rate(0)), [], "a pause of the load");
    assert_eq!(outages_of(silent, rate(1)), [], "five entries");
    assert_eq!(outages_of(silent, rate(3)), [(1, 5, None)]);
    let ended = |account: &mut Account| account.nodes[1].ended_s = Some(5.5);
    assert_eq!(outages_of(silent, ended), [], "it ended, and that is said");
}
