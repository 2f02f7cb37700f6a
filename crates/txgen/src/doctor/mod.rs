//! `txgen doctor`: what this machine and a node can show, and what to change. It sends no transaction.

mod machine;
mod node;
#[cfg(test)]
mod tests;

use ops::command::{CommandError, failed, usage};
use pacing::{Nanos, Rate};
use report::Entries;

use crate::cli::DoctorArgs;
use crate::exit;
use crate::output::print;
use crate::plan::{Plan, Request, RequestedLoad};
use crate::settings::Settings;
use machine::Machine;

/// Something that was looked at.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    about: &'static str,
    text: String,
    /// What to change, where something should be.
    advice: Option<&'static str>,
}

impl Finding {
    fn new(about: &'static str, text: impl Into<String>) -> Self {
        Self {
            about,
            text: text.into(),
            advice: None,
        }
    }

    /// Where the finding is not as it should be, with the advice for it.
    fn unless(self, is_right: bool) -> Self {
        let about = self.about;
        self.advised_unless(is_right, about)
    }

    /// With the advice of this name, where there is none yet.
    fn advised_unless(mut self, is_right: bool, name: &str) -> Self {
        let mut all = ADVICE.lines().filter_map(|line| line.split_once(": "));
        let found = all.find(|(known, _)| *known == name && !is_right);
        self.advice = self.advice.or(found.map(|(_, advice)| advice));
        self
    }
}

/// Looks and prints; gives the exit code, which is 0 whatever was found.
///
/// # Errors
/// When the node cannot be measured; what was found of the machine is printed before.
pub(crate) fn execute(args: DoctorArgs) -> Result<u8, CommandError> {
    let mut findings = machine::findings(&Machine::look());
    let Some(endpoint) = args.endpoint else {
        findings.push(Finding::new("node", "none was named: txgen doctor URL"));
        return Ok(print(&text(&findings)));
    };
    let settings = Settings {
        endpoints: vec![endpoint],
        target: args.target,
        ca_file: args.ca_file,
        ..Settings::default()
    };
    let rate = Rate::per_second(1).map_err(failed)?;
    let request = Request {
        command: "doctor".into(),
        load: RequestedLoad::constant(rate, Nanos::from_secs(1)).map_err(failed)?,
        builtin: devnode::Blueprint::default(),
    };
    let plan = Plan::resolve(request, settings, 0).map_err(usage)?;
    match node::look(&plan) {
        Ok(node) => findings.extend(node::findings(&node)),
        Err(error) => {
            print(&text(&findings));
            return Err(CommandError {
                code: exit::FAILED,
                source: error,
            });
        }
    }
    Ok(print(&text(&findings)))
}

/// A line for each finding, its advice under it, and how much there is to change.
fn text(findings: &[Finding]) -> String {
    let mut entries = Entries::default();
    for finding in findings {
        entries.add(finding.about, &finding.text);
        if let Some(advice) = finding.advice {
            entries.add("", format!("→ {advice}"));
        }
    }
    let advised = findings.iter().filter(|it| it.advice.is_some()).count();
    let answer = match advised {
        0 => "nothing to change".to_owned(),
        1 => "one thing to change (→)".to_owned(),
        several => format!("{several} things to change (→)"),
    };
    format!("{answer}\n\n{}", entries.text())
}

/// A line for each fault: its name, and what to do.
const ADVICE: &str = include_str!("advice.txt");
