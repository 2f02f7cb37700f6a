//! `txgen init`: a commented scenario for a question.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use harness::whole;
use ops::command::{CommandError, failed, usage};

use crate::chains::WorkloadKind;
use crate::cli::{InitArgs, Question};
use crate::exit;
use crate::output::{note, print};

/// Writes the file; gives the exit code.
///
/// # Errors
/// When there is one already, or it cannot be written.
pub(crate) fn init(args: &InitArgs) -> Result<u8, CommandError> {
    let text = text(args);
    if args.out == Path::new("-") {
        return Ok(print(&text));
    }
    let shown = args.out.display();
    let file = File::create_new(&args.out);
    let mut file = file
        .with_context(|| format!("cannot make {shown}; choose another --out, or - for stdout"))
        .map_err(usage)?;
    whole(file.write_all(text.as_bytes()), &shown).map_err(failed)?;
    note(&format!(
        "{shown}: look at it with `txgen run {shown} --dry-run`, play it with `txgen run {shown}`"
    ));
    Ok(exit::DONE)
}

/// The scenario.
fn text(args: &InitArgs) -> String {
    let (about, phases) = match args.question {
        Question::Rate => (
            "What rate does the node sustain? Steps until it gives in; the last one that held is the knee.",
            RATE,
        ),
        Question::Hold => (
            "Does the node hold a rate? One rate, and conditions that fail the run.",
            HOLD,
        ),
        Question::Burst => (
            "What does a burst leave behind? A rate, a burst, and the same rate again.",
            BURST,
        ),
        Question::Change => (
            "Does a setting make a difference? Repeats of two cases in turns; `txgen compare` then judges their folders.",
            CHANGE,
        ),
    };
    let mut text = format!(
        "# {about}\n#\n# txgen run FILE --dry-run shows the plan, txgen run FILE plays it; flags override [settings].\n\n{phases}\n"
    );
    text += "[settings]\n";
    let endpoint = args.endpoint.as_ref();
    let node = endpoint.map_or_else(
        || "# Without endpoints a built-in node is started. A node that is yours to load:\n# endpoints = [\"http://127.0.0.1:26657\"]\n".to_owned(),
        |endpoint| format!("endpoints = [\"{endpoint:#}\"]\n"),
    );
    text += &node;
    if let Some(workload) = &args.workload {
        let _ = writeln!(text, "# What is sent.\nworkload = \"{workload}\"");
    }
    text += SETTINGS;
    if args.question == Question::Hold {
        text += "# A condition that is broken ends the run with exit code 99.\nthreshold = [\"commit.p99<5s\", \"failed.share<0.5%\"]\n";
    }
    text + chain(args.workload.as_ref())
}

/// What a chain asks for beside the rate, with what a node that is not the built-in one needs first.
fn chain(workload: Option<&WorkloadKind>) -> &'static str {
    let name = workload.map_or_else(|| "kvstore".into(), ToString::to_string);
    match name.split('-').next() {
        Some("kvstore") => KVSTORE,
        Some("cosmos") => COSMOS,
        Some("bitcoin") => BITCOIN,
        Some("bigchaindb") => BIGCHAINDB,
        _ => "",
    }
}

const KVSTORE: &str = "\
# Bytes of each transaction, from 16.
size = 250
";
const COSMOS: &str = "
[settings.cosmos]
# Transaction i is signed by account i mod this. Keys follow from the seed; fund them on a chain of yours with
# `txgen cosmos prepare`, with the same seed and number.
accounts = 200
# To each other; cold: each transfer to a new address, so that the state grows.
recipients = \"warm\"
";
const BITCOIN: &str = "
[settings.bitcoin]
# The built-in node has coins. For a node of yours make a wallet with `txgen bitcoin prepare`, and name its file:
# wallet = \"wallet.csv\"
";
const BIGCHAINDB: &str = "\
# Characters of text in each asset; 0: data is null.
size = 0
";
const RATE: &str = "\
# Ends after two steps in a row that were not sustained.
stop_when_saturated = true

[[phases]]
profile = \"ramp\"
# Transactions a second over all connections.
start = \"100/s\"
step = \"200/s\"
# Several blocks long, so that what is committed in a step is its own.
every = \"20s\"
";
const HOLD: &str = "\
[[phases]]
profile = \"constant\"
# Transactions a second over all connections.
rate = \"200/s\"
duration = \"60s\"
";
const BURST: &str = "\
[[phases]]
profile = \"constant\"
rate = \"100/s\"
duration = \"20s\"

[[phases]]
profile = \"constant\"
# The burst: more than the node takes, or nothing is left behind.
rate = \"2000/s\"
duration = \"10s\"

[[phases]]
profile = \"constant\"
rate = \"100/s\"
duration = \"30s\"
";
const CHANGE: &str = "\
[campaign]
# A verdict needs three runs of each; more find smaller differences.
repeats = 3
# One of each in turn: what drifts with time is then no difference.
order = \"interleaved\"

# What differs: any key of this file by its dotted name.
[[cases]]
name = \"before\"
set = { \"settings.transport\" = \"http\" }

[[cases]]
name = \"after\"
set = { \"settings.transport\" = \"ws\" }

[[phases]]
profile = \"constant\"
rate = \"200/s\"
duration = \"30s\"
";
const SETTINGS: &str = "\
# The same seed sends the same transactions.
seed = 1
# What starts and fills at the beginning stays out of latencies and rates.
warmup = \"5s\"
";

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;
    use crate::scenario::{ScenarioOptions, Script};

    #[test]
    fn every_question_makes_a_scenario_that_can_be_played() {
        for question in Question::value_variants() {
            for (endpoint, workload) in [
                (None, None),
                (Some("http://127.0.0.1:26657"), Some("cosmos-send")),
                (None, Some("cosmos-multisend")),
                (None, Some("bitcoin")),
                (None, Some("bigchaindb-create")),
                (None, Some("bigchaindb-transfer")),
            ] {
                let args = InitArgs {
                    question: *question,
                    endpoint: endpoint.map(|it| it.parse().unwrap()),
                    workload: workload.map(|it| it.parse().unwrap()),
                    out: "-".into(),
                };
                let text = text(&args);
                let folder = tempfile::tempdir().unwrap();
                let file = folder.path().join("a.toml");
                std::fs::write(&file, &text).unwrap();
                let script = Script::load(&file, &ScenarioOptions::default());
                let script = script.unwrap_or_else(|error| panic!("{error:#}\n{text}"));
                let given = !script.runs[0].settings.endpoints.is_empty();
                assert_eq!(given, endpoint.is_some(), "{text}");
                let runs = if *question == Question::Change { 6 } else { 1 };
                assert_eq!(script.runs.len(), runs);
            }
        }
    }

    #[test]
    fn a_file_that_is_there_is_left_as_it_is() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let args = InitArgs {
            question: Question::Rate,
            endpoint: None,
            workload: None,
            out: file.path().into(),
        };
        assert_eq!(init(&args).unwrap_err().code, exit::USAGE);
        assert_eq!(std::fs::read(file.path()).unwrap(), b"");
    }
}
