//! The forms of a report.

use std::fmt::Write as _;

use report::Table;
use report::text::escape;

use super::{CaseEnd, CiCase, CiReport};

/// JUnit's XML, by the schema of Jenkins' xunit plugin: a suite for each run or side.
pub(super) fn junit(report: &CiReport) -> String {
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
pub(super) fn annotations(report: &CiReport) -> String {
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
pub(super) fn markdown(report: &CiReport) -> String {
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
