use super::*;

fn case(name: &str, end: CaseEnd, detail: &str) -> CiCase {
    CiCase {
        suite: "runs/a".into(),
        name: name.into(),
        end,
        detail: detail.into(),
    }
}

fn report(cases: Vec<CiCase>) -> CiReport {
    CiReport {
        title: "txgen constant".into(),
        answer: "200/s held".into(),
        cases,
        ..CiReport::default()
    }
}

#[test]
fn without_a_choice_github_is_told_under_its_runner_alone() {
    let chosen = |chosen: &[CiTarget], value: &str| {
        let ci = Ci::within("", chosen, |name| {
            (name == "GITHUB_ACTIONS").then(|| value.into())
        });
        ci.unwrap().targets
    };
    assert_eq!(chosen(&[], "true"), [CiTarget::Github]);
    assert_eq!(chosen(&[], "false"), []);
    assert_eq!(chosen(&[CiTarget::Off], "true"), []);
    let junit = CiTarget::Junit(None);
    assert_eq!(chosen(std::slice::from_ref(&junit), "true"), [junit]);
}

#[test]
fn all_cases_pass_when_and_only_when_the_exit_code_is_0() {
    let passed = || report(vec![case("x", CaseEnd::Passed, "")]);
    let ends = |report: CiReport, code| {
        let cases = agreeing(report, code).cases;
        cases.iter().map(|case| case.end).collect::<Vec<_>>()
    };
    assert_eq!(ends(passed(), 0), [CaseEnd::Passed]);
    for (code, end) in [
        (1, CaseEnd::Untold),
        (98, CaseEnd::Untold),
        (99, CaseEnd::Broken),
        (130, CaseEnd::Untold),
    ] {
        assert_eq!(ends(passed(), code), [CaseEnd::Passed, end], "{code}");
    }
    // What is said already is not said again.
    let broken = report(vec![case("x", CaseEnd::Broken, "")]);
    assert_eq!(ends(broken, 99), [CaseEnd::Broken]);
}

#[test]
fn what_a_node_or_a_folder_is_called_stays_inside_its_element() {
    let text = junit(&report(vec![
        case(
            "commit.p99<5s",
            CaseEnd::Broken,
            "a \"b\" & </failure>\u{1}\n",
        ),
        case("b", CaseEnd::Passed, "]]>"),
        case("c", CaseEnd::Untold, "c"),
    ]));
    assert!(
        text.contains("tests=\"3\" failures=\"1\" errors=\"1\""),
        "{text}"
    );
    assert!(!text.contains("time="), "no time was measured: {text}");
    assert!(text.contains("name=\"commit.p99&lt;5s\""), "{text}");
    let failure = "message=\"a &quot;b&quot; &amp; &lt;/failure&gt;\u{fffd}&#10;\"";
    assert!(text.contains(failure), "{text}");
    assert_eq!(text.matches("</testcase>").count(), 3);
}

#[test]
fn an_annotation_is_one_line_and_there_are_ten_of_a_level_at_most() {
    let one = report(vec![case("a:b,c", CaseEnd::Broken, "50 %\n::error::x")]);
    assert_eq!(
        annotations(&one),
        "::error title=txgen constant%3A a%3Ab%2Cc::50 %25%0A::error::x (runs/a)\n"
    );
    let many = vec![case("a", CaseEnd::Untold, "b"); 11];
    let text = annotations(&report(many));
    assert_eq!(text.lines().count(), 10, "{text}");
    assert!(text.ends_with("::and 2 more\n"), "{text}");
    let none = annotations(&report(Vec::new()));
    assert_eq!(none, "::notice title=txgen constant::200/s held\n");
}

#[test]
fn a_cell_of_the_summary_breaks_no_table_and_what_did_not_pass_comes_first() {
    let text = markdown(&report(vec![
        case("a", CaseEnd::Passed, "b"),
        case("c", CaseEnd::Broken, "d|e\nf"),
    ]));
    let rows: Vec<&str> = text.lines().filter(|line| line.contains('`')).collect();
    assert_eq!(
        rows,
        [
            "| ❌ | `c` | d\\|e f | runs/a |",
            "| ✅ | `a` | b | runs/a |"
        ]
    );
}

#[test]
fn a_command_that_failed_is_told_too_and_fails_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("junit.xml");
    let target = CiTarget::Junit(Some(file.clone()));
    let ci = Ci::within("txgen constant", &[target], |_| None).unwrap();
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        "",
        "opened before the run"
    );
    let error = ci.conclude(Err(usage(anyhow::anyhow!("no such node"))));
    assert_eq!(error.unwrap_err().code, exit::USAGE);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("<error message=\"no such node\""), "{text}");
    let nowhere = CiTarget::Markdown(Some(folder.path().join("a/b")));
    assert!(Ci::within("", &[nowhere], |_| None).is_err());
}

#[test]
fn forms_are_read_with_their_files() {
    assert_eq!("github".parse(), Ok(CiTarget::Github));
    assert_eq!(
        "junit=a.xml".parse(),
        Ok(CiTarget::Junit(Some("a.xml".into())))
    );
    for wrong in ["", "gitlab", "junit=", "off=a"] {
        assert!(wrong.parse::<CiTarget>().is_err(), "{wrong}");
    }
}
