//! Mesh and mix files, and comparisons.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;
use testkit::wait_until;

use crate::network::{SMALL, count, place, summary};

#[test]
fn a_wrong_mix_or_mesh_file_is_refused_with_the_place_and_the_name_that_was_meant() {
    let place = place();
    let wrong = |line: &str, parts: &[&str]| {
        let ended = place.run_to_end(line);
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        for part in parts {
            assert!(ended.err.contains(part), "{part} in {}", ended.err);
        }
    };
    place.write(
        "mix.toml",
        "name = \"x\"\n[[messages]]\nname = \"note\"\ntype = 1\nsise = 64\n",
    );
    wrong(
        "constant --rate 1/s --mix mix.toml",
        &["mix.toml", "line 5", "did you mean `size`?"],
    );
    place.write(
        "mesh.toml",
        "[mesh]\nnodess = 3\n[[phases]]\nprofile = \"pause\"\nduration = \"1s\"\n",
    );
    wrong("run mesh.toml", &["line 2", "did you mean `nodes`?"]);
    place.write(
        "phase.toml",
        "[[phases]]\nprofile = \"constant\"\nrat = \"1/s\"\n",
    );
    wrong("run phase.toml", &["line 3", "did you mean `rate`?"]);
    wrong(
        "constant --rate 1/s --mix nowhere",
        &["cannot read the mix nowhere", "app, article"],
    );
    wrong("constant --rate 1/s --nodes 1", &["2 to 64"]);
    wrong(
        "constant --rate 1/s --node-rate 1mbit",
        &["bit/s, kbit/s, Mbit/s or Gbit/s"],
    );
    wrong(
        "constant --rate 1/s --node-cpu 1=100%",
        &["shares below 100%"],
    );
    wrong("constant --rate 1/s --shard 1/2", &["--hosts"]);
    wrong("compare v11 v12", &["v9, v10 and v11"]);
    wrong("compare v11 v9 v11", &["v11 is named twice"]);
}

#[test]
fn a_mesh_file_is_played_and_an_interrupted_run_is_still_written() {
    let place = place();
    place.write(
        "mesh.toml",
        "name = \"two\"\n[mesh]\nnodes = 2\nprotocol = \"v10\"\nmix = \"article\"\n\
         [[phases]]\nprofile = \"constant\"\nrate = \"10/s\"\nduration = \"10m\"\n",
    );
    let running = place.start("run mesh.toml --out run --seed 1");
    wait_until("a row", || running.err_so_far().contains("EPS host"));
    running.signal(Signal::INT);
    let ended = running.wait();
    assert_eq!(ended.code, Some(130), "{}", ended.err);
    let summary = summary(&place, "run");
    assert_eq!(summary["interrupted"], true);
    assert_eq!(summary["variant"], "v10");
    assert_eq!(summary["plan"]["mix"], "article");
    assert!(count(&summary, "/offered/missed") > 0);
}

/// A run of ten minutes that was cut short is not valid, so no side has a figure.
#[test]
fn an_interrupted_comparison_is_still_written_with_a_mesh_s_figures() {
    let place = place();
    let line = format!("compare v11 v9 --nodes 2 --rate 10/s --duration 10m --out cmp {SMALL}");
    let running = place.start(&line);
    let first = place.path().join("cmp/v11-1");
    wait_until("the first run", || first.join("node-1.log").exists());
    running.signal(Signal::INT);
    let ended = running.wait();
    assert_eq!(ended.code, Some(130), "{}", ended.err);
    let document = fs::read_to_string(place.path().join("cmp/compare.json")).unwrap();
    assert!(
        document.contains("EPS host") && !document.contains("commit."),
        "{document}"
    );
    assert!(place.path().join("cmp/report.html").exists());
    assert!(!place.path().join("cmp/v9-1").exists());
}

#[test]
fn a_comparison_of_single_runs_prints_figures_and_no_verdict() {
    let place = place();
    let line =
        format!("compare v11 v9 --nodes 2 --rate 10/s --duration 1s --repeats 1 --out cmp {SMALL}");
    let ended = place.run_to_end(&line);
    assert!(ended.printed("v9 against v11"), "{}", ended.out);
    let read = |file: &str| -> Value {
        let text = fs::read_to_string(place.path().join("cmp").join(file)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let document = read("compare.json");
    assert_eq!(document["format"], "tidegate.mesh-compare/2");
    // On a busy machine a run may be invalid: then it is no repeat, and there is nothing to compare.
    let sides = document["sides"].as_array().unwrap();
    let left_out = sides.iter().any(|side| side["left_out"] == 1);
    assert_eq!(ended.code, Some(if left_out { 98 } else { 0 }), "{ended}");
    let phrase = if left_out {
        "1 of 1 runs are invalid and left out"
    } else {
        "cannot tell: needs"
    };
    assert!(ended.printed(phrase), "{}", ended.out);
    // V9's header and tag are there whatever the machine's speed.
    let overhead = |side: usize| {
        let run = read(["v11-1/summary.json", "v9-1/summary.json"][side]);
        run["figures"]["overhead_per_parcel"].as_f64().unwrap()
    };
    assert!(
        overhead(1) > overhead(0) + 40.0,
        "{} {}",
        overhead(0),
        overhead(1)
    );
}
