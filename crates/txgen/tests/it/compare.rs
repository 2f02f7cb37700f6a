//! Runs side by side: what changed, what cannot be told, and exit codes for scripts. How often a verdict
//! is wrong is tested in `measure`; here the figures of runs are given, so that no verdict depends on
//! the machine.

use std::{fs, net::TcpListener};

use serde_json::{Value, json};

use crate::support::{Node, Place};

/// A place with the run `base` in it.
fn place_with_a_run() -> Place {
    let (place, node) = (Place::new(), Node::quick());
    let line = format!(
        "constant --rate 200 --duration 1s --transport ws --seed 1 --out base --endpoints {}",
        node.url()
    );
    place.txgen(&line);
    place
}

/// A run like `base` whose figures are as given: verdict, committed per second, commit p50 in
/// milliseconds.
fn repeat(place: &Place, name: &str, verdict: &str, committed: f64, commit_ms: f64) {
    let (from, to) = (place.path().join("base"), place.path().join(name));
    fs::create_dir_all(&to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    change(place, name, |summary| {
        summary["verdict"]["schedule"] = verdict.into();
        if verdict == "invalid" {
            summary["verdict"]["reasons"] = json!(["a remark", "invalid: 60 % left late"]);
        }
        let rate = &mut summary["rate"]["committed_tps"];
        *rate = json!({"mean": committed, "median": committed, "stddev": 0.0, "max": committed, "seconds": 3});
        summary["latency_ms"]["commit_from_due"]["p50"] = commit_ms.into();
        // The figures are given: so is how busy the machine was.
        for (quantile, millis) in [("p50", 5.0), ("p95", 10.0), ("p99", 20.0)] {
            summary["latency_ms"]["accept_response"][quantile] = millis.into();
        }
        for cause in ["schedule", "source", "connection"] {
            summary["late"][cause] = 0.into();
        }
        // In turns: run 0 of all sides, then run 1.
        let (side, number) = name.rsplit_once('/').unwrap_or((name, "0"));
        let within: u64 = side
            .bytes()
            .fold(0, |sum, byte| sum % 1_003 * 131 + u64::from(byte));
        let origin = number.parse::<u64>().unwrap() * 1_000_000_000 + within;
        summary["time"]["origin_unix_ns"] = origin.into();
    });
}

/// Changes the summary of a run, and when its manifest says that it began.
fn change(place: &Place, name: &str, how: impl FnOnce(&mut Value)) {
    let [summary, manifest] =
        ["summary.json", "manifest.json"].map(|file| place.path().join(name).join(file));
    let read = |path| serde_json::from_str::<Value>(&fs::read_to_string(path).unwrap()).unwrap();
    let (mut account, mut plan) = (read(&summary), read(&manifest));
    how(&mut account);
    plan["origin_unix_ns"] = account["time"]["origin_unix_ns"].clone();
    fs::write(summary, account.to_string()).unwrap();
    fs::write(manifest, plan.to_string()).unwrap();
}

/// Three runs of one load around these figures.
fn three(place: &Place, name: &str, committed: f64, commit_ms: f64) {
    for (number, off) in [0.99, 1.0, 1.01].into_iter().enumerate() {
        let name = format!("{name}/{number}");
        repeat(place, &name, "valid", committed * off, commit_ms * off);
    }
}

#[test]
fn three_slower_runs_are_a_regression_and_three_like_ones_are_not() {
    let place = place_with_a_run();
    three(&place, "before", 50.0, 500.0);
    three(&place, "slow", 50.0, 800.0);
    three(&place, "like", 50.1, 501.0);
    place
        .txgen("compare before slow --fail-on-regression 10%")
        .expect(99)
        .prints("slow against before (3 against 3 runs)")
        .prints("REGRESSION by more than 10 %: commit.p50 of slow");
    // The size of what is shown, with its interval, is in the first sentence.
    place
        .txgen("compare before slow")
        .prints("against before: slow is worse in commit.p50 +60.0 % (");
    place
        .txgen("compare slow before --fail-on-regression 10%")
        .expect(0)
        .prints("better")
        .prints("no regression");
    // Measured: 60 % more. Shown: less than that.
    place
        .txgen("compare before slow --fail-on-regression 59%")
        .expect(98)
        .prints("worse")
        .prints("undecided: it is not shown that nothing is worse by more than 59 %; open: commit.p50 of slow");
    place
        .txgen("compare before like --fail-on-regression 10% --margin 20%")
        .expect(0)
        .prints("same")
        .prints("no regression: nothing is worse by more than 10 %");

    let line = "compare before slow like --format json --fail-on-regression 10% --out out.json";
    place.txgen(line).expect(99);
    let text = fs::read_to_string(place.path().join("out.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["format"], "tidegate.compare/3");
    assert_eq!(document["sides"][2]["runs"].as_array().unwrap().len(), 3);
    let of = |side: &str, metric: &str| {
        let differences = document["differences"].as_array().unwrap();
        let found = differences
            .iter()
            .find(|row| row["side"] == side && row["metric"] == metric);
        found.unwrap_or_else(|| panic!("{side} {metric} in {text}"))
    };
    let slow = of("slow", "commit.p50");
    assert_eq!(
        (&slow["gate"], &slow["meaning"]),
        (&"regression".into(), &"worse".into())
    );
    assert!(slow["low"].as_f64().unwrap() > 0.1 && slow["high"].as_f64().unwrap() > 0.6);
    assert_eq!(of("like", "commit.p50")["gate"], "within");
}

#[test]
fn one_run_a_side_gets_figures_and_the_number_of_runs_that_a_verdict_needs() {
    let place = place_with_a_run();
    repeat(&place, "first", "valid", 50.0, 500.0);
    repeat(&place, "once", "valid", 40.0, 700.0);
    place
        .txgen("compare first once --fail-on-regression 5%")
        .expect(98)
        .prints("once against first (1 against 1 runs)")
        .prints("cannot tell: needs 3 runs a side")
        .prints("undecided: it is not shown that nothing is worse by more than 5 %");
    place
        .txgen("compare first once --format md")
        .expect(0)
        .prints("| `commit.p50` |");
}

#[test]
fn a_run_that_was_not_the_planned_load_is_no_repeat_of_it() {
    let place = place_with_a_run();
    three(&place, "before", 50.0, 500.0);
    three(&place, "after", 50.0, 800.0);
    repeat(&place, "after/2", "invalid", 50.0, 800.0);
    place
        .txgen("compare before after --fail-on-regression 5%")
        .expect(98)
        .prints("the schedule of after/2 was invalid: it is left out of the verdicts")
        .prints("(2 against 3 runs)")
        .prints("cannot tell: needs");
}

/// Stopped with Ctrl-C after 2.4 s of 4 s, before the node was full, a run counted as a whole repeat: "better".
#[test]
fn a_run_that_was_ended_early_is_no_repeat_either() {
    let place = place_with_a_run();
    three(&place, "before", 50.0, 500.0);
    three(&place, "after", 50.0, 500.0);
    change(&place, "after/2", |summary| {
        summary["interrupted"] = true.into();
        summary["time"]["offered_s"] = 0.6.into();
        summary["offered"]["planned"] = 120.into();
    });
    place
        .txgen("compare before after")
        .expect(0)
        .prints("(it ended after 0.6 s, when 120 of 200 transactions had been due)")
        .prints("(2 against 3 runs)");
}

/// Of three copies of one run nothing varies, so that everything else differs from them for certain.
#[test]
fn a_copy_of_a_run_is_no_repeat() {
    let place = place_with_a_run();
    three(&place, "before", 50.0, 500.0);
    change(&place, "before/2", |summary| {
        summary["time"]["origin_unix_ns"] = 7.into();
    });
    three(&place, "after", 50.0, 500.0);
    place.txgen("compare before after").expect(0);
    change(&place, "before/0", |summary| {
        summary["time"]["origin_unix_ns"] = 7.into();
    });
    place
        .txgen("compare before after")
        .expect(2)
        .says("before/0 and before/2 are one run, and no repeats: remove the copy");
}

/// Three runs, a node that had become slower, three runs: a regression of the build, with exit code 99.
#[test]
fn a_side_that_ran_after_the_other_is_undecided() {
    let place = place_with_a_run();
    three(&place, "before", 50.0, 500.0);
    three(&place, "after", 50.0, 800.0);
    for run in 0..3 {
        change(&place, &format!("after/{run}"), |summary| {
            summary["time"]["origin_unix_ns"] = (9_000_000_000_000_u64 + run).into();
        });
    }
    place
        .txgen("compare before after --fail-on-regression 5%")
        .expect(98)
        .prints("what drifts with time looks like a difference")
        .prints("cannot tell: one side ran before the other")
        .prints("+60.0 %");
}

/// Of 10 kB against 250 bytes over another transport only the profile was looked at, and both sides had the same title.
#[test]
fn loads_that_differ_are_named_and_spoil_what_depends_on_it_unless_they_are_what_is_compared() {
    let place = place_with_a_run();
    three(&place, "before", 50.0, 500.0);
    three(&place, "after", 50.0, 800.0);
    for run in 0..3 {
        let folder = place.run(&format!("after/{run}"));
        let mut manifest = folder.manifest();
        manifest["endpoints"][0]["url"] = "http://127.0.0.1:1/".into();
        fs::write(folder.path().join("manifest.json"), manifest.to_string()).unwrap();
    }
    place
        .txgen("compare before after --fail-on-regression 5%")
        .expect(98)
        .prints("the transport differs: ws before, http after; where this is what you compare, pass --varied transport")
        .prints("cannot tell: the transport differs");
    place
        .txgen("compare before after --fail-on-regression 5% --varied transport")
        .expect(99)
        .prints("the transport differs: ws before, http after, which is what is compared");
    place
        .txgen(
            "compare before after --fail-on-regression 5% --judge-by rate.committed_tps,lost.share",
        )
        .expect(0)
        .prints("no regression");
}

#[test]
fn a_side_without_a_valid_run_is_no_side_without_a_regression() {
    let place = place_with_a_run();
    three(&place, "before", 50.0, 500.0);
    for name in ["after/0", "after/1"] {
        repeat(&place, name, "invalid", 50.0, 800.0);
    }
    let ended = place.txgen("compare before after --fail-on-regression 5%");
    ended
        .expect(98)
        .prints(
            "the schedules of 2 of 2 runs were invalid: they are left out of the verdicts; the first one is after/0 (60 % left late)",
        )
        .prints("none of the 2 runs in after is valid, so nothing can be told: measure again")
        .prints("cannot tell: a side has no valid run")
        .prints("cannot tell whether anything is worse");
    for wrong in ["a run has no figure", "no regression"] {
        assert!(!ended.printed(wrong), "{ended}");
    }
}

#[test]
fn the_resolution_of_polled_commits_stands_beside_their_latencies() {
    let place = place_with_a_run();
    three(&place, "before", 50.0, 500.0);
    three(&place, "after", 50.0, 500.0);
    let announced = place.txgen("compare before after");
    assert!(!announced.expect(0).out.contains("polling"), "{announced}");
    change(&place, "after/1", |summary| {
        let blocks = &mut summary["blocks"];
        blocks["polled"] = blocks["count"].clone();
        blocks["resolution_ms_mean"] = 120.0.into();
        blocks["resolution_ms_max"] = 240.0.into();
    });
    let words = "commits were seen by polling: each up to 240 ms after its block";
    let polled = place.txgen("compare before after");
    assert_eq!(polled.expect(0).out.matches(words).count(), 1, "{polled}");
    place.write("before/report.html", "the campaign's page");
    let page = place.txgen("compare before after --format html --out -");
    for part in [
        words,
        "<a href=\"before/report.html\">all of before</a>",
        "<a href=\"after/2/report.html\">report of after/2</a>",
    ] {
        assert!(page.expect(0).out.contains(part), "{part} in {page}");
    }
    let text = place.txgen("report after/1 --format md");
    text.expect(0)
        .prints("resolution 120 ms (mean), 240 ms (max).");
}

#[test]
fn what_is_no_run_is_named() {
    let place = Place::new();
    fs::create_dir(place.path().join("empty")).unwrap();
    for (line, phrase) in [
        ("compare empty empty", "empty is not a run"),
        (
            "compare nowhere empty",
            "there is no file or folder nowhere",
        ),
        ("compare empty", "2 values required"),
        (
            "compare empty empty --judge-by p50",
            "choose from rate.committed_tps",
        ),
        ("compare empty empty --varied url", "choose from format"),
        (
            "compare empty empty --fail-on-regression ten",
            "write for instance 5%",
        ),
    ] {
        place.txgen(line).expect(2).says(phrase);
    }
}

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
    let document = place.run("ab").json("ab.json");
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
    node.assert_none_came_twice();
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
