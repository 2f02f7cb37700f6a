//! What a run or a comparison came to, for a CI system: annotations and a summary for GitHub, JUnit's XML, Markdown.
//!
//! A report agrees with the exit code: all of its cases passed when, and only when, the code is 0.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use harness::whole;
use measure::ScheduleVerdict;
use ops::command::{CommandError, failed, usage};
use report::Table;
use report::text::escape;

use crate::exit;
use crate::folder::RecordedRun;
use crate::output::recorded;
use crate::output::recorded::ReportFormat;
use crate::run::Outcome;
use crate::settings::CiTarget;
use crate::threshold::ThresholdVerdict;

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
    /// It is undecided, or could not be measured: an error in JUnit, a warning on GitHub.
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

    /// Reports the result of a command; returns its exit code.
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

    /// As [`Ci::conclude`], of a command that has no result beside its exit code.
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
            CiTarget::Junit(path) => put(path, "junit.xml", &junit(report)),
            CiTarget::Markdown(path) => put(path, "summary.md", &markdown(report)),
            CiTarget::Github => {
                // The runner reads both streams; stdout is for results. A line that is broken in two is no command.
                let _ = std::io::stderr().write_all(annotations(report).as_bytes());
                self.append_summary(&markdown(report))
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

impl CiReport {
    /// Of one run.
    pub(crate) fn of_run(outcome: &Outcome) -> Self {
        let summary = &outcome.summary;
        let answer = report::answer(summary).into_iter();
        let answer: Vec<String> = answer.filter(|line| !line.is_empty()).collect();
        let details = RecordedRun::open(&outcome.folder)
            .and_then(|run| recorded::render(&run, ReportFormat::Md))
            .unwrap_or_default();
        Self {
            answer: answer.join("; ").replace("**", ""),
            cases: run_cases(outcome, &outcome.folder.display().to_string()),
            details,
            folder: outcome.folder.clone(),
            seconds: summary.time.ended_s,
            ..Self::default()
        }
    }
}

/// What was asked of a run: its schedule, its end, and each condition.
pub(crate) fn run_cases(outcome: &Outcome, suite: &str) -> Vec<CiCase> {
    let case = |name: &str, end, detail| CiCase {
        suite: suite.into(),
        name: name.into(),
        end,
        detail,
    };
    let verdict = &outcome.summary.verdict;
    let schedule = match verdict.schedule {
        ScheduleVerdict::Invalid => CaseEnd::Untold,
        ScheduleVerdict::Valid | ScheduleVerdict::Degraded => CaseEnd::Passed,
    };
    let reasons = verdict.reasons.join("; ");
    let reasons = if reasons.is_empty() {
        verdict.schedule.name().into()
    } else {
        reasons
    };
    let mut cases = vec![case("schedule kept", schedule, reasons)];
    if outcome.summary.interrupted {
        cases.push(case("whole", CaseEnd::Untold, "interrupted".into()));
    }
    let condition = |verdict: &ThresholdVerdict| {
        let value = verdict.value_text();
        let (end, detail) = match (verdict.held, verdict.unresolved) {
            (true, _) => (CaseEnd::Passed, format!("held: {value}")),
            (_, true) => (CaseEnd::Untold, format!("cannot tell: {value}")),
            _ if verdict.broken => (CaseEnd::Broken, format!("broken: {value}")),
            _ => (CaseEnd::Broken, format!("not shown to hold: {value}")),
        };
        case(&verdict.text, end, detail)
    };
    cases.extend(outcome.thresholds.iter().map(condition));
    if let Some(verdict) = &outcome.stopped_by {
        let detail = format!("ended the run: {}", verdict.value_text());
        cases.push(case(&verdict.text, CaseEnd::Broken, detail));
    }
    cases
}

/// JUnit's XML, by the schema of Jenkins' xunit plugin: a suite for each run or side.
fn junit(report: &CiReport) -> String {
    let count = |cases: &[CiCase]| {
        let of = |end| cases.iter().filter(|case| case.end == end).count();
        format!(
            "tests=\"{}\" failures=\"{}\" errors=\"{}\"",
            cases.len(),
            of(CaseEnd::Broken),
            of(CaseEnd::Untold)
        )
    };
    let time = match report.seconds {
        0.0 => String::new(),
        seconds => format!(" time=\"{seconds:.3}\""),
    };
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{}\" {}{time}>\n",
        xml(&report.title),
        count(&report.cases)
    );
    for cases in report.cases.chunk_by(|one, next| one.suite == next.suite) {
        let suite = xml(&cases[0].suite);
        let _ = writeln!(text, "  <testsuite name=\"{suite}\" {}>", count(cases));
        for case in cases {
            let (name, detail) = (xml(&case.name), xml(&case.detail));
            let inner = match case.end {
                CaseEnd::Passed => format!("<system-out>{detail}</system-out>"),
                CaseEnd::Broken => format!("<failure message=\"{detail}\" type=\"broken\"/>"),
                CaseEnd::Untold => format!("<error message=\"{detail}\" type=\"cannot tell\"/>"),
            };
            let _ = writeln!(
                text,
                "    <testcase classname=\"{suite}\" name=\"{name}\">{inner}</testcase>"
            );
        }
        text += "  </testsuite>\n";
    }
    text + "</testsuites>\n"
}

/// A text inside an element or an attribute. What XML 1.0 (section 2.2) has no character for is replaced.
fn xml(text: &str) -> String {
    let is_none = |one: char| one.is_control() || matches!(one, '\u{fffe}' | '\u{ffff}');
    let escaped = escape(text).replace('\n', "&#10;").replace('\t', "&#9;");
    escaped.replace(is_none, "\u{fffd}")
}

/// Workflow commands of GitHub Actions: what did not pass, or that all did.
fn annotations(report: &CiReport) -> String {
    let title = &report.title;
    let mut text = String::new();
    for (level, end) in [("error", CaseEnd::Broken), ("warning", CaseEnd::Untold)] {
        let cases: Vec<&CiCase> = report.cases.iter().filter(|it| it.end == end).collect();
        let shown = match cases.len() {
            few @ ..=MOST_ANNOTATIONS => few,
            _ => MOST_ANNOTATIONS - 1,
        };
        for case in &cases[..shown] {
            let about = property(&format!("{title}: {}", case.name));
            let message = data(&format!("{} ({})", case.detail, case.suite));
            let _ = writeln!(text, "::{level} title={about}::{message}");
        }
        if shown < cases.len() {
            let (title, more) = (property(title), cases.len() - shown);
            let _ = writeln!(text, "::{level} title={title}::and {more} more");
        }
    }
    if text.is_empty() {
        let answer = match report.answer.as_str() {
            "" => "done",
            answer => answer,
        };
        let _ = writeln!(text, "::notice title={}::{}", property(title), data(answer));
    }
    text
}

/// A message of a workflow command (actions/toolkit, packages/core/src/command.ts, `escapeData`).
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// A property of a workflow command (as above, `escapeProperty`).
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// The answer, what did not pass, and all figures folded away.
fn markdown(report: &CiReport) -> String {
    let mut text = format!("### {}\n\n", report.title);
    if !report.answer.is_empty() {
        let _ = writeln!(text, "{}\n", report.answer);
    }
    // What did not pass comes first, where there are many.
    let mut cases: Vec<&CiCase> = report.cases.iter().collect();
    cases.sort_by_key(|case| case.end == CaseEnd::Passed);
    let table = Table::of(cases.iter().take(MOST_ROWS))
        .text("", |case| match case.end {
            CaseEnd::Passed => "✅",
            CaseEnd::Broken => "❌",
            CaseEnd::Untold => "⚠️",
        })
        .text("asked", |case| &*case.name)
        .code()
        .text("result", |case| &*case.detail)
        .text("of", |case| &*case.suite);
    text += &table.table().markdown();
    if cases.len() > MOST_ROWS {
        let _ = writeln!(
            text,
            "\n{} more passed or are like these.",
            cases.len() - MOST_ROWS
        );
    }
    if !report.details.is_empty() && report.details.len() <= MOST_DETAIL_BYTES {
        let details = report.details.trim_end();
        let _ = write!(
            text,
            "\n<details><summary>All figures</summary>\n\n{details}\n\n</details>\n"
        );
    }
    text + "\n"
}

/// GitHub shows ten of a level for each step.
const MOST_ANNOTATIONS: usize = 10;
const MOST_ROWS: usize = 100;
/// A step's summary has 1 MiB at most.
const MOST_DETAIL_BYTES: usize = 256 * 1024;
