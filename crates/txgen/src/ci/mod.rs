//! What a run or a comparison came to, for a CI system: annotations and a summary for GitHub, JUnit's XML, Markdown.
//!
//! A report agrees with the exit code: all of its cases passed when, and only when, the code is 0.

mod run;
#[cfg(test)]
mod tests;
mod write;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use harness::whole;
use ops::command::{CommandError, failed, usage};

pub(crate) use self::run::run_cases;
use crate::exit;
use crate::settings::CiTarget;

/// What is reported.
#[derive(Debug, Default)]
pub(crate) struct CiReport {
    /// The command.
    pub(crate) title: String,
    /// The answer in a sentence.
    pub(crate) answer: String,
    pub(crate) cases: Vec<CiCase>,
    /// All figures, as Markdown.
    pub(crate) details: String,
    /// Where files go for which no place is named.
    pub(crate) folder: PathBuf,
    /// How long it took.
    pub(crate) seconds: f64,
}

/// Something that was asked, and what it came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CiCase {
    /// The run, or the side of a comparison.
    pub(crate) suite: String,
    pub(crate) name: String,
    pub(crate) end: CaseEnd,
    pub(crate) detail: String,
}

/// What a case came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CaseEnd {
    Passed,
    /// Shown to be broken: a failure in JUnit, an error on GitHub.
    Broken,
    /// It cannot be told, or could not be measured: an error in JUnit, a warning on GitHub.
    Untold,
}

/// The forms that are wanted.
#[derive(Debug)]
pub(crate) struct Ci {
    title: &'static str,
    targets: Vec<CiTarget>,
    /// The file of GitHub's step summary.
    step_summary: Option<PathBuf>,
}

impl Ci {
    /// The forms that are asked for, or, under GitHub's runner, its own. Files that are named are created.
    ///
    /// # Errors
    /// When one cannot be.
    pub(crate) fn open(title: &'static str, chosen: &[CiTarget]) -> Result<Self, CommandError> {
        Self::within(title, chosen, |name| std::env::var_os(name)).map_err(usage)
    }

    fn within(
        title: &'static str,
        chosen: &[CiTarget],
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> anyhow::Result<Self> {
        let is_github = environment("GITHUB_ACTIONS").is_some_and(|value| value == "true");
        let targets = match chosen {
            [] if is_github => vec![CiTarget::Github],
            chosen if chosen.contains(&CiTarget::Off) => Vec::new(),
            chosen => chosen.to_vec(),
        };
        for target in &targets {
            if let CiTarget::Junit(Some(path)) | CiTarget::Markdown(Some(path)) = target {
                let made = File::create(path).map(drop);
                whole(made, format!("{} (--ci)", path.display()))?;
            }
        }
        let step_summary = environment("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty());
        Ok(Self {
            title,
            targets,
            step_summary: step_summary.map(PathBuf::from),
        })
    }

    /// Tells what a command came to; gives its exit code.
    ///
    /// # Errors
    /// Those of the command, and what could not be written.
    pub(crate) fn conclude(
        &self,
        done: Result<(CiReport, u8), CommandError>,
    ) -> Result<u8, CommandError> {
        let titled = |report| CiReport {
            title: self.title.into(),
            ..report
        };
        let (report, ended) = match done {
            Ok((report, code)) => (agreeing(titled(report), code), Ok(code)),
            Err(error) => (titled(self.of_error(&error)), Err(error)),
        };
        let written = self.targets.iter().map(|it| self.write(it, &report));
        let unwritten: Vec<String> = written
            .filter_map(|written| Some(format!("{:#}", written.err()?)))
            .collect();
        match ended {
            Ok(_) if !unwritten.is_empty() => Err(failed(anyhow!(unwritten.join("\n")))),
            ended => ended,
        }
    }

    /// As [`Ci::conclude`], of a command whose exit code says it all.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn conclude_code(&self, done: Result<u8, CommandError>) -> Result<u8, CommandError> {
        self.conclude(done.map(|code| (CiReport::default(), code)))
    }

    fn of_error(&self, error: &CommandError) -> CiReport {
        let reason = format!("{:#}", error.source);
        CiReport {
            answer: reason.clone(),
            cases: vec![CiCase {
                suite: self.title.into(),
                name: "started".into(),
                end: CaseEnd::Untold,
                detail: reason,
            }],
            ..CiReport::default()
        }
    }

    fn write(&self, target: &CiTarget, report: &CiReport) -> anyhow::Result<()> {
        let put = |path: &Option<PathBuf>, name: &str, text: &str| {
            let named = path.as_deref();
            // A command that failed may have made no folder: only a file that was named is written then.
            let own = (!report.folder.as_os_str().is_empty()).then(|| report.folder.join(name));
            match named.map(Path::to_path_buf).or(own) {
                Some(path) => whole(fs::write(&path, text), path.display()),
                None => Ok(()),
            }
        };
        match target {
            CiTarget::Off => Ok(()),
            CiTarget::Junit(path) => put(path, "junit.xml", &write::junit(report)),
            CiTarget::Markdown(path) => put(path, "summary.md", &write::markdown(report)),
            CiTarget::Github => {
                // The runner reads both streams; stdout is for results. A line that is broken in two is no command.
                let _ = std::io::stderr().write_all(write::annotations(report).as_bytes());
                self.append_summary(&write::markdown(report))
            }
        }
    }

    fn append_summary(&self, text: &str) -> anyhow::Result<()> {
        let Some(path) = &self.step_summary else {
            return Ok(());
        };
        let file = OpenOptions::new().create(true).append(true).open(path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        whole(written, format!("the step summary {}", path.display()))
    }
}

/// The report with a case that did not pass where the exit code is not 0.
fn agreeing(mut report: CiReport, code: u8) -> CiReport {
    let (end, name) = match code {
        exit::DONE => return report,
        exit::THRESHOLD => (CaseEnd::Broken, "broken"),
        exit::INTERRUPTED => (CaseEnd::Untold, "interrupted"),
        exit::INVALID => (CaseEnd::Untold, "cannot tell"),
        _ => (CaseEnd::Untold, "failed"),
    };
    if report.cases.iter().all(|case| case.end == CaseEnd::Passed) {
        let detail = match report.answer.as_str() {
            "" => format!("{name} (exit code {code})"),
            answer => format!("{name} (exit code {code}): {answer}"),
        };
        report.cases.push(CiCase {
            suite: report.title.clone(),
            name: "result".into(),
            end,
            detail,
        });
    }
    report
}
