//! Help, completions, the manual, dry runs, and where a setting comes from.

use std::process::Command;

use clap::CommandFactory as _;
use testkit::ScriptedServer;
use txgen::cli::Cli;

use crate::support::{Behaviour, FakeNode, Node, Place};

/// A command that has moved names its new place, whatever follows it.
#[test]
fn a_command_that_went_is_answered_with_what_takes_its_place() {
    let place = Place::new();
    for (command, instead) in [
        ("mesh ramp --nodes 5", "txmesh"),
        ("scan --rates 500..4000:500", "search --rates"),
    ] {
        let ended = place.txgen(command);
        ended.expect(2);
        assert!(ended.err.contains(instead), "{command}: {ended}");
    }
}

/// The words of one page, which has units and defaults; what it says of a setting stands beside the setting.
#[test]
fn the_short_help_of_a_ramp_is_as_written() {
    let mut command = of_help("ramp");
    let help = command.render_help().to_string();
    let written = include_str!("help/ramp.txt");
    assert_eq!(help, written, "tests/it/help/ramp.txt");
}

/// A command as 100 columns show it.
fn of_help(name: &str) -> clap::Command {
    let mut program = Cli::command();
    program.build();
    let command = program.find_subcommand(name).unwrap().clone();
    command
        .term_width(100)
        // Whatever the tests are started with.
        .mut_args(|arg| arg.hide_env_values(true))
}

/// A screen of 40 lines and 100 columns. Flags of a chain stand under its name, in `--help` alone.
#[test]
fn the_short_help_of_a_load_fits_a_screen_and_the_long_one_has_every_flag() {
    for name in ["constant", "ramp", "square", "flood", "search", "run", "ab"] {
        let mut command = of_help(name);
        let short = command.render_help().to_string();
        assert!(short.lines().count() <= 40, "{name}: {short}");
        let long = command.render_long_help().to_string();
        let has = |help: &str, flag: &str| help.split_whitespace().any(|word| word == flag);
        for flag in command.get_arguments().filter(|flag| !flag.is_hide_set()) {
            let Some(word) = flag.get_long().map(|name| format!("--{name}")) else {
                continue;
            };
            assert!(has(&long, &word), "{name}: {word} is not in --help");
            let heading = flag.get_help_heading().unwrap_or("Common options");
            assert!(
                heading == "Common options" || !has(&short, &word),
                "{name}: {word} of {heading:?} is in -h"
            );
        }
        for (flag, heading) in [
            ("signers", "BigchainDB"),
            ("messages", "Cosmos SDK"),
            ("confirmations", "Bitcoin"),
        ] {
            let flag = command
                .get_arguments()
                .find(|it| it.get_long() == Some(flag));
            let found = flag.and_then(|flag| flag.get_help_heading());
            assert!(
                found.is_some_and(|found| found.starts_with(heading)),
                "{name}: {found:?}"
            );
        }
    }
}

#[test]
fn what_is_not_understood_ends_with_exit_code_2() {
    let place = Place::new();
    for (line, phrase) in [
        ("constant --rate 5 --durration 3s", "--duration"),
        ("constnat --rate 5", "constant"),
        ("constant", "--rate"),
        ("flood", "--count"),
        ("constant --rate 5 --size", "--size"),
        ("square --rate 5 --cycles 0", "--cycles"),
        ("completions klingon", "possible values: bash"),
        ("run", "SCENARIO"),
        ("", "Usage: txgen"),
    ] {
        place.txgen(line).expect(2).says(phrase);
    }
    assert_eq!(place.contents(), Vec::<String>::new());
}

#[test]
fn the_version_is_the_packages() {
    let place = Place::new();
    let version = format!("txgen {}", env!("CARGO_PKG_VERSION"));
    place.txgen("--version").expect(0).prints(&version);
    place
        .txgen("ramp --version")
        .expect(0)
        .prints(env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_help_of_every_command_begins_with_examples_that_can_be_run() {
    let complaints = testkit::complaints_about_examples::<Cli>();
    assert!(complaints.is_empty(), "{complaints:?}");
    let place = Place::new();
    let help = place.txgen("flood --help").out.clone();
    assert!(
        help.starts_with("Examples:\n  txgen flood --concurrency"),
        "{help}"
    );
}

#[test]
fn the_page_of_commands_has_each_with_examples_of_its_help() {
    let page = include_str!("../../../../docs/commands.md");
    for (command, examples) in testkit::examples::<Cli>() {
        let heading = format!("\n## {command}\n");
        let (_, section) = page.split_once(&heading).expect(&command);
        let section = section.split("\n## ").next().unwrap_or_default();
        let shown: Vec<_> = section
            .lines()
            .filter_map(|l| l.strip_prefix("$ "))
            .collect();
        assert!(!shown.is_empty(), "{command} has no example");
        for example in shown {
            assert!(examples.iter().any(|own| own == example), "{example}");
        }
    }
}

/// What bash offers for the last of these words, once the script has been read.
fn completed(words: &str) -> String {
    let script = "source <(\"$0\" completions bash); read -ra COMP_WORDS <<< \"$1\"; \
         COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _txgen txgen \"${COMP_WORDS[COMP_CWORD]}\" \
         \"${COMP_WORDS[COMP_CWORD - 1]}\"; echo \"${COMPREPLY[*]}\"";
    let output = Command::new("bash")
        .args(["-euc", script, env!("CARGO_BIN_EXE_txgen"), words])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    assert_eq!(completed("txgen comp"), "compare completions\n");
    assert_eq!(completed("txgen constant --dur"), "--duration\n");
    assert_eq!(completed("txgen ramp --transport w"), "ws\n");
}

#[test]
fn scripts_for_other_shells_name_every_command() {
    let place = Place::new();
    for (shell, phrase) in [("zsh", "#compdef txgen"), ("fish", "complete -c txgen")] {
        let script = place.txgen(&format!("completions {shell}"));
        script.expect(0).prints(phrase).prints("drain-timeout");
    }
}

#[test]
fn the_manual_has_a_page_for_each_command_with_its_examples() {
    let manual = Place::new().txgen("man");
    manual
        .expect(0)
        .prints("Exit codes: 0 done; 1 failed; 2 usage")
        .prints("98 the run is invalid")
        .prints("99 a threshold was broken")
        .prints("130 interrupted");
    for (command, examples) in testkit::examples::<Cli>() {
        manual.prints(&format!(".TH {} 1", command.replace(' ', "-")));
        // In roff a hyphen is written so.
        for example in examples {
            manual.prints(&example.replace('-', "\\-").replace('\'', "\\(aq"));
        }
    }
}

#[test]
fn a_dry_run_shows_the_plan_and_touches_nothing() {
    let server = ScriptedServer::start(|_| {});
    let place = Place::new();
    let plan = place.txgen(&format!(
        "ramp --start 1 --step 500 --every 30s --to 2001 --seed 7 --out run --dry-run --endpoints {}",
        server.http_url()
    ));
    plan.expect(0);
    // 30 · (1 + 501 + 1001 + 1501 + 2001)
    for line in [
        "transactions  150,150\n",
        "peak          2001/s\n",
        "seed          7\n",
        "method        broadcast_tx_sync\n",
        "workload      kvstore, 250 bytes each\n",
    ] {
        plan.prints(line);
    }
    plan.prints("open loop").prints(&server.http_url());
    let duration = plan.out.lines().find(|line| line.starts_with("duration"));
    let duration: pacing::Nanos = duration
        .and_then(|line| line.split_whitespace().nth(1))
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(duration, pacing::Nanos::from_secs(150));
    let chart: Vec<usize> = plan
        .out
        .lines()
        .filter(|line| line.contains('┤'))
        .map(|line| line.matches('█').count())
        .collect();
    assert!(chart.len() >= 4, "{plan}");
    // The rate rises: a lower row of the chart is never shorter than the one above it.
    assert!(
        chart.is_sorted() && chart[0] < chart[chart.len() - 1],
        "{plan}"
    );
    assert_eq!(server.connections(), 0);
    assert_eq!(place.contents(), Vec::<String>::new());
}

#[test]
fn a_dry_run_without_an_end_says_so() {
    let place = Place::new();
    let ramp = place.txgen("ramp --dry-run");
    ramp.expect(0)
        .prints("transactions  until the target is saturated")
        .prints("duration      until the target is saturated")
        .prints("┤")
        .prints("the built-in node");
    let flood = place.txgen("flood --count 1000000 --concurrency 64 --transport ws --dry-run");
    flood
        .expect(0)
        .prints("transactions  1,000,000")
        .prints("closed loop")
        .prints("64 in flight")
        .prints("over ws");
    assert_eq!(place.contents(), Vec::<String>::new());
}

#[test]
fn a_flag_beats_the_environment_and_the_environment_a_file() {
    let place = Place::new();
    place.write(
        "scenario.toml",
        "[settings]\nendpoints = [\"http://file:1\"]\nbroadcast_tx_method = \"commit\"\nsize = 64\n\
         [[phases]]\nprofile = \"constant\"\nrate = 10\nduration = \"1s\"\n",
    );
    let line = "run scenario.toml --dry-run";
    let from_file = place.txgen(line);
    from_file
        .expect(0)
        .prints("http://file:1")
        .prints("broadcast_tx_commit")
        .prints("64 bytes each");
    let environment = [
        ("TXGEN_ENDPOINTS", "http://environment:2"),
        ("TXGEN_BROADCAST_TX_METHOD", "async"),
    ];
    let from_environment = place.txgen_with(&environment, line);
    from_environment
        .expect(0)
        .prints("http://environment:2")
        .prints("broadcast_tx_async")
        .prints("64 bytes each");
    let from_flags = place.txgen_with(
        &environment,
        &format!("{line} --endpoints http://flag:3 --broadcast-tx-method sync -s 100"),
    );
    from_flags
        .expect(0)
        .prints("http://flag:3")
        .prints("broadcast_tx_sync")
        .prints("100 bytes each");
}

#[test]
fn what_commands_print_fits_80_columns() {
    let place = Place::new();
    let node = Node::quick();
    let url = node.url();
    place.write(
        "sweep.toml",
        "name = \"sweep\"\n[[phases]]\nprofile = \"constant\"\nrate = \"50/s\"\nduration = \"300ms\"\n\
         [campaign]\nrepeats = 2\n[[matrix]]\nkey = \"settings.connections\"\nvalues = [1, 2]\n\
         [node.builtin]\nblock_interval = \"50ms\"\n",
    );
    for line in [
        "constant --rate 50/s --duration 300ms --at-max-in-flight wait --broadcast-tx-method commit --out one",
        "ramp --start 20/s --step 20/s --every 500ms --to 60/s --threshold commit.p99<1us --out ramp",
        "square --rate 50/s --on 200ms --off 100ms --cycles 2 --reconnect --dry-run",
        "flood --concurrency 4 --count 40 --out flood",
        "search --rates 50 --duration 1s --slo commit.p99<1us --out scan",
        "search --from 50 --max 100 --dry-run",
        "run sweep.toml --dry-run",
        "compare one ramp",
        "compare one flood ramp --fail-on-regression 5%",
        "analyse ramp",
    ] {
        let ended = place.txgen(&format!("{line}{}", endpoints(line, &url)));
        assert_ne!(ended.code, Some(2), "{line}\n{ended}");
        ended.fits_a_terminal();
    }
}

/// Where to send, for what sends.
fn endpoints(line: &str, url: &str) -> String {
    let sends = ["constant", "ramp", "flood", "search --rates"];
    if sends.iter().any(|command| line.starts_with(command)) {
        format!(" --endpoints {url}")
    } else {
        String::new()
    }
}

/// The words of a node that refuses or breaks are as long as it likes.
#[test]
fn what_is_said_of_a_bad_node_fits_80_columns() {
    for behaviour in [Behaviour::Reject(7), Behaviour::Html, Behaviour::Close] {
        let node = FakeNode::always(behaviour);
        let place = Place::new();
        let ended = place.txgen(&format!(
            "constant --rate 50/s --duration 300ms -c 2 --no-follow --answer-timeout 200ms --drain-timeout 300ms \
             --out run --endpoints {}",
            node.url()
        ));
        ended.fits_a_terminal();
    }
}
