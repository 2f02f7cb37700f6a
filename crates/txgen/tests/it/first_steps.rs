//! `doctor`, `init`, scenarios inside the program, and what people bring from other programs: flags, and
//! `txgen tm-bench` with its old flags, its old table and a count that holds.

use clap::CommandFactory as _;
use serde_json::Value;

use crate::support::{Node, Place};

#[test]
fn doctor_looks_at_the_machine_and_at_a_node_and_sends_nothing() {
    let place = Place::new();
    let ended = place.txgen("doctor");
    ended.expect(0);
    for about in ["cores", "clock", "open files", "timer", "none was named"] {
        assert!(ended.out.contains(about), "{about}: {ended}");
    }
    let node = Node::quick();
    let ended = place.txgen(&format!("doctor {}", node.url()));
    ended.expect(0);
    for about in [
        "on this machine",
        "round trip",
        "blocks",
        "0 transactions",
        "another machine",
    ] {
        assert!(ended.out.contains(about), "{about}: {ended}");
    }
    assert!(
        !ended.out.contains("to 0.00 s"),
        "blocks have a distance: {ended}"
    );
    assert!(node.committed().is_empty());
    // What was found of the machine is printed where the node cannot be asked.
    let ended = place.txgen("doctor http://127.0.0.1:1");
    ended.expect(1);
    assert!(
        ended.out.contains("cores") && ended.err.contains("127.0.0.1:1"),
        "{ended}"
    );
    assert_eq!(place.contents(), Vec::<String>::new());
}

#[test]
fn scenarios_inside_the_program_play_in_an_empty_folder() {
    let place = Place::new();
    place.txgen("run --list").expect(0).prints("constant   ");
    place
        .txgen("run constant --dry-run")
        .expect(0)
        .prints("1000/s");
    place
        .txgen("run constnat")
        .expect(2)
        .says("`txgen run constant`");
    place.txgen("init rate").expect(0).says("scenario.toml");
    place.txgen("init rate").expect(2).says("--out");
    place.txgen("run scenario.toml --dry-run").expect(0);
    assert_eq!(place.contents(), ["scenario.toml"]);
}

/// What a variable of the environment sets counts as given, whatever is on the line.
#[test]
fn a_variable_of_the_environment_conflicts_with_nothing() {
    let mut commands = vec![txgen::cli::Cli::command()];
    while let Some(command) = commands.pop() {
        let variables = command
            .get_arguments()
            .filter(|arg| arg.get_env().is_some());
        let variables: Vec<_> = variables.map(clap::Arg::get_id).collect();
        for arg in command.get_arguments() {
            let conflicts = command.get_arg_conflicts_with(arg);
            assert!(
                variables.is_empty() || !arg.is_exclusive_set(),
                "{}: {} alone",
                command.get_name(),
                arg.get_id()
            );
            assert!(
                !conflicts
                    .iter()
                    .any(|other| variables.contains(&other.get_id())),
                "{}: {} conflicts with a variable",
                command.get_name(),
                arg.get_id()
            );
        }
        commands.extend(command.get_subcommands().cloned());
    }
}

#[test]
fn flags_of_other_programs_are_answered_with_those_of_this_one() {
    let place = Place::new();
    for (line, meant) in [
        ("constant --rate 5 --quiet", "--no-tui"),
        ("constant --rate 5 --json", "--report-interval"),
        ("constant --rate 5 --vus 10", "txgen flood --concurrency"),
        ("constant -R 1000", "--rate 1000/s"),
        ("ramp --duration 30s", "--every"),
        ("search --slo commit.p95>5s", "commit.p95<5s"),
        (
            "constant --rate 5 --abort-on failed.share>1%",
            "failed.share<1%",
        ),
    ] {
        place.txgen(line).expect(2).says(meant);
    }
    // None of them shadows a flag that is there.
    let flags = txgen::cli::BROUGHT
        .lines()
        .filter_map(|line| line.split_once("  "));
    let names = flags.flat_map(|(flags, _)| flags.split(' '));
    let is_own = |name: &str| cfg!(feature = "fleet") && name == "--workers";
    for name in names.filter(|name| *name != "--duration" && !is_own(name)) {
        place
            .txgen(&format!("constant --rate 5 {name}"))
            .expect(2)
            .says("tip: ");
    }
}

#[test]
fn the_table_counts_what_is_in_the_chain() {
    let node = Node::quick();
    let place = Place::new();
    let address = node.url().replace("http://", "");
    let ended = place.txgen(&format!(
        "tm-bench -T 2 -r 50 -c 2 -s 100 -broadcast-tx-method sync -output-format=json \
         --window 21 --out bench {address}"
    ));
    let run = place.run("bench");
    ended.ends_as_judged(0, &run.summary());
    ended.says("50 a second on each of 2 connections is 100 a second in all");
    let printed: Value = serde_json::from_str(&ended.out).unwrap();
    let in_chain = node.committed().len() as u64;
    assert_eq!(in_chain, 200);
    let total = printed["txs_total"].as_u64().unwrap();
    let avg = printed["txs_per_sec_avg"].as_f64().unwrap();
    // What is committed after the time is over is not in the table.
    assert!(total <= 200, "{ended}");
    assert!((avg - total as f64 / 2.0).abs() < 1e-9, "{ended}");
    assert!(printed["window"]["txs_total"].as_u64().unwrap() <= total);
}

#[test]
fn the_plain_table_is_the_old_one() {
    let place = Place::new();
    let ended = place.txgen("tm-bench -T 1 -r 20 --out bench --window 21");
    ended.ends_as_judged(0, &place.run("bench").summary());
    let lines: Vec<&str> = ended.out.lines().collect();
    assert!(lines[0].starts_with("Stats          Avg"), "{ended}");
    assert!(lines[1].starts_with("Txs/sec "), "{ended}");
    assert!(lines[2].starts_with("Blocks/sec "), "{ended}");
    ended.prints("of the newest 21 blocks alone");
}

#[test]
fn what_tm_bench_did_not_know_is_refused() {
    let place = Place::new();
    place
        .txgen("tm-bench -broadcast-tx-method slowly 127.0.0.1:1")
        .expect(2);
    place.txgen("tm-bench -T 0 127.0.0.1:1").expect(2);
    place
        .txgen("tm-bench -r 4000000000 -c 4000000000 127.0.0.1:1")
        .expect(2);
}
