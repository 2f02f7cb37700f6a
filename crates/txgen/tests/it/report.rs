//! Run folders shown again: whole ones, killed ones, and what is none.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Node, Place, RunFolder, wait_until};

fn rows(place: &Place, file: &str) -> usize {
    let text = fs::read_to_string(place.path().join("run").join(file));
    text.map_or(0, |text| text.lines().count().saturating_sub(1))
}

#[test]
fn a_run_leaves_its_report_and_every_form_can_be_had_again() {
    let place = Place::new();
    let ended = place.txgen(
        "ramp --start 50 --step 50 --every 1s --to 150 --threshold fate.errors==0 --out run",
    );
    let summary = place.run("run").summary();
    // More than 300 where the machine stood still and a step was offered once more.
    let committed = summary.count("fate.committed");
    ended
        .ends_as_judged(0, &summary)
        .prints("report       run/report.html");
    let page = place.run("run").text("report.html");
    for part in [
        "class=\"headline\"",
        "fate.errors==0",
        "Latency against throughput",
        "the built-in node",
    ] {
        assert!(page.contains(part), "{part}");
    }

    fs::remove_file(place.path().join("run/report.html")).unwrap();
    place
        .txgen("report run")
        .expect(0)
        .prints("run/report.html");
    assert_eq!(place.run("run").text("report.html"), page);
    let again = place.txgen("report run --out -").expect(0).out.clone();
    assert_eq!(again, page);

    place
        .txgen("report run --format md")
        .expect(0)
        .prints(&format!("| committed | {committed} |"));
    let json = place.txgen("report run -f json");
    let json: Value = serde_json::from_str(&json.expect(0).out).unwrap();
    assert_eq!(json.pointer("/fate/committed").unwrap(), committed);
    let table = place.txgen("report run --format tm-bench");
    table
        .expect(0)
        .prints("Stats")
        .prints("Txs/sec")
        .prints("Blocks/sec");
    let figures = place.txgen("report run --format bep23 --out figures.txt");
    figures.expect(0);
    let figures = fs::read_to_string(place.path().join("figures.txt")).unwrap();
    assert!(figures.contains("finalize (answer to block)"), "{figures}");
}

#[test]
fn a_killed_run_is_reported_from_the_rows_it_left() {
    let place = Place::new();
    let running = place.start("constant --rate 200 --duration 60s --out run");
    wait_until("seconds", || rows(&place, "series.csv") >= 3);
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code, None);
    assert_eq!(place.run("run").text("summary.json"), "");

    place
        .txgen("report run")
        .expect(0)
        .says("note: summary.json is missing or cut off: the run was killed after");
    let page = place.run("run").text("report.html");
    assert!(page.contains("made from the rows it left"));
    let json = place.txgen("report run --format json");
    let summary: Value = serde_json::from_str(&json.expect(0).out).unwrap();
    assert_eq!(
        summary.pointer("/conservation/holds").unwrap(),
        &Value::Bool(true),
        "{summary}"
    );
    assert_ne!(summary.pointer("/verdict/schedule").unwrap(), "valid");
    let sent = summary.pointer("/fate/sent").unwrap().as_u64().unwrap();
    assert_eq!(sent, place.run("run").table("series.csv").sum("sent"));
    assert_eq!(
        summary.pointer("/steps").unwrap().as_array().unwrap().len(),
        1
    );
    place.txgen("report run --format tm-bench").expect(0);
    place.txgen("report run --format bep23").expect(0);
}

#[test]
fn what_is_no_run_is_refused_with_a_hint() {
    let place = Place::new();
    place
        .txgen("report nowhere")
        .expect(2)
        .says("there is no file or folder nowhere");
    place.write("file", "");
    place
        .txgen("report file")
        .expect(2)
        .says("file is a file; give the run's folder");
    for run in ["runs/a", "runs/b"] {
        fs::create_dir_all(place.path().join(run)).unwrap();
        fs::write(place.path().join(run).join("manifest.json"), "").unwrap();
    }
    place
        .txgen("report runs")
        .expect(2)
        .says("runs is not a run: it has no manifest.json; below it are the runs a, b");
    place.write("runs/report.html", "");
    place
        .txgen("report runs")
        .expect(2)
        .says("the runs a, b; the page over all of them is runs/report.html");
    place
        .txgen("report runs/a")
        .expect(2)
        .says("ended before it began");
    place.write("runs/a/manifest.json", r#"{"format":"tidegate.run/9"}"#);
    place
        .txgen("report runs/a")
        .expect(2)
        .says("cannot read the run in runs/a")
        .says("manifest.json is of format \"tidegate.run/9\"; this program reads tidegate.run/2");
    place.write("runs/b/manifest.json", "{\"format\":");
    place
        .txgen("report runs/b")
        .expect(2)
        .says("manifest.json is not what a run writes");
    place
        .txgen("report runs/b/manifest.json")
        .expect(2)
        .says("give the run's folder, runs/b");
}

#[test]
fn a_damaged_row_is_named_and_a_torn_one_left_out() {
    let place = Place::new();
    let ended = place.txgen("constant --rate 100 --duration 1s --out run");
    ended.ends_as_judged(0, &place.run("run").summary());
    let series = place.run("run").text("series.csv");
    place.write("run/series.csv", format!("{series}4,1.0"));
    place.txgen("report run").expect(0);
    // A power cut in the middle of the summary: it is made again from the rows.
    let summary = place.run("run").text("summary.json");
    place.write("run/summary.json", &summary[..summary.len() / 2]);
    place
        .txgen("report run")
        .expect(0)
        .says("summary.json is missing or cut off");
    place.write("run/summary.json", summary);
    let damaged = series.replacen(",100,", ",1x0,", 1);
    place.write("run/series.csv", damaged);
    place
        .txgen("report run")
        .expect(1)
        .says("cannot read the run in run: series.csv, line 2, column")
        .says("\"1x0\" is not a whole number");
}

/// An interrupted copy: the summary is whole and a table is not. The tables of tm-bench and BEP-23 were printed with the
/// figures of what was left, and the plots ended early, all without a word and with exit code 0.
#[test]
fn rows_that_are_fewer_than_the_summary_tells_of_are_refused_and_not_added_up() {
    let place = Place::new();
    let ended = place.txgen("constant --rate 50 --duration 3s --out run");
    ended.ends_as_judged(0, &place.run("run").summary());
    let formats = [
        ("blocks.csv", "tm-bench"),
        ("txs.csv", "bep23"),
        ("series.csv", "html"),
        ("blocks.csv", "md"),
    ];
    for (file, format) in formats {
        let show = format!("report run --format {format} --out -");
        place.txgen(&show).expect(0);
        let whole = place.run("run").text(file);
        let rows: Vec<&str> = whole.lines().collect();
        place.write(&format!("run/{file}"), rows[..2].join("\n") + "\n");
        place
            .txgen(&show)
            .expect(1)
            .says(&format!("run/{file} has 1 of the "))
            .says("it was cut off later; copy the folder again");
        // Of two runs, one after the other; the series may be longer than the summary says.
        if file != "series.csv" {
            let twice = rows[1..].join("\n") + "\n";
            place.write(&format!("run/{file}"), format!("{whole}{twice}"));
            let ended = place.txgen(&show);
            ended.expect(1).says("it is not of this run alone");
        }
        place.write(&format!("run/{file}"), whole);
    }
    // `analyse` and `compare` took what was left.
    let whole = place.run("run").text("series.csv");
    let rows: Vec<&str> = whole.lines().collect();
    place.write("run/series.csv", rows[..2].join("\n") + "\n");
    for command in ["analyse run", "compare run run"] {
        let ended = place.txgen(command);
        ended.expect(2).says("run/series.csv has 1 of the ");
    }
    let twice = [&rows[..3], &rows[2..]].concat();
    place.write("run/series.csv", twice.join("\n") + "\n");
    place
        .txgen("analyse run")
        .expect(2)
        .says("second 1 comes after second 1: it is not of this run alone");
}

/// A summary that was packed was taken for that of a killed run, and one of another run for this one's.
#[test]
fn files_that_are_not_the_run_s_own_are_refused() {
    let place = Place::new();
    place.txgen("constant --rate 50 --duration 1s --out run");
    let summary = place.run("run").text("summary.json");
    place.write("run/summary.json", b"\x1f\x8b\x08\x00packed");
    place
        .txgen("report run")
        .expect(2)
        .says("summary.json is not what a run writes");
    let other = summary.replacen("\"origin_unix_ns\": 1", "\"origin_unix_ns\": 2", 1);
    place.write("run/summary.json", other);
    place
        .txgen("report run")
        .expect(2)
        .says("manifest.json and summary.json in run are of different runs");
    place.write("run/summary.json", summary);
    // A condition that an earlier version took is shown, and why it says nothing.
    let manifest = place.run("run").text("manifest.json");
    let condition = "\"thresholds\": [\"failed.share<101%\"]";
    let manifest = manifest.replacen("\"thresholds\": []", condition, 1);
    place.write("run/manifest.json", manifest);
    place
        .txgen("report run --format md")
        .expect(0)
        .prints("failed.share<101% (cannot be checked: \"failed.share<101%\" always holds");
}

/// The same 300 transactions, with so many of their rows kept.
fn played(place: &Place, rows: &str) -> RunFolder {
    let node = Node::quick();
    let out = rows.replace([':', '/'], "-");
    let ended = place.txgen(&format!(
        "constant --rate 300/s --duration 1s --seed 7 --drain-timeout 10s --endpoints {} --rows {rows} --out {out}",
        node.url()
    ));
    let run = place.run(&out);
    ended.ends_as_judged(0, &run.summary());
    run.summary().assert_all_committed(300);
    run
}

#[test]
fn the_account_is_of_all_transactions_whatever_rows_are_kept() {
    let place = Place::new();
    let all = played(&place, "all");
    let sample = played(&place, "sample:1/10");
    let none = played(&place, "none");
    let ids = |run: &RunFolder| -> Vec<String> {
        run.table("txs.csv")
            .column("txid")
            .map(Into::into)
            .collect()
    };
    // The seed decides what is sent, and the hash what is kept: the rows of a sample are among all.
    let (every, some) = (ids(&all), ids(&sample));
    assert_eq!(every.len(), 300);
    assert!((5..80).contains(&some.len()), "{}", some.len());
    assert!(some.iter().all(|id| every.contains(id)));
    assert!(!place.path().join("none/txs.csv").exists());
    for (run, name) in [(&all, "all"), (&sample, "sample-1-10"), (&none, "none")] {
        let answered: u64 = run.table("answers.csv").numbers("txs").into_iter().sum();
        assert_eq!(answered, 300, "{name}");
        let page = fs::read_to_string(place.path().join(name).join("report.html")).unwrap();
        assert!(page.contains("<h2"), "{name}");
        place
            .txgen(&format!("report {name} --format md"))
            .expect(0)
            .prints("300");
    }
    assert_eq!(none.manifest()["plan"]["rows"], "none");
}

#[test]
fn what_needs_every_row_says_so() {
    let place = Place::new();
    played(&place, "sample:1/10");
    let told = "was played with --rows sample:1/10: play it again with --rows all";
    let ended = place.txgen("report sample-1-10 --format bep23");
    assert!(ended.code != Some(0));
    ended.says(told);
    // Killed before its summary: its figures would have to come from the rows.
    fs::remove_file(place.path().join("sample-1-10/summary.json")).unwrap();
    place.txgen("report sample-1-10").says(told);
    place
        .txgen("constant --rows some")
        .expect(2)
        .says("sample:1/100");
}

/// One run for each end: what is asked holds, and the opposite. A busy machine may leave a run invalid (98), and a
/// threshold on counts is then judged all the same.
#[test]
fn junit_has_a_case_for_each_threshold_and_a_failure_where_one_is_broken() {
    let place = Place::new();
    let line = |limit: &str| {
        format!(
            "constant --rate 50/s --duration 200ms --no-tui --threshold fate.sent{limit} --ci junit={}.xml",
            if limit.starts_with('>') {
                "held"
            } else {
                "broken"
            }
        )
    };
    let ended = place.txgen(&line(">=1"));
    assert!([Some(0), Some(98)].contains(&ended.code), "{ended}");
    let text = fs::read_to_string(place.path().join("held.xml")).unwrap();
    assert!(
        text.contains("name=\"fate.sent&gt;=1\"><system-out>held: 10<"),
        "{text}"
    );
    assert!(text.contains("failures=\"0\""), "{text}");
    let ended = place.txgen(&line("<1"));
    assert!([Some(98), Some(99)].contains(&ended.code), "{ended}");
    let text = fs::read_to_string(place.path().join("broken.xml")).unwrap();
    assert!(
        text.contains("name=\"fate.sent&lt;1\"><failure message=\"broken: 10\""),
        "{text}"
    );
}

#[test]
fn under_githubs_runner_annotations_and_the_step_summary_come_by_themselves() {
    let place = Place::new();
    let summary = place.write("summary", "before\n");
    let summary = summary.to_str().unwrap();
    let github = [("GITHUB_ACTIONS", "true"), ("GITHUB_STEP_SUMMARY", summary)];
    let line = "constant --rate 50/s --duration 200ms --no-tui --threshold fate.sent<1 --out";
    let ended = place.txgen_with(&github, &format!("{line} run"));
    let annotation = "::error title=txgen constant%3A fate.sent<1::broken: 10 (run)";
    assert!(ended.err.contains(annotation), "{ended}");
    assert!(!ended.out.contains("::error"), "{ended}");
    // However long it is, a command of the runner stays one line.
    let folder = "a-folder-with-a-name-that-does-not-fit-into-a-line-of-eighty-columns-as-terminals-have-them";
    let long = place.txgen_with(&github, &format!("{line} {folder}"));
    let whole = |text: &str| text.starts_with("::error") && text.ends_with(&format!("({folder})"));
    assert!(long.err.lines().any(whole), "{long}");
    let summary_text = fs::read_to_string(summary).unwrap();
    assert!(
        summary_text.starts_with("before\n### txgen constant\n"),
        "{summary_text}"
    );
    let text = fs::read_to_string(summary).unwrap();
    assert!(text.starts_with("before\n### txgen constant\n"), "{text}");
    assert!(text.contains("| ❌ | `fate.sent<1` |"), "{text}");
    let ended = place.txgen_with(&github, &format!("{line} other --ci off"));
    assert!(!ended.err.contains("::"), "{ended}");
    assert_eq!(fs::read_to_string(summary).unwrap(), text);
}

#[test]
fn a_comparison_without_runs_that_count_is_an_error_and_not_a_failure() {
    let place = Place::new();
    // Interrupted by a broken condition, so that it is not the planned load.
    let line = "constant --rate 50/s --duration 60s --no-tui --abort-on fate.sent<1 --out";
    for side in ["a", "b"] {
        place.txgen(&format!("{line} {side}"));
    }
    let ended = place.txgen("compare a b --ci junit,markdown");
    ended.expect(98);
    let text = fs::read_to_string(place.path().join("junit.xml")).unwrap();
    assert!(text.contains("failures=\"0\" errors=\"2\""), "{text}");
    assert!(text.contains("no run of this side is valid"), "{text}");
    let text = fs::read_to_string(place.path().join("summary.md")).unwrap();
    assert!(text.starts_with("### txgen compare\n"), "{text}");
    place.txgen("compare a none --ci junit=x.xml").expect(2);
    let text = fs::read_to_string(place.path().join("x.xml")).unwrap();
    assert!(
        text.contains("<error message=\"there is no file or folder none"),
        "{text}"
    );
}
