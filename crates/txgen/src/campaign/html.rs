//! The report over all runs of a campaign: one page that works offline.

use std::fmt::Write as _;

use super::record::{Document, Run, State};
use super::table::{millis, rate, words};
use crate::report::grouped;

/// The whole page.
pub(super) fn page(document: &Document) -> String {
    let mut html = String::from(HEAD);
    let title = escaped(&document.name);
    let _ = write!(html, "<title>{title}</title></head><body><h1>{title}</h1>");
    introduction(&mut html, document);
    table(&mut html, document);
    let _ = writeln!(
        html,
        "<details><summary>{}</summary><pre>{}</pre></details></body></html>",
        escaped(&document.scenario),
        escaped(&document.scenario_text)
    );
    html
}

fn introduction(html: &mut String, document: &Document) {
    let done = document.runs.iter().filter(|run| run.figures.is_some());
    let state = match document.state {
        State::Running => "under way",
        State::Done => "done",
        State::Interrupted => "interrupted",
    };
    let host = &document.host;
    let _ = write!(
        html,
        "<p>{} of {} runs, {state}. Started {}{}. {} × {}, {}. txgen {}.{}</p>",
        done.count(),
        document.runs.len(),
        escaped(&document.started),
        document
            .ended
            .as_ref()
            .map_or(String::new(), |ended| format!(", ended {}", escaped(ended))),
        host.cpus,
        escaped(host.cpu.as_deref().unwrap_or("processor")),
        escaped(&host.os),
        document.version,
        if (document.scale - 1.0).abs() > f64::EPSILON {
            format!(" Played at a scale of {}.", document.scale)
        } else {
            String::new()
        }
    );
}

fn table(html: &mut String, document: &Document) {
    let window = document
        .runs
        .iter()
        .find_map(|run| run.figures.as_ref().and_then(|figures| figures.window));
    html.push_str("<div class=\"wide\"><table><thead><tr>");
    let mut columns: Vec<String> = [
        "run",
        "",
        "verdict",
        "offered/s",
        "sent/s",
        "accepted/s",
        "committed/s",
        "refused",
        "accept p99 ms",
        "commit p50 ms",
        "commit p95 ms",
        "longest gap s",
    ]
    .map(String::from)
    .into();
    if let Some(window) = window {
        columns.push("tm-bench tx/s".into());
        columns.push(format!("of {window} blocks tx/s"));
    }
    for column in &columns {
        let _ = write!(html, "<th>{column}</th>");
    }
    html.push_str("</tr></thead><tbody>");
    for run in &document.runs {
        row(html, run, columns.len(), window.is_some());
    }
    html.push_str("</tbody></table></div>");
}

fn row(html: &mut String, run: &Run, columns: usize, windowed: bool) {
    let label = if run.label.is_empty() {
        &run.folder
    } else {
        &run.label
    };
    let _ = write!(html, "<tr><td>{}</td>", run.number);
    let Some(figures) = &run.figures else {
        let _ = write!(
            html,
            "<td class=\"label\">{}</td><td class=\"label\" colspan=\"{}\">{}</td></tr>",
            escaped(label),
            columns - 2,
            escaped(&words(run))
        );
        return;
    };
    let _ = write!(
        html,
        "<td class=\"label\"><a href=\"{}/\">{}</a></td>",
        escaped(&run.folder),
        escaped(label)
    );
    let refused = figures.rejected + figures.errors + figures.unanswered;
    let mut cells = vec![
        figures.verdict.name().to_owned(),
        rate(figures.planned_tps),
        rate(figures.sent_tps),
        rate(figures.accepted_tps),
        rate(figures.committed_tps),
        grouped(refused),
        millis(figures.accept_p99_ms),
        millis(figures.commit_p50_ms),
        millis(figures.commit_p95_ms),
        figures
            .longest_gap_s
            .map_or("-".into(), |gap| format!("{gap:.1}")),
    ];
    if windowed {
        let (newest, all) = figures
            .benched()
            .map_or(("-".into(), "-".into()), |(newest, all)| {
                (format!("{newest:.0}"), format!("{all:.0}"))
            });
        cells.push(all);
        cells.push(newest);
    }
    for cell in cells {
        let _ = write!(html, "<td>{cell}</td>");
    }
    html.push_str("</tr>");
}

pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            other => safe.push(other),
        }
    }
    safe
}

const HEAD: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><style>\
:root{color-scheme:light dark;--line:#8884}body{font:15px/1.5 system-ui,sans-serif;margin:1.5rem;max-width:90rem}\
h1{font-size:1.4rem;margin:0 0 .5rem}.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}\
th{font-weight:600;text-align:right}td.label{text-align:left}pre{overflow-x:auto;font-size:.85rem}</style>";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_scenario_is_markup() {
        assert_eq!(
            escaped("<a href=\"x\">&"),
            "&lt;a href=&quot;x&quot;&gt;&amp;"
        );
    }
}
