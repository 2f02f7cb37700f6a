//! `txgen init`: a commented scenario for a question.

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

/// The scenario: its question's, then what its node and its chain need.
fn text(args: &InitArgs) -> String {
    let question = match args.question {
        Question::Rate => include_str!("init/rate.toml"),
        Question::Hold => include_str!("init/hold.toml"),
        Question::Burst => include_str!("init/burst.toml"),
        Question::Change => include_str!("init/change.toml"),
    };
    let node = match &args.endpoint {
        Some(endpoint) => format!("endpoints = [\"{endpoint:#}\"]\n"),
        None => include_str!("init/node.toml").to_owned(),
    };
    let workload = args.workload.as_ref().map_or(String::new(), |workload| {
        format!("# What is sent.\nworkload = \"{workload}\"\n")
    });
    let settings = include_str!("init/settings.toml");
    [
        question,
        &node,
        &workload,
        settings,
        chain(args.workload.as_ref()),
    ]
    .concat()
}

/// What a chain asks for beside the rate, with what a node that is not the built-in one needs first.
fn chain(workload: Option<&WorkloadKind>) -> &'static str {
    let name = workload.map_or_else(|| "kvstore".into(), ToString::to_string);
    match name.split('-').next() {
        Some("kvstore") => include_str!("init/kvstore.toml"),
        Some("cosmos") => include_str!("init/cosmos.toml"),
        Some("bitcoin") => include_str!("init/bitcoin.toml"),
        Some("bigchaindb") => include_str!("init/bigchaindb.toml"),
        _ => "",
    }
}

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
