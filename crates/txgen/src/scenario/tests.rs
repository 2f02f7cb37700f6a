//! Scenario files that are right and wrong.

use std::fs;

use super::*;
use crate::plan::RequestedLoad;

fn load(text: &str) -> anyhow::Result<Script> {
    load_with(text, &ScenarioOptions::default())
}

fn load_with(text: &str, options: &ScenarioOptions) -> anyhow::Result<Script> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.toml");
    fs::write(folder.path().join("trace.csv"), "second,rate\n0,5\n1,x\n").unwrap();
    fs::write(&path, text).unwrap();
    Script::load(&path, options)
}

fn problem(text: &str) -> String {
    format!("{:#}", load(text).unwrap_err())
}

#[test]
fn the_configuration_of_sentinel_is_told_from_a_scenario() {
    let text = problem(include_str!("../../../../config/sentinel.toml"));
    assert!(
        text.contains("a configuration of sentinel") && text.contains("sentinel --config"),
        "{text}"
    );
    let text = problem("[listen]\n[[phases]]\nprofile = \"constant\"\n");
    assert!(!text.contains("configuration of sentinel"), "{text}");
}

#[test]
fn phases_and_settings_are_read() {
    let script = load(
        "[settings]\nsize = 100\nseed = 4\ndrain_timeout = \"5s\"\n\
         [[phases]]\nprofile = \"constant\"\nrate = 100\nduration = \"2s\"\n\
         [[phases]]\nprofile = \"linear\"\nfrom = \"100/s\"\nto = \"300/s\"\nduration = \"4s\"\n",
    )
    .unwrap();
    assert!(script.campaign.is_none());
    let run = &script.runs[0];
    assert_eq!(
        (run.settings.size, run.settings.seed),
        (Some(pacing::Size(100)), Some(4))
    );
    let RequestedLoad::Open {
        schedule: profile, ..
    } = &run.request.load
    else {
        panic!("not an open loop");
    };
    assert_eq!(profile.total().unwrap().whole(), 1000);
    assert_eq!(run.request.command, "scenario");
}

/// The shapes that no file under `config/` has.
#[test]
fn smooth_shapes_are_read() {
    let script = load(
        "[[phases]]\nprofile = \"sine\"\nmean = \"100/s\"\namplitude = \"80/s\"\nperiod = \"2s\"\n\
         duration = \"4s\"\n\
         [[phases]]\nprofile = \"exponential\"\nfrom = \"50/s\"\nto = \"5000/s\"\nduration = \"30s\"\n",
    );
    let RequestedLoad::Open { schedule, .. } = &script.unwrap().runs[0].request.load else {
        panic!("not an open loop");
    };
    // 400 and (5000 - 50) * 30 / ln(100).
    assert_eq!(schedule.total().unwrap().whole(), 400 + 32_246);
}

#[test]
fn an_unknown_key_is_named_with_its_nearest() {
    let text = problem("[[phases]]\nprofile = \"constant\"\nrate = 1\nduratoin = \"2s\"\n");
    assert!(text.contains("unknown field `duratoin`"), "{text}");
    assert!(text.contains("did you mean `duration`?"), "{text}");
    let text = problem("[settings]\nsiez = 100\n");
    assert!(text.contains("did you mean `size`?"), "{text}");
    assert!(text.contains("line 2"), "{text}");
    let text = problem("[settings]\nseed = 1\n[settings.cosmos]\nmessages = 1\nacounts = 100\n");
    assert!(
        text.contains("did you mean `accounts`?") && text.contains("line 5"),
        "{text}"
    );
    let text = problem("[settings.cosmos]\nmessages = 1\ngas_price = \"5\"\n");
    assert!(
        text.contains("3 | gas_price = \"5\"") && text.contains("no amount"),
        "{text}"
    );
    let text = problem("[builtin]\nblock_intervall = \"1s\"\n");
    assert!(text.contains("did you mean `block_interval`?"), "{text}");
}

#[test]
fn illegal_scenarios_say_what_to_do() {
    assert!(problem("name = \"x\"").contains("add a [[phases]] table"));
    assert!(problem("[[phases]]\nprofile = \"constant\"\nrate = 1\n").contains("has no end"));
    let text = problem("[[phases]]\nprofile=\"ramp\"\nstart=100\nstep=\"-60/s\"\nevery=\"1s\"\n");
    assert!(text.contains("phase 1"), "{text}");
    let text = problem("[[phases]]\nprofile = \"trace\"\npath = \"trace.csv\"\n");
    assert!(text.contains("line 3"), "{text}");
    let text = problem("[[phases]]\nprofile = \"trace\"\npath = \"none.csv\"\n");
    assert!(text.contains("none.csv"), "{text}");
    let text = problem(
        "[flood]\nconcurrency = 1\ncount = 1\n[[phases]]\nprofile=\"pause\"\nduration=\"1s\"\n",
    );
    assert!(text.contains("keep one of them"), "{text}");
}

const SWEEP: &str = "[[phases]]\nprofile = \"constant\"\nrate = 100\nduration = \"2s\"\n\
     [campaign]\nrepeats = 2\npause = \"1s\"\n\
     [[cases]]\nname = \"slow\"\nset.phases.0.rate = 10\n\
     [[cases]]\nname = \"fast\"\nrepeats = 1\n\
     [[matrix]]\nkey = \"settings.connections\"\nvalues = [1, 2]\n\
     [[matrix]]\nname = \"mempool\"\n\
     keys = [\"node.builtin.mempool.size\", \"node.cometbft.mempool.size\"]\nvalues = [10]\n";

#[test]
fn cases_and_the_matrix_make_runs() {
    let script = load(SWEEP).unwrap();
    let labels: Vec<String> = script.runs.iter().map(ScriptRun::label).collect();
    assert_eq!(
        labels,
        [
            "slow, connections=1, mempool=10 #1",
            "slow, connections=2, mempool=10 #1",
            "fast, connections=1, mempool=10",
            "fast, connections=2, mempool=10",
            "slow, connections=2, mempool=10 #2",
            "slow, connections=1, mempool=10 #2",
        ]
    );
    let run = &script.runs[1];
    assert_eq!(run.settings.connections.unwrap().get(), 2);
    assert_eq!(run.request.builtin.config.mempool.size, 10);
    assert_eq!(run.node.cometbft["mempool"]["size"], Value::Integer(10));
    let RequestedLoad::Open {
        schedule: profile, ..
    } = &run.request.load
    else {
        panic!("not an open loop");
    };
    assert_eq!(profile.total().unwrap().whole(), 20);
}

#[test]
fn the_command_line_sets_scales_and_chooses() {
    let options = ScenarioOptions {
        set: vec!["campaign.repeats=1".into(), "phases.0.duration=4s".into()],
        scale: Some("0.5".parse().unwrap()),
        node: Some(NodeKind::Cometbft),
        only: Some("fast".into()),
        ..ScenarioOptions::default()
    };
    let script = load_with(SWEEP, &options).unwrap();
    assert_eq!(script.runs.len(), 2);
    assert_eq!(script.runs[0].node.kind(), NodeKind::Cometbft);
    assert_eq!(script.runs[0].duration(), Some(Nanos::from_secs(2)));
    let pause = script.campaign.unwrap().pause;
    assert_eq!(pause, Nanos::from_millis(500));
    let nothing = ScenarioOptions {
        only: Some("slow, connections=3, mempool=10".into()),
        ..ScenarioOptions::default()
    };
    let error = format!("{:#}", load_with(SWEEP, &nothing).unwrap_err());
    assert!(
        error.contains("did you mean \"slow, connections="),
        "{error}"
    );
}

#[test]
fn each_run_alone_is_a_scenario_that_makes_the_same_run() {
    let scale = Some("0.5".parse().unwrap());
    let all = ScenarioOptions {
        set: vec!["settings.seed=7".into(), "campaign.repeats=2".into()],
        scale,
        ..ScenarioOptions::default()
    };
    for run in load_with(SWEEP, &all).unwrap().runs {
        let alone = ScenarioOptions {
            text: Some(run.text.clone()),
            scale,
            ..ScenarioOptions::default()
        };
        // The file is another one here.
        let script = load_with("", &alone).unwrap();
        assert!(script.campaign.is_none());
        let what =
            |run: &ScriptRun| format!("{:?}{:?}{:?}", run.request.load, run.settings, run.node);
        assert_eq!(
            script.runs.iter().map(what).collect::<Vec<_>>(),
            [what(&run)]
        );
    }
}

#[test]
fn a_run_that_cannot_be_is_named() {
    let text = problem(&SWEEP.replace("settings.connections", "settings.conections"));
    assert!(
        text.contains("run \"slow, conections=1, mempool=10\""),
        "{text}"
    );
    assert!(text.contains("did you mean `connections`?"), "{text}");
    let text = problem(&SWEEP.replace("set.phases.0.rate", "set.phases.1.rate"));
    assert!(text.contains("phases has 1 elements"), "{text}");
    let text = problem(&SWEEP.replace("values = [1, 2]", "values = []"));
    assert!(text.contains("over no values"), "{text}");
    let text = problem(&SWEEP.replace("name = \"fast\"", "name = \"slow\""));
    assert!(text.contains("two runs called"), "{text}");
}

#[test]
fn a_node_and_endpoints_are_one_too_many() {
    let text = problem(
        "[[phases]]\nprofile=\"constant\"\nrate=1\nduration=\"1s\"\n[node]\nkind = \"cometbft\"\n\
         [settings]\nendpoints = [\"http://127.0.0.1:1\"]\n",
    );
    assert!(text.contains("keep one of them"), "{text}");
}

#[test]
fn what_is_wrong_with_a_phase_is_said_with_its_line() {
    let first = "[[phases]]\nprofile = \"pause\"\nduration = \"1s\"\n\n";
    for (phase, expected) in [
        (
            "[[phases]]\nprofile = \"constant\"\nrate = \"fast\"\nduration = \"2s\"\n",
            [
                "line 7, column 1",
                "7 | rate = \"fast\"",
                "  | ^^^^^^^^^^^^^\n",
            ],
        ),
        (
            "[[phases]]\nprofile = \"constant\"\nrate = 1\n  duratoin = \"2s\"\n",
            [
                "line 8, column 3",
                "unknown field `duratoin`",
                "did you mean `duration`?",
            ],
        ),
        (
            "[[phases]]\nprofile = \"constant\"\n",
            ["line 5", "5 | [[phases]]", "missing field `rate`"],
        ),
        (
            "[[phases]]\nrate = 1\nprofile = \"constnat\"\n",
            ["line 7", "profile = \"constnat\"", "constnat"],
        ),
    ] {
        let text = problem(&format!("{first}{phase}"));
        for part in expected {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }
}

#[test]
fn a_mistyped_key_is_told_before_one_that_is_missing() {
    let error = |text: &str| {
        let error = Script::of(
            Path::new("a.toml"),
            text.into(),
            &ScenarioOptions::default(),
        );
        format!("{:#}", error.unwrap_err())
    };
    let phase = "[[phases]]\nprofile = \"constant\"\nrate = \"5/s\"\nduration = \"1s\"\n";
    // Both at once: what is mistyped comes first, with its line, and without the 45 others.
    let text = error("[[phases]]\nrate = \"5/s\"\n[settings]\nconnectoins = 4\n");
    assert!(
        text.contains("unknown field `connectoins`; did you mean `connections`?"),
        "{text}"
    );
    assert!(
        text.contains("line 4") && !text.contains("expected one of"),
        "{text}"
    );
    let text = error("[[phases]]\nprofle = \"constant\"\nrate = \"5/s\"\n");
    assert!(
        text.contains("unknown field `profle`; did you mean `profile`?"),
        "{text}"
    );
    assert!(text.contains("line 2"), "{text}");
    // In whichever table it is, before or after the phase that lacks something.
    let lacking = "[[phases]]\nrate = \"5/s\"\n";
    for (text, line, key, meant) in [
        (
            format!("stop_when_saturatd = true\n{lacking}"),
            1,
            "stop_when_saturatd",
            "stop_when_saturated",
        ),
        (format!("nme = \"a\"\n{lacking}"), 1, "nme", "name"),
        (
            format!("{lacking}[campaign]\nrepeets = 3\n"),
            4,
            "repeets",
            "repeats",
        ),
        (
            format!("{lacking}[[cases]]\nname = \"a\"\n[nod]\nkind = 1\n"),
            5,
            "nod",
            "node",
        ),
    ] {
        let text = error(&text);
        let expected = format!("unknown field `{key}`; did you mean `{meant}`?");
        assert!(text.contains(&expected), "{text}");
        assert!(text.contains(&format!("line {line},")), "{text}");
    }
    // What is only missing is said as that; a key without a likeness has all that there are.
    let text = error("[[phases]]\nrate = \"5/s\"\n");
    assert!(text.contains("missing field `profile`"), "{text}");
    let text = error(&format!("{phase}[settings]\nzzzzzzzzzz = 4\n"));
    assert!(
        text.contains("zzzzzzzzzz") && !text.contains("did you mean"),
        "{text}"
    );
}

#[test]
fn a_condition_that_only_a_bad_node_fulfils_is_refused_in_a_file_as_on_the_command_line() {
    let phase = "[[phases]]\nprofile = \"constant\"\nrate = 1\nduration = \"1s\"\n";
    let text = problem(&format!(
        "{phase}[settings]\nabort_on = [\"failed.share>1%\"]\n"
    ));
    assert!(text.contains("write 'failed.share<1%'"), "{text}");
}
