//! What a CI system gets.

use std::fs;

use crate::support::Place;

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
    assert!(text.contains("<error message=\"there is no none"), "{text}");
}
