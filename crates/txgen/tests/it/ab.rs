//! Two sides in turns. How often an answer is wrong is tested in `measure`; one block of four runs never tells,
//! whatever its figures are.

use std::fs;
use std::net::TcpListener;

use crate::support::{Node, Place};

/// The sides of the runs that count, in the order in which they were taken.
fn order(place: &Place, out: &str) -> String {
    let mut runs: Vec<(String, char)> = Vec::new();
    for side in ['a', 'b'] {
        let folder = place.path().join(out).join(side.to_string());
        for run in fs::read_dir(folder).into_iter().flatten() {
            let name = run.unwrap().file_name().into_string().unwrap();
            let summary = place.run(&format!("{out}/{side}/{name}")).summary();
            // One that was not the planned load is taken again, on a machine that is busy.
            if summary.text("verdict.schedule") != "invalid" {
                runs.push((name, side));
            }
        }
    }
    runs.sort_unstable();
    runs.into_iter().map(|(_, side)| side).collect()
}

#[test]
fn settings_are_compared_in_turns_and_what_was_measured_is_there_for_compare() {
    let (place, node) = (Place::new(), Node::quick());
    let ended = place.shell(&format!(
        "{} ab --a '--size 100' --b '--size 200' --rate 50 --duration 400ms --max-pairs 2 --seed 1 --out ab \
         --endpoints {}",
        env!("CARGO_BIN_EXE_txgen"),
        node.url()
    ));
    ended.expect(98);
    let order = order(&place, "ab");
    assert!("abba".starts_with(&order), "{order}");
    if order != "abba" {
        ended.says("not the planned load");
        return;
    }
    ended
        .prints("undecided: it is not shown that B is worse, nor that it is not by more than 5 %")
        .prints("the workload differs")
        .says("pair  2  B to A: ");
    let text = fs::read_to_string(place.path().join("ab/ab.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["format"], "tidegate.ab/1");
    assert_eq!(
        (&document["pairs"], &document["gate"]),
        (&2.into(), &"open".into())
    );
    assert!(place.path().join("ab/report.html").exists());
    place
        .txgen("compare ab/a ab/b")
        .expect(0)
        .prints("cannot tell: the workload differs");
    let hashes: std::collections::HashSet<_> =
        node.committed().into_iter().map(|tx| tx.0).collect();
    assert_eq!(
        hashes.len(),
        node.committed().len(),
        "a transaction came twice"
    );
}

/// A node at an address of its own, so that no other test takes its port.
#[test]
fn a_command_starts_its_node_for_each_run_and_all_it_started_ends_after_it() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.77:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let txgen = env!("CARGO_BIN_EXE_txgen");
    // The shell stays: the node is its child.
    let node = format!("{txgen} devnode --listen {address} --set block_interval=50ms; true");
    let ended = place.shell(&format!(
        "{txgen} ab --a '{node}' --b '{node}' --rate 50 --duration 400ms --max-pairs 2 --out ab \
         --endpoints http://{address}"
    ));
    ended.expect(98);
    assert!("abba".starts_with(&order(&place, "ab")));
    assert!(place.path().join("ab/node-a.log").exists());
    TcpListener::bind(address).expect("nothing listens there any more");
}

#[test]
fn a_side_that_cannot_be_measured_is_named_before_anything_is_compared() {
    let (place, node) = (Place::new(), Node::quick());
    let txgen = env!("CARGO_BIN_EXE_txgen");
    let listener = TcpListener::bind("127.0.0.78:0").unwrap();
    let free = listener.local_addr().unwrap();
    drop(listener);
    for (sides, code, phrase) in [
        (
            format!("--a 'sleep 60' --b 'sleep 60' --endpoints {}", node.url()),
            1,
            "before the command starts its node there",
        ),
        (
            format!("--a 'echo broken; exit 3' --b true --endpoints http://{free}"),
            1,
            "ended before its node was ready (exit status: 3); broken",
        ),
        (
            "--a 'sleep 60' --b 'sleep 60'".to_owned(),
            2,
            "say with --endpoints",
        ),
        (
            "--a '--size 20' --b '--size 30' --max-pairs 1".to_owned(),
            2,
            "at least 2",
        ),
        (
            "--a '--size 20' --b '--size 30' --threshold 'commit.p50<1s'".to_owned(),
            2,
            "ab decides by --judge-by and --margin",
        ),
    ] {
        let ended = place.shell(&format!("{txgen} ab {sides} --rate 10 --duration 100ms"));
        ended.expect(code).says(phrase);
    }
    place
        .shell(&format!(
            "{txgen} ab --a '--size 20' --b '--size 30' --rate 10 --dry-run"
        ))
        .expect(0)
        .prints("ABBA and BAAB");
}
